package allocate

import (
	"slurmprio/priod/allocate/lp"
)

// maxThroughput (Gavel, section 4.2):
//
//	maximise  sum over jobs m of rate_m
//
// Rates of different jobs are added as they are: jobs of many steps a second
// go first. The paper's deadlines are in tests/papers.
func maxThroughput(p *Problem) (*Allocation, error) {
	c := p.Classify(nil)
	fastest := 0.0
	for i := range c.Jobs {
		fastest = max(fastest, c.Jobs[i].Fastest())
	}
	if fastest == 0 {
		a := p.NoTimes()
		a.Objective, a.Bound = 0, 0
		return a, nil
	}
	limit := make([]float64, 0, len(c.Jobs)+len(c.GPUs))
	for i := range c.Jobs {
		limit = append(limit, c.Jobs[i].Count)
	}
	limit = append(limit, c.GPUs...)
	var columns [][]lp.Term
	var cost []float64
	for i := range c.Jobs {
		for t, s := range c.Jobs[i].Speed {
			if s > 0 {
				columns = append(columns, []lp.Term{{Row: i, Value: 1}, {Row: len(c.Jobs) + t, Value: c.Jobs[i].GPUs}})
				cost = append(cost, s/fastest)
			}
		}
	}
	program := lp.New(limit, columns)
	if _, err := program.Maximise(cost); err != nil {
		return nil, err
	}
	time, most, column := make([][]float64, len(c.Jobs)), 0.0, 0
	for i := range time {
		time[i] = make([]float64, len(c.GPUs))
		for t, s := range c.Jobs[i].Speed {
			if s > 0 {
				x := program.Value(column)
				if most += x * s; x > Crumb {
					time[i][t] = x / c.Jobs[i].Count
				}
				column++
			}
		}
	}
	a := c.Allocation(time)
	a.Objective, a.Bound = most, program.Bound(1)*fastest
	return a, nil
}
