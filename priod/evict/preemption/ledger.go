package preemption

import "maps"

// Limits stand between a bug and the cluster; a zero field limits nothing.
type Limits struct {
	GraceGPUs            int     // that victims hold in their grace period; a set passes alone, however large
	MaxPerHour           int     // evictions of the past hour
	GPUHoursPerDay       float64 // GPU-hours lost in the past day
	UserGPUMinutesPerDay float64 // lost for the claimants of one owner in the past day: then no more for them
}

// Ledger counts what the limits still allow in one decision.
type Ledger struct {
	Limits
	graceGPUs, perHour int
	perDay             float64
	perOwner           map[string]float64
}

// NewLedger counts the candidates that are leaving, and the evictions of the past.
func NewLedger(s *Snapshot, limits Limits) *Ledger {
	l := &Ledger{Limits: limits, perHour: s.PastHour, perDay: s.PastDay, perOwner: map[string]float64{}}
	maps.Copy(l.perOwner, s.PastOwner)
	for i := range s.Candidates {
		if c := &s.Candidates[i]; c.Leaving {
			l.graceGPUs += int(c.gpus())
		}
	}
	return l
}

// Refuses returns the limit that a claimant's victims would exceed, or counts them. What is lost for one that is Due is counted,
// and does not keep it waiting.
func (l *Ledger) Refuses(s *Snapshot, t *Claimant, victims []int) Why {
	owner := t.Owner
	n, gpus, lost := len(victims), 0, 0.0
	for _, i := range victims {
		lost += s.Candidates[i].Loss() / 3600
		gpus += int(s.Candidates[i].gpus())
	}
	owned := l.UserGPUMinutesPerDay > 0 && owner != ""
	switch {
	case l.GraceGPUs > 0 && l.graceGPUs > 0 && l.graceGPUs+gpus > l.GraceGPUs:
		return GraceGPUs
	case l.MaxPerHour > 0 && l.perHour+n > l.MaxPerHour:
		return PerHour
	case !t.Due && l.GPUHoursPerDay > 0 && l.perDay+lost > l.GPUHoursPerDay:
		return PerDay
	case !t.Due && owned && 60*l.perOwner[owner] >= l.UserGPUMinutesPerDay:
		return PerOwner
	}
	if owned {
		l.perOwner[owner] += lost
	}
	l.graceGPUs, l.perHour, l.perDay = l.graceGPUs+gpus, l.perHour+n, l.perDay+lost
	return ""
}
