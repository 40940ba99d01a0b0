package plan

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
)

// Queued is a pending job in its place in the queue.
type Queued struct {
	Job      int // its index in Snapshot.Jobs
	Decision int // its index in Plan.Decisions
}

// MakeQueue puts the pending jobs of the decisions, which go by the order of the snapshot,
// into the order in which Slurm will look at them once the plan is carried out.
func (p *Plan) MakeQueue(s *cluster.Snapshot) {
	type waiting struct {
		priority int64
		id       cluster.JobID
		Queued
	}
	all := make([]waiting, 0, len(p.Decisions))
	next := 0
	for i := range s.Jobs {
		if next == len(p.Decisions) {
			break
		}
		if s.Jobs[i].ID != p.Decisions[next].Job {
			continue
		}
		if s.Jobs[i].State == cluster.Pending {
			all = append(all, waiting{p.priority(next), s.Jobs[i].ID, Queued{Job: i, Decision: next}})
		}
		next++
	}
	slices.SortFunc(all, func(a, b waiting) int {
		if c := cmp.Compare(b.priority, a.priority); c != 0 {
			return c
		}
		return a.id.Compare(b.id)
	})
	p.Queue = make([]Queued, len(all))
	for i := range all {
		p.Queue[i] = all[i].Queued
	}
}

// priority is what Slurm will order a job by.
func (p *Plan) priority(decision int) int64 {
	d := &p.Decisions[decision]
	return d.Own + d.Value
}
