package steer

import (
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Owing is what the end of a round has to know: the BE jobs that wait for the type that an earlier cycle gave them, or for the only one
// that they may have, for which others may leave; what the running jobs are owed; and the TE jobs, which rank ahead of all of them. nil
// when steering is off. Of an array the task counts that starts next.
func (st *Steered) Owing(lead plan.Lead) *plan.Owing {
	in := &st.in
	if in.shares == nil || !in.set.Enabled {
		return nil
	}
	o := &plan.Owing{}
	for i := range st.candidates {
		c := &st.candidates[i]
		if i > 0 && st.candidates[i-1].at == c.at {
			continue // a later task of the same array
		}
		j, decision, v := in.jobs[c.at], &in.plan.Decisions[c.at], &c.verdict
		waits := v.Why == Waits && v.Type == c.Steered || v.Why == OneType && !math.IsInf(v.Start, 1)
		if c.excluded != "" || !waits || j.Begins(in.snapshot.At) || !decision.Ranked || decision.Class != cluster.BE {
			continue
		}
		share := in.shares.Jobs.Get(j.ID)
		o.Waiting = append(o.Waiting, plan.Owed{Job: c.id, Owed: lead.Owed(share.Owed, share.Run), Start: v.Start, Run: v.End - v.Start})
	}
	o.First = in.trials()
	for i := range in.snapshot.Jobs {
		j := &in.snapshot.Jobs[i]
		if j.State != cluster.Running {
			continue
		}
		t, known := slices.BinarySearch(in.shares.Types, j.GPUType)
		share := in.shares.Jobs.Get(j.ID)
		if !known || share == nil || math.IsInf(share.Run[t], 1) {
			continue
		}
		o.Running.Set(j.ID, plan.Owed{Job: j.ID, Owed: lead.Owed(share.Owed, share.Run), Run: share.Run[t]})
	}
	return o
}

// trials are the TE jobs that wait for GPUs without a claim, in the order of the queue.
func (in *inputs) trials() (ids []cluster.JobID) {
	for _, q := range in.plan.Queue {
		d, j := &in.plan.Decisions[q.Decision], &in.snapshot.Jobs[q.Job]
		if d.Ranked && d.Class == cluster.TE && j.GPUs > 0 && !in.history.Claiming[j.ID] {
			ids = append(ids, j.ID)
		}
	}
	return ids
}
