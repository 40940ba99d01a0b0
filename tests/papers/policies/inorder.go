package policies

import (
	"cmp"
	"slices"
)

// fifo is first in, first out (Gavel, section 4.2): in order of arrival each
// job has, all the time, the fastest type that has room for it. A job that
// fits nowhere now is passed over and comes first again at the next change.
// The paper writes it as
//
//	maximise  sum over jobs m of (M - m) x rate_m / fastest speed_m
//
// and that sum is the objective here; it has no bound.
func fifo(p *Problem) (*Allocation, error) { return p.inOrder(p.Arrivals()), nil }

// sjf is shortest job first (Gavel, section 4.2), fifo in another order: that of
// the time that is left to job m,
//
//	steps left_m / fastest speed_m
//
// so it is a rule, with fifo's sum over that order as its objective.
func sjf(p *Problem) (*Allocation, error) {
	order := p.Arrivals()
	left := make([]float64, len(p.Jobs))
	for i := range p.Jobs {
		left[i] = p.Jobs[i].StepsLeft / slices.Max(p.Speeds(&p.Jobs[i]))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(left[a], left[b]) })
	return p.inOrder(order), nil
}

// inOrder gives each job in turn the fastest type with room; of equally fast
// ones the one that it had, then the one with most free GPUs for its size.
func (p *Problem) inOrder(order []int) *Allocation {
	free := make([]int, len(p.Types))
	for t := range free {
		free[t] = p.Types[t].GPUs
	}
	a := p.nothing()
	a.Objective = 0
	for place, i := range order {
		j := &p.Jobs[i]
		best, fastest := -1, 0.0
		better := func(t int) bool {
			switch had := func(t int) bool { return t < len(p.before(i)) && p.before(i)[t] > 0 }; {
			case best < 0 || j.Speed[t] != j.Speed[best]:
				return best < 0 || j.Speed[t] > j.Speed[best]
			case had(t) != had(best):
				return had(t)
			}
			return free[t]*p.Types[best].GPUs > free[best]*p.Types[t].GPUs
		}
		for t := range free {
			if !p.Usable(j, t) {
				continue
			}
			fastest = max(fastest, j.Speed[t])
			if free[t] >= j.GPUs && better(t) {
				best = t
			}
		}
		if best >= 0 {
			free[best] -= j.GPUs
			a.Time[i][best] = 1
			a.Objective += float64(len(order)-place-1) * j.Speed[best] / fastest
		}
	}
	return a
}
