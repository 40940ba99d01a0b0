package virtual

import (
	"cmp"

	"slurmprio/priod/placement"
)

// wait puts a job into the queue.
func (e *engine) wait(j *job) {
	j.state = waiting
	if j.turn == 0 {
		e.turns++
		j.turn, j.since = e.turns, e.now
	}
	j.occupancy = e.occupies(j)
	j.key = e.place(j)
	if e.slurm != nil {
		e.bar(j)
	}
	e.enqueue(j)
	e.slurm.changed(j)
	e.wake()
	e.moved = true
}

// occupies is how long the scheduler must think that the next run holds GPUs,
// on the slowest type and nodes that the job may get.
func (e *engine) occupies(j *job) float64 {
	if j.Limit > 0 {
		return e.opt.Prolog + j.Limit + e.opt.Epilog
	}
	return e.opt.Prolog + e.restart(j) + e.needs(j)/e.slowest(j)*e.mostSlowed(j) + e.opt.Epilog
}

func (e *engine) restart(j *job) float64 {
	if j.runs == 0 {
		return 0
	}
	return e.opt.RestartCost
}

// begin gives a waiting job the shares, in a partition, and starts it.
func (e *engine) begin(j *job, s *slot, shares []placement.Share) {
	e.queue.remove(j)
	j.part, j.claims = s.part, s.claims
	e.hold(j, shares)
	e.start(j)
}

// start lets a job run that holds its GPUs.
func (e *engine) start(j *job) {
	j.lost = e.restart(j)
	j.runs++
	j.epoch++
	j.start = e.now + e.opt.Prolog
	j.state, j.cycles = running, e.cycles
	seconds := j.lost + j.todo/j.speed
	if j.cut = j.Limit > 0 && seconds > j.Limit; j.Limit > 0 {
		j.planned = j.start + j.Limit + e.opt.Epilog
		seconds = min(seconds, j.Limit)
	} else {
		j.planned = j.start + seconds + e.opt.Epilog
	}
	e.agenda.push(event{at: j.start + seconds, kind: ended, job: j, epoch: j.epoch})
	j.key = key{rank: j.planned, seq: int64(j.index)}
	e.running[e.nodes.Type(j.shares[0].Node)].insert(j)
	e.slurm.changed(j)
}

// hold gives a job its GPUs.
func (e *engine) hold(j *job, shares []placement.Share) {
	j.shares = append(j.one[:0], shares...)
	e.nodes.Take(j.shares)
	e.count(j, 1)
	t := e.nodes.Type(j.shares[0].Node)
	j.speed = e.runs(j)
	o := &e.outcomes[j.index]
	if o.Start < 0 {
		o.Start = e.now
	}
	if e.types[t] != "" && j.GPUs > 0 {
		o.Type = t
	}
	e.factors.starts(j, e.now)
}

// end is the end of a run: its work is done, or its time limit is reached.
func (e *engine) end(j *job) {
	o := &e.outcomes[j.index]
	o.Ran += e.now - j.start
	o.Trials++
	o.Nodes = e.ranOn(j)
	j.ending = e.outcome(j)
	e.slurm.ran(j, cmp.Or(j.ending.State, "COMPLETED"))
	if j.ending.Failed() {
		e.endFailed(j)
		return
	}
	o.Wasted += float64(j.GPUs) * j.lost
	j.todo = 0
	e.done(j, e.now)
	e.close(j)
}

// done closes the account of a job whose last run ended at this time.
func (e *engine) done(j *job, at float64) {
	o := &e.outcomes[j.index]
	o.End, o.Done = at, true
	e.inSystem--
	if w := e.opt.Window; w != nil && int(j.index) >= w.First && int(j.index) <= w.Last {
		e.awaited--
	}
}

// close runs the epilog.
func (e *engine) close(j *job) {
	j.state = closing
	if e.opt.Epilog == 0 {
		e.free(j)
		return
	}
	e.replan(j, e.now+e.opt.Epilog)
	e.agenda.push(event{at: e.now + e.opt.Epilog, kind: freed, job: j, epoch: j.epoch})
	e.slurm.changed(j)
}

// replan moves the time at which a job's GPUs become free.
func (e *engine) replan(j *job, planned float64) {
	t := e.nodes.Type(j.shares[0].Node)
	e.running[t].remove(j)
	j.planned = planned
	j.key.rank = planned
	e.running[t].insert(j)
	e.moved = true
}

// free gives a job's GPUs back, and the job to the queue when it is not done.
func (e *engine) free(j *job) {
	e.running[e.nodes.Type(j.shares[0].Node)].remove(j)
	e.drop(j)
	e.moved = true
	if e.outcomes[j.index].Done {
		j.state = gone
		e.slurm.gone(j)
		return
	}
	switch {
	case j.returns:
		e.comeBack(j)
	case j.ending.Failed():
		j.state = halted
		e.slurm.halt(j)
	default:
		j.state = exited
		e.slurm.changed(j)
	}
}

// comeBack puts a requeued job into the queue, for now or for later.
func (e *engine) comeBack(j *job) {
	j.returns, j.shares = false, nil
	e.delay(j)
}

// delay has a job wait until it is eligible.
func (e *engine) delay(j *job) {
	j.epoch++
	if j.eligible <= e.now {
		e.wait(j)
		return
	}
	j.state = delayed
	e.agenda.push(event{at: j.eligible, kind: requeued, job: j, epoch: j.epoch})
	e.slurm.changed(j)
	e.wake()
}

// drop takes a job's GPUs away.
func (e *engine) drop(j *job) {
	e.nodes.Release(j.shares)
	e.rebootsAfter(j.shares)
	e.count(j, -1)
	e.factors.stops(j, e.now)
}
