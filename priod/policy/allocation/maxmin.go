package allocation

// maxMin is weighted max-min fairness, Gavel's least attained service (LAS,
// section 4.1):
//
//	maximise  min over jobs m of  (gang_m / weight_m) x rate_m / P_m
//
// where P is the rate of the proportional reference. A job with a gang of s
// has 1/s of the time of a job with one GPU. Beyond the least, the next least
// is raised, and so on: no GPU stays idle that some job could use.
func maxMin(p *Problem) (*Allocation, error) {
	c := p.classify(nil)
	return together(p, c, shares(p, c))
}

// shares are the rates of the classes at level 1.
func shares(p *Problem, c *classes) linear {
	l := make(linear, len(c.Jobs))
	for i := range l {
		l[i] = p.Jobs[c.first[i]].Weight * c.proportional(i) / c.Jobs[i].GPUs
	}
	return l
}
