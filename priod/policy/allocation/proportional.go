package allocation

// Proportional writes into x, for each of the jobs, the share of each type in
// all GPUs: the whole wall time, divided over the types by their counts. It is
// the reference that Gavel (OSDI 2020) normalises throughputs by, not a
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
