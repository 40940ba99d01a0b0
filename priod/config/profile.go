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
	text  string // TOML
}

// balanced are the keys that docs/evidence/preemption.md measures on a cluster of three GPU types.
const balanced = `
[ranking]
order = "owed"
[allocation]
policy = "max-min"
[steering]
enabled = true
[rounds]
enabled = true
[sizing]
enabled = true
[locality]
enabled = true
[preemption]
enabled = true
[windows]
enabled = true
`

// removedProfile was balanced with other limits.
const removedProfile = "short-waits"

// Profiles are all of them.
var Profiles = []Profile{
	{"order-only", "TE jobs first, and nothing else: the defaults", ""},
	{"balanced", "GPU types by speed, in rounds, room for TE jobs, CPUs and memory, few switches; order by what jobs are owed", balanced},
}

// setProfile puts the values of the profile that a file names under those of the file.
func (c *Config) setProfile(text string) error {
	var file struct {
		Profile string `toml:"profile"`
	}
	if _, err := toml.Decode(text, &file); err != nil || file.Profile == "" {
		return nil // what is wrong with the file is said where all of it is read
	}
	if file.Profile == removedProfile {
		c.Advice = append(c.Advice, fmt.Sprintf("profile = %q is read as \"balanced\", which serves trials as soon now: write that", removedProfile))
		file.Profile = "balanced"
	}
	names := make([]string, len(Profiles))
	for i, p := range Profiles {
		if names[i] = p.Name; p.Name != file.Profile {
			continue
		}
		meta, err := toml.Decode(p.text, c)
		if err != nil {
			return fmt.Errorf("profile %s: %w", p.Name, err)
		}
		c.note(meta, "profile "+p.Name)
		return nil
	}
	return fmt.Errorf("profile = %.80q: want %s, or \"\" for none", file.Profile, strings.Join(names, ", "))
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
		{c.Steering.Enabled, "steering"}, {c.Rounds.Enabled, "rounds"}, {c.Sizing.Enabled, "sizing"},
		{c.Locality.Enabled, "few switches"}, {c.Locality.SlowNodes, "no slow nodes"},
		{c.Preemption.Enabled, "evictions for TE jobs"}, {c.Preemption.Headroom, "nodes kept for TE jobs"}, {c.Preemption.Defrag, "room for gangs"}, {c.Windows.Enabled, "jobs that run until maintenance"}, {c.Retry.Enabled, "classes of failures, requeues"},
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
