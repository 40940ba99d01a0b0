package order

import (
	"math"

	"slurmprio/priod/plan"
)

// rise is by how much the precedence of a job that waits grows in a second while nothing
// happens; NaN when it does not grow evenly.
func (d *decider) rise(share *plan.Share) float64 {
	switch d.set.Order {
	case OwedOrder:
		return plan.Lead{}.Owed(share.Time, share.Run)
	case SlackOrder:
		return math.NaN() // a job in time becomes late
	}
	for t, had := range share.Received {
		if had > 0 && share.Time != nil && share.Time[t] > 0 {
			return math.NaN() // its part of what all jobs receive falls
		}
	}
	return 0
}

// tiersStand is for how long, s, jobs that wait stay in their tiers while nothing happens:
// in order owed until one rises above the first of its tier, sinks below the first of the
// next one, or lies too far below its own first, or until the first of two tiers lie too
// near each other.
func (d *decider) tiersStand(jobs []shareJob, tierOf []int, floor int64) float64 {
	stands, head := math.Inf(1), 0
	apart := func(first, p *shareJob) float64 { return (first.limit(p, floor) - 1) * owedUnit }
	for i := range jobs {
		first, p := &jobs[head], &jobs[i]
		below, nears := first.precedence-p.precedence, p.rises-first.rises
		switch {
		case math.IsNaN(p.rises):
			return 0
		case i == 0 || d.set.Order != OwedOrder:
		case tierOf[i] == tierOf[head]:
			stands = min(stands, first.overtakenBy(p), meets(apart(first, p)-below, -nears))
		default:
			stands = min(stands, meets(below-apart(first, p), nears))
			for k := head + 1; k < i; k++ {
				stands = min(stands, jobs[k].overtakenBy(p))
			}
			head = i
		}
	}
	return stands
}

// overtakenBy is when a job behind comes before this one, s.
func (p *shareJob) overtakenBy(behind *shareJob) float64 {
	if p.precedence == behind.precedence && p.rises == behind.rises {
		return math.Inf(1) // equal jobs stay equal
	}
	return meets(p.precedence-behind.precedence, behind.rises-p.rises)
}

// meets is when a distance that falls so fast is gone, s; infinite when it does not fall.
// One that rounding alone may make is gone at once.
func meets(distance, falls float64) float64 {
	const rounding = 1e-3
	switch {
	case distance < rounding:
		return 0
	case falls > 0:
		return distance / falls
	}
	return math.Inf(1)
}
