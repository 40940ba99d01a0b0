package rounds

import (
	"context"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/evict"
	"slurmprio/tests/papers/policies"
)

// Allocator writes into x, one row for each job and one column for each type,
// the fraction of wall time that the job should spend on the type.
type Allocator func(now float64, jobs []*Active, types []Type, x []float64) error

// Gavel is the round mechanism of Gavel (OSDI 2020, section 5). In each round
// the jobs run that the allocation owes most: the time that it has promised
// them since their arrival, less the time received, plus a lead for jobs that
// are nearly done. Over its life a job gets what it was allocated, but for the
// lead, which is at most what it is allocated in a day. A job may end
// within a round; its GPUs stay idle until the round is over, unless the makespan
// counts: then those who wait get them for the rest of it. A round is over when the last job in it has run for a whole round or has ended. Arrivals
// are admitted between rounds. Gangs get all of their GPUs or none, of one
// type, and keep them from round to round when they can.
//
// Allocations are rebuilt as soon as the set of jobs has changed, and all
// types are served together, the neediest pair of job and type first. GPUs that
// nobody waits for go to those who would be faster there.
type Gavel struct {
	Allocator Allocator // nil: in each round the jobs in Order, each on the fastest type that is free
	Reset     float64   // s between two allocations at least when no job comes or goes; 0: 10 rounds; published: between resets of the time received, 1920
	Agnostic  bool      // who allocates knows no speeds: nobody is moved to a faster type than allocated
	Makespan  bool      // the last end counts, not the mean: those with much left lead, too
	Published *Published
	Sharer    Sharer // in the place of Allocator, not with Published: jobs may run in pairs
}

// Published repeats what the published scheduler does otherwise (stanford-
// futuredata/gavel, scheduler.py): allocations are made only at resets, so that
// new jobs wait for one, and are meanwhile given GPUs that they do not use;
// types are served one after the other, by the fraction of the type's time;
// the time that passes idle counts as received; a round does whole steps only.
// It stands here as the baseline, and so that recordings can be replayed. What
// its policies answer is in package published.
type Published struct {
	Strict    bool              // FIFO: nothing runs without an allocation
	TypeOrder func(order []int) // permutes the order in which types are served, each round; nil: as in the cluster
}

func (Gavel) round() float64 { return 360 }

// share is what a job has of one type.
type share struct {
	x        float64 // allocation
	received float64 // published: s since the last reset, and half a round
	deficit  float64 // s that the allocation promised and the job did not receive
}

// Isolated allocates as if every job had its part of every type to itself.
func Isolated() Allocator {
	var gpus, gangs []int
	return func(_ float64, jobs []*Active, types []Type, x []float64) error {
		gpus, gangs = gpus[:0], gangs[:0]
		for _, t := range types {
			gpus = append(gpus, t.GPUs)
		}
		for _, a := range jobs {
			gangs = append(gangs, a.Job.GPUs)
		}
		policies.Isolated(gpus, gangs, x)
		return nil
	}
}

// Proportional allocates every job's time over the types by their GPUs.
func Proportional() Allocator {
	var gpus []int
	return func(_ float64, jobs []*Active, types []Type, x []float64) error {
		gpus = gpus[:0]
		for _, t := range types {
			gpus = append(gpus, t.GPUs)
		}
		policies.Proportional(gpus, len(jobs), x)
		return nil
	}
}

// mechanism is a run of the Gavel model.
type mechanism struct {
	*engine
	Gavel
	half    float64 // published: the time that every job is taken to have received on every type: half a round
	changed bool    // the set of jobs, since the last allocation
	places  []places

	lastReset, lastAllocation float64
	typeTime                  []float64 // published: s received by all jobs on a type, with the halves
	idleFrom                  float64   // s, end of the round before

	turn     int // counts the choices: the rounds, and those in which nothing ran
	x        []float64
	queues   []queue
	types    []int // the order that they are served in
	free     []int
	chosen   []*Active // in this round, in the order of their choice
	previous []*Active // in the round before
	runs     []Assignment
	sharing  sharing
}

func (m Gavel) run(ctx context.Context, e *engine) error {
	switch {
	case m.Reset > 0:
	case m.Published != nil:
		m.Reset = 1920
	default:
		m.Reset = 10 * e.length
	}
	n := len(e.types)
	r := &mechanism{
		engine: e, Gavel: m, half: e.length / 2,
		typeTime: make([]float64, n), queues: make([]queue, n), types: make([]int, n), free: make([]int, n),
		lastReset: e.now, lastAllocation: e.now,
	}
	if m.Published != nil {
		r.lastReset = 0 // and 0 counts as long ago
		e.whole = true
	}
	for _, t := range e.types {
		r.places = append(r.places, places{taken: make([]int, t.GPUs)})
	}
	for !e.done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.step(); err != nil {
			return err
		}
	}
	return nil
}

