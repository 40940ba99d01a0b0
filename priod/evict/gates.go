package evict

import (
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
)

// gates knows when limits let the next eviction pass, at the earliest.
type gates struct {
	now       time.Time
	set       *Settings
	limits    preemption.Limits
	evictions []*Eviction // that count against limits, by the time at which they were recorded
	journal   *Journal
	leaving   time.Time // the first victim on its way has left; zero: none is
}

// newGates takes in the limits' past and the candidates of a choice.
func newGates(c *Choice, s *cluster.Snapshot, j *Journal, set *Settings) *gates {
	g := &gates{now: s.At, set: set, limits: c.set.Limits, journal: j}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		if e.Counts() && within(day, s.At, e.At) {
			g.evictions = append(g.evictions, e)
		}
		if e.State == Signalled {
			if left := e.SignalledAt.Add(e.Grace); g.leaving.IsZero() || left.Before(g.leaving) {
				g.leaving = left
			}
		}
	}
	slices.SortStableFunc(g.evictions, func(a, b *Eviction) int { return a.At.Compare(b.At) })
	return g
}

// opens is when the gate opens at the earliest that a trial waits behind; zero: unknown, or no time
// opens it.
func (g *gates) opens(t *Trial) time.Time {
	limits := &g.limits
	switch t.Why {
	case preemption.AtOnce, preemption.GraceGPUs:
		if g.leaving.After(g.now) {
			return g.leaving
		}
	case preemption.PerHour:
		hour := slices.DeleteFunc(slices.Clone(g.evictions), func(e *Eviction) bool { return !within(time.Hour, g.now, e.At) })
		if over := len(hour) - limits.MaxPerHour; over >= 0 && over < len(hour) {
			return hour[over].At.Add(time.Hour)
		}
	case preemption.PerDay:
		return g.fallsBelow(limits.GPUHoursPerDay, func(*Eviction) bool { return true })
	case preemption.PerOwner:
		return g.fallsBelow(limits.UserGPUMinutesPerDay/60, func(e *Eviction) bool {
			claim := g.journal.Claim(e.Claim)
			return claim != nil && claim.Purpose != ForRound && claim.User == t.User
		})
	case TooSoon:
		return g.journal.releasedUntil(g.now, g.set.Retry)(t.Job)
	case Cancelled:
		return g.journal.givenUp(g.now, g.set.Retry).until[t.User]
	}
	return time.Time{}
}

// fallsBelow is when the GPU-hours lost within a day are below a limit again, if nothing more is lost.
func (g *gates) fallsBelow(limit float64, counts func(*Eviction) bool) time.Time {
	sum := 0.0
	for _, e := range g.evictions {
		if counts(e) {
			sum += e.costNow() / 3600
		}
	}
	for _, e := range g.evictions {
		if counts(e) {
			if sum -= e.costNow() / 3600; sum < math.Nextafter(limit, 0) {
				return e.At.Add(day)
			}
		}
	}
	return time.Time{}
}

// gateWords name a gate and when it opens.
func gateWords(why preemption.Why, opens, now time.Time) string {
	text := ReasonText(why)
	if opens.IsZero() {
		return text
	}
	at := opens.Local().Format("15:04")
	if opens.Sub(now) > 12*time.Hour {
		at = opens.Local().Format("Jan 2 15:04")
	}
	return text + ", until " + at + " at the earliest"
}

// setGates finds when the gates open that keep trials waiting.
func (c *Choice) setGates(s *cluster.Snapshot, j *Journal, set *Settings) {
	var g *gates
	for i := range c.Trials {
		t := &c.Trials[i]
		switch t.Why {
		case preemption.AtOnce, preemption.GraceGPUs, preemption.PerHour, preemption.PerDay, preemption.PerOwner, TooSoon, Cancelled:
			if g == nil {
				g = newGates(c, s, j, set)
			}
			t.Opens = g.opens(t)
		}
	}
}
