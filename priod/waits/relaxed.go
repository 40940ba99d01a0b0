package waits

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// relaxed is the cluster as it would be if GPUs of a type were one pool and jobs started
// in the order in which they really did, each as soon as the pool has room, and ran as
// long as they really do. A job starts there no later than in truth: those that started
// before it did so there too, so what runs there of them is a part of what really runs.
// What a job waits beyond its start there, it waits for fragmentation: its own, or that
// of jobs whose GPUs became free later than they could have.
//
// How long a job runs is known when it has ended. One that still runs has there run at
// least as long as in truth: up to then the relaxed cluster is sure (its horizon), and
// what it has not settled yet stays as the walk through the queue found it.
type relaxed map[string]*pool

// pool is the GPUs of one type in the same partitions.
type pool struct {
	sizes   []size // rising in time; what the pool has, from when on
	queue   []*run // started in truth, not settled here; in the order of their starts
	open    []*run // settled here, not known to have ended in truth
	ends    ends   // settled here, with their ends
	at      time.Time
	running int // GPUs, at that time
}

type size struct {
	from time.Time
	gpus int
}

// run is a job on GPUs.
type run struct {
	job     cluster.JobID
	pool    string
	gpus    int
	since   time.Time // it wanted nothing but room
	start   time.Time
	end     time.Time // zero while it runs
	settled time.Time // its start in the relaxed cluster; zero while that is not known
	entry   *entry    // nil: its wait was not seen
}

type ends []*run

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].over().Before(e[j].over()) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(*run)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// over is when a run ends in the relaxed cluster.
func (r *run) over() time.Time { return r.settled.Add(r.end.Sub(r.start)) }

// resize takes in how many GPUs a pool has from now on.
func (x relaxed) resize(key string, at time.Time, gpus int) *pool {
	p := x[key]
	if p == nil {
		p = &pool{}
		x[key] = p
	}
	if n := len(p.sizes); n == 0 || p.sizes[n-1].gpus != gpus {
		p.sizes = append(p.sizes, size{at, gpus})
	}
	return p
}

// advance takes in runs that started, and settles what became sure.
func (p *pool) advance(now time.Time, started []*run) (settled []*run) {
	slices.SortStableFunc(started, func(a, b *run) int {
		return cmp.Or(a.start.Compare(b.start), a.since.Compare(b.since), a.job.Compare(b.job))
	})
	p.queue = append(p.queue, started...)
	horizon := now
	p.open = slices.DeleteFunc(p.open, func(r *run) bool {
		if !r.end.IsZero() {
			heap.Push(&p.ends, r)
			return true
		}
		if h := r.settled.Add(now.Sub(r.start)); h.Before(horizon) {
			horizon = h
		}
		return false
	})
	n := 0
	for _, r := range p.queue {
		if !p.settle(r, horizon) {
			break
		}
		settled = append(settled, r)
		n++
		if !r.end.IsZero() {
			heap.Push(&p.ends, r)
			continue
		}
		p.open = append(p.open, r)
		if h := r.settled.Add(now.Sub(r.start)); h.Before(horizon) {
			horizon = h
		}
	}
	p.queue = slices.Delete(p.queue, 0, n)
	return settled
}

// settle finds a run's start, if it does not lie beyond the horizon.
func (p *pool) settle(r *run, horizon time.Time) bool {
	at := cluster.Later(p.at, r.since)
	for at.Before(r.start) {
		if at.After(horizon) {
			return false
		}
		p.pass(at)
		if p.at = at; p.running+r.gpus <= p.size(at) {
			break
		}
		next, known := p.next()
		if !known || !next.Before(r.start) || next.After(horizon) {
			if horizon.Before(r.start) {
				return false
			}
			next = r.start
		}
		at = next
	}
	if at.After(r.start) || at.Equal(r.start) { // it did start then, whatever the pool looked like
		if at = r.start; at.After(horizon) {
			return false
		}
		p.pass(at)
	}
	r.settled = at
	p.at = cluster.Later(p.at, at)
	p.running += r.gpus
	return true
}

// pass lets end what has ended by a time.
func (p *pool) pass(at time.Time) {
	for len(p.ends) > 0 && !p.ends[0].over().After(at) {
		p.running -= heap.Pop(&p.ends).(*run).gpus
	}
}

// size is how many GPUs the pool has at a time, not before any asked for earlier.
func (p *pool) size(at time.Time) int {
	for len(p.sizes) > 1 && !p.sizes[1].from.After(at) {
		p.sizes = p.sizes[1:]
	}
	return p.sizes[0].gpus
}

// next is when there may be more room than now.
func (p *pool) next() (next time.Time, known bool) {
	if len(p.ends) > 0 {
		next, known = p.ends[0].over(), true
	}
	if len(p.sizes) > 1 && (!known || p.sizes[1].from.Before(next)) {
		next, known = p.sizes[1].from, true
	}
	return next, known
}
