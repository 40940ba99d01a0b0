package virtual

import (
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// pass is one of a scheduler.
func (e *engine) pass(way Backfill) {
	e.way = way
	for e.strict() {
	}
	switch way {
	case EASY:
		e.backfill()
	case Conservative:
		e.inTurn()
		e.backfill()
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

// strict starts jobs in order, in each partition up to its head: the first that does not fit, or would delay the head
// of another partition, which backfill keeps a place for. A job of several partitions starts in the first that has a
// place, or is the head of all. As in Slurm, a job at a limit blocks no job, and neither does
// one in a partition that has no nodes for it. It reports whether a partition of a job that started may be looked at again.
func (e *engine) strict() (again bool) {
	for _, s := range e.heads {
		s.part.head = nil
	}
	e.heads, e.kept = e.heads[:0], 0
	e.queue.pass++
	for {
		j, s := e.queue.pick(func(s *slot) *job {
			if s.part.head != nil || s.ruledOut == e.queue.pass || !s.admits() {
				return nil
			}
			if len(e.windows) > 0 {
				return s.noLonger(e.longest(s))
			}
			return s.class.head
		})
		switch {
		case j == nil:
			return again && e.shared()
		case e.starts(j, s):
			again = e.unblock(j) || again
		case len(j.line.parts) > 1 && !e.everFits(j, s):
			s.ruledOut = e.queue.pass
		default:
			s.part.head = j
			e.heads = append(e.heads, s)
		}
	}
}

// shared reports whether a head keeps the nodes of its partition from other partitions in the same pass, as where
// Slurm's backfill does not take over (schedule in slurmctld/job_scheduler.c).
func (e *engine) shared() bool { return e.overlap && e.way == NoBackfill }

// everFits reports whether the empty cluster holds a job in a partition.
func (e *engine) everFits(j *job, s *slot) bool {
	_, fits := e.empty.Fit(s.with(j.request.MemMB), nil)
	return fits
}

// unblock has a job that starts in one partition no longer be the head of others, and reports whether it was.
func (e *engine) unblock(j *job) (was bool) {
	for i := len(e.heads) - 1; i >= 0; i-- {
		if p := e.heads[i].part; p.head == j {
			p.head, was = nil, true
			if e.heads = slices.Delete(e.heads, i, i+1); i < e.kept {
				e.kept--
			}
		}
	}
	return was
}

// starts starts a job in a partition if it fits and, with backfill, delays none of the heads so far but itself.
func (e *engine) starts(j *job, s *slot) bool {
	if !s.roomOn(e.nodes).MayFit() {
		return false
	}
	before := len(e.heads)
	for before > 0 && e.heads[before-1].part.head == j {
		before--
	}
	var within *placement.Nodes
	if before > 0 && (e.way != NoBackfill || e.shared()) {
		e.reserve(before)
		within = e.leftFor(j, s)
	}
	shares, fits := e.nodes.Fit(e.asks(j, s), within)
	if fits {
		e.fill(j, s, shares)
	}
	return fits
}

// leftFor is the view that a job has to fit within beside what is free now; nil: none,
// because it ends before a head could start.
func (e *engine) leftFor(j *job, s *slot) *placement.Nodes {
	if j.occupancy <= e.shadow(s.request.Types)-e.now && !e.shared() {
		return nil
	}
	return e.beyond
}

// backfill starts, in order, what delays no head's reservation (EASY): jobs that end before it, and jobs that fit beside it.
func (e *engine) backfill() {
	if len(e.heads) == 0 || !e.usable() || e.queue.n == e.headed() {
		return
	}
	e.reserve(len(e.heads))
	e.queue.pass++
	for e.usable() {
		j, s := e.queue.pick(e.offer)
		if j == nil {
			return
		}
		shares, _ := e.nodes.Fit(e.asks(j, s), e.leftFor(j, s))
		e.fill(j, s, shares)
	}
}

// inTurn starts, in order, what delays no job before it: as Slurm's backfill, it keeps a place for each job that it
// looks at, in each of its partitions, Options.Depth in all. Those behind them go by the heads alone.
func (e *engine) inTurn() {
	if len(e.heads) == 0 || !e.usable() || e.queue.n == e.headed() || !slices.ContainsFunc(e.queue.active, e.mayFit) {
		return
	}
	e.reserve(len(e.heads))
	e.queue.pass++
	behind, left := e.queue.n, e.opt.Depth
	var waiting []*job // without a place so far: places matter where a job behind them might start
	for _, j := range e.queue.list(left) {
		if left -= len(j.class.slots); left < 0 {
			break
		}
		behind--
		s, shares := e.fitsInTurn(j)
		if s != nil && len(waiting) > 0 { // beside more places, too?
			waiting = e.keepPlaces(waiting)
			s, shares = e.fitsInTurn(j)
		}
		if s == nil {
			waiting = append(waiting, j)
		} else if e.fill(j, s, shares); !e.usable() {
			return
		}
	}
	if behind > 0 && slices.ContainsFunc(e.queue.active, e.mayFit) {
		e.keepPlaces(waiting)
	}
}

// mayFit reports whether a job of a class may fit on what is free, whatever places are kept.
func (e *engine) mayFit(c *class) bool {
	for i := range c.slots {
		if s := &c.slots[i]; s.part.head != nil && s.roomOn(e.nodes).MayFit() {
			return true
		}
	}
	return false
}

// fitsInTurn is the first partition of a job in which it is not the head and has room beside all places kept; nil: none.
func (e *engine) fitsInTurn(j *job) (*slot, []placement.Share) {
	for i := range j.class.slots {
		s := &j.class.slots[i]
		if s.part.head == nil || s.part.head == j || !s.admits() || !s.roomOn(e.nodes).MayFit() {
			continue
		}
		within := e.leftFor(j, s)
		if within != nil && s.fullIn == e.queue.pass && j.request.MemMB >= s.fullFrom {
			continue
		}
		shares, fits := e.nodes.Fit(e.asks(j, s), within)
		if fits {
			return s, shares
		}
		if within != nil && len(e.windows) == 0 {
			s.fullIn, s.fullFrom = e.queue.pass, j.request.MemMB
		}
	}
	return nil, nil
}

// keepPlaces keeps a place for jobs that wait in each partition in which they are not the head. Where jobs like one find none, it does not look.
func (e *engine) keepPlaces(jobs []*job) (none []*job) {
	for _, j := range jobs {
		for i := range j.class.slots {
			s := &j.class.slots[i]
			if s.part.head == j || s.ruledOut == e.queue.pass || !s.admits() {
				continue
			}
			kept := len(e.reserved)
			if e.reserveFor(j, s); len(e.reserved) == kept {
				s.ruledOut = e.queue.pass
			}
		}
	}
	return jobs[:0]
}

// headed counts the jobs that are heads in all of their partitions.
func (e *engine) headed() (n int) {
	for _, s := range e.heads {
		j := s.part.head
		if s.part == j.line.parts[0] && !slices.ContainsFunc(j.line.parts, func(p *queuePart) bool { return p.head != j }) {
			n++
		}
	}
	return n
}

// fill starts a job beside the reservations. What it has until a head needs it is taken from what the heads leave.
func (e *engine) fill(j *job, s *slot, shares []placement.Share) {
	if len(e.heads) > 0 && e.way != NoBackfill {
		if at := e.shadow(1 << uint(e.nodes.Type(shares[0].Node))); math.IsInf(at, 1) || j.occupancy > at-e.now {
			e.beyond.Take(shares)
		}
	}
	e.begin(j, s, shares)
}

// shadow is the time until which a job delays no head, wherever on these types it lies.
func (e *engine) shadow(types placement.Types) float64 {
	at := math.Inf(1)
	for t, s := range e.shadows {
		if types.Has(int32(t)) {
			at = min(at, s)
		}
	}
	if e.opt.Backfill == Conservative {
		at = e.whole(at, resolution)
	}
	return at
}

// offer is the first job of a class that may start before the heads. What does
// not fit once does not fit later in the pass, because starts only take away.
func (e *engine) offer(s *slot) (best *job) {
	if s.ruledOut == e.queue.pass {
		return nil
	}
	room := s.roomOn(e.nodes)
	if !s.admits() || !room.MayFit() {
		s.ruledOut = e.queue.pass
		return nil
	}
	shadow := e.shadow(s.request.Types)
	if s.passing != e.queue.pass && !math.IsInf(shadow, 1) && room.MayFitWithin(e.beyond, e.on) {
		best = e.first(s, math.Inf(1), e.beyond)
	}
	if best == nil {
		s.passing = e.queue.pass
	}
	if j := e.first(s, shadow-e.now, nil); j != nil && (best == nil || j.key.less(best.key)) {
		best = j
	}
	if best == nil {
		s.ruledOut = e.queue.pass
	}
	return best
}

// reserve keeps places for the first heads, so many, that have none yet.
func (e *engine) reserve(heads int) {
	if e.kept == 0 {
		for t := range e.shadows {
			e.shadows[t] = math.Inf(1)
		}
		e.reserved, e.on = e.reserved[:0], e.on[:0]
		e.beyond.CopyFree(e.nodes)
	}
	for ; e.kept < heads; e.kept++ {
		if e.shared() {
			e.keep(e.heads[e.kept].part)
		} else {
			e.reserveFor(e.heads[e.kept].part.head, e.heads[e.kept])
		}
	}
}

// reserveFor finds when the running jobs, by their time limits, will have made room for a head of a partition beside the heads
// before it, and takes its place there from what all leave to others. It takes none when they never make room: a node is down.
func (e *engine) reserveFor(j *job, head *slot) {
	windows := e.reached(e.now + j.occupancy)
	at := e.roomFor(j, head, windows)
	for !math.IsInf(at, 1) && e.reached(at+j.occupancy) > windows { // by then it might run into more of them
		windows = e.reached(at + j.occupancy)
		at = e.roomFor(j, head, windows)
	}
	if math.IsInf(at, 1) {
		return
	}
	e.lookAt(e.nodes.Type(e.room[0].Node), max(at, e.now))
	e.reserved = append(e.reserved, e.room...)
	for _, s := range e.room {
		if !slices.ContainsFunc(e.on, func(o placement.Share) bool { return o.Node == s.Node }) {
			e.on = append(e.on, s)
		}
	}
	e.beyond.Take(e.room)
}

// roomFor is when a head will have room beside the first windows, infinite: on no nodes; it leaves the place in engine.room.
func (e *engine) roomFor(j *job, head *slot, windows int) float64 {
	first, r := math.Inf(1), e.beside(head.with(j.request.MemMB), windows)
	for t := range int32(len(e.running)) {
		if !r.Types.Has(t) {
			continue
		}
		if at, place := e.roomAt(r, t); at < first {
			first, e.room = at, append(e.room[:0], place...)
		}
	}
	return first
}

// lookAt has beyond show what is free on nodes of one type at a time, unless it shows an earlier time already.
func (e *engine) lookAt(t int32, at float64) {
	was := e.shadows[t]
	e.shadows[t] = min(was, at)
	switch {
	case at >= was:
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

// roomAt is when and where the request will fit on nodes of one type, beside what is reserved; infinite when the running jobs
// do not make room.
func (e *engine) roomAt(r placement.Request, t int32) (float64, []placement.Share) {
	r.Types = 1 << uint(t)
	e.future.CopyFree(e.nodes)
	e.future.Take(e.reserved)
	at, place := e.future.Shadow(e.now, r, func(yield func(float64, []placement.Share) bool) {
		for j, at := range e.endings(t) {
			if !yield(at, j.shares) {
				return
			}
		}
	})
	if e.opt.ByNode && e.opt.Backfill == Conservative && at > e.now && len(place) > 0 {
		at = e.lastOn(place, t, at)
	}
	return at, place
}

// lastOn is when the last of the jobs ends that end until a time on the nodes of a place (_get_last_relevant_job in
// select/cons_tres, from 25.11 on).
func (e *engine) lastOn(place []placement.Share, t int32, until float64) (last float64) {
	last = e.now
	for j := range e.running[t].all {
		if j.planned > until {
			break
		}
		if slices.ContainsFunc(j.shares, func(s placement.Share) bool {
			return slices.ContainsFunc(place, func(o placement.Share) bool { return o.Node == s.Node })
		}) {
			last = j.planned
		}
	}
	return last
}
