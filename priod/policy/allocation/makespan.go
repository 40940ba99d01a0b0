package allocation

// makespan makes the last job end as early as possible (Gavel, section 4.2):
//
//	minimise T  such that  rate_m >= steps left_m / T  for all jobs m
//
// With 1/T as the level that is max-min fairness over rate / steps left. The
// objective is T in seconds.
func makespan(p *Problem) (*Allocation, error) {
	c := p.classify(func(i int) traits { return traits{p.Jobs[i].StepsLeft} })
	a, err := together(p, c, stepsLeft(p, c))
	if err != nil {
		return nil, err
	}
	a.Objective, a.Bound = 1/a.Objective, 1/a.Bound
	return a, nil
}

// stepsLeft are the rates of the classes at level 1.
func stepsLeft(p *Problem, c *classes) linear {
	l := make(linear, len(c.Jobs))
	for i := range l {
		l[i] = p.Jobs[c.first[i]].StepsLeft
	}
	return l
}
