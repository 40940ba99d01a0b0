package simulate

import (
	"errors"
	"fmt"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/workload"
)

// daemonOf is priod as its configuration has it, with nothing learned yet. A trace has
// no partitions; of programs it is told what the table of workloads says.
func daemonOf(c *config.Config, table *workload.Table) virtual.Daemon {
	set := cycle.Settings{Decide: c.Decide()}
	set.Decide.Ranking.Partitions = nil
	if a := c.AllocationSettings(); a.Policy.Name != "" {
		a.Ranking.Partitions, a.Table = nil, table
		set.Ledger, set.Allocation = &allocate.Ledger{}, a
	}
	if s := c.Steer(); s.Enabled {
		set.Steering = cycle.Steering{Settings: s, Helm: &steer.Helm{}}
	}
	e, r := c.Eviction(), c.RoundSettings()
	e.Ranking.Partitions = nil
	if e.Enabled || r.Enabled {
		set.Evictions = cycle.Evictions{Settings: e, Journal: evict.NewJournal(), Vetoes: cycle.Vetoes{}}
		set.Rounds = &cycle.Rounds{Settings: r}
	}
	if s := c.Sizes(); s.Enabled {
		s.Table = table
		set.Sizing.Sizes = &size.Sizes{}
		set.Sizing.Sizes.Set(s)
	}
	d := virtual.Daemon{Settings: set, Interval: time.Duration(c.Cycle.Interval), Watch: time.Duration(c.Preemption.Watch)}
	if len(c.Wake.Listen) > 0 {
		d.Calls = c.Wake.PollsPerMinute
	}
	return d
}

// checkDaemon refuses what the virtual Slurm cannot show, by its key.
func checkDaemon(spec *Spec, in *Input) error {
	c := in.Config
	switch {
	case c == nil:
		return errors.New("order priod: no configuration")
	case c.Sizing.GiveBack:
		return errors.New("sizing.give_back: a trace does not say what memory its jobs use; leave it out for a simulation")
	case c.Sizing.Enabled && !in.sized():
		return fmt.Errorf("sizing.enabled%s", needsNodes)
	case c.Sizing.Enabled && (spec.Placement == "pool" || spec.Backfill == "conservative"):
		return errors.New("sizing.enabled wants jobs placed on nodes, and not conservative backfill, which fixes sizes when it plans")
	case c.Steering.Enabled && spec.Backfill == "none":
		return errors.New("steering.enabled wants backfill: a job that waits for its GPU type would block all others; leave --backfill out")
	}
	return nil
}
