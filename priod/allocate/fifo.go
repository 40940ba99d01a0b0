package allocate

import (
	"cmp"
	"math"
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
func fifo(p *Problem) (*Allocation, error) { return p.InOrder(p.Arrivals()), nil }

// Arrivals lists the jobs by arrival, then as they stand.
func (p *Problem) Arrivals() []int {
	order := make([]int, len(p.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Jobs[a].Arrival, p.Jobs[b].Arrival) })
	return order
}

// InOrder gives each job in turn the fastest type with room; of equally fast
// ones the one that it had, then the one with most free GPUs for its size.
func (p *Problem) InOrder(order []int) *Allocation {
	free := make([]int, len(p.Types))
	for t := range free {
		free[t] = p.Types[t].GPUs
	}
	a := p.NoTimes()
	a.Objective = 0
	for place, i := range order {
		j := &p.Jobs[i]
		best, fastest := -1, 0.0
		better := func(t int) bool {
			switch had := func(t int) bool { return t < len(j.Previous) && j.Previous[t] > 0 }; {
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

// NoTimes returns an allocation in which no job has any time.
func (p *Problem) NoTimes() *Allocation {
	a := &Allocation{Time: make([][]float64, len(p.Jobs)), Bound: math.NaN(), Objective: math.NaN()}
	flat := make([]float64, len(p.Jobs)*len(p.Types))
	for i := range a.Time {
		a.Time[i], flat = flat[:len(p.Types):len(p.Types)], flat[len(p.Types):]
	}
	return a
}
