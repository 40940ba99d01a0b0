package virtual

import (
	"math"

	"slurmprio/priod/placement"
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
		steady: o.Order == FIFO && !o.TEFirst && o.UserGPUs == 0 && o.AccountGPUs == 0 && o.MTBF == 0 && len(o.NodeEvents) == 0 && o.Evict == nil && o.Depth == 0,
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
	at, _, ok := r.line.Earliest(j.request, now, j.occupancy)
	if !ok || at >= j.opens {
		r.line.Reserve(j.shares, j.opens, j.opens+j.occupancy)
		return
	}
	r.reserve(j)
}

// reserve gives a job the earliest place that delays no job.
func (r *reservations) reserve(j *job) {
	at, shares, _ := r.line.Earliest(j.request, r.e.now, j.occupancy) // the empty cluster holds it
	j.shares, j.opens = append(j.one[:0], shares...), at
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
			r.e.begin(j, j.shares)
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
		if !c.owners.admit(int(c.request.GPUs)) || !c.roomOn(e.nodes).MayFit() {
			c.ruledOut = e.queue.pass
			continue
		}
		some = true
	}
	if !some {
		return nil
	}
	list := e.queue.list(e.opt.Depth)
	for len(list) > 0 && list[len(list)-1].class.ruledOut == e.queue.pass {
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
	for _, j := range list {
		if !j.owners.admit(j.GPUs) {
			continue
		}
		at, shares, ok := r.line.Earliest(j.request, e.now, j.occupancy)
		if !ok {
			continue
		}
		r.line.Reserve(shares, at, at+j.occupancy)
		if at > e.now {
			continue
		}
		e.begin(j, shares)
		if !e.usable() {
			return
		}
	}
}
