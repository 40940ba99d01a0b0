package preemption

import (
	"maps"
	"math"
)

// Limits stand between a bug and the cluster; a zero field limits nothing.
type Limits struct {
	MaxAtOnce            int     // victims in their grace period
	GraceGPUs            int     // that victims hold in their grace period; a set passes alone, however large
	MaxPerCycle          int     // signals of one cycle; a larger set of victims is told over several
	MaxPerHour           int     // evictions of the past hour
	GPUHoursPerDay       float64 // GPU-hours lost in the past day
	UserGPUMinutesPerDay float64 // lost for the claimants of one owner in the past day: then no more for them
}

// Ledger counts what the limits still allow in one decision.
type Ledger struct {
	Limits
	atOnce, perCycle, perHour int
	graceGPUs                 int // that those of atOnce hold
	perDay                    float64
	perOwner                  map[string]float64
}

// NewLedger counts the candidates that are leaving, and the evictions of the past. Of a cycle's share those count that
// are still to be told: one set of victims that is larger passes where nothing else is, and its signals are sent over
// several cycles.
func NewLedger(s *Snapshot, limits Limits) *Ledger {
	l := &Ledger{Limits: limits, perHour: s.PastHour, perDay: s.PastDay, perOwner: map[string]float64{}}
	maps.Copy(l.perOwner, s.PastOwner)
	for i := range s.Candidates {
		c := &s.Candidates[i]
		if c.Leaving {
			l.atOnce++
			l.graceGPUs += int(c.gpus())
		}
		if c.Untold {
			l.perCycle++
		}
	}
	return l
}

// most is how many victims a set within the limits may have, where a limit on these refuses one;
// 0 where another set is no better. The share of the victims in their grace period comes again:
// there the whole limit counts.
func (l *Ledger) most(why Why) int {
	if why != AtOnce && why != PerHour {
		return 0
	}
	most := math.MaxInt
	for _, limit := range [][2]int{{l.MaxAtOnce, 0}, {l.MaxPerHour, l.perHour}} {
		if limit[0] > 0 {
			most = min(most, limit[0]-limit[1])
		}
	}
	return max(most, 0)
}

// Refuses returns the limit that the victims would exceed, or counts them.
func (l *Ledger) Refuses(s *Snapshot, owner string, victims []int) Why {
	n, gpus, lost := len(victims), 0, 0.0
	for _, i := range victims {
		lost += s.Candidates[i].Loss() / 3600
		gpus += int(s.Candidates[i].gpus())
	}
	owned := l.UserGPUMinutesPerDay > 0 && owner != ""
	switch {
	case l.MaxAtOnce > 0 && l.atOnce+n > l.MaxAtOnce:
		return AtOnce
	case l.GraceGPUs > 0 && l.graceGPUs > 0 && l.graceGPUs+gpus > l.GraceGPUs:
		return GraceGPUs
	case l.MaxPerCycle > 0 && l.perCycle > 0 && l.perCycle+n > l.MaxPerCycle:
		return PerCycle
	case l.MaxPerHour > 0 && l.perHour+n > l.MaxPerHour:
		return PerHour
	case l.GPUHoursPerDay > 0 && l.perDay+lost > l.GPUHoursPerDay:
		return PerDay
	case owned && 60*l.perOwner[owner] >= l.UserGPUMinutesPerDay:
		return PerOwner
	}
	if owned {
		l.perOwner[owner] += lost
	}
	l.graceGPUs += gpus
	l.atOnce, l.perCycle, l.perHour, l.perDay = l.atOnce+n, l.perCycle+n, l.perHour+n, l.perDay+lost
	return ""
}
