package config

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Profile is a name for a set of keys that were measured together.
type Profile struct {
	Name  string
	About string
	text  []string // TOML, later ones over earlier ones
}

// balanced are the keys that docs/evidence/preemption.md measures on a cluster of three GPU types.
const balanced = `
[ranking]
order = "owed"
[allocation]
policy = "max-min"
[steering]
enabled = true
[sizing]
enabled = true
[locality]
enabled = true
[preemption]
enabled = true
headroom = true
max_at_once = 0
max_per_cycle = 0
max_per_hour = 0
gpu_hours_per_day = 0.0
user_gpu_minutes_per_day = 0.0
grace_share = 0.1
max_grace = "5m"
loss_share = 0.01
user_loss_share = 0.005
[te_budget.user]
gpus = 0
share = 0.1
gpu_hours_per_day = 0.0
gpu_hours_share = 0.02
`

// shortWaits are the keys of docs/evidence/all-four.md for centres where trials count most: jobs are evicted more
// often, and more work may be lost in a day.
const shortWaits = `
[preemption]
max_evictions = 6
min_run = "1m"
grace_share = 0.2
loss_share = 0.05
user_loss_share = 0.02
[te_budget.user]
share = 0.2
gpu_hours_share = 0.05
`

// Profiles are all of them.
var Profiles = []Profile{
	{"order-only", "TE jobs first, and nothing else: the defaults", nil},
	{"balanced", "GPU types by speed, room for TE jobs, CPUs and memory, few switches; order by what jobs are owed", []string{balanced}},
	{"short-waits", "balanced, with more evictions: TE jobs wait for less where there are many, and more work is lost", []string{balanced, shortWaits}},
}

// setProfile puts the values of the profile that a file names under those of the file.
func (c *Config) setProfile(text string) error {
	var file struct {
		Profile string `toml:"profile"`
	}
	if _, err := toml.Decode(text, &file); err != nil || file.Profile == "" {
		return nil // what is wrong with the file is said where all of it is read
	}
	names := make([]string, len(Profiles))
	for i, p := range Profiles {
		if names[i] = p.Name; p.Name != file.Profile {
			continue
		}
		for _, part := range p.text {
			meta, err := toml.Decode(part, c)
			if err != nil {
				return fmt.Errorf("profile %s: %w", p.Name, err)
			}
			c.note(meta, "profile "+p.Name)
		}
		return nil
	}
	return fmt.Errorf("profile = %.80q: want %s, or \"\" for none", file.Profile, strings.Join(names, ", "))
}

// dropShares takes away each share of a profile where the site names the number that it stands for: of both the smaller
// counts, and a site that writes gpus = 8 means 8. own reports whether the site set a key.
func (c *Config) dropShares(own func(key ...string) bool) {
	no := 0.0
	for _, p := range []struct {
		table, number, share string
		value                *float64
	}{
		{"te_budget.user", "gpus", "share", c.TEBudget.User.Share},
		{"te_budget.user", "gpu_hours_per_day", "gpu_hours_share", c.TEBudget.User.GPUHoursShare},
		{"preemption", "gpu_hours_per_day", "loss_share", &c.Preemption.LossShare},
		{"preemption", "user_gpu_minutes_per_day", "user_loss_share", &c.Preemption.UserLossShare},
	} {
		if key := p.table + "." + p.share; c.FromProfile(key) && own(append(strings.Split(p.table, "."), p.number)...) {
			*p.value, c.sources[key] = 0, p.number+" of the site counts"
		}
	}
	for name, b := range c.TEBudget.Users { // an exception has what the table of all users has, and so the profile's shares
		if b.GPUs != nil && b.Share == nil && c.FromProfile("te_budget.user.share") {
			b.Share = &no
		}
		if b.GPUHoursPerDay != nil && b.GPUHoursShare == nil && c.FromProfile("te_budget.user.gpu_hours_share") {
			b.GPUHoursShare = &no
		}
		c.TEBudget.Users[name] = b
	}
}

// FromProfile reports whether a key has its value from the profile.
func (c *Config) FromProfile(key string) bool { return strings.HasPrefix(c.sources[key], "profile ") }

// On lists the features that are switched on, in words.
func (c *Config) On() []string {
	on := []string{"order of TE jobs"}
	if c.Profile != "" {
		on = []string{"profile " + c.Profile, on[0]}
	}
	for _, f := range []struct {
		enabled bool
		words   string
	}{
		{c.Ranking.Order != "slurm", "order of BE jobs (" + c.Ranking.Order + ")"}, {c.Allocation.Policy != "", "allocation (" + c.Allocation.Policy + ")"},
		{c.Steering.Enabled, "steering"}, {c.Rounds.Enabled, "rounds"}, {c.Sizing.Enabled, "sizing"}, {c.Sizing.GiveBack, "memory given back"},
		{c.Locality.Enabled, "few switches"}, {c.Locality.FewNodes, "few nodes"}, {c.Locality.SlowNodes, "no slow nodes"},
		{c.Preemption.Enabled, "evictions for TE jobs"}, {c.Preemption.Headroom, "nodes kept for TE jobs"}, {c.Preemption.Defrag, "room for gangs"}, {c.Retry.Enabled, "classes of failures, requeues"},
	} {
		if f.enabled {
			on = append(on, f.words)
		}
	}
	return on
}

// note remembers where keys come from.
func (c *Config) note(meta toml.MetaData, source string) {
	if c.sources == nil {
		c.sources = map[string]string{}
	}
	for _, k := range meta.Keys() {
		c.sources[strings.Join(k, ".")] = source
	}
}

// Effective renders the configuration in effect, and says behind each value that is no default where it
// comes from.
func (c *Config) Effective() (string, error) {
	text, err := c.TOML()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			table = strings.Trim(line, "[]") + "."
		}
		b.WriteString(line)
		if key, _, is := strings.Cut(line, " = "); is && c.sources[table+key] != "" {
			b.WriteString("  # " + c.sources[table+key])
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
