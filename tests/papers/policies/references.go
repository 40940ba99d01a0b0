package policies

import (
	"math"

	"slurmprio/priod/allocate"
)

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

// proportional gives each job that time, and less where all of it is more
// than there is.
func proportional(p *Problem) (*Allocation, error) {
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

// isolated is the isolated reference as a policy: a rule without an objective.
// Time on types that a job cannot use is lost to it.
func isolated(p *Problem) (*Allocation, error) { return p.reference(Isolated), nil }

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
	a := &Allocation{Allocation: allocate.Allocation{Bound: math.NaN(), Objective: math.NaN()}}
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
