package virtual

import (
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// queue holds the waiting jobs. Jobs that ask for the same but memory (in one line and under the same
// limits) share a class: they fit together up to some memory. A scheduling pass looks at classes, never at the queue.
type queue struct {
	classes map[classKey]*class
	active  []*class // those with waiting jobs
	n       int
	others  int // of these without GPUs
	pass    uint64
}

type classKey struct {
	request placement.Request // MemMB is 1 where the jobs say how much
	holder  *holder
	line    *line
}

// class is the waiting jobs with one request but for memory, in order.
type class struct {
	classKey
	waiting tree
	head    *job
	n       int
	place   int // in queue.active
	slots   []slot
}

// slot is a class in one of its partitions.
type slot struct {
	*class
	part    *queuePart
	request placement.Request // as the class's, in the partition
	room    *placement.Watch
	claims  []claim

	ruledOut uint64 // the pass in which no job of the class can start there any more
	passing  uint64 // the pass in which only jobs that end before the reservation can
	fullIn   uint64 // the pass in which, beside all places kept, no job has room that asks for
	fullFrom int64  // so much memory, MB, or more

	longest float64 // what engine.longest was in the pass limited
	limited uint64
}

func (e *engine) enqueue(j *job) {
	q, k := &e.queue, classKey{j.request, j.holder, j.line}
	k.request.MemMB = min(k.request.MemMB, 1)
	c := q.classes[k]
	if c == nil {
		c = &class{classKey: k}
		for _, p := range k.line.parts {
			c.slots = append(c.slots, slot{class: c, part: p, request: e.in(k.request, k.line, p), claims: e.claims(k.holder, p, int(k.request.GPUs), int(k.request.CPUs))})
		}
		q.classes[k] = c
	}
	if c.n == 0 {
		c.place = len(q.active)
		q.active = append(q.active, c)
	}
	j.class = c
	c.waiting.insert(j)
	if c.head == nil || j.key.less(c.head.key) {
		c.head = j
	}
	c.n++
	q.count(j, 1)
}

func (q *queue) count(j *job, n int) {
	if q.n += n; j.GPUs == 0 {
		q.others += n
	}
}

func (q *queue) remove(j *job) {
	c := j.class
	c.waiting.remove(j)
	if c.head == j {
		c.head = c.waiting.first()
	}
	c.n--
	q.count(j, -1)
	if c.n == 0 {
		last := q.active[len(q.active)-1]
		q.active[c.place], last.place = last, c.place
		q.active = q.active[:len(q.active)-1]
	}
}

// with is the request of the class's jobs that ask for so much memory.
func (s *slot) with(memMB int64) placement.Request {
	r := s.request
	r.MemMB = memMB
	return r
}

// roomOn watches for room for the job of the class that asks for least.
func (s *slot) roomOn(nodes *placement.Nodes) *placement.Watch {
	if least := s.with(s.waiting.root.least); s.room == nil || s.room.Request() != least {
		s.room = nodes.Watch(least)
	}
	return s.room
}

// noLonger is the first job of the class that takes at most so many seconds.
func (s *slot) noLonger(seconds float64) *job {
	if math.IsInf(seconds, 1) {
		return s.class.head
	}
	return s.waiting.find(func(occupancy float64, _ int64) bool { return occupancy <= seconds })
}

// first is the first job of the class that takes at most so many seconds and
// fits on what is free, and within the others unless nil.
func (e *engine) first(s *slot, seconds float64, within *placement.Nodes) *job {
	type memory struct{ fits, not int64 } // that is known to fit, and not to
	one := [1]memory{{-1, math.MaxInt64}}
	known := one[:] // by the number of windows to keep clear of
	if len(e.windows) > 0 {
		known = slices.Repeat(known, len(e.windows)+1)
	}
	return s.waiting.find(func(occupancy float64, memMB int64) bool {
		windows := e.reached(e.now + occupancy)
		m := &known[windows]
		if !(occupancy <= seconds) || memMB >= m.not {
			return false
		}
		if memMB > m.fits {
			if _, ok := e.nodes.Fit(e.beside(s.with(memMB), windows), within); !ok {
				m.not = memMB
				return false
			}
			m.fits = memMB
		}
		return true
	})
}

// pick returns the first in order of the jobs that the classes offer, and in which partition.
func (q *queue) pick(offer func(*slot) *job) (best *job, in *slot) {
	var first key
	for _, c := range q.active {
		for i := range c.slots {
			s := &c.slots[i]
			j := offer(s)
			if j == nil {
				continue
			}
			if k := s.part.order(j); best == nil || k.less(first) {
				best, in, first = j, s, k
			}
		}
	}
	return best, in
}

// order is the place of a waiting job in the order of all, in its best partition.
func (j *job) order() key {
	k := j.line.parts[0].order(j)
	for _, p := range j.line.parts[1:] {
		if o := p.order(j); o.less(k) {
			k = o
		}
	}
	return k
}

// list returns the first jobs in order, all when depth is 0.
func (q *queue) list(depth int) []*job {
	var all []*job
	for _, c := range q.active {
		left := depth
		for j := range c.waiting.all {
			all = append(all, j)
			if left--; left == 0 {
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b *job) int {
		if a.order().less(b.order()) {
			return -1
		}
		return 1
	})
	if depth > 0 && len(all) > depth {
		all = all[:depth]
	}
	return all
}