// step runs one round, or moves time to the next arrival when nothing can run.
func (r *mechanism) step() error {
	before := len(r.active)
	if err := r.admit(); err != nil {
		return err
	}
	for _, a := range r.active[before:] {
		r.changed = true
		a.shares = make([]share, len(r.engine.types))
		for j := range a.shares {
			a.shares[j].received = r.half
		}
	}
	if r.estimate(r.active[before:]) {
		r.changed = true
	}
	allocated := false
	if r.allocates() {
		var err error
		if allocated, err = r.update(); err != nil {
			return err
		}
	}
	if !r.allocates() || r.opt.Order != FIFO {
		r.active = r.order.sort(r.active, r.now)
	}
	r.choose()
	r.place()
	if len(r.chosen) > 0 {
		r.runRound(allocated)
		return nil
	}
	switch {
	case r.more:
		r.now = r.ahead.Submit
	case len(r.active) > 0 && (allocated || !r.changed):
		return stuckError(r.active, "the policy gives them nothing, and nothing else is to come")
	default:
		r.lastReset = 0 // published: the last jobs need not wait
	}
	return nil
}

func (r *mechanism) allocates() bool { return r.Allocator != nil || r.Sharer != nil }

// update makes a new allocation when it is time for one: when the set of jobs
// has changed, and at resets, since policies look at the steps that are left.
func (r *mechanism) update() (allocated bool, err error) {
	elapsed := r.now - r.lastReset
	if !r.changed && (r.Published != nil || elapsed < r.Reset) {
		return false, nil
	}
	due := elapsed >= r.Reset || r.Published != nil && r.lastReset == 0
	if r.Published != nil {
		if !due {
			return false, nil
		}
		r.publishedReset(elapsed)
	} else {
		r.accrue()
	}
	if due {
		r.lastReset = r.now
	}
	r.changed, r.lastAllocation = false, r.now
	if r.Sharer != nil {
		return true, r.share()
	}
	n := len(r.engine.types)
	if need := n * len(r.active); cap(r.x) < need {
		r.x = make([]float64, need, 2*need)
	}
	r.x = r.x[:n*len(r.active)]
	clear(r.x)
	if len(r.active) > 0 {
		if err := r.Allocator(r.now, r.active, r.engine.types, r.x); err != nil {
			return false, err
		}
	}
	for i, a := range r.active {
		a.allocated = true
		for j := range a.shares {
			x := r.x[i*n+j]
			if !(x >= 0 && x <= 1+1e-6) {
				return false, fmt.Errorf("job %s: the policy allocates %v of its time to %s", a.Job.ID, x, r.engine.types[j].Name)
			}
			a.shares[j].x = x
		}
	}
	return true, nil
}

// accrue adds to each deficit what the allocation has promised since it was
// made.
func (r *mechanism) accrue() {
	since := r.now - r.lastAllocation
	for _, a := range r.active {
		a.owed += a.promised * since
		for j := range a.shares {
			a.shares[j].deficit += a.shares[j].x * since
		}
	}
}

// publishedReset brings the deficits up to date and forgets the time received.
func (r *mechanism) publishedReset(elapsed float64) {
	clear(r.typeTime)
	for _, a := range r.active {
		for j := range a.shares {
			s := &a.shares[j]
			s.deficit += s.x*elapsed - (s.received - r.half)
			s.received = r.half
			r.typeTime[j] += r.half
		}
	}
}

// choose fills chosen with the jobs of this round, and their types.
func (r *mechanism) choose() {
	r.turn++
	r.previous, r.chosen = r.chosen, r.previous[:0]
	for j, t := range r.engine.types {
		r.free[j], r.types[j] = t.GPUs, j
	}
	switch {
	case r.Sharer != nil:
		r.chooseShared()
	case r.Allocator == nil:
		r.chooseInOrder()
	case r.Published != nil:
		if r.Published.TypeOrder != nil {
			r.Published.TypeOrder(r.types)
		}
		r.fillQueues()
		for _, j := range r.types {
			for q := &r.queues[j]; r.free[j] > 0 && len(*q) > 0; {
				r.take(q.pop(), j)
			}
		}
		// What has no allocation yet has used up its GPUs for nothing.
		r.chosen = slices.DeleteFunc(r.chosen, func(a *Active) bool { return !a.allocated })
	default:
		r.fillQueues()
		for {
			best := -1
			for j, q := range r.queues {
				if r.free[j] > 0 && len(q) > 0 && (best < 0 || q[0].before(&r.queues[best][0])) {
					best = j
				}
			}
			if best < 0 {
				if !r.Agnostic {
					r.moveUp()
				}
				return
			}
			r.take(r.queues[best].pop(), best)
		}
	}
}

