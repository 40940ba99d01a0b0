package pool

import (
	"math"

	"slurmprio/priod/placement"
)

// reservations are conservative backfill: every waiting job has a place in the future. A reservation, once made, is only
// ever moved forward (Mu'alem and Feitelson, TPDS 2001).
type reservations struct{ line *placement.Timeline }

func newReservations(gpus int) *reservations {
	return &reservations{placement.NewTimeline(0, placement.New(placement.Pool, []placement.Node{{Amount: placement.Amount{GPUs: int32(gpus)}}}))}
}

func (j *job) request() placement.Request {
	return placement.Request{Amount: placement.Amount{GPUs: int32(j.GPUs)}, Types: 1}
}

func (j *job) shares() []placement.Share {
	return []placement.Share{{Amount: placement.Amount{GPUs: int32(j.GPUs)}}}
}

// reserve gives a job the earliest place from now on.
func (r *reservations) reserve(j *job, now float64) {
	r.line.Advance(now)
	j.opens, _, _ = r.line.Earliest(j.request(), now, j.takes()) // the empty pool holds it
	r.line.Reserve(j.shares(), j.opens, j.opens+j.takes())
}

// endedEarly takes in that a job ended before its limit: all that wait move forward if they can.
func (r *reservations) endedEarly(ended *job, queue []*job, now float64) {
	r.line.Advance(now)
	r.line.Free(ended.shares(), now, ended.planned)
	for _, j := range queue {
		r.line.Free(j.shares(), j.opens, j.opens+j.takes())
		if at, _, ok := r.line.Earliest(j.request(), now, j.takes()); ok {
			j.opens = math.Min(j.opens, at)
		}
		r.line.Reserve(j.shares(), j.opens, j.opens+j.takes())
	}
}

// open starts the jobs whose time has come.
func (e *engine) open() {
	for i := 0; i < len(e.queue); {
		if j := e.queue[i]; j.opens <= e.now && j.GPUs <= e.free {
			e.begin(j)
			continue
		}
		i++
	}
}
