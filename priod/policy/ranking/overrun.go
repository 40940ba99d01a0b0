package ranking

import (
	"fmt"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// slack is what Slurm may take to end a job at its time limit.
const slack = 2 * time.Minute

// use is what TE jobs hold and have had, and how long each has run.
type use struct {
	users, accounts map[string]cluster.Use
	ran             map[cluster.JobID]time.Duration
}

// useOf sums it up when somebody asks: the sums look at a whole day.
func useOf(s *cluster.Snapshot, h *cluster.History, set *Settings) func() use {
	return sync.OnceValue(func() (u use) {
		u.users, u.accounts, u.ran = h.TEUse(s.At, set.runLimit)
		return u
	})
}

// boundless tells whether no budget limits anything.
func (set *Settings) boundless() bool {
	return set.User == (Budget{}) && set.Account == (Budget{}) && len(set.Users)+len(set.Accounts) == 0
}

// runLimit is for how long jobs of a user and an account run as TE, in all of
// their runs together; 0: as long as they like.
func (set *Settings) runLimit(user, account string) time.Duration {
	if limit := lesser(set.ofUser(user).TimeLimit, set.ofAccount(account).TimeLimit); limit > 0 {
		return limit + slack
	}
	return 0
}

// lesser is the lesser of two limits, of which 0 is none.
func lesser(a, b time.Duration) time.Duration {
	if a > 0 && (b <= 0 || a < b) {
		return a
	}
	return max(b, 0)
}

// runsOver says why a job that runs counts as TE no more, "" when it does or never
// did: its time limit was raised, or Slurm does not end it there.
func (r *ranker) runsOver(j *cluster.Job) string {
	if r.set.Class(j.Tag.Type, j.QOS) != cluster.TE || j.GPUs == 0 || j.State != cluster.Running || r.set.boundless() || !r.set.Ranks(j.Partition) {
		return ""
	}
	limit := r.set.runLimit(j.User, j.Account)
	if limit == 0 || r.use().ran[j.ID] <= limit {
		return ""
	}
	return fmt.Sprintf("it has run longer than the %s that TE jobs of user %s may", limit-slack, j.User)
}

// ranOver says why a job that is back in the queue counts as TE no more: its runs
// together took longer than one of them was to take.
func (r *ranker) ranOver(j *cluster.Job) string {
	if j.Restarts == 0 {
		return ""
	}
	limit, own := r.set.runLimit(j.User, j.Account), time.Duration(0)
	if j.TimeLimit != slurmplug.Unlimited {
		own = j.TimeLimit + slack
	}
	limit = lesser(limit, own)
	if ran := r.use().ran[j.ID]; limit > 0 && ran > limit {
		return fmt.Sprintf("it has run for %s, longer than the %s that it may as a TE job", ran.Round(time.Second), limit-slack)
	}
	return ""
}
