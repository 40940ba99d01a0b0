package plan

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Queued is a pending job in its place in the queue.
type Queued struct {
	Job      int // its index in Snapshot.Jobs
	Decision int // its index in Plan.Decisions
}

// MakeQueue puts the pending jobs of the decisions, which go by the order of the snapshot,
// into the order in which Slurm will look at them once the plan is carried out.
func (p *Plan) MakeQueue(s *cluster.Snapshot) {
	p.Queue = make([]Queued, 0, len(p.Decisions))
	next := 0
	for i := range s.Jobs {
		if next == len(p.Decisions) {
			break
		}
		if s.Jobs[i].ID != p.Decisions[next].Job {
			continue
		}
		if s.Jobs[i].State == cluster.Pending {
			p.Queue = append(p.Queue, Queued{Job: i, Decision: next})
		}
		next++
	}
	slices.SortFunc(p.Queue, func(a, b Queued) int {
		return cmp.Or(cmp.Compare(p.priority(b.Decision), p.priority(a.Decision)), s.Jobs[a.Job].ID.Compare(s.Jobs[b.Job].ID))
	})
}

// priority is what Slurm will order a job by.
func (p *Plan) priority(decision int) int64 {
	d := &p.Decisions[decision]
	if p.Mode == slurmplug.Priority && d.Value != 0 {
		return d.Value
	}
	return d.Own + d.Value
}
