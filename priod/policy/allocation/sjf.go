package allocation

import (
	"cmp"
	"slices"
)

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
