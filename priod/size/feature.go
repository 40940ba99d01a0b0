package size

import (
	"context"
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature gives waiting jobs other CPUs and memory; the zero value gives none.
type Feature struct {
	Sizes *Sizes
	Slurm Asker
}

// Asker is the Slurm that jobs ask.
type Asker interface {
	// Ask reads how waiting jobs ask for their sizes, into their Asked. After an
	// error some have none, and stay as they are.
	Ask(context.Context, []*cluster.Job) error
}

// Plan looks at the jobs at the head of the queue and adds their sizes to the plan. What
// cannot be read is noted, and keeps nobody from anything else.
func (f *Feature) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.Sizes == nil || c.Paused != "" {
		return nil
	}
	heads := f.Sizes.Heads(c.Snapshot, c.History, c.Plan)
	jobs := make([]*cluster.Job, len(heads))
	for k, i := range heads {
		jobs[k] = &c.Snapshot.Jobs[i]
	}
	if err := f.Slurm.Ask(ctx, jobs); err != nil {
		c.Plan.Notes = append(c.Plan.Notes, fmt.Sprintf("sizes: %.300s", err))
	}
	f.Sizes.Decide(c.Snapshot, c.History, c.Plan)
	return nil
}

// Heard keeps from trying again at once what Slurm refused, or what did not let its job
// start.
func (f *Feature) Heard(c *plan.Cycle) {
	for id, o := range c.Written(slurmplug.Size) {
		switch o.Status {
		case slurmplug.Refused:
			c.History.SizeRefused(id, o.Message, c.Snapshot.At)
		case slurmplug.Applied, slurmplug.Unknown:
			c.History.Sized(id, o.Reason == plan.SizeRests, o.Reason == plan.SizeAhead, c.Snapshot.At)
		}
		c.Asked(id, o)
	}
}

// Act does nothing.
func (f *Feature) Act(context.Context, *plan.Cycle) error { return nil }
