package rounds

import "slices"

// places are the GPUs of one type, numbered node by node.
type places struct {
	taken []int // by GPU: the last turn that it was taken for
	jobs  []*Active
}

// place gives the chosen jobs of a type their GPUs: gangs from large to small,
// of equal size first those that ran in the previous round, where they were if
// that is free, then the others in the order of the nodes. It counts as a
// preemption when a job leaves GPUs unfinished.
func (r *mechanism) place() {
	for j := range r.places {
		r.places[j].jobs = r.places[j].jobs[:0]
	}
	for _, a := range r.chosen {
		if !a.guest {
			p := &r.places[a.gpuType]
			p.jobs = append(p.jobs, a)
		}
	}
	for j := range r.places {
		r.places[j].fill(j, r.turn)
	}
	for _, a := range r.chosen {
		if a.guest {
			a.join(r.turn)
		}
	}
	for _, a := range r.previous {
		if a.Done < a.work && (a.run != r.turn || a.displaced) {
			r.outcomes[a.Index].Preemptions++
		}
	}
}

func (p *places) fill(gpuType, turn int) {
	slices.SortStableFunc(p.jobs, func(a, b *Active) int { return b.Job.GPUs - a.Job.GPUs })
	next := 0
	for from, to := 0, 0; from < len(p.jobs); from = to {
		gang := p.jobs[from].Job.GPUs
		for to = from; to < len(p.jobs) && p.jobs[to].Job.GPUs == gang; to++ {
			a := p.jobs[to]
			a.displaced = !a.ranOn(gpuType, turn) || slices.ContainsFunc(a.gpus, func(g int32) bool { return p.taken[g] == turn })
			if !a.displaced {
				for _, g := range a.gpus {
					p.taken[g] = turn
				}
			}
		}
		for _, a := range p.jobs[from:to] {
			a.placed, a.gpusOf = turn, gpuType
			if !a.displaced {
				continue
			}
			for a.gpus = a.gpus[:0]; len(a.gpus) < gang; next++ {
				if p.taken[next] != turn {
					p.taken[next] = turn
					a.gpus = append(a.gpus, int32(next))
				}
			}
		}
	}
}
