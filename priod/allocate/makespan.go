package allocate

// makespan makes the last job end as early as possible (Gavel, section 4.2):
//
//	minimise T  such that  rate_m >= steps left_m / T  for all jobs m
//
// With 1/T as the level that is max-min fairness over rate / steps left. The
// objective is T in seconds.
func makespan(p *Problem) (*Allocation, error) { return p.solveByLevel(p.Rise("makespan", nil)) }

// stepsLeft are the rates of the classes at level 1.
func stepsLeft(p *Problem, c *Classes) linear {
	l := make(linear, len(c.Jobs))
	for i := range l {
		l[i] = p.Jobs[c.First[i]].StepsLeft
	}
	return l
}
