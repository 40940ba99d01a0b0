package cycle

import (
	"context"
	"fmt"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/size"
	"slurmprio/slurmplug"
)

// GiveBack is what lower memory for running jobs takes. The zero value lowers none.
type GiveBack struct {
	Memory *size.GiveBack
	Slurm  Measurer
}

// Measurer is the Slurm that running jobs are measured in.
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

// decide gives waiting jobs their own memory again, measures running ones where that may
// help others, and adds to the plan what they give back. What cannot be read is noted,
// and keeps nobody from anything else.
func (g *GiveBack) decide(ctx context.Context, s *cluster.Snapshot, h *cluster.History, p *plan.Plan) {
	if g.Memory == nil {
		return
	}
	note := func(err error) {
		if err != nil {
			p.Notes = append(p.Notes, fmt.Sprintf("memory of running jobs: %.300s", err))
		}
	}
	var candidates []*cluster.Job
	lowered := size.Lowered(s, h)
	if g.Memory.Enabled() {
		if why := g.Slurm.KeepsMemory(); why != "" {
			p.Notes = append(p.Notes, "sizing.give_back does nothing: "+why)
		} else {
			candidates = g.Memory.Candidates(s, h)
		}
	}
	if len(lowered)+len(candidates) == 0 {
		return
	}
	note(g.Slurm.AskMemory(ctx, append(lowered[:len(lowered):len(lowered)], candidates...)))
	var peaks map[cluster.JobID]int64
	if len(candidates) > 0 {
		g.Memory.Measured(candidates, s.At)
		candidates = slices.DeleteFunc(candidates, func(j *cluster.Job) bool { return j.AskedMB != j.MemMB }) // no word for word undo
		var err error
		peaks, err = g.Slurm.Peaks(ctx, candidates)
		note(err)
	}
	g.Memory.Decide(s, h, p, lowered, candidates, peaks)
}

// learn keeps from trying again what Slurm refused.
func (g *GiveBack) learn(s *cluster.Snapshot, outcomes []plan.Outcome) {
	for i := range outcomes {
		if o := &outcomes[i]; g.Memory != nil && o.Lever == slurmplug.MinMemoryNode && o.Status == slurmplug.Refused {
			g.Memory.Refused(o.Job, s)
		}
	}
}
