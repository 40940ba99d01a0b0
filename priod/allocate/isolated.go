package allocate

import "math"

// Isolated writes into x what each of n jobs had if every type were divided
// equally among the jobs and none moved: GPUs of the type / (n x GPUs of the
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

// isolatedRate is Gavel's reference I of one of n jobs: its speed if each had an equal
// part of every type.
func isolatedRate(gpus, speed []float64, gang float64, n int) float64 {
	sum, time := 0.0, 0.0
	for t, s := range speed {
		x := gpus[t] / (float64(n) * gang)
		sum += s * x
		time += x
	}
	return sum / max(1, time)
}

// isolatedPolicy is that reference as a policy: a rule without an objective.
// Time on types that a job cannot use is lost to it.
func isolatedPolicy(p *Problem) (*Allocation, error) { return p.reference(Isolated), nil }

func (p *Problem) reference(divide func(gpus, gangs []int, x []float64)) *Allocation {
	var gpus, gangs []int
	for _, t := range p.Types {
		gpus = append(gpus, t.GPUs)
	}
	for i := range p.Jobs {
		gangs = append(gangs, p.Jobs[i].GPUs)
	}
	x := make([]float64, len(gpus)*len(gangs))
	divide(gpus, gangs, x)
	a := &Allocation{Bound: math.NaN(), Objective: math.NaN()}
	for i := range p.Jobs {
		row := x[i*len(gpus) : (i+1)*len(gpus) : (i+1)*len(gpus)]
		for t := range row {
			if !p.Usable(&p.Jobs[i], t) {
				row[t] = 0
			}
		}
		a.Time = append(a.Time, row)
	}
	return a
}
