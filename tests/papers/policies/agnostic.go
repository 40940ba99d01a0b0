package policies

import (
	"slices"
)

// agnostic solves the problem as if all GPU types were equally fast: as fast
// as the type that the jobs like best where steps count (finish-time fairness,
// makespan), else 1. Which type a job is on makes no difference then, so
// each job's time is spread over the types in proportion to their GPUs, unless
// each job stays on one. Objective and bound are those of the problem as the
// policy sees it.
func (p *Problem) agnostic(solve solver, steps, stays bool) (*Allocation, error) {
	a, err := solve(p.withEqualSpeeds(steps))
	if err == nil && !stays {
		p.spreadOverTypes(a)
	}
	return a, err
}

// withEqualSpeeds returns the problem as an agnostic policy sees it.
func (p *Problem) withEqualSpeeds(steps bool) *Problem {
	blind := *p
	blind.Jobs = slices.Clone(p.Jobs)
	liked := p.mostLiked()
	for i := range blind.Jobs {
		j := &blind.Jobs[i]
		speed := 1.0
		if steps {
			if speed = j.Speed[liked]; !p.Usable(j, liked) {
				speed = slices.Max(p.Speeds(j))
			}
		}
		equal := make([]float64, len(p.Types))
		for t := range equal {
			if p.Usable(j, t) {
				equal[t] = speed
			}
		}
		j.Speed = equal
	}
	return &blind
}

// mostLiked returns the type on which the jobs are nearest to their fastest, on
// average.
func (p *Problem) mostLiked() int {
	sum := make([]float64, len(p.Types))
	for i := range p.Jobs {
		if s := p.Speeds(&p.Jobs[i]); slices.Max(s) > 0 {
			best := slices.Max(s)
			for t := range s {
				sum[t] += s[t] / best
			}
		}
	}
	best := 0
	for t := range sum {
		if sum[t] > sum[best] {
			best = t
		}
	}
	return best
}

// spreadOverTypes divides each job's time over the types that it can use in proportion
// to their GPUs. Where some jobs cannot use all types that may not fit: then the types'
// parts are scaled in turn (Sinkhorn), and what still does not fit is mixed with the
// allocation that does.
func (p *Problem) spreadOverTypes(a *Allocation) {
	c := p.Classify(nil)
	wanted := make([][]float64, len(p.Jobs))
	gpus, factor := c.GPUs, make([]float64, len(p.Types))
	for t := range factor {
		factor[t] = 1
	}
	flat := make([]float64, len(p.Jobs)*len(p.Types))
	fitted := make([]float64, len(p.Types))
	for i := range wanted {
		wanted[i], flat = flat[:len(gpus):len(gpus)], flat[len(gpus):]
		for t, x := range a.Time[i] {
			fitted[t] += x * float64(p.Jobs[i].GPUs)
		}
	}
	used := make([]float64, len(p.Types))
	for range 200 {
		clear(used)
		for i, row := range wanted {
			sum, time := 0.0, 0.0
			for t, s := range c.Jobs[c.Of[i]].Speed {
				time += a.Time[i][t]
				if s > 0 {
					sum += factor[t]
				}
			}
			for t, s := range c.Jobs[c.Of[i]].Speed {
				row[t] = 0
				if s > 0 && sum > 0 {
					row[t] = time * factor[t] / sum
				}
				used[t] += row[t] * float64(p.Jobs[i].GPUs)
			}
		}
		fits := true
		for t := range used {
			if used[t] > gpus[t]*(1+1e-7) {
				factor[t] *= gpus[t] / used[t]
				fits = false
			}
		}
		if fits {
			break
		}
	}
	part := 1.0
	for t := range used {
		if over := used[t] - gpus[t]; over > 0 {
			part = min(part, max(0, gpus[t]-fitted[t])/(used[t]-fitted[t]))
		}
	}
	if part < 1-1e-6 {
		for i, row := range wanted {
			for t := range row {
				row[t] = part*row[t] + (1-part)*a.Time[i][t]
			}
		}
	} else {
		for t := range used {
			if used[t] > gpus[t] {
				for _, row := range wanted {
					row[t] *= gpus[t] / used[t]
				}
			}
		}
	}
	a.Time = wanted
}
