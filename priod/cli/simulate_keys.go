package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/simulate"
)

// keyFlag is a flag in the place of a key of priod.toml, where the daemon's cycles run.
type keyFlag struct {
	name, value, key string
	of               func(*config.Config) any // points to the key's value
}

// keyFlags stand for keys alone. The other short forms, which say more than one key, are
// in simulate.Spec.
var keyFlags = []keyFlag{
	{"steering-cycle", "TIME", "cycle.interval", func(c *config.Config) any { return &c.Cycle.Interval }},
	{"steering-wait", "TIMES", "steering.wait", func(c *config.Config) any { return &c.Steering.Wait }},
	{"steering-depth", "JOBS", "steering.depth", func(c *config.Config) any { return &c.Steering.Depth }},
	{"steering-busy", "", "steering.busy", func(c *config.Config) any { return &c.Steering.Busy }},
	{"lead", "TIME", "rounds.lead", func(c *config.Config) any { return &c.Rounds.Lead }},
	{"round-pay", "TIMES", "rounds.pay", func(c *config.Config) any { return &c.Rounds.Pay }},
	{"defrag", "", "preemption.defrag", func(c *config.Config) any { return &c.Preemption.Defrag }},
	{"max-evictions", "TIMES", "preemption.max_evictions", func(c *config.Config) any { return &c.Preemption.MaxEvictions }},
	{"min-runtime", "TIME", "preemption.min_run", func(c *config.Config) any { return &c.Preemption.MinRun }},
	{"eviction-rise", "SHARE", "preemption.rise", func(c *config.Config) any { return &c.Preemption.Rise }},
	{"urgency", "GPU-SECONDS", "preemption.urgency", func(c *config.Config) any { return &c.Preemption.Urgency }},
	{"min-gain", "TIME", "preemption.min_gain", func(c *config.Config) any { return &c.Preemption.MinGain }},
	{"locality", "", "locality.enabled", func(c *config.Config) any { return &c.Locality.Enabled }},
	{"few-nodes", "", "locality.few_nodes", func(c *config.Config) any { return &c.Locality.FewNodes }},
	{"locality-wait", "TIMES", "locality.wait", func(c *config.Config) any { return &c.Locality.Wait }},
	{"locality-others", "TIMES", "locality.others", func(c *config.Config) any { return &c.Locality.Others }},
	{"locality-longest", "TIME", "locality.longest", func(c *config.Config) any { return &c.Locality.Longest }},
	{"locality-of-limit", "PART", "locality.of_limit", func(c *config.Config) any { return &c.Locality.OfLimit }},
}

// sharedFlags are keys, too, and beside them what the papers' evictions go by.
var sharedFlags = []keyFlag{
	{"fitgpp-s", "", "preemption.fitgpp_s", func(c *config.Config) any { return &c.Preemption.FitGppS }},
	{"fitgpp-fallback", "", "preemption.fitgpp_fallback", func(c *config.Config) any { return &c.Preemption.FitGppFallback }},
	{"evictions-at-once", "", "preemption.max_at_once", func(c *config.Config) any { return &c.Preemption.MaxAtOnce }},
	{"evictions-per-hour", "", "preemption.max_per_hour", func(c *config.Config) any { return &c.Preemption.MaxPerHour }},
	{"eviction-gpu-hours-per-day", "", "preemption.gpu_hours_per_day", func(c *config.Config) any { return &c.Preemption.GPUHoursPerDay }},
}

// flag is the command line's.
func (k *keyFlag) flag(category string) cli.Flag {
	usage := k.key + " of priod.toml"
	if k.value != "" {
		usage = "`" + k.value + "` in the place of " + usage
	}
	switch k.of(&config.Config{}).(type) {
	case *config.Duration:
		return &cli.DurationFlag{Category: category, Name: k.name, Usage: usage, DefaultText: "the key's"}
	case *float64:
		return &cli.Float64Flag{Category: category, Name: k.name, Usage: usage, DefaultText: "the key's"}
	case *int:
		return &cli.IntFlag{Category: category, Name: k.name, Usage: usage, DefaultText: "the key's"}
	default:
		return &cli.BoolFlag{Category: category, Name: k.name, Usage: usage, DefaultText: "the key's"}
	}
}

// set writes the flag's value into the configuration.
func (k *keyFlag) set(c *cli.Context, cfg *config.Config) {
	switch v := k.of(cfg).(type) {
	case *config.Duration:
		*v = config.Duration(c.Duration(k.name))
	case *float64:
		*v = c.Float64(k.name)
	case *int:
		*v = c.Int(k.name)
	case *bool:
		*v = c.Bool(k.name)
	case *string:
		*v = c.String(k.name)
	}
}

// shorten lets flags stand for the keys of priod.toml that they are short forms of.
func shorten(c *cli.Context, cfg *config.Config) {
	for _, all := range [][]keyFlag{keyFlags, sharedFlags} {
		for _, k := range all {
			if c.IsSet(k.name) {
				k.set(c, cfg)
			}
		}
	}
}

// checkKeyFlags refuses steering and rounds where no priod runs. The limits of evictions may
// stand in a study that compares policies.
func checkKeyFlags(c *cli.Context, spec *simulate.Spec) error {
	for _, k := range keyFlags {
		if c.IsSet(k.name) && !spec.Priod() && !strings.HasPrefix(k.key, "preemption.") {
			return fmt.Errorf("--%s stands for %s of priod.toml: it belongs to --order priod, and to --allocation, which is short for that", k.name, k.key)
		}
	}
	if c.IsSet("steering-cycle") && c.Duration("steering-cycle") < 2*time.Second {
		return fmt.Errorf("--steering-cycle %s: the daemon's own cycles steer, every 2s at most; --hold 20s keeps jobs from starting before", c.Duration("steering-cycle"))
	}
	return nil
}
