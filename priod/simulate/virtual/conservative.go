package virtual

import (
	"math"
	"slices"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// reservations are conservative backfill: every waiting job has a place in
// the future. Where the order is plain first come, first served and nothing
// unforeseen happens, a reservation, once made, is only ever moved forward
// (Mu'alem and Feitelson, TPDS 2001). Otherwise a pass remakes all of them in
// the order of the queue, as Slurm's backfill does.
type reservations struct {
	e      *engine
	line   *placement.Timeline
	steady bool
	fresh  []*job // without a reservation
	due    []*job // whose reserved start has come
	early  bool   // something ended before its planned end
}

func newReservations(e *engine) *reservations {
	o := &e.opt
	return &reservations{
		e: e, line: placement.NewTimeline(0, e.nodes),
		steady: o.Order == FIFO && !o.TEFirst && o.UserGPUs == 0 && o.AccountGPUs == 0 && o.MTBF == 0 && len(o.NodeEvents) == 0 && o.Evict == nil && o.Depth == 0 &&
			!slices.ContainsFunc(e.cluster.Partitions, func(p trace.Partition) bool { return p.Tier != 1 }),
	}
}

// holds reports whether every waiting job has a start that will come.
func (r *reservations) holds() bool { return r != nil && r.steady }

// wants takes in a job that begins to wait.
func (r *reservations) wants(j *job) {
	if r.holds() {
		r.fresh = append(r.fresh, j)
	}
}

// freed takes in that a running job's GPUs become free at another time than planned.
func (r *reservations) freed(j *job, at float64) {
	if r.holds() && at < j.planned {
		r.line.Free(j.shares, at, j.planned)
		r.early = true
	}
}

func (r *reservations) schedule() {
	if !r.steady {
		r.anew()
		return
	}
	r.line.Advance(r.e.now)
	if r.early {
		r.early = false
		for _, j := range r.e.queue.list(0) {
			if j.shares != nil {
				r.advance(j)
			}
		}
	}
	for _, j := range r.fresh {
		r.reserve(j)
	}
	r.fresh = r.fresh[:0]
	r.open()
}

// advance moves a job's reservation forward if it can.
func (r *reservations) advance(j *job) {
	now := r.e.now
	r.line.Free(j.shares, j.opens, j.opens+j.occupancy)
	at, _, _, ok := r.earliest(j, now)
	if !ok || at >= j.opens {
		r.line.Reserve(j.shares, j.opens, j.opens+j.occupancy)
		return
	}
	r.reserve(j)
}

// earliest is the first place for a waiting job from a time on, in any of its partitions.
func (r *reservations) earliest(j *job, from float64) (at float64, shares []placement.Share, in *queuePart, ok bool) {
	at = math.Inf(1)
	for i := range j.class.slots {
		s := &j.class.slots[i]
		start, place, fits := r.line.Earliest(s.with(j.request.MemMB), from, j.occupancy)
		if !fits || start >= at {
			continue
		}
		if at, shares, in, ok = start, place, s.part, true; i+1 < len(j.class.slots) {
			shares = slices.Clone(place)
		}
	}
	return at, shares, in, ok
}

// reserve gives a job the earliest place that delays no job.
func (r *reservations) reserve(j *job) {
	at, shares, part, _ := r.earliest(j, r.e.now) // the empty cluster holds it
	j.shares, j.opens, j.part = append(j.one[:0], shares...), at, part
	r.line.Reserve(j.shares, at, at+j.occupancy)
	j.epoch++
	if at <= r.e.now {
		r.due = append(r.due, j)
		return
	}
	r.e.agenda.push(event{at: at, kind: opened, job: j, epoch: j.epoch})
}

// open starts the jobs whose time has come. By rounding, the GPUs may come
// free a moment later than planned; then the job waits for that.
func (r *reservations) open() {
	late := r.due[:0]
	for _, j := range r.due {
		switch {
		case j.state != waiting || j.opens > r.e.now: // started, or moved
		case !r.e.nodes.Hold(j.shares):
			late = append(late, j)
		default:
			from, until := j.opens, j.opens+j.occupancy
			r.e.begin(j, j.part, j.shares)
			r.line.Free(j.shares, from, until)
			r.line.Reserve(j.shares, max(from, r.e.now), j.planned)
			r.early = r.early || j.planned < until // it got a faster type
		}
	}
	clear(r.due[len(late):])
	r.due = late
}

// upToLastThatFits is the queue up to the last job that fits now: plans for
// those behind it start nothing.
func (r *reservations) upToLastThatFits() []*job {
	e := r.e
	if !e.usable() {
		return nil
	}
	e.queue.pass++
	some := false
	for _, c := range e.queue.active {
		for i := range c.slots {
			s := &c.slots[i]
			if !c.owners.admit(int(c.request.GPUs)) || !s.roomOn(e.nodes).MayFit() {
				s.ruledOut = e.queue.pass
				continue
			}
			some = true
		}
	}
	if !some {
		return nil
	}
	list := e.queue.list(e.opt.Depth)
	for len(list) > 0 && !slices.ContainsFunc(list[len(list)-1].class.slots, func(s slot) bool { return s.ruledOut != e.queue.pass }) {
		list = list[:len(list)-1]
	}
	return list
}

// anew plans in the order of the queue, up to the depth, and starts what is
// planned for now.
func (r *reservations) anew() {
	e := r.e
	list := r.upToLastThatFits()
	if len(list) == 0 {
		return
	}
	r.line.Reset(e.now)
	soon := math.Nextafter(e.now, math.Inf(1))
	for t := range e.running {
		for j := range e.running[t].all {
			r.line.Free(j.shares, max(j.planned, soon), math.Inf(1))
		}
	}
	for _, w := range e.windows {
		for _, n := range w.nodes {
			r.line.Reserve([]placement.Share{{Node: n, Amount: e.nodes.Size(n)}}, max(w.start, soon), w.end)
		}
	}
	for _, j := range list {
		if !j.owners.admit(j.GPUs) {
			continue
		}
		at, shares, part, ok := r.earliest(j, e.now)
		if !ok {
			continue
		}
		r.line.Reserve(shares, at, at+j.occupancy)
		if at > e.now {
			continue
		}
		e.begin(j, part, shares)
		if !e.usable() {
			return
		}
	}
}
