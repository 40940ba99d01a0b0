package virtual

import (
	"math"
	"slices"

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
		e.strict()
		if e.opt.Backfill == EASY {
			e.backfill()
		}
	}
	e.waitForSwitches()
	e.askEvictions()
}

// idleGPUs reports whether any GPU is free.
func (e *engine) idleGPUs() bool {
	for t := range e.types {
		if e.nodes.FreeGPUs(int32(t)) > 0 {
			return true
		}
	}
	return false
}

// usable reports whether something is left that a waiting job may take.
func (e *engine) usable() bool { return e.queue.others > 0 || e.idleGPUs() }

// strict starts jobs in order, of each line up to its head: the first that does not fit, or
// would delay the head of another line, which backfill keeps a place for. As in Slurm, a job
// whose user or account is at its limit blocks no job.
func (e *engine) strict() {
	for _, l := range e.lines {
		l.head = nil
	}
	e.heads, e.kept = e.heads[:0], 0
	for {
		j := e.queue.pick(func(c *class) *job {
			if c.line.head != nil || !c.owners.admit(int(c.request.GPUs)) {
				return nil
			}
			return c.head
		})
		if j == nil {
			return
		}
		if !e.starts(j) {
			j.line.head = j
			e.heads = append(e.heads, j)
		}
	}
}

// starts starts a job if it fits and, with backfill, delays none of the heads so far.
func (e *engine) starts(j *job) bool {
	if !j.class.roomOn(e.nodes).MayFit() {
		return false
	}
	var within *placement.Nodes
	if len(e.heads) > 0 && e.opt.Backfill == EASY {
		e.reserve()
		within = e.leftFor(j)
	}
	shares, fits := e.nodes.Fit(j.request, within)
	if fits {
		e.fill(j, shares)
	}
	return fits
}

// leftFor is the view that a job has to fit within beside what is free now; nil: none,
// because it ends before a head could start.
func (e *engine) leftFor(j *job) *placement.Nodes {
	if j.occupancy <= e.shadow(j.request.Types)-e.now {
		return nil
	}
	return e.beyond
}

// skip starts whatever fits, in order.
func (e *engine) skip() {
	e.queue.pass++
	for e.usable() {
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

// backfill starts, in order, what delays no head's reservation (EASY): jobs that end
// before it, and jobs that fit beside it.
func (e *engine) backfill() {
	if len(e.heads) == 0 || !e.usable() || e.queue.n == len(e.heads) {
		return
	}
	e.reserve()
	e.queue.pass++
	for e.usable() {
		j := e.queue.pick(e.offer)
		if j == nil {
			return
		}
		shares, _ := e.nodes.Fit(j.request, e.leftFor(j))
		e.fill(j, shares)
	}
}

// fill starts a job beside the reservations. What it has until a head needs it is taken from
// what the heads leave.
func (e *engine) fill(j *job, shares []placement.Share) {
	if len(e.heads) > 0 && e.opt.Backfill == EASY {
		if at := e.shadows[e.nodes.Type(shares[0].Node)]; math.IsInf(at, 1) || j.occupancy > at-e.now {
			e.beyond.Take(shares)
		}
	}
	e.begin(j, shares)
}

// shadow is the time until which a job delays no head, wherever on these types it lies.
func (e *engine) shadow(types placement.Types) float64 {
	at := math.Inf(1)
	for t, s := range e.shadows {
		if types.Has(int32(t)) {
			at = min(at, s)
		}
	}
	return at
}

// offer is the first job of a class that may start before the heads. What does
// not fit once does not fit later in the pass, because starts only take away.
func (e *engine) offer(c *class) (best *job) {
	if c.ruledOut == e.queue.pass {
		return nil
	}
	room := c.roomOn(e.nodes)
	if !c.owners.admit(int(c.request.GPUs)) || !room.MayFit() {
		c.ruledOut = e.queue.pass
		return nil
	}
	shadow := e.shadow(c.request.Types)
	if c.passing != e.queue.pass && !math.IsInf(shadow, 1) && room.MayFitWithin(e.beyond, e.on) {
		best = c.first(math.Inf(1), e.nodes, e.beyond)
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

// reserve keeps places for the heads that have none yet.
func (e *engine) reserve() {
	if e.kept == 0 {
		for t := range e.shadows {
			e.shadows[t] = math.Inf(1)
		}
		e.reserved, e.on = e.reserved[:0], e.on[:0]
		e.beyond.CopyFree(e.nodes)
	}
	for ; e.kept < len(e.heads); e.kept++ {
		e.reserveFor(e.heads[e.kept])
	}
}

// reserveFor finds when the running jobs, by their time limits, will have made room for a
// head beside the heads before it, and takes its place there from what all leave to others.
// It takes none when they never make room: a node is down.
func (e *engine) reserveFor(head *job) {
	at, best := math.Inf(1), int32(-1)
	for t := range e.running {
		if !head.request.Types.Has(int32(t)) {
			continue
		}
		if room := e.roomAt(head.request, int32(t)); room < at {
			at, best = room, int32(t)
		}
	}
	if best < 0 {
		return
	}
	at = max(at, e.now)
	e.lookAt(best, at)
	then, request := e.beyond, head.request
	if request.Types = 1 << uint(best); len(e.reserved) > 0 { // beyond may show the time of another head
		e.roomAt(head.request, best)
		then = e.future
	}
	shares, _ := then.Fit(request, nil)
	for _, s := range shares {
		e.reserved = append(e.reserved, s)
		if !slices.ContainsFunc(e.on, func(o placement.Share) bool { return o.Node == s.Node }) {
			e.on = append(e.on, s)
		}
	}
	e.beyond.Take(e.reserved[len(e.reserved)-len(shares):])
}

// lookAt has beyond show what is free on nodes of one type at a time, unless it shows an
// earlier time already.
func (e *engine) lookAt(t int32, at float64) {
	was := e.shadows[t]
	e.shadows[t] = min(was, at)
	switch {
	case at >= was:
	case e.opt.Placement == placement.Pool:
		by := e.running[t].before(key{rank: at, seq: math.MaxInt64})
		e.beyond.Release([]placement.Share{{Node: t, Amount: placement.Amount{GPUs: int32(by)}}})
	case math.IsInf(was, 1):
		for j := range e.running[t].all {
			if j.planned > at {
				break
			}
			e.beyond.Release(j.shares)
		}
	default: // not released by then, or started in this pass
		for j := range e.running[t].all {
			if j.planned > was {
				break
			}
			if j.planned > at {
				e.beyond.Take(j.shares)
			}
		}
	}
}

// roomAt is when the request will fit on nodes of one type, beside what is reserved;
// infinite when the running jobs do not make room. Not in a pool it leaves what is free then
// in future.
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
	e.future.Take(e.reserved)
	return e.future.Shadow(e.now, r, func(yield func(float64, []placement.Share) bool) {
		for j := range e.running[t].all {
			if !yield(j.planned, j.shares) {
				return
			}
		}
	})
}
