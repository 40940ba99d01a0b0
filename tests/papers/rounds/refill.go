package rounds

import (
	"cmp"
	"slices"
)

// ending is a job that ends within a round.
type ending struct {
	job *Active
	at  float64
}

// refill gives the GPUs of jobs that end within a round to those who wait, at
// once and for the rest of the round. Nobody moves for it.
func (r *mechanism) refill(end float64) (ended bool) {
	var ends []ending
	for _, a := range r.chosen {
		if at := r.outcomes[a.Index].End; a.over() && at < end {
			ends = append(ends, ending{a, at})
		}
	}
	later := func(e ending, at float64) int { return cmp.Compare(e.at, at) }
	slices.SortStableFunc(ends, func(a, b ending) int { return later(a, b.at) })
	for k := 0; k < len(ends); k++ {
		at, j := ends[k].at, ends[k].job.gpuType
		r.places[j].leave(ends[k].job)
		r.free[j] += ends[k].job.Job.GPUs
		r.fillQueues()
		for q := &r.queues[j]; r.free[j] > 0 && len(*q) > 0; {
			a := q.pop()
			if a.over() || a.run == r.turn {
				continue
			}
			if r.take(a, j); a.run != r.turn {
				continue
			}
			r.places[j].enter(a, j, r.turn)
			finish := r.runAlone(a, at, end-at)
			if a.over() {
				ended = true
				i, _ := slices.BinarySearchFunc(ends[k+1:], finish, later)
				ends = slices.Insert(ends, k+1+i, ending{a, finish})
			}
		}
	}
	return ended
}

// leave frees a job's GPUs within a turn.
func (p *places) leave(a *Active) {
	for _, g := range a.gpus {
		p.taken[g] = 0
	}
}

// enter gives a job the first GPUs that are free.
func (p *places) enter(a *Active, gpuType, turn int) {
	a.gpus = a.gpus[:0]
	for g := 0; len(a.gpus) < a.Job.GPUs; g++ {
		if p.taken[g] != turn {
			p.taken[g] = turn
			a.gpus = append(a.gpus, int32(g))
		}
	}
	a.placed, a.gpusOf, a.displaced = turn, gpuType, true
}
