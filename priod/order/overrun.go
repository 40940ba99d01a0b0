package order

import (
	"fmt"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// teUse is what TE jobs hold and have used, and how long each has run.
type teUse struct {
	users, accounts map[string]cluster.Use
	ran             map[cluster.JobID]time.Duration
}

// hold counts more GPUs for the user and the account of a job.
func (u *teUse) hold(j *cluster.Job, gpus float64) {
	add := func(to map[string]cluster.Use, name string) {
		use := to[name]
		use.GPUs = max(use.GPUs+gpus, 0)
		to[name] = use
	}
	add(u.users, j.User)
	add(u.accounts, j.Account)
}

// teUseOf returns a function that adds that up once, when it is first called: it reads
// a whole day of runs.
func teUseOf(s *cluster.Snapshot, h *cluster.History, set *plan.Classes) func() *teUse {
	return sync.OnceValue(func() *teUse {
		u := new(teUse)
		u.users, u.accounts, u.ran = h.TEUse(s.At, set.RunLimit)
		return u
	})
}

// overrunsNow says why a running TE job counts as TE no more, "" for any other job: its
// time limit was raised, or Slurm does not end it there.
func (r *ranker) overrunsNow(j *cluster.Job) string {
	if r.set.Class(j.Tag.Type, j.QOS) != cluster.TE || j.State != cluster.Running || r.set.Boundless() || !r.set.Ranks(j.Partition) {
		return ""
	}
	limit := r.set.RunLimit(j.User, j.Account)
	if limit == 0 || j.Restarts == 0 && r.s.At.Sub(j.Start) <= limit || r.use().ran[j.ID] <= limit {
		return ""
	}
	_, why := r.refuse(demand{limit: "run", of: "user", name: j.User, most: limit.Seconds()}, func() refusal {
		return refusal{why: fmt.Sprintf("it has run longer than the TE limit of %s of user %s", limit-plan.EndSlack, j.User)}
	})
	return why
}

// overranBefore says why a TE job that is back in the queue counts as TE no more, ""
// when it does: its runs together took longer than one of them may.
func (r *ranker) overranBefore(j *cluster.Job) string {
	if j.Restarts == 0 {
		return ""
	}
	limit, own := r.set.RunLimit(j.User, j.Account), time.Duration(0)
	if j.TimeLimit != slurmplug.Unlimited {
		own = j.TimeLimit + plan.EndSlack
	}
	if own > 0 && (limit <= 0 || own < limit) {
		limit = own
	}
	if ran := r.use().ran[j.ID]; limit > 0 && ran > limit {
		return fmt.Sprintf("it has run for %s, longer than its TE limit of %s", ran.Round(time.Second), limit-plan.EndSlack)
	}
	return ""
}
