package virtual

import (
	"math"

	"slurmprio/priod/placement"
)

// schedule is one pass of the scheduler.
func (e *engine) schedule() {
	switch {
	case e.opt.preemptive():
		e.settle()
	case e.opt.Backfill == Conservative:
		e.plan.schedule()
	case e.opt.Backfill == Skip:
		e.skip()
	default:
		head := e.strict()
		if head != nil && e.opt.Backfill == EASY {
			e.backfill(head)
		}
	}
	e.waitForSwitches()
	e.askEvictions()
}

// idleGPUs tells whether any GPU is free.
func (e *engine) idleGPUs() bool {
	for t := range e.types {
		if e.nodes.FreeGPUs(int32(t)) > 0 {
			return true
		}
	}
	return false
}

// strict starts jobs in order and returns the first that does not fit. As in
// Slurm, a job whose user or account is at its limit blocks nobody.
func (e *engine) strict() *job {
	for {
		head := e.queue.pick(func(c *class) *job {
			if !c.owners.admit(int(c.request.GPUs)) {
				return nil
			}
			return c.head
		})
		if head == nil {
			return nil
		}
		if !head.class.roomOn(e.nodes).MayFit() {
			return head
		}
		shares, fits := e.nodes.Fit(head.request, nil)
		if !fits {
			return head
		}
		e.begin(head, shares)
	}
}

// skip starts whatever fits, in order.
func (e *engine) skip() {
	e.queue.pass++
	for e.idleGPUs() {
		j := e.queue.pick(func(c *class) *job {
			if c.ruledOut == e.queue.pass {
				return nil
			}
			if c.owners.admit(int(c.request.GPUs)) && c.roomOn(e.nodes).MayFit() {
				if j := c.first(math.Inf(1), e.nodes, nil); j != nil {
					return j
				}
			}
			c.ruledOut = e.queue.pass // starts only take away
			return nil
		})
		if j == nil {
			return
		}
		shares, _ := e.nodes.Fit(j.request, nil)
		e.begin(j, shares)
	}
}

// backfill starts, in order, what does not delay the head's reservation (EASY):
// jobs that end before it, and jobs that fit beside it.
func (e *engine) backfill(head *job) {
	if !e.idleGPUs() || e.queue.n == 1 {
		return
	}
	shadow, reserved := e.reserve(head)
	beyond := e.beyond
	if reserved == nil {
		beyond = nil
	}
	e.queue.pass++
	for e.idleGPUs() {
		j := e.queue.pick(func(c *class) *job { return e.offer(c, shadow, beyond, reserved) })
		if j == nil {
			return
		}
		if j.occupancy <= shadow-e.now {
			shares, _ := e.nodes.Fit(j.request, nil)
			e.begin(j, shares)
			continue
		}
		shares, _ := e.nodes.Fit(j.request, beyond)
		beyond.Take(shares)
		e.begin(j, shares)
	}
}

// offer is the first job of a class that may start before the head. What does
// not fit once does not fit later in the pass, because starts only take away.
func (e *engine) offer(c *class, shadow float64, beyond *placement.Nodes, reserved []placement.Share) (best *job) {
	if c.ruledOut == e.queue.pass {
		return nil
	}
	room := c.roomOn(e.nodes)
	if !c.owners.admit(int(c.request.GPUs)) || !room.MayFit() {
		c.ruledOut = e.queue.pass
		return nil
	}
	if c.passing != e.queue.pass && room.MayFitWithin(beyond, reserved) {
		best = c.first(math.Inf(1), e.nodes, beyond)
	}
	if best == nil {
		c.passing = e.queue.pass
	}
	if j := c.first(shadow-e.now, e.nodes, nil); j != nil && (best == nil || j.key.less(best.key)) {
		best = j
	}
	if best == nil {
		c.ruledOut = e.queue.pass
	}
	return best
}

// reserve finds when the running jobs, by their time limits, will have made
// room for the head, and on which shares, which is valid in this pass; in beyond
// it leaves what is free then beside them. There are none when the jobs never
// make room: a node is down.
func (e *engine) reserve(head *job) (shadow float64, reserved []placement.Share) {
	shadow = math.Inf(1)
	best := int32(-1)
	for t := range e.running {
		if !head.request.Types.Has(int32(t)) {
			continue
		}
		if at := e.roomAt(head.request, int32(t)); at < shadow {
			shadow, best = at, int32(t)
		}
	}
	if best < 0 {
		return shadow, nil
	}
	shadow = max(shadow, e.now)
	e.beyond.CopyFree(e.nodes)
	for t := range e.running {
		if e.opt.Placement == placement.Pool {
			by := e.running[t].before(key{rank: shadow, seq: math.MaxInt64})
			e.beyond.Release([]placement.Share{{Node: int32(t), Amount: placement.Amount{GPUs: int32(by)}}})
			continue
		}
		for j := range e.running[t].all {
			if j.planned > shadow {
				break
			}
			e.beyond.Release(j.shares)
		}
	}
	request := head.request
	request.Types = 1 << uint(best)
	shares, _ := e.beyond.Fit(request, nil)
	e.reserved = append(e.reserved[:0], shares...)
	e.beyond.Take(e.reserved)
	return shadow, e.reserved
}

// roomAt is when the request will fit on GPUs of one type; infinite when the
// running jobs do not make room.
func (e *engine) roomAt(r placement.Request, t int32) float64 {
	if e.opt.Placement == placement.Pool {
		missing := int64(r.GPUs) - int64(e.nodes.FreeGPUs(t))
		if j := e.running[t].over(missing - 1); j != nil {
			return j.planned
		}
		return math.Inf(1)
	}
	r.Types = 1 << uint(t)
	e.future.CopyFree(e.nodes)
	return e.future.Shadow(e.now, r, func(yield func(float64, []placement.Share) bool) {
		for j := range e.running[t].all {
			if !yield(j.planned, j.shares) {
				return
			}
		}
	})
}
