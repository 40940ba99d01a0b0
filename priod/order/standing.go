package order

import (
	"math"

	"slurmprio/priod/plan"
)

// rise is by how much the precedence of a job that waits grows in a second while nothing
// happens.
func rise(share *plan.Share) float64 { return plan.Lead{}.Owed(share.Time, share.Run) }

// tiersStand is for how long, s, jobs that wait stay in their tiers while nothing happens:
// until one rises above the first of its tier, sinks below the first of the
// next one, or lies too far below its own first, or until the first of two tiers lie too
// near each other.
func (d *decider) tiersStand(jobs []shareJob, tierOf []int, floor int64) float64 {
	stands, head := math.Inf(1), 0
	for i := range jobs {
		first, p := &jobs[head], &jobs[i]
		below, nears := first.precedence-p.precedence, p.rises-first.rises
		switch {
		case i == 0:
		case tierOf[i] == tierOf[head]:
			stands = min(stands, first.overtakenBy(p), meets(first.limit(p, floor)-below, -nears))
		default:
			stands = min(stands, meets(below-first.limit(p, floor), nears))
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
