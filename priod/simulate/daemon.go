package simulate

import (
	"errors"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// daemonOf is priod as its configuration has it, with nothing learned yet. Where the cluster is not divided, partitions
// count for jobs without GPUs alone; of programs it knows what the table of workloads says. Causes of
// waiting are found only where waits asks for them or a feature needs them.
func daemonOf(c *config.Config, table *workload.Table, state *cycle.State, divided, waits bool) virtual.Daemon {
	everywhere := *c
	if len(c.Slurm.Partitions) > 0 && !divided {
		everywhere.Slurm.Partitions = []string{virtual.Partition}
	}
	d := virtual.Daemon{
		Settings:   everywhere.Features(nil, table, state),
		Partitions: c.Slurm.Partitions,
		Interval:   time.Duration(c.Cycle.Interval), Watch: c.Constants.Watch,
	}
	speeds := c.Speeds.History > 0 && slices.ContainsFunc(c.Consents, func(x config.Consent) bool { return x.GPUType })
	if c.Locality.SlowNodes || speeds {
		d.LearnEvery, d.LearnFrom = c.Constants.LearnEvery, time.Duration(c.Speeds.History)
		d.Learn = func(set *cycle.Settings, past []cluster.PastStay) {
			if c.Locality.SlowNodes {
				set.Refusals.Slow = everywhere.SlowNodes(past, table)
			}
			if speeds {
				set.Allocation.Settings.Knowledge, _ = everywhere.Knowledge(past, table)
			}
		}
	}
	d.Settings.Waits.Gap, d.Settings.Guarantee.Memory.Statement.Gap = 0, 0 // a cycle is left out only where it would see nothing else
	if !waits && !d.Settings.Evictions.Settings.Defrag && !d.Settings.Refusals.Settings.Enabled {
		d.Settings.Waits.Tracker = nil // it changes no decision
	}
	if len(c.Wake.Listen) > 0 {
		d.Calls = c.Constants.Polls
	}
	return d
}

// idle is a priod that watches a Slurm, and writes nothing.
func idle(c *config.Config, in *Input, state *cycle.State) virtual.Daemon {
	watches := *c
	watches.Sizing.Enabled = false
	d := daemonOf(&watches, in.Table, state, in.Cluster.Divided(), true)
	d.Calls, d.Interval, d.Settings.Hold = 0, watchEvery, WithoutPriod
	d.Settings.Watch()
	d.Settings.Allocation.Ledger = nil
	return d
}

// configured is priod's configuration, checked against what the virtual Slurm can show. Backfill
// is EASY where jobs are steered, sized or placed, unless the Spec says otherwise: a job that waits
// for its GPU type or node must not block all others.
func (s *Spec) configured(in *Input) (*config.Config, error) {
	if in.Config == nil {
		return nil, errors.New("order priod wants a configuration")
	}
	c := *in.Config
	if err := c.Check(); err != nil {
		return nil, virtual.OptionError(err.Error())
	}
	if s.Backfill == "" {
		s.Backfill = string(virtual.NoBackfill)
		if c.Steering.Enabled || c.Sizing.Enabled || c.Locality.Enabled || c.Locality.SlowNodes {
			s.Backfill = string(virtual.EASY)
		}
	}
	return &c, s.shows(&c, in)
}

// NeedsNodes is what sizes want to know.
const NeedsNodes = " needs the CPUs and memory of every GPU node, as in --nodes 16:v100:8:24:512000"

// Unprofile switches off what a profile, not the file, switched on and this cluster cannot show, and says so.
func (in *Input) Unprofile(c *config.Config) (notes []string) {
	if c.Sizing.Enabled && c.FromProfile("sizing.enabled") && !in.measured() {
		c.Sizing.Enabled = false
		notes = append(notes, "profile "+c.Profile+": no sizing, because the CPUs and memory of the nodes are not known (--nodes 16:v100:8:24:512000)")
	}
	if c.Locality.Enabled && c.FromProfile("locality.enabled") && !in.switched() {
		c.Locality.Enabled = false
		notes = append(notes, "profile "+c.Profile+": no locality, because the nodes are on no switches (switch in the [[nodes]] tables of --cluster)")
	}
	return notes
}

// switched reports whether nodes are on switches.
func (in *Input) switched() bool {
	return slices.ContainsFunc(in.Cluster.Nodes, func(g trace.NodeGroup) bool { return g.Switch != "" })
}

// shows refuses, by its key, what the virtual Slurm cannot show.
func (s *Spec) shows(c *config.Config, in *Input) error {
	switch {
	case c.Retry.Enabled && c.Retry.Output:
		return virtual.OptionError("retry.output: a trace has no job output; switch it off for a simulation")
	case c.Retry.Enabled && c.Retry.Drain:
		return virtual.OptionError("retry.drain: no operator returns a drained node in a simulation; switch it off there")
	case c.Sizing.Enabled && !in.sized():
		return virtual.OptionError("sizing.enabled" + NeedsNodes)
	case c.Locality.Enabled && !in.switched():
		return virtual.OptionError("locality.enabled wants nodes on switches: switch in the [[nodes]] tables of --cluster")
	case (c.Steering.Enabled || c.Sizing.Enabled || c.Locality.Enabled || c.Locality.SlowNodes) && s.Backfill == "none":
		return virtual.OptionError("with steering.enabled, sizing.enabled, locality.enabled or locality.slow_nodes --order priod wants backfill: a job that waits for its GPU type, node or switches would block all others; leave --backfill out")
	}
	return nil
}
