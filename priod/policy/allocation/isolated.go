// Package allocation divides the time of GPUs of several types among jobs. An
// allocation is a flat matrix, one row for each job and one column for each
// GPU type: the fraction of wall time that the job spends on that type.
package allocation

// Isolated writes into x what each of n jobs had if every type were divided
// equally among the jobs and nobody moved: GPUs of the type / (n x GPUs of the
// job), a row that sums to more than 1 divided by its sum. gangs are the GPUs
// of each job. Gavel (OSDI 2020), the isolated reference of section 4.
func Isolated(gpus, gangs []int, x []float64) {
	types := len(gpus)
	for i, gang := range gangs {
		row := x[i*types : (i+1)*types]
		share, sum := float64(len(gangs)*gang), 0.0
		for j, n := range gpus {
			row[j] = float64(n) / share
			sum += row[j]
		}
		if sum > 1 {
			for j := range row {
				row[j] /= sum
			}
		}
	}
}
