package size

import (
	"context"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Feature gives waiting jobs other CPUs and memory; the zero value gives none.
type Feature struct {
	plan.PlanOnly
	Sizes *Sizes
	Slurm Asker
}

// Asker is the Slurm that knows what jobs ask for.
type Asker interface {
	// Ask reads what waiting jobs ask for into their Asked. After an error some have
	// none, and keep their sizes.
	Ask(context.Context, []*cluster.Job) error
}

// Plan looks closer at the jobs at the head of the queue and adds their sizes to the
// plan. What cannot be read is noted, and the cycle continues.
func (f *Feature) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.Sizes == nil || c.Paused != "" {
		return nil
	}
	if on := f.Sizes.set.Enabled; c.Off {
		f.Sizes.set.Enabled = false
		defer func() { f.Sizes.set.Enabled = on }()
	}
	heads := f.Sizes.Heads(c.Snapshot, c.History, c.Plan)
	jobs := make([]*cluster.Job, len(heads))
	for k, i := range heads {
		jobs[k] = &c.Snapshot.Jobs[i]
	}
	if err := f.Slurm.Ask(ctx, jobs); err != nil {
		c.Plan.Note(plan.SizesUnread, len(jobs), "sizes: %.300s", err)
	}
	f.Sizes.Decide(c.Snapshot, c.History, c.Plan)
	return nil
}
