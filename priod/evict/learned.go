package evict

import (
	"slices"

	"slurmprio/priod/cluster"
)

// enough is how many evictions of a user's jobs tell more than a declaration.
const enough = 3

// learned is how jobs of each user really left, lately: for how long, s, and
// how often not by themselves.
type learned map[string]*conduct

type conduct struct {
	took   []float64
	forced int
	sorted bool
}

func (j *Journal) learned() learned {
	l := learned{}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		if e.User == "" || e.LeftAt.IsZero() || e.How != Exited && e.How != Forced {
			continue
		}
		c := l[e.User]
		if c == nil {
			c = &conduct{}
			l[e.User] = c
		}
		c.took = append(c.took, e.LeftAt.Sub(e.SignalledAt).Seconds())
		if e.How == Forced {
			c.forced++
		}
	}
	return l
}

// expect is how long a job will take to leave, and how much of its work is lost
// beyond that, s: nothing when it saves its state on a signal, unless its owner's
// jobs mostly do not keep that promise.
func (l learned) expect(j *cluster.Job, set *Settings, elapsed float64) (grace, unsaved float64) {
	grace = set.grace(j).Seconds()
	saves := j.Tag.Signal != ""
	if c := l[j.User]; c != nil && len(c.took) >= enough {
		if !c.sorted {
			slices.Sort(c.took)
			c.sorted = true
		}
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
