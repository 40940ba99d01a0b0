package allocate

// Proportional writes into x, for each of the jobs, the share of each type in
// all GPUs: the whole wall time, divided over the types by their counts. It is
// the reference that Gavel (OSDI 2020, section 4.1) normalises rates by, not a
// division of the cluster: it does not depend on how many jobs there are.
func Proportional(gpus []int, jobs int, x []float64) {
	total := 0
	for _, n := range gpus {
		total += n
	}
	for i := range jobs {
		for j, n := range gpus {
			x[i*len(gpus)+j] = float64(n) / float64(total)
		}
	}
}

// proportionalPolicy gives each job that time, and less where all of it is more
// than there is.
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
