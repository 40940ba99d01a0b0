package evict

import (
	"context"
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// forGangs has small jobs move where the free GPUs lack the shape that a gang asks for. TE
// jobs come first: when a cycle makes room for them, the next one looks at gangs.
type forGangs struct {
	*Feature
	plan.PlanOnly
}

func (e forGangs) Plan(ctx context.Context, c *plan.Cycle) error {
	if e.Journal == nil || e.failed || !e.Settings.Defrag || c.Paused != "" || c.Fragmented == nil || e.Choice != nil && !e.Choice.Changes.Empty() {
		return nil
	}
	var moves *Moves
	settled, err := e.withChecks(ctx, c.Snapshot, func(vetoed map[cluster.JobID]preemption.Why) *Changes {
		moves = Defragment(c.Snapshot, c.Nodes(), e.holders(c), c.Plan, e.Journal, &e.Settings, c.Fragmented, vetoed)
		return &moves.Changes
	})
	if err != nil {
		e.failed = true
		return fmt.Errorf("make room for gangs: %w", err)
	}
	if !settled {
		return nil // the next cycle knows which were ruled out
	}
	e.begin(&moves.Changes, c)
	moves.annotate(c.Plan)
	e.Moves = moves
	return nil
}

func (e forGangs) Act(ctx context.Context, _ *plan.Cycle) error {
	if e.Moves == nil || e.failed {
		return nil
	}
	err := e.save(ctx, &e.Moves.Changes, "none was begun")
	e.failed = err != nil
	return err
}

// annotate adds to the plan's decisions, for explain, what was decided for each gang, and
// notes when moving others will pay.
func (m *Moves) annotate(p *plan.Plan) {
	said := explanations{}
	for i := range m.Gangs {
		f := &m.Gangs[i]
		said.add(f.Job, plan.EvictionChoice{For: string(ForGang), Why: string(f.Why)}, "nodes for gangs: "+GangReasonText(f.Why))
		if f.Why == NotYet {
			p.Stands(f.Cost/float64(f.GPUs) - f.Waited)
		}
	}
	said.annotate(p, func(*plan.Decision) bool { return true })
}

// checkGangs rules out gangs that ask for few switches, for it is not known which nodes are
// on which, and victims of theirs that name or exclude nodes: those may not fit elsewhere.
func (e *Feature) checkGangs(ctx context.Context, t *Changes, statuses map[cluster.JobID]plan.JobStatus, vetoed map[cluster.JobID]preemption.Why) error {
	var asked []*cluster.Job
	for i := range t.Claims {
		if c := &t.Claims[i]; c.Purpose == ForGang && vetoed[c.Job] == "" {
			job := statuses[c.Job].Job
			job.ID, job.RawID, job.TaskCount = c.Job, c.RawID, 1
			asked = append(asked, &job)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if err := e.Slurm.AskSwitches(ctx, asked); err != nil {
		return fmt.Errorf("look at the switches that gangs ask for: %w", err)
	}
	for _, job := range asked {
		if count, _, err := slurmplug.ParseSwitches(job.Switches); job.Switches != "" && (err != nil || count > 0) {
			vetoed[job.ID] = Constraint
		}
	}
	for i := range t.Evictions {
		x := &t.Evictions[i]
		if vetoed[x.Job] != "" {
			continue
		}
		excluded, err := e.Slurm.Excluded(ctx, plan.Target{Job: x.Job, RawID: x.RawID})
		if err != nil {
			return fmt.Errorf("look at the jobs that would move for gangs: %w", err)
		}
		if excluded != "" || statuses[x.Job].ReqNodes != "" {
			vetoed[x.Job] = Bound
		}
	}
	return nil
}
