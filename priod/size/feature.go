package size

import (
	"context"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
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

// Heard remembers which sizes Slurm refused, and which were given back because the job did
// not start: these are not tried again at once.
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

// MemoryFeature lowers the memory of running jobs that do not use it; the zero value
// lowers none.
type MemoryFeature struct {
	plan.PlanOnly
	GiveBack *GiveBack
	Slurm    Measurer

	found func() givingBack // waits for what Prepare began; nil: nothing was
}

// givingBack are the jobs whose memory is in question.
type givingBack struct {
	kept                string         // why none is lowered; "": it is
	lowered, candidates []*cluster.Job // see Lowered and GiveBack.Candidates
}

// Prepare begins to look for the jobs whose memory is in question.
func (f *MemoryFeature) Prepare(c *plan.Cycle) {
	if f.GiveBack != nil && c.Paused == "" {
		f.found = plan.InBackground(c, func() givingBack { return f.find(c) })
	}
}

func (f *MemoryFeature) find(c *plan.Cycle) (found givingBack) {
	found.lowered = Lowered(c.Snapshot, c.History)
	if f.GiveBack.Enabled() {
		if found.kept = f.Slurm.KeepsMemory(); found.kept == "" {
			found.candidates = f.GiveBack.Candidates(c.Snapshot, c.History)
		}
	}
	return found
}

// Measurer is the Slurm that measures running jobs.
type Measurer interface {
	// KeepsMemory says why the memory of running jobs cannot be lowered; "" when it can.
	KeepsMemory() string
	// AskMemory reads how jobs ask for memory, into their AskedMB. After an error some
	// have none, and keep what they have.
	AskMemory(context.Context, []*cluster.Job) error
	// Peaks reads the most memory in MB that running jobs have used so far; jobs that are
	// not measured are left out.
	Peaks(context.Context, []*cluster.Job) (map[cluster.JobID]int64, error)
}

// Plan gives waiting jobs their own memory back, measures running jobs where that may
// help others, and adds to the plan what they give back. What cannot be read is noted,
// and the cycle continues.
func (f *MemoryFeature) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.GiveBack == nil || c.Paused != "" {
		return nil
	}
	note := func(err error) {
		if err != nil {
			c.Plan.Note(plan.MemoryUnread, 1, "memory of running jobs: %.300s", err)
		}
	}
	if f.found == nil {
		f.Prepare(c)
	}
	found := f.found()
	f.found = nil
	if found.kept != "" {
		c.Plan.Note(plan.MemoryKept, 1, "sizing.give_back has no effect: %s", found.kept)
	}
	lowered, candidates := found.lowered, found.candidates
	if len(lowered)+len(candidates) == 0 {
		return nil
	}
	note(f.Slurm.AskMemory(ctx, append(lowered[:len(lowered):len(lowered)], candidates...)))
	var peaks map[cluster.JobID]int64
	if len(candidates) > 0 {
		f.GiveBack.Measured(candidates, c.Snapshot.At)
		candidates = slices.DeleteFunc(candidates, func(j *cluster.Job) bool { return j.AskedMB != j.MemMB }) // undo could not restore the request word for word
		var err error
		peaks, err = f.Slurm.Peaks(ctx, candidates)
		note(err)
	}
	f.GiveBack.Decide(c.Snapshot, c.History, c.Plan, lowered, candidates, peaks)
	return nil
}

// Heard remembers what Slurm refused: that is not tried again.
func (f *MemoryFeature) Heard(c *plan.Cycle) {
	for id, o := range c.Written(slurmplug.MinMemoryNode) {
		c.Asked(id, o)
		if f.GiveBack != nil && o.Status == slurmplug.Refused {
			f.GiveBack.Refused(id, c.Snapshot)
		}
	}
}
