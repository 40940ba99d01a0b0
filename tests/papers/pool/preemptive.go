package pool

import (
	"cmp"
	"math"
	"slices"
)

// walk has those jobs run, of all in order, that fit beside those before them.
//
// Inside a LAS queue a running job is not preempted for a waiting one: first those that run, in the order in which they
// started; then those that wait, those that were preempted last in front (Tiresias, NSDI'19, and its published simulator).
func (e *engine) walk() {
	all := slices.Concat(e.running, e.queue)
	slices.SortStableFunc(all, func(a, b *job) int {
		return cmp.Or(cmp.Compare(e.place(a), e.place(b)), e.waitsFirst(a, b), cmp.Compare(a.turn, b.turn))
	})
	e.front -= int64(len(all))
	free, suspended := e.gpus, int64(0)
	var starts []*job
	for _, j := range all {
		fits := j.GPUs <= free
		if fits {
			free -= j.GPUs
		}
		switch {
		case fits && !j.runs:
			starts = append(starts, j)
		case !fits && j.runs:
			e.pause(j)
			if e.outcomes[j.index].Preemptions++; e.opt.Order == LAS {
				j.turn = e.front + suspended
				suspended++
			}
			e.queue = append(e.queue, j)
		case !fits && j.demoted:
			e.outcomes[j.index].Preemptions++
		}
		j.demoted = false
	}
	for _, j := range starts {
		if e.opt.Order == LAS {
			e.turns++
			j.turn = e.turns
		}
		e.begin(j)
	}
}

// place is what the order of a walk goes by.
func (e *engine) place(j *job) float64 {
	if e.opt.Order == SRTF && j.runs {
		return j.end - e.now
	}
	return e.rank(j)
}

// waitsFirst puts the running jobs of a LAS queue before the waiting ones.
func (e *engine) waitsFirst(a, b *job) int {
	if e.opt.Order != LAS || a.runs == b.runs {
		return 0
	}
	if a.runs {
		return -1
	}
	return 1
}

// pause takes a job's GPUs and books what it did.
func (e *engine) pause(j *job) {
	ran := e.now - j.start
	e.outcomes[j.index].Ran += ran
	j.todo = max(j.todo-ran*j.speed, math.SmallestNonzeroFloat64)
	j.attained += ran * float64(j.GPUs)
	e.running = slices.DeleteFunc(e.running, func(o *job) bool { return o == j })
	e.free += j.GPUs
	j.runs = false
}

// falls is when a running job will have attained what its LAS queue allows.
func (e *engine) falls(j *job) float64 {
	if e.opt.Order != LAS || j.level >= len(e.opt.LASQueues) {
		return math.Inf(1)
	}
	return j.start + (e.opt.LASQueues[j.level]-j.attained)/float64(j.GPUs)
}

// demote moves a job behind all others of the next LAS queue.
func (e *engine) demote(j *job) {
	e.pause(j)
	j.attained = max(j.attained, e.opt.LASQueues[j.level])
	j.level++
	e.turns++
	j.turn, j.demoted = e.turns, true
	e.queue = append(e.queue, j)
}
