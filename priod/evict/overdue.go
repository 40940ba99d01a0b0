package evict

import (
	"time"

	"slurmprio/priod/cluster"
)

// Steps of evictions that end by themselves, in a moment or when a grace is over; one that does not end hangs.
const (
	Unsignalled = "recorded"    // the signal is not sent
	Unleft      = "signalled"   // the grace is over, and the victim still runs or completes
	Unrequeued  = "left"        // the victim is not back in the queue
	Unrestored  = "requeued"    // its claim has ended, and it may not start yet
	Unfree      = "reservation" // the claim has ended, and its reservation still stands
)

// Steps are all of them.
var Steps = []string{Unsignalled, Unleft, Unrequeued, Unrestored, Unfree}

// Overdue tells for each step how long the eviction hangs there that hangs longest; 0: none.
func (j *Journal) Overdue(at time.Time) map[string]time.Duration {
	late := map[string]time.Duration{}
	since := func(step string, due time.Time) { late[step] = max(late[step], at.Sub(due)) }
	claims, evictions := j.live()
	for _, e := range evictions {
		switch e.State {
		case Recorded:
			since(Unsignalled, e.At)
		case Signalled:
			since(Unleft, e.SignalledAt.Add(e.Grace))
		case Left:
			since(Unrequeued, e.LeftAt)
		case Requeued:
			if c := j.Claim(e.Claim); c == nil {
				since(Unrestored, e.RequeuedAt)
			} else if !c.Open() {
				since(Unrestored, cluster.Later(c.Ended, e.RequeuedAt))
			}
		}
	}
	for _, c := range claims {
		if c.Resv != "" && c.State != Planned {
			since(Unfree, cluster.Later(c.Room, c.Ended))
		}
	}
	return late
}
