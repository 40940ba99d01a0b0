package pool

import (
	"cmp"
	"math"
	"slices"
)

// sort puts the queue in order.
func (e *engine) sort() {
	if e.opt.Order == FIFO {
		return // as they came
	}
	slices.SortStableFunc(e.queue, func(a, b *job) int { return cmp.Or(cmp.Compare(e.rank(a), e.rank(b)), cmp.Compare(a.turn, b.turn)) })
}

// rank is what the order of the queue goes by: lower first.
func (e *engine) rank(j *job) float64 {
	switch e.opt.Order {
	case SJF, SRTF:
		return j.needs()
	case LAS:
		return float64(j.level)
	case FTF:
		return -e.fairness(j)
	}
	return 0
}

// fairness is the finish-time fairness that a waiting job would have if it ran now to its end: its time in the system over
// the time that it would take on its share, one part of the pool for each job in the system at its arrival.
func (e *engine) fairness(j *job) float64 {
	share := max(1, float64(j.peers)*float64(j.GPUs)/float64(e.gpus))
	return (e.now - j.Submit + j.needs()) / (j.needs() * share)
}

// strict starts jobs in order up to the first that does not fit, and with backfill those behind it that do not delay it.
func (e *engine) strict() {
	for len(e.queue) > 0 && e.queue[0].GPUs <= e.free {
		e.begin(e.queue[0])
	}
	if e.opt.Backfill != EASY || len(e.queue) == 0 {
		return
	}
	shadow, spare := e.shadow(e.queue[0].GPUs)
	for _, j := range slices.Clone(e.queue[1:]) {
		ends := e.now+j.takes() <= shadow
		if j.GPUs > e.free || !ends && j.GPUs > spare {
			continue
		}
		if !ends {
			spare -= j.GPUs
		}
		e.begin(j)
	}
}

// shadow is when so many GPUs will be free, by the time limits of the jobs that run, and how many are free beside them then.
func (e *engine) shadow(gpus int) (at float64, spare int) {
	plans := slices.Clone(e.running)
	slices.SortStableFunc(plans, func(a, b *job) int { return cmp.Compare(a.planned, b.planned) })
	free := e.free
	at = math.Inf(1)
	for _, j := range plans {
		if free >= gpus && j.planned > at {
			break
		}
		free += j.GPUs
		at = j.planned
	}
	return at, free - gpus
}

// skip starts whatever fits, in order.
func (e *engine) skip() {
	for _, j := range slices.Clone(e.queue) {
		if j.GPUs <= e.free {
			e.begin(j)
		}
	}
}
