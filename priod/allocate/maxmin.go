package allocate

// maxMin is weighted max-min fairness, Gavel's least attained service (LAS,
// section 4.1):
//
//	maximise  min over jobs m of  (gang_m / weight_m) x rate_m / P_m
//
// where P is the rate of the proportional reference. A job with a gang of s
// has 1/s of the time of a job with one GPU. Beyond the least, the next least
// is raised, and so on (water filling, section 4.3 and appendix): no GPU stays idle that
// some job could use.
func maxMin(p *Problem) (*Allocation, error) { return p.solveByLevel(p.Rise("max-min", nil)) }

// shares are the rates of the classes at level 1.
func shares(p *Problem, c *Classes) linear {
	l := make(linear, len(c.Jobs))
	for i := range l {
		l[i] = p.Jobs[c.First[i]].Weight * c.Proportional(i) / c.Jobs[i].GPUs
	}
	return l
}
