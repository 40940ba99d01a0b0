package steer

import (
	"context"
	"maps"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

// Feature binds pending jobs to GPU types, by what the Ledger allocates.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Memory   *Memory     // nil: no job is steered
	Slurm    interface { // nil: no job is looked at, and none bound
		// Places reads what pending jobs say of their nodes, given Slurm's own
		// ids. Jobs that are gone, or whose record is inconsistent, are left out.
		Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error)
	}

	// RuledOut are GPU types on which jobs cannot run, by what they say of their nodes, as the last cycle found out; nil: it
	// found out nothing.
	RuledOut map[cluster.JobID]placement.Types

	jobs func() []pendingJob // waits for what Prepare began; nil: nothing was
}

// Prepare begins to look for the jobs that the plan decided about. The order may be made again meanwhile: it is one of the same jobs.
func (f *Feature) Prepare(c *plan.Cycle) {
	if f.Memory == nil || !steers(c, f.Settings) {
		return
	}
	decisions := c.Plan.Decisions
	f.jobs = plan.InBackground(c, func() []pendingJob { return pendingJobs(c.Snapshot, c.History, decisions) })
}

// Plan adds to the plan what binds jobs to types, after a closer look at each.
func (f *Feature) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.RuledOut = nil; f.Memory == nil {
		return nil
	}
	if f.jobs == nil {
		f.Prepare(c)
	}
	steered := f.Memory.Steer(c, f.Settings, f.jobs)
	f.jobs = nil
	var places map[cluster.JobID]cluster.Place
	if unseen := steered.Unseen(); len(unseen) > 0 && f.Slurm != nil && c.Paused == "" {
		var err error
		if places, err = f.Slurm.Places(ctx, unseen); err != nil {
			c.Plan.Note(plan.SteeringUnread, len(unseen), "some jobs are not steered in this cycle: %.300s", err)
		}
	}
	if c.Pinned != nil { // their nodes were named by evictions, which will take that back: the next cycle looks
		maps.DeleteFunc(places, func(id cluster.JobID, _ cluster.Place) bool { return c.Pinned(id) })
	}
	steered.Vet(places)
	c.Plan.Ask(steered.Actions)
	c.Owing, f.RuledOut = steered.Owing, steered.RuledOut()
	return nil
}
