// Package config reads priod.toml over the defaults in etc/priod.toml and
// turns it into the settings of the packages that it steers. Every error names
// the file and the key.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/xrash/smetrics"

	"slurmprio/etc"
	"slurmprio/priod/allocate"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/evict/yield"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/wake"
)

// Config is priod.toml.
type Config struct {
	Slurm struct {
		BinDir         string   `toml:"bin_dir" json:"bin_dir"`
		Conf           string   `toml:"conf" json:"conf"`
		Partitions     []string `toml:"partitions" json:"partitions"`
		CommandTimeout Duration `toml:"command_timeout" json:"command_timeout"`
		Untried        bool     `toml:"untried" json:"untried"`
	} `toml:"slurm" json:"slurm"`
	State struct {
		Dir       string   `toml:"dir" json:"dir"`
		Retention Duration `toml:"retention" json:"retention"`
	} `toml:"state" json:"state"`
	Cycle struct {
		Interval         Duration `toml:"interval" json:"interval"`
		FollowController bool     `toml:"follow_controller" json:"follow_controller"`
		ControllerHost   string   `toml:"controller_host" json:"controller_host"`
	} `toml:"cycle" json:"cycle"`
	Ranking struct {
		Lever     string   `toml:"lever" json:"lever"`
		Top       int64    `toml:"top" json:"top"`
		Step      int64    `toml:"step" json:"step"`
		NiceLimit int64    `toml:"nice_limit" json:"nice_limit"`
		TEQOS     []string `toml:"te_qos" json:"te_qos"`
		BEQOS     []string `toml:"be_qos" json:"be_qos"`
		Order     string   `toml:"order" json:"order"`
	} `toml:"ranking" json:"ranking"`
	Allocation struct {
		Policy  string             `toml:"policy" json:"policy"`
		Every   Duration           `toml:"every" json:"every"`
		Weights map[string]float64 `toml:"weights" json:"weights,omitempty"`
		FIFO    []string           `toml:"fifo" json:"fifo"`
	} `toml:"allocation" json:"allocation"`
	Steering struct {
		Enabled        bool    `toml:"enabled" json:"enabled"`
		Depth          int     `toml:"depth" json:"depth"`
		Wait           float64 `toml:"wait" json:"wait"`
		Least          float64 `toml:"least" json:"least"`
		Change         float64 `toml:"change" json:"change"`
		Cycles         int     `toml:"cycles" json:"cycles"`
		Busy           bool    `toml:"busy" json:"busy"`
		WritesPerCycle int     `toml:"writes_per_cycle" json:"writes_per_cycle"`
	} `toml:"steering" json:"steering"`
	Rounds struct {
		Enabled bool     `toml:"enabled" json:"enabled"`
		Length  Duration `toml:"length" json:"length"`
		Pay     float64  `toml:"pay" json:"pay"`
		AtOnce  int      `toml:"at_once" json:"at_once"`
		Lead    Duration `toml:"lead" json:"lead"`
		Half    Duration `toml:"half" json:"half"`
	} `toml:"rounds" json:"rounds"`
	GPUTypes map[string]GPUType `toml:"gpu_types" json:"gpu_types,omitempty"`
	Sizing   struct {
		Enabled   bool     `toml:"enabled" json:"enabled"`
		Mechanism string   `toml:"mechanism" json:"mechanism"`
		Within    Duration `toml:"within" json:"within"`
		Jobs      int      `toml:"jobs" json:"jobs"`

		GiveBack      bool     `toml:"give_back" json:"give_back"`
		GiveBackAfter Duration `toml:"give_back_after" json:"give_back_after"`
	} `toml:"sizing" json:"sizing"`
	TEBudget struct {
		User     Budget            `toml:"user" json:"user"`
		Account  Budget            `toml:"account" json:"account"`
		Users    map[string]Budget `toml:"users" json:"users,omitempty"`
		Accounts map[string]Budget `toml:"accounts" json:"accounts,omitempty"`
	} `toml:"te_budget" json:"te_budget"`
	Speeds struct {
		Workloads string             `toml:"workloads" json:"workloads"`
		History   Duration           `toml:"history" json:"history"`
		Every     Duration           `toml:"every" json:"every"`
		Shortest  Duration           `toml:"shortest" json:"shortest"`
		Steps     string             `toml:"steps" json:"steps"`
		Within    float64            `toml:"within" json:"within"`
		Types     map[string]float64 `toml:"types" json:"types"`
		Formerly  map[string]string  `toml:"formerly" json:"formerly"`
	} `toml:"speeds" json:"speeds"`
	Preemption struct {
		Enabled        bool     `toml:"enabled" json:"enabled"`
		Policy         string   `toml:"policy" json:"policy"`
		FitGppS        float64  `toml:"fitgpp_s" json:"fitgpp_s"`
		FitGppFallback string   `toml:"fitgpp_fallback" json:"fitgpp_fallback"`
		Urgency        float64  `toml:"urgency" json:"urgency"`
		Rise           float64  `toml:"rise" json:"rise"`
		MinGain        Duration `toml:"min_gain" json:"min_gain"`
		MaxEvictions   int      `toml:"max_evictions" json:"max_evictions"`
		MinRun         Duration `toml:"min_run" json:"min_run"`
		MaxAtOnce      int      `toml:"max_at_once" json:"max_at_once"`
		MaxPerCycle    int      `toml:"max_per_cycle" json:"max_per_cycle"`
		MaxPerHour     int      `toml:"max_per_hour" json:"max_per_hour"`
		GPUHoursPerDay float64  `toml:"gpu_hours_per_day" json:"gpu_hours_per_day"`
		UserGPUMinutes float64  `toml:"user_gpu_minutes_per_day" json:"user_gpu_minutes_per_day"`
		Grace          Duration `toml:"grace" json:"grace"`
		MaxGrace       Duration `toml:"max_grace" json:"max_grace"`
		Restart        Duration `toml:"restart" json:"restart"`
		Reserve        bool     `toml:"reserve" json:"reserve"`
		Hold           Duration `toml:"hold" json:"hold"`
		Retry          Duration `toml:"retry" json:"retry"`
		Watch          Duration `toml:"watch" json:"watch"`
		ZeroExit       string   `toml:"zero_exit" json:"zero_exit"`
	} `toml:"preemption" json:"preemption"`
	Limits struct {
		WritesPerCycle  int     `toml:"writes_per_cycle" json:"writes_per_cycle"`
		WritesPerSecond float64 `toml:"writes_per_second" json:"writes_per_second"`
		AgentQueue      int     `toml:"agent_queue" json:"agent_queue"`
		DBDQueue        int     `toml:"dbd_queue" json:"dbd_queue"`
	} `toml:"limits" json:"limits"`
	Log struct {
		Level  string `toml:"level" json:"level"`
		Format string `toml:"format" json:"format"`
	} `toml:"log" json:"log"`

	Wake struct {
		Listen         []string `toml:"listen" json:"listen"`
		PollsPerMinute int      `toml:"polls_per_minute" json:"polls_per_minute"`
	} `toml:"wake" json:"wake"`

	Metrics struct {
		Listen string `toml:"listen" json:"listen"`
	} `toml:"metrics" json:"metrics"`

	Path string `toml:"-" json:"path,omitempty"` // the file read over the defaults, "" when there was none
}

