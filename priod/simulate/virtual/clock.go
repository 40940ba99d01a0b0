package virtual

import "math"

// clock is when Slurm's two schedulers run. The main one runs in the second after something has changed, Own.Pause after its
// last run at the earliest (_slurmctld_background in slurmctld/controller.c). Backfill sleeps for Own.Interval after each run, and
// then second by second until something has changed since (backfill_agent in sched/backfill).
type clock struct {
	main, fill       bool // now
	mainSet, fillSet bool // in the agenda
	mainAt           float64
	fillAt           float64 // when backfill looks whether to run again
	changed          bool    // something, since it did
}

// schedule has the main scheduler and backfill look at the queue if it is their time.
func (e *engine) schedule() {
	c := &e.clock
	switch {
	case !e.moved:
	case e.opt.Pause == 0:
		c.main = true
	case !c.mainSet:
		c.mainSet, c.mainAt = true, max(math.Floor(e.now)+1, c.mainAt+e.opt.Pause)
		e.agenda.push(event{at: c.mainAt, kind: scheduled})
	}
	if e.moved {
		e.change()
	}
	e.moved = false
	waiting := e.queue.n
	switch {
	case c.main && e.opt.Interval == 0:
		e.pass(e.opt.Backfill)
	case c.main:
		if e.pass(NoBackfill); e.queue.n < waiting {
			e.change()
		}
	}
	if waiting = e.queue.n; c.fill {
		e.pass(e.opt.Backfill)
		c.changed = e.queue.n < waiting
	}
	if c.main, c.fill = false, false; c.changed && !c.fillSet && e.opt.Backfill != NoBackfill && e.queue.n > 0 && e.usable() {
		c.fillSet = true
		e.agenda.push(event{at: c.fillAt, kind: filled})
	}
}

// change lets backfill know of a change.
func (e *engine) change() {
	c := &e.clock
	if e.opt.Interval == 0 || c.fill {
		return
	}
	if c.fillAt <= e.now && c.changed { // it ran, and there was nothing to start
		c.fillAt += e.opt.Interval
	}
	if c.fillAt <= e.now {
		c.fillAt += math.Floor(e.now-c.fillAt) + 1
	}
	c.changed = true
}

// strikes has a scheduler run now.
func (e *engine) strikes(k kind) {
	if k == scheduled {
		e.clock.main, e.clock.mainSet = true, false
		return
	}
	e.clock.fill, e.clock.fillSet, e.clock.fillAt = true, false, e.now+e.opt.Interval
}
