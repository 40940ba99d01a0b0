// Package config reads priod.toml over the defaults in etc/priod.toml, and
// turns it into the settings of the packages that it steers. Every error names
// the file and the key.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"slurmprio/etc"
	"slurmprio/priod/retry"
)

// Config is priod.toml.
type Config struct {
	Profile string `toml:"profile" json:"profile"`
	Slurm   struct {
		BinDir     string   `toml:"bin_dir" json:"bin_dir"`
		Conf       string   `toml:"conf" json:"conf"`
		Partitions []string `toml:"partitions" json:"partitions"`
		Untried    bool     `toml:"untried" json:"untried"`
	} `toml:"slurm" json:"slurm"`
	State struct {
		Dir       string   `toml:"dir" json:"dir"`
		Shared    string   `toml:"shared" json:"shared"`
		Retention Duration `toml:"retention" json:"retention"`
	} `toml:"state" json:"state"`
	Cycle struct {
		Interval         Duration `toml:"interval" json:"interval"`
		FollowController bool     `toml:"follow_controller" json:"follow_controller"`
		ControllerHost   string   `toml:"controller_host" json:"controller_host"`
	} `toml:"cycle" json:"cycle"`
	Ranking struct {
		TEQOS []string `toml:"te_qos" json:"te_qos"`
		BEQOS []string `toml:"be_qos" json:"be_qos"`
		Order string   `toml:"order" json:"order"`
	} `toml:"ranking" json:"ranking"`
	Allocation struct {
		Policy  string             `toml:"policy" json:"policy"`
		Weights map[string]float64 `toml:"weights" json:"weights,omitempty"`
	} `toml:"allocation" json:"allocation"`
	Steering struct {
		Enabled bool `toml:"enabled" json:"enabled"`
	} `toml:"steering" json:"steering"`
	Rounds struct {
		Enabled bool     `toml:"enabled" json:"enabled"`
		Length  Duration `toml:"length" json:"length"`
	} `toml:"rounds" json:"rounds"`
	Classes  []ClassRule `toml:"class" json:"class,omitempty"`
	Consents []Consent   `toml:"consent" json:"consent,omitempty"`
	Lending  struct {
		Lend  string   `toml:"lend" json:"lend"`
		After Duration `toml:"lend_after" json:"lend_after"`
	} `toml:"shares" json:"shares"`
	Shares   []Share            `toml:"share" json:"share,omitempty"`
	GPUTypes map[string]GPUType `toml:"gpu_types" json:"gpu_types,omitempty"`
	Sizing   struct {
		Enabled bool `toml:"enabled" json:"enabled"`
	} `toml:"sizing" json:"sizing"`
	Locality struct {
		Enabled   bool      `toml:"enabled" json:"enabled"`
		Costs     []float64 `toml:"costs" json:"costs"`
		SlowNodes bool      `toml:"slow_nodes" json:"slow_nodes"`
	} `toml:"locality" json:"locality"`
	TEBudget struct {
		User     Budget            `toml:"user" json:"user"`
		Account  Budget            `toml:"account" json:"account"`
		Users    map[string]Budget `toml:"users" json:"users,omitempty"`
		Accounts map[string]Budget `toml:"accounts" json:"accounts,omitempty"`
	} `toml:"te_budget" json:"te_budget"`
	Speeds struct {
		Workloads string             `toml:"workloads" json:"workloads"`
		History   Duration           `toml:"history" json:"history"`
		Steps     string             `toml:"steps" json:"steps"`
		Types     map[string]float64 `toml:"types" json:"types"`
		Formerly  map[string]string  `toml:"renamed" json:"renamed"`
	} `toml:"speeds" json:"speeds"`
	Preemption struct {
		Enabled       bool     `toml:"enabled" json:"enabled"`
		Defrag        bool     `toml:"defrag" json:"defrag"`
		Headroom      bool     `toml:"headroom" json:"headroom"`
		Policy        string   `toml:"policy" json:"policy"`
		Urgency       float64  `toml:"urgency" json:"urgency"`
		MaxEvictions  int      `toml:"max_evictions" json:"max_evictions"`
		MinRun        Duration `toml:"min_run" json:"min_run"`
		GraceShare    float64  `toml:"grace_share" json:"grace_share"`
		MaxPerHour    int      `toml:"max_per_hour" json:"max_per_hour"`
		LossShare     float64  `toml:"loss_share" json:"loss_share"`
		UserLossShare float64  `toml:"user_loss_share" json:"user_loss_share"`
		Grace         Duration `toml:"grace" json:"grace"`
		MaxGrace      Duration `toml:"max_grace" json:"max_grace"`
	} `toml:"preemption" json:"preemption"`
	Windows struct {
		Enabled bool `toml:"enabled" json:"enabled"`
	} `toml:"windows" json:"windows"`
	Retry struct {
		Enabled bool   `toml:"enabled" json:"enabled"`
		Rules   string `toml:"rules" json:"rules"`
		Output  bool   `toml:"output" json:"output"`
		Drain   bool   `toml:"drain" json:"drain"`
	} `toml:"retry" json:"retry"`
	Usage struct {
		Prometheus string   `toml:"prometheus" json:"prometheus"`
		OnIdle     []string `toml:"on_idle" json:"on_idle"`
	} `toml:"usage" json:"usage"`
	Log struct {
		Level  string `toml:"level" json:"level"`
		Format string `toml:"format" json:"format"`
	} `toml:"log" json:"log"`

	Wake struct {
		Listen []string `toml:"listen" json:"listen"`
	} `toml:"wake" json:"wake"`

	Metrics struct {
		Listen string `toml:"listen" json:"listen"`
	} `toml:"metrics" json:"metrics"`

	Web struct {
		Listen     string   `toml:"listen" json:"listen"`
		UserHeader string   `toml:"user_header" json:"user_header"`
		Operators  []string `toml:"operators" json:"operators"`
	} `toml:"web" json:"web"`

	sources map[string]string // of keys that are no defaults: a profile, or the file
	Path    string            `toml:"-" json:"path,omitempty"` // the file read over the defaults, "" when there was none

	Constants Constants `toml:"-" json:"-"`

	Advice   []string     `toml:"-" json:"-"` // keys of the file that are read as what comes nearest, and what to write
	failures *retry.Rules // where retry is enabled
}

