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

// sjf is shortest job first (Gavel, section 4.2): the same in the order of the
// time that is left on the job's fastest type.
func sjf(p *Problem) (*Allocation, error) {
	order := p.arrivals()
	left := make([]float64, len(p.Jobs))
	for i := range p.Jobs {
		left[i] = p.Jobs[i].StepsLeft / slices.Max(p.speeds(&p.Jobs[i]))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(left[a], left[b]) })
	return p.inOrder(order), nil
}

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

// nothing is an allocation in which nobody has anything.
func (p *Problem) nothing() *Allocation {
	a := &Allocation{Time: make([][]float64, len(p.Jobs)), Bound: math.NaN(), Objective: math.NaN()}
	flat := make([]float64, len(p.Jobs)*len(p.Types))
	for i := range a.Time {
		a.Time[i], flat = flat[:len(p.Types):len(p.Types)], flat[len(p.Types):]
	}
	return a
}

// isolatedPolicy divides every type equally; proportionalPolicy gives each job
// its whole time over the types by their counts, and less when that is more
// than there is. Time on types that a job cannot use is lost to it. They are
// references: rules without an objective.
func isolatedPolicy(p *Problem) (*Allocation, error) {
	return p.reference(func(gpus, gangs []int, x []float64) { Isolated(gpus, gangs, x) }), nil
}

func proportionalPolicy(p *Problem) (*Allocation, error) {
	return p.reference(func(gpus, gangs []int, x []float64) {
		Proportional(gpus, len(gangs), x)
		total, asked := 0, 0
		for _, n := range gpus {
			total += n
		}
		for _, g := range gangs {
			asked += g
		}
		if asked > total {
			for k := range x {
				x[k] *= float64(total) / float64(asked)
			}
		}
	}), nil
}

func (p *Problem) reference(divide func(gpus, gangs []int, x []float64)) *Allocation {
	var gpus, gangs []int
	for _, t := range p.Types {
		gpus = append(gpus, t.GPUs)
	}
	for i := range p.Jobs {
		gangs = append(gangs, p.Jobs[i].GPUs)
	}
	x := make([]float64, len(gpus)*len(gangs))
	divide(gpus, gangs, x)
	a := &Allocation{Bound: math.NaN(), Objective: math.NaN()}
	for i := range p.Jobs {
		row := x[i*len(gpus) : (i+1)*len(gpus) : (i+1)*len(gpus)]
		for t := range row {
			if !p.usable(&p.Jobs[i], t) {
				row[t] = 0
			}
		}
		a.Time = append(a.Time, row)
	}
	return a
}