// GPUType is one table of gpu_types.
type GPUType struct {
	Feature string `toml:"feature" json:"feature"`
}

// Budget is one table of te_budget. A key that is left out of a single user's
// or account's table is nil and taken from the general one.
type Budget struct {
	GPUs           *int      `toml:"gpus" json:"gpus"`
	TimeLimit      *Duration `toml:"time_limit" json:"time_limit"`
	GPUHoursPerDay *float64  `toml:"gpu_hours_per_day" json:"gpu_hours_per_day"`
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

// Load reads the file at path over the defaults. An empty path means
// DefaultPath, which need not exist.
func Load(path string) (*Config, error) {
	c, err := defaults()
	if err != nil {
		return nil, err
	}
	optional := path == ""
	if optional {
		path = DefaultPath
	}
	text, err := os.ReadFile(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if err := c.read(path, string(text)); err != nil {
		return nil, err
	}
	c.Path = path
	return c, nil
}

func defaults() (*Config, error) {
	c := &Config{}
	if _, err := toml.Decode(etc.Priod, c); err != nil {
		return nil, fmt.Errorf("built-in defaults: %w", err)
	}
	return c, nil
}

func (c *Config) read(path, text string) error {
	meta, err := toml.Decode(text, c)
	if err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			if at.LastKey != "" && !strings.Contains(at.Message, at.LastKey) {
				at.Message = at.LastKey + ": " + at.Message
			}
			return fmt.Errorf("%s:%d: %s", path, at.Position.Line, at.Message)
		}
		if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
			return fmt.Errorf("%s:%s: %s: want %s, not %s", path, m[1], m[2], typeWords(m[4]), typeWords(m[3]))
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return fmt.Errorf("%s: unknown key %q%s", path, unknown[0].String(), suggest(unknown[0].String()))
	}
	if err := c.validate(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// wrongType is how the TOML library refuses a value, in two ways: line, key, type, other type.
var wrongType = regexp.MustCompile(`^toml: line (\d+) \(last key "(.*)"\): (?:incompatible types: TOML value has type|type mismatch for .* expected table but found) ([^;]*)(?:; destination has type (.*))?$`)

func typeWords(name string) string {
	switch name {
	case "string", "primitive (string-like)":
		return "a text in quotes"
	case "integer", "int64":
		return "a whole number"
	case "float":
		return "a number"
	case "float64":
		return "a fraction"
	case "boolean", "bool":
		return "true or false"
	case "slice", "[]any", "[]map[string]any":
		return "a list in brackets"
	case "", "map", "map[string]any":
		return "a table"
	}
	return name
}

// suggest names the known key that is nearest to an unknown one.
func suggest(key string) string {
	most := max(3, len(key)/3)
	best, distance := "", len(key)
	for _, k := range knownKeys() {
		if len(k) > len(key)+most || len(key) > len(k)+most { // at least that far
			continue
		}
		if d := smetrics.WagnerFischer(key, k, 1, 1, 1); d < distance {
			best, distance = k, d
		}
	}
	if best == "" || distance > most {
		return "; etc/priod.toml lists all keys"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

var knownKeys = sync.OnceValue(func() []string {
	meta, err := toml.Decode(etc.Priod, &Config{})
	if err != nil {
		return nil
	}
	var keys []string
	for _, k := range meta.Keys() {
		keys = append(keys, k.String())
	}
	return keys
})

// levers are the names that ranking.lever may have.
var levers = map[string]slurmplug.Lever{
	"site_factor": slurmplug.SiteFactor,
	"nice":        slurmplug.Nice,
	"priority":    slurmplug.Priority,
}

// noEvictions is the policy that evicts nobody.
const noEvictions = "none"

var (
	policies  = []string{string(preemption.LeastLoss), string(preemption.FitGpp), string(preemption.LRTP), string(preemption.Random), noEvictions}
	fallbacks = []string{string(preemption.FallNode), string(preemption.FallRandom), string(preemption.FallAnybody), string(preemption.FallNone)}
)

// maxTop is the largest SiteFactor and Nice that Slurm takes
// (NICE_OFFSET - 3, slurm.h).
const maxTop = 2147483645

func (c *Config) validate() error {
	_, leverKnown := levers[c.Ranking.Lever]
	_, wakeErr := wakeAddresses(c.Wake.Listen)
	_, sizingErr := size.Parse(c.Sizing.Mechanism)
	budgets := map[string]Budget{"te_budget.user": c.TEBudget.User, "te_budget.account": c.TEBudget.Account}
	for name, b := range c.TEBudget.Users {
		budgets["te_budget.users."+name] = b
	}
	for name, b := range c.TEBudget.Accounts {
		budgets["te_budget.accounts."+name] = b
	}
	rules := []struct {
		key  string
		ok   bool
		want string
	}{
		{"slurm.bin_dir", c.Slurm.BinDir == "" || filepath.IsAbs(c.Slurm.BinDir), "an absolute path, or empty"},
		{"slurm.conf", c.Slurm.Conf == "" || filepath.IsAbs(c.Slurm.Conf), "an absolute path, or empty"},
		{"slurm.partitions", noneEmpty(c.Slurm.Partitions), "names of partitions"},
		{"slurm.command_timeout", c.Slurm.CommandTimeout >= Duration(time.Second), "at least 1s"},
		{"state.dir", filepath.IsAbs(c.State.Dir), "an absolute path"},
		{"state.retention", c.State.Retention >= Duration(24*time.Hour), "at least 1d"},
		{"cycle.interval", c.Cycle.Interval >= Duration(2*time.Second), "at least 2s"},
		{"cycle.follow_controller", !c.Cycle.FollowController || !c.Steering.Enabled && !c.Sizing.Enabled && !c.Sizing.GiveBack,
			"false beside steering or sizing: what a job's user asked for stands in the state folder of the host that wrote, so let the hosts share that (docs/operators.md)"},
		{"cycle.controller_host", !strings.ContainsAny(c.Cycle.ControllerHost, " ,()\t\n"), "one name of SlurmctldHost, without its address"},
		{"ranking.lever", leverKnown, strings.Join(slices.Sorted(maps.Keys(levers)), ", ")},
		{"ranking.top", c.Ranking.Top >= 1 && c.Ranking.Top <= maxTop, fmt.Sprintf("from 1 to %d", maxTop)},
		{"ranking.step", c.Ranking.Step >= 0 && c.Ranking.Step <= c.Ranking.Top/2, "from 0 to half of ranking.top: the band must hold two steps"},
		{"ranking.nice_limit", c.Ranking.NiceLimit >= 0 && c.Ranking.NiceLimit <= maxTop, fmt.Sprintf("from 0 to %d", maxTop)},
		{"ranking.te_qos", noneEmpty(c.Ranking.TEQOS), "names of QOS"},
		{"ranking.be_qos", noneEmpty(c.Ranking.BEQOS) && disjoint(c.Ranking.TEQOS, c.Ranking.BEQOS), "names of QOS that do not stand in ranking.te_qos"},
		{"ranking.order", slices.Contains(orders, c.Ranking.Order), strings.Join(orders, ", ")},
		{"ranking.order", c.Ranking.Order == string(order.SlurmOrder) || c.Allocation.Policy != "", "an allocation.policy beside order " + c.Ranking.Order},
		{"allocation.every", c.Allocation.Every >= Duration(time.Minute), "at least 1m"},
		{"allocation.fifo", noneEmpty(c.Allocation.FIFO), "names of accounts"},
		{"steering.enabled", !c.Steering.Enabled || c.Allocation.Policy != "", "an allocation.policy beside steering"},
		{"steering.depth", c.Steering.Depth >= 0, "0 (all) or more"},
		{"steering.wait", finite(c.Steering.Wait), "a number from 0"},
		{"steering.least", c.Steering.Least >= 0 && c.Steering.Least <= 1, "from 0 to 1"},
		{"steering.change", finite(c.Steering.Change), "a number from 0"},
		{"steering.cycles", c.Steering.Cycles >= 1, "at least 1"},
		{"steering.writes_per_cycle", c.Steering.WritesPerCycle >= 1, "at least 1"},
		{"rounds.enabled", !c.Rounds.Enabled || c.Steering.Enabled, "steering.enabled beside rounds: a job has to wait for one GPU type before others yield to it"},
		{"rounds.length", c.Rounds.Length >= Duration(5*time.Second), "at least 5s"},
		{"rounds.pay", finite(c.Rounds.Pay), "a number from 0"},
		{"rounds.at_once", c.Rounds.AtOnce >= 0, "0 (no limit) or more"},
		{"rounds.lead", c.Rounds.Lead >= 0, "0s or more"},
		{"rounds.half", c.Rounds.Half > 0 || c.Rounds.Half == 0 && c.Rounds.Lead == 0, "a time above 0s beside a lead"},
		{"sizing.mechanism", sizingErr == nil, "waterfill, tune-best-fit, tune, greedy or proportional"},
		{"sizing.within", c.Sizing.Within >= Duration(5*time.Second), "at least 5s"},
		{"sizing.jobs", c.Sizing.Jobs >= 1 && c.Sizing.Jobs <= 10000, "from 1 to 10000"},
		{"sizing.give_back_after", c.Sizing.GiveBackAfter >= Duration(time.Second), "at least 1s"},
		{"speeds.workloads", c.Speeds.Workloads == "" || filepath.IsAbs(c.Speeds.Workloads), "an absolute path, or empty"},
		{"speeds.history", c.Speeds.History >= 0, "a time, or 0s"},
		{"speeds.every", c.Speeds.Every >= Duration(time.Second), "at least 1s"},
		{"speeds.shortest", c.Speeds.Shortest >= 0, "a time, or 0s"},
		{"speeds.steps", c.Speeds.Steps == "" || oneGroup(c.Speeds.Steps), "a regular expression with one group, or empty"},
		{"speeds.within", c.Speeds.Within > 1 && !math.IsInf(c.Speeds.Within, 1), "a factor above 1"},
		{"preemption.policy", slices.Contains(policies, c.Preemption.Policy), strings.Join(policies, ", ")},
		{"preemption.fitgpp_fallback", slices.Contains(fallbacks, c.Preemption.FitGppFallback), strings.Join(fallbacks, ", ")},
		{"preemption.fitgpp_s", finite(c.Preemption.FitGppS), "a number from 0"},
		{"preemption.urgency", finite(c.Preemption.Urgency), "a number from 0"},
		{"preemption.rise", finite(c.Preemption.Rise), "a number from 0"},
		{"preemption.min_gain", c.Preemption.MinGain >= 0, "0s or more"},
		{"preemption.max_evictions", c.Preemption.MaxEvictions >= 0, "0 (no limit) or more"},
		{"preemption.min_run", c.Preemption.MinRun >= 0, "0s or more"},
		{"preemption.max_at_once", c.Preemption.MaxAtOnce >= 0, "0 (no limit) or more"},
		{"preemption.max_per_cycle", c.Preemption.MaxPerCycle >= 0, "0 (no limit) or more"},
		{"preemption.max_per_hour", c.Preemption.MaxPerHour >= 0, "0 (no limit) or more"},
		{"preemption.gpu_hours_per_day", c.Preemption.GPUHoursPerDay >= 0, "0 (no limit) or more"},
		{"preemption.user_gpu_minutes_per_day", c.Preemption.UserGPUMinutes >= 0, "0 (no limit) or more"},
		{"preemption.grace", c.Preemption.Grace >= 0 && c.Preemption.Grace <= c.Preemption.MaxGrace, "from 0s to preemption.max_grace"},
		{"preemption.max_grace", c.Preemption.MaxGrace >= 0, "0s or more"},
		{"preemption.restart", c.Preemption.Restart >= 0, "0s or more"},
		{"preemption.hold", c.Preemption.Hold >= Duration(5*time.Second), "at least 5s"},
		{"preemption.retry", c.Preemption.Retry >= 0, "0s or more"},
		{"preemption.watch", c.Preemption.Watch >= Duration(200*time.Millisecond), "at least 200ms"},
		{"preemption.zero_exit", c.Preemption.ZeroExit == "requeue" || c.Preemption.ZeroExit == "done", "requeue or done"},
		{"limits.writes_per_cycle", c.Limits.WritesPerCycle >= 1, "at least 1"},
		{"limits.writes_per_second", c.Limits.WritesPerSecond > 0, "more than 0"},
		{"limits.agent_queue", c.Limits.AgentQueue >= 1, "at least 1"},
		{"limits.dbd_queue", c.Limits.DBDQueue >= 1, "at least 1"},
		{"log.level", slices.Contains([]string{"error", "warn", "info", "debug", "trace"}, c.Log.Level), "error, warn, info, debug or trace"},
		{"wake.listen", wakeErr == nil, "unix:/absolute/path or udp:ADDRESS:PORT with an address in numbers; [] for none"},
		{"wake.polls_per_minute", c.Wake.PollsPerMinute >= 1, "at least 1"},
		{"metrics.listen", localAddress(c.Metrics.Listen), "a loopback address such as 127.0.0.1:9817 or [::1]:9817, unix:/absolute/path, or empty"},
		{"log.format", c.Log.Format == "text" || c.Log.Format == "json", "text or json"},
	}
	for _, r := range rules {
		if !r.ok {
			return fmt.Errorf("%s: want %s%s", r.key, r.want, c.not(r.key))
		}
	}
	if err := c.checkAllocation(); err != nil {
		return err
	}
	if err := c.checkTypes(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(budgets)) {
		b := budgets[key]
		if b.GPUs != nil && *b.GPUs < 0 || b.TimeLimit != nil && *b.TimeLimit < 0 || b.GPUHoursPerDay != nil && !(*b.GPUHoursPerDay >= 0) {
			return fmt.Errorf("%s: want no negative limits (0 means none)", key)
		}
	}
	return nil
}

// not tells the value of a key that is not wanted, "" where that has no words.
func (c *Config) not(key string) string {
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	for _, word := range strings.Split(key, ".") {
		var table map[string]json.RawMessage
		if json.Unmarshal(text, &table) != nil {
			return ""
		}
		text = table[word]
	}
	return fmt.Sprintf(", not %.100s", text)
}

// WakeAddresses are where calls of TE submissions are heard.
func (c *Config) WakeAddresses() []wake.Address {
	addresses, _ := wakeAddresses(c.Wake.Listen) // validated
	return addresses
}

func wakeAddresses(texts []string) (addresses []wake.Address, err error) {
	for _, text := range texts {
		a, err := wake.Parse(text)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

func finite(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

func oneGroup(expression string) bool {
	e, err := regexp.Compile(expression)
	return err == nil && e.NumSubexp() == 1
}

var orders = []string{string(order.SlurmOrder), string(order.GavelOrder), string(order.OwedOrder)}

// checkAllocation looks at the policy and its weights.
func (c *Config) checkAllocation() error {
	a := &c.Allocation
	if a.Policy != "" {
		if err := checkPolicy(a.Policy); err != nil {
			return fmt.Errorf("allocation.policy: %w", err)
		}
	}
	for _, account := range slices.Sorted(maps.Keys(a.Weights)) {
		if w := a.Weights[account]; account == "" || !(w > 0) || math.IsInf(w, 1) {
			return fmt.Errorf("allocation.weights.%s = %v: want an account and a weight above 0", account, w)
		}
	}
	return nil
}

// Of the policies that priod allocate and priod simulate know besides, two only
// compare, and of space sharing Slurm knows nothing.
var (
	comparisons  = []string{"allox", "strategy-proof"}
	spaceSharing = []string{"gandiva", "packed"} // a policy, or the variant of one
)

func checkPolicy(text string) error {
	words := strings.Split(text, ":")
	if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(spaceSharing, w) }) {
		return errors.New("want a policy without space sharing: Slurm gives a GPU to one job")
	}
	if slices.Contains(comparisons, words[0]) {
		return fmt.Errorf("%s is there to compare with, in priod allocate and priod simulate: want one of %s", words[0], strings.Join(allocate.Names(), ", "))
	}
	_, err := allocate.ParsePolicy(text)
	return err
}

// checkTypes looks at the GPU types of speeds.types and speeds.formerly.
func (c *Config) checkTypes() error {
	for _, t := range slices.Sorted(maps.Keys(c.Speeds.Types)) {
		if v := c.Speeds.Types[t]; !jobtag.ValidName(t) || !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("speeds.types.%s = %v: want a GPU type and a relative speed above 0", t, v)
		}
	}
	for _, old := range slices.Sorted(maps.Keys(c.Speeds.Formerly)) {
		now := c.Speeds.Formerly[old]
		_, again := c.Speeds.Formerly[now]
		if !jobtag.ValidName(old) || !jobtag.ValidName(now) || again {
			return fmt.Errorf("speeds.formerly.%s = %q: want the name that the GPU type has now", old, now)
		}
	}
	features := map[string]string{}
	for _, t := range slices.Sorted(maps.Keys(c.GPUTypes)) {
		f := c.GPUTypes[t].Feature
		if !jobtag.ValidName(t) || !slurmplug.ValidFeature(f) {
			return fmt.Errorf("gpu_types.%s.feature = %q: want a GPU type and the name of a node feature", t, f)
		}
		if other, twice := features[f]; twice {
			return fmt.Errorf("gpu_types.%s.feature = %q: that stands for %s", t, f, other)
		}
		features[f] = t
	}
	return nil
}

// maxSocketPath is what fits into sun_path of unix(7).
const maxSocketPath = 107

// localAddress tells whether only this machine can reach the address. Names
// such as localhost are no addresses: where they lead is the resolver's choice.
func localAddress(s string) bool {
	if path, unix := strings.CutPrefix(s, "unix:"); unix {
		return filepath.IsAbs(path) && len(path) <= maxSocketPath && !strings.ContainsRune(path, 0)
	}
	a, err := netip.ParseAddrPort(s)
	return s == "" || err == nil && a.Addr().IsLoopback() && a.Port() != 0
}

func noneEmpty(names []string) bool { return !slices.Contains(names, "") }

func disjoint(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// Decide returns the settings of the decisions.
func (c *Config) Decide() order.Settings {
	return order.Settings{
		Lever:     levers[c.Ranking.Lever],
		Top:       c.Ranking.Top,
		Step:      c.Ranking.Step,
		NiceLimit: c.Ranking.NiceLimit,
		MaxWrites: c.Limits.WritesPerCycle,
		Peers:     c.Cycle.FollowController,
		Order:     order.Order(c.Ranking.Order),
		Lead:      c.RoundSettings().Policy.Lead,
		Ranking: plan.Classes{
			Partitions: c.Slurm.Partitions,
			TEQOS:      c.Ranking.TEQOS,
			BEQOS:      c.Ranking.BEQOS,
			User:       c.TEBudget.User.over(Budget{}),
			Account:    c.TEBudget.Account.over(Budget{}),
			Users:      allOver(c.TEBudget.Users, c.TEBudget.User),
			Accounts:   allOver(c.TEBudget.Accounts, c.TEBudget.Account),
		},
	}
}

// AllocationSettings returns how the time of GPUs is divided; what speeds rest on
// is the caller's to add.
func (c *Config) AllocationSettings() allocate.Settings {
	a := &c.Allocation
	set := allocate.Settings{
		Every: time.Duration(a.Every), Weights: a.Weights, FIFO: a.FIFO, Ranking: c.Decide().Ranking, Speeds: c.SpeedSettings(),
	}
	if a.Policy != "" {
		set.Policy, _ = allocate.ParsePolicy(a.Policy) // validated
	}
	return set
}

// Steer returns how pending jobs are bound to GPU types.
func (c *Config) Steer() steer.Settings {
	s := &c.Steering
	set := steer.Settings{
		Enabled: s.Enabled, MaxWrites: s.WritesPerCycle, Features: map[string]string{},
		Rule: steer.Rule{Depth: s.Depth, Wait: s.Wait, Least: s.Least, Keep: steer.Defaults.Keep, Away: steer.Defaults.Away, Change: s.Change, Cycles: s.Cycles, Busy: s.Busy},
	}
	if c.Rounds.Enabled { // who has the time in the next round may need another type
		set.Rule.Keep = min(set.Rule.Keep, time.Duration(c.Rounds.Length).Seconds())
	}
	for t, g := range c.GPUTypes {
		set.Features[t] = g.Feature
	}
	return set
}

// RoundSettings returns who yields to whom at the end of a round.
func (c *Config) RoundSettings() evict.RoundSettings {
	r := &c.Rounds
	return evict.RoundSettings{Enabled: r.Enabled, Policy: yield.Settings{
		Round: time.Duration(r.Length).Seconds(), Pay: r.Pay, AtOnce: r.AtOnce,
		Lead: plan.Lead{Most: time.Duration(r.Lead).Seconds(), Half: time.Duration(r.Half).Seconds()},
	}}
}

// SpeedSettings returns how speeds are judged.
func (c *Config) SpeedSettings() speed.Settings {
	return speed.Settings{Types: c.Speeds.Types, Formerly: c.Speeds.Formerly, Within: c.Speeds.Within}
}

// Sizes are the settings of sizing but for the table of workloads and the past.
func (c *Config) Sizes() size.Settings {
	mechanism, _ := size.Parse(c.Sizing.Mechanism) // validate has read it
	return size.Settings{
		Enabled: c.Sizing.Enabled, Mechanism: mechanism, Within: time.Duration(c.Sizing.Within), MaxJobs: c.Sizing.Jobs,
	}
}

// GiveBack returns which running jobs give back memory.
func (c *Config) GiveBack() size.GiveBackSettings {
	return size.GiveBackSettings{Enabled: c.Sizing.GiveBack, After: time.Duration(c.Sizing.GiveBackAfter), Ranking: c.Decide().Ranking}
}

// Eviction returns the settings of making room.
func (c *Config) Eviction() evict.Settings {
	p := &c.Preemption
	return evict.Settings{
		Enabled: p.Enabled && p.Policy != noEvictions,
		Policy: preemption.Settings{
			Policy: preemption.Policy(p.Policy), S: p.FitGppS, Fallback: preemption.Fallback(p.FitGppFallback),
			MaxEvictions: p.MaxEvictions, MinRun: time.Duration(p.MinRun).Seconds(),
			Rise: p.Rise, Urgency: p.Urgency, MinGain: time.Duration(p.MinGain).Seconds(),
			Limits: preemption.Limits{AtOnce: p.MaxAtOnce, PerCycle: p.MaxPerCycle, PerHour: p.MaxPerHour, PerDay: p.GPUHoursPerDay, PerOwner: p.UserGPUMinutes / 60},
		},
		Ranking: c.Decide().Ranking,
		Grace:   time.Duration(p.Grace), MaxGrace: time.Duration(p.MaxGrace), Restart: time.Duration(p.Restart),
		Reserve: p.Reserve, Hold: time.Duration(p.Hold), Retry: time.Duration(p.Retry),
		ZeroEnds: p.ZeroExit == "done",
	}
}

func allOver(single map[string]Budget, general Budget) map[string]plan.Budget {
	budgets := make(map[string]plan.Budget, len(single))
	for name, b := range single {
		budgets[name] = b.over(general)
	}
	return budgets
}

// over fills the keys that b leaves out from the general budget.
func (b Budget) over(general Budget) plan.Budget {
	return plan.Budget{
		GPUs:      first(b.GPUs, general.GPUs),
		TimeLimit: time.Duration(first(b.TimeLimit, general.TimeLimit)),
		GPUHours:  first(b.GPUHoursPerDay, general.GPUHoursPerDay),
	}
}

func first[T any](a, b *T) T {
	var zero T
	switch {
	case a != nil:
		return *a
	case b != nil:
		return *b
	}
	return zero
}

// TOML renders the configuration in effect.
func (c *Config) TOML() (string, error) {
	var b strings.Builder
	err := toml.NewEncoder(&b).Encode(c)
	return b.String(), err
}
