package allocation

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
func fifo(p *Problem) (*Allocation, error) { return p.inOrder(p.arrivals()), nil }

// arrivals lists the jobs by arrival, then as they stand.
func (p *Problem) arrivals() []int {
	order := make([]int, len(p.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Jobs[a].Arrival, p.Jobs[b].Arrival) })
	return order
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
			switch had := func(t int) bool { return t < len(j.Previous) && j.Previous[t] > 0 }; {
			case best < 0 || j.Speed[t] != j.Speed[best]:
				return best < 0 || j.Speed[t] > j.Speed[best]
			case had(t) != had(best):
				return had(t)
			}
			return free[t]*p.Types[best].GPUs > free[best]*p.Types[t].GPUs
		}
		for t := range free {
			if !p.usable(j, t) {
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

// packedFIFO is fifo with space sharing (Gavel, section 4.2, as its code has
// it): jobs that found no room join, in order, the placed single job of equal
// gang with which they run best,
//
//	maximise  sum over the two of  speed in the pair / speed alone  > 1.5
//
// on its type. The first that finds nobody ends it: no job overtakes.
func packedFIFO(p *Problem) (*Allocation, error) {
	order := p.arrivals()
	a := p.inOrder(order)
	speed, _ := p.together(nil)
	on := make([]int, len(p.Jobs)) // type of each single job; -1: none, -2: in a pair
	for i, x := range a.Time {
		on[i] = slices.Index(x, 1)
	}
	for place, i := range order {
		if on[i] != -1 || slices.Max(p.speeds(&p.Jobs[i])) == 0 {
			continue
		}
		mate, most := -1, 1.5
		for _, o := range order {
			t := on[o]
			if t < 0 || p.Jobs[o].GPUs != p.Jobs[i].GPUs || !p.usable(&p.Jobs[i], t) {
				continue
			}
			first, second := speed(o, i, t)
			if sum := first/p.Jobs[o].Speed[t] + second/p.Jobs[i].Speed[t]; first > 0 && second > 0 && sum > most {
				mate, most = o, sum
			}
		}
		if mate < 0 {
			break
		}
		t := on[mate]
		first, second := speed(mate, i, t)
		time := make([]float64, len(p.Types))
		time[t], a.Time[mate][t] = 1, 0
		a.Pairs = append(a.Pairs, PairTime{A: mate, B: i, Time: time, Rate: [2]float64{first, second}})
		on[mate], on[i] = -2, -2
		value := func(place, job int, rate float64) float64 {
			return float64(len(order)-place-1) * rate / slices.Max(p.speeds(&p.Jobs[job]))
		}
		before := slices.Index(order, mate)
		a.Objective += value(before, mate, first-p.Jobs[mate].Speed[t]) + value(place, i, second)
	}
	return a, nil
}

// nothing is an allocation in which nobody has anything.
func (p *Problem) nothing() *Allocation {
	a := &Allocation{Time: make([][]float64, len(p.Jobs)), Bound: math.NaN(), Objective: math.NaN()}
	flat := make([]float64, len(p.Jobs)*len(p.Types))
	for i := range a.Time {
		a.Time[i], flat = flat[:len(p.Types):len(p.Types)], flat[len(p.Types):]
	}
	return a
}
