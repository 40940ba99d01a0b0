package steer

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Owing is what the jobs are owed for which others may leave at the end of a
// round, BE jobs that wait for the type that an earlier cycle gave them, and what
// those are owed that run, and which TE jobs stand before them; nil when nobody is
// steered. Of an unsplit array the task counts that starts next.
func (d *Steered) Owing(lead plan.Lead) *plan.Owing {
	if d.shares == nil || !d.set.Enabled {
		return nil
	}
	o := &plan.Owing{Running: map[cluster.JobID]plan.Owed{}}
	for i := range d.berths {
		if i > 0 && d.berths[i-1].at == d.berths[i].at {
			continue // a later task of the same array
		}
		b, v := &d.berths[i], &d.verdicts[i]
		j, dec := d.jobs[b.at], &d.plan.Decisions[b.at]
		if b.alone != "" || v.Why != Waits || v.Type != b.Steered || j.Begins(d.s.At) || !dec.Ranked || dec.Class != cluster.BE {
			continue
		}
		share := d.shares.Jobs[j.ID]
		o.Waiting = append(o.Waiting, plan.Owed{Job: b.id, Owed: lead.Owed(share.Owed, share.Run), Start: v.Start, Run: v.End - v.Start})
	}
	var first []int
	for at, j := range d.jobs {
		if dec := &d.plan.Decisions[at]; dec.Ranked && dec.Class == cluster.TE && j.GPUs > 0 && !d.h.Claiming[j.ID] {
			first = append(first, at)
		}
	}
	slices.SortStableFunc(first, func(a, b int) int { return cmp.Compare(d.priority(b), d.priority(a)) })
	for _, at := range first {
		o.First = append(o.First, d.jobs[at].ID)
	}
	for i := range d.s.Jobs {
		j := &d.s.Jobs[i]
		t, known := slices.BinarySearch(d.shares.Types, j.GPUType)
		share := d.shares.Jobs[j.ID]
		if j.State != cluster.Running || !known || share == nil || math.IsInf(share.Run[t], 1) {
			continue
		}
		o.Running[j.ID] = plan.Owed{Job: j.ID, Owed: lead.Owed(share.Owed, share.Run), Run: share.Run[t]}
	}
	return o
}