// Journals is the folder of the journals and of the pause.
func (c *Config) Journals() string { return cmp.Or(c.State.Shared, c.State.Dir) }

// GPUType is one table of gpu_types.
type GPUType struct {
	Feature string `toml:"feature" json:"feature"`
}

// Budget is one table of te_budget. A key that is left out of a single user's
// or account's table is nil and taken from the general one. A number takes the place of the share beside it, and 0 of any.
type Budget struct {
	GPUs           *int      `toml:"gpus" json:"gpus"`
	Share          *float64  `toml:"share" json:"share"`
	TimeLimit      *Duration `toml:"time_limit" json:"time_limit"`
	GPUHoursPerDay *float64  `toml:"gpu_hours_per_day" json:"gpu_hours_per_day"`
	GPUHoursShare  *float64  `toml:"gpu_hours_share" json:"gpu_hours_share"`
}

// Duration is a time.Duration that also reads and writes days: "30d".
type Duration time.Duration

// UnmarshalText reads "30d" and whatever time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	s := string(b)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if n *= float64(24 * time.Hour); err == nil && math.Abs(n) < math.MaxInt64 {
			*d = Duration(n)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is no duration: write 90s, 5m, 1h30m or 30d", s)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) {
	const day = Duration(24 * time.Hour)
	if d != 0 && d%day == 0 {
		return []byte(strconv.FormatInt(int64(d/day), 10) + "d"), nil
	}
	return []byte(time.Duration(d).String()), nil
}

// DefaultPath is where priod looks for its configuration when none is named.
const DefaultPath = "/etc/slurmprio/priod.toml"

// Load reads the file at path over the defaults, and over it the assignments KEY=VALUE of a
// command line. An empty path means DefaultPath, which need not exist.
func Load(path string, set ...string) (*Config, error) {
	c, err := Defaults()
	if err != nil {
		return nil, err
	}
	optional := path == ""
	if optional {
		path = DefaultPath
	}
	text, err := os.ReadFile(path)
	switch {
	case optional && errors.Is(err, fs.ErrNotExist) && len(set) == 0:
		return c, nil
	case optional && errors.Is(err, fs.ErrNotExist):
		return c, c.read("", "", set)
	case err != nil:
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if err := c.read(path, string(text), set); err != nil {
		return nil, err
	}
	c.Path = path
	return c, nil
}

// Defaults are the settings where there is no priod.toml.
func Defaults() (*Config, error) {
	c := &Config{Constants: constantsOfRooms()}
	if _, err := toml.Decode(etc.Priod, c); err != nil {
		return nil, fmt.Errorf("built-in defaults: %w", err)
	}
	return c, nil
}

// read puts the file over the defaults, under it the profile, over it what is set.
func (c *Config) read(path, text string, set []string) error {
	all, err := assignments(set)
	if err != nil {
		return err
	}
	profile := text
	for _, a := range all {
		if a.key == "profile" {
			profile = "profile = " + strconv.Quote(a.value)
		}
	}
	if err := c.setProfile(profile); err != nil {
		return named(path, err)
	}
	meta, err := toml.Decode(text, c)
	if err != nil {
		return unread(path, err)
	}
	unknown, err := c.setConstants(path, text, meta.Undecoded())
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("%s%s: unknown key %q%s", path, lineOf(text, unknown[0]), unknown[0].String(), suggest(unknown[0].String()))
	}
	c.note(meta, filepath.Base(path))
	for _, a := range all {
		if err := a.apply(c); err != nil {
			return err
		}
	}
	if c.Profile == removedProfile {
		c.Profile = "balanced"
	}
	if c.FromProfile("rounds.enabled") && !(c.Steering.Enabled && c.Preemption.Enabled) { // a file that takes these out of the profile means rounds, too
		c.Rounds.Enabled = false
		delete(c.sources, "rounds.enabled")
	}
	if err := c.Check(); err != nil {
		return named(path, err)
	}
	return nil
}

// named puts the file's name before an error.
func named(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// TOML renders the configuration in effect.
func (c *Config) TOML() (string, error) {
	var b strings.Builder
	err := toml.NewEncoder(&b).Encode(c)
	return b.String(), err
}
