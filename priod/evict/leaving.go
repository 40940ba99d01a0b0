package evict

import (
	"slices"

	"slurmprio/priod/cluster"
)

// enoughEvictions is how many evictions of a user's jobs say more than what a job
// declares.
const enoughEvictions = 3

// leavingStats are how victims really left lately, by user.
type leavingStats map[string]*userLeaving

// userLeaving is how one user's victims left.
type userLeaving struct {
	took   []float64 // s from the signal, rising
	forced int
}

// leavingByUser returns how each user's victims left.
func (j *Journal) leavingByUser() leavingStats {
	l := leavingStats{}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		if e.User == "" || e.LeftAt.IsZero() || e.How != Exited && e.How != Forced {
			continue
		}
		c := l[e.User]
		if c == nil {
			c = &userLeaving{}
			l[e.User] = c
		}
		c.took = append(c.took, e.LeftAt.Sub(e.SignalledAt).Seconds())
		if e.How == Forced {
			c.forced++
		}
	}
	for _, c := range l {
		slices.Sort(c.took)
	}
	return l
}

// expect returns how long a job will take to leave, and how much of its work is lost
// beyond that, in seconds. A job that saves its state on a signal loses nothing, unless
// its owner's jobs mostly had to be forced out.
func (l leavingStats) expect(j *cluster.Job, set *Settings, elapsed float64) (grace, unsaved float64) {
	grace = set.grace(j).Seconds()
	saves := j.Tag.Signal != ""
	if c := l[j.User]; c != nil && len(c.took) >= enoughEvictions {
		grace = min(grace, c.took[len(c.took)*9/10])
		saves = saves && 2*c.forced <= len(c.took)
	}
	switch every := j.Tag.Ckpt.Seconds(); {
	case saves:
	case every > 0:
		unsaved = elapsed - float64(int(elapsed/every))*every
	default:
		unsaved = elapsed
	}
	return grace, unsaved
}
