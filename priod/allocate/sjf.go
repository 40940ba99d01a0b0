package allocate

import (
	"cmp"
	"slices"
)

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
	return p.InOrder(order), nil
}
