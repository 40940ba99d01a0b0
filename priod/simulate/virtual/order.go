package virtual

import (
	"math"

	"slurmprio/priod/cluster"
)

// place is where a job stands in the queue.
func (e *engine) place(j *job) key {
	k := key{seq: j.turn}
	if e.opt.TEFirst && j.Class != cluster.TE {
		k.tier = 1
	}
	if e.factors != nil {
		k.rank = -float64(e.priority(j))
	}
	return k
}

// needs is the run time that is left, on the slowest type that the job may get.
func (e *engine) needs(j *job) float64 {
	longest := 0.0
	for t := range e.types {
		if j.request.Types.Has(int32(t)) {
			longest = max(longest, j.todo/e.speed(j, int32(t)))
		}
	}
	return longest
}

// reorder recomputes the places of all waiting jobs.
func (e *engine) reorder() {
	all := e.queue.list(0)
	for _, j := range all {
		if k := e.place(j); k != j.key {
			e.queue.remove(j)
			j.key = k
			e.enqueue(j)
		}
	}
	e.moved = true
}

// calculate is Slurm's PriorityCalcPeriod.
func (e *engine) calculate() {
	e.calculating = false
	e.factors.decay(e.now)
	e.reorder()
	if e.slurm != nil {
		e.slurm.reread()
	}
	e.wake()
}

// wake keeps timed events going while there are jobs.
func (e *engine) wake() {
	if !e.calculating && e.factors != nil {
		e.calculating = true
		e.agenda.push(event{at: next(e.now, e.factors.period()), kind: calculate})
	}
	if !e.cycling && e.slurm != nil {
		e.cycling = true
		e.agenda.push(event{at: next(e.now, e.opt.Daemon.Interval.Seconds()), kind: cycled})
	}
}

// next is the next whole multiple of a period after now.
func next(now, period float64) float64 { return (math.Floor(now/period) + 1) * period }