// chooseInOrder gives each job in turn that is not chosen the fastest type with
// room for it.
func (r *mechanism) chooseInOrder() {
	left := 0
	for _, n := range r.free {
		left += n
	}
	for _, a := range r.active {
		if left == 0 {
			return
		}
		if j := fastestFree(a, r.free); j >= 0 && a.run != r.turn {
			r.take(a, j)
			left -= a.Job.GPUs
		}
	}
}

// take chooses a job for this round if it is not chosen and still fits.
func (r *mechanism) take(a *Active, j int) {
	if a.run == r.turn || a.Job.GPUs > r.free[j] {
		return
	}
	r.free[j] -= a.Job.GPUs
	a.run, a.gpuType, a.beside, a.guest = r.turn, j, nil, false
	r.chosen = append(r.chosen, a)
}

// moveUp moves chosen jobs to faster types that have GPUs left, which nobody
// waits for, and gives what they leave to those who wait.
func (r *mechanism) moveUp() {
	defer r.chooseInOrder()
	for moved := true; moved; {
		moved = false
		for _, a := range r.chosen {
			if j := fastestFree(a, r.free); a.beside == nil && j >= 0 && a.Estimate[j] > a.Estimate[a.gpuType] {
				r.free[a.gpuType] += a.Job.GPUs
				r.free[j] -= a.Job.GPUs
				a.gpuType, moved = j, true
			}
		}
	}
}

// fillQueues orders the jobs for each type.
func (r *mechanism) fillQueues() {
	for j := range r.queues {
		q := r.queues[j][:0]
		for i, a := range r.active {
			speed := a.Estimate[j]
			if speed == 0 {
				continue
			}
			s := &a.shares[j]
			w := want{job: a, rank: int32(i), second: s.deficit}
			switch {
			case r.Published != nil:
				w.third = s.x
				if a.allocated {
					w.first = s.x / (s.received / r.typeTime[j])
				}
				if r.Published.Strict && w.first == 0 {
					continue
				}
			case s.x > 0:
				w.first, w.second = 1, s.deficit+s.x*(r.now-r.lastAllocation+r.lead(a))
			default: // GPUs are left: to whom this type suits best
				w.second, w.third = speed*a.best, s.deficit
			}
			q = append(q, w)
		}
		q.heapify()
		r.queues[j] = q
	}
}

// lead is the time, in s of allocation, by which a job comes before its turn:
// as much as on a Slurm (package yield). Where the makespan counts it is an hour
// at most, and 2 % of the time left comes on top: nothing may hold up the
// longest job.
func (r *mechanism) lead(a *Active) float64 {
	left := a.best * a.Left()
	ahead := evict.Constants.Rounds.Lead.Ahead(left)
	if r.Makespan {
		return ahead/24 + left/50
	}
	return ahead
}

// runRound runs what was chosen and moves time to the round's end.
func (r *mechanism) runRound(reset bool) {
	start, end := r.now, r.now
	ended, jobs := false, len(r.active)
	for _, a := range r.chosen {
		if a.beside != nil {
			if !a.guest {
				end = max(end, r.runPair(a, start))
				ended = ended || a.over() || a.beside.over()
			}
			continue
		}
		finish := r.runAlone(a, start, r.length)
		ended = ended || a.over()
		end = max(end, finish)
	}
	if r.Makespan && r.Published == nil && r.Allocator != nil && r.refill(end) {
		ended = true
	}
	r.now, r.idleFrom = end, end
	r.rounds++
	if r.opt.Watch != nil {
		r.watch(start, jobs, reset)
	}
	if ended {
		r.changed = true
		r.drop()
	}
}

// runAlone runs a job for some seconds, or to its end.
func (r *mechanism) runAlone(a *Active, from, seconds float64) (finish float64) {
	speed, left := a.Speed[a.gpuType], a.Left()
	most := speed * seconds
	if r.Published != nil {
		most = math.Floor(most)
	}
	todo := min(most, left)
	finish = from + todo/speed
	a.Done += todo
	r.ran(a, a.gpuType, from, finish-from)
	r.receive(a, from, finish)
	if a.over() { // also by rounding, with most a hair below left
		r.finish(a, finish)
	}
	return finish
}

// receive accounts for the time from from until finish that a job has had on its type.
func (r *mechanism) receive(a *Active, from, finish float64) {
	if r.Allocator == nil {
		return
	}
	s := &a.shares[a.gpuType]
	if r.Published == nil {
		s.deficit -= finish - from
		return
	}
	s.received += finish - r.idleFrom
	r.typeTime[a.gpuType] += finish - r.idleFrom
}

func (r *mechanism) watch(start float64, jobs int, reset bool) {
	r.runs = r.runs[:0]
	for _, a := range r.chosen {
		r.runs = append(r.runs, Assignment{Job: a, Type: a.gpuType, GPUs: a.gpus, Beside: a.beside})
	}
	r.opt.Watch(Round{Start: start, End: r.now, Jobs: jobs, Runs: r.runs, Reset: reset})
}
