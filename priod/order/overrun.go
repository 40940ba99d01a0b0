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
	users, accounts map[string]used
	ran             map[cluster.JobID]time.Duration
}

// used is what the TE jobs of one user or account use of its shares.
type used struct {
	gpus    float64 // held at a time
	seconds float64 // GPU-seconds: received within cluster.UsePeriod, lost by evictions for them, or next
}

// hold counts more for the user and the account of a job.
func (u *teUse) hold(j *cluster.Job, gpus, seconds float64) {
	add := func(to map[string]used, name string) {
		use := to[name]
		to[name] = used{max(use.gpus+gpus, 0), use.seconds + seconds}
	}
	add(u.users, j.User)
	add(u.accounts, j.Account)
}

// teUseOf returns a function that adds that up once, when it is first called: it reads
// a whole day of runs.
func teUseOf(s *cluster.Snapshot, h *cluster.History, set *plan.Classes) func() *teUse {
	return sync.OnceValue(func() *teUse {
		users, accounts, ran := h.TEUse(s.At, set.RunLimit)
		u := &teUse{usedBy(users), usedBy(accounts), ran}
		for user, lost := range h.LostFor {
			use := u.users[user]
			use.seconds += lost
			u.users[user] = use
		}
		return u
	})
}

func usedBy(uses map[string]cluster.Use) map[string]used {
	all := make(map[string]used, len(uses))
	for name, u := range uses {
		all[name] = used{u.GPUs, u.GPUSeconds}
	}
	return all
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
	return fmt.Sprintf("it has run for more than %s, %d times the time limit of TE jobs of user %s", limit-plan.EndSlack, plan.Worth, j.User)
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
		return fmt.Sprintf("it has run for %s, longer than %s: its own time limit or %d times that of TE jobs", ran.Round(time.Second), limit-plan.EndSlack, plan.Worth)
	}
	return ""
}
