package virtual

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// Eviction tells a running job to leave: signal, grace period, requeue.
type Eviction struct {
	Job     int  // by order of arrival
	Restore bool // the job keeps its age and its turn; else it queues as if new
}

// System is what a policy of eviction sees after a scheduling pass.
type System struct{ e *engine }

// InSystem is a job that waits or runs.
type InSystem struct {
	Index   int // by order of arrival
	Job     *trace.Job
	Request placement.Request // what it asks for, in terms of the cluster, and is bound to
	Start   float64           // of its run, s; 0 while it waits
	End     float64           // when its GPUs become free, as far as the scheduler knows, s; 0 while it waits
	Shares  []placement.Share // nil while it waits
	Leaving bool              // already told to

	in   []placement.Request // as Request, in each of its partitions, while it waits
	tier int                 // of the partition in which it runs
}

// Now is the time, s from the trace's start.
func (s *System) Now() float64 { return s.e.now }

// Types are the names of the cluster's GPU types.
func (s *System) Types() []string { return s.e.types }

// Nodes is what is free. It must not be changed; Clone it.
func (s *System) Nodes() *placement.Nodes { return s.e.nodes }

// Trials are the waiting TE jobs with GPUs in order. It looks at each class of jobs, not at the whole queue.
func (s *System) Trials() (trials []InSystem) {
	var all []*job
	for _, c := range s.e.queue.active {
		for j := range c.waiting.all {
			if j.Class == cluster.TE && j.GPUs > 0 {
				all = append(all, j)
			} else if s.e.opt.TEFirst {
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
	for _, j := range all {
		trials = append(trials, s.e.waits(j))
	}
	return trials
}

func (e *engine) waits(j *job) InSystem {
	w := InSystem{Index: int(j.index), Job: &j.Job, Request: j.request}
	for _, p := range j.line.parts {
		w.in = append(w.in, e.in(j.request, j.line, p))
	}
	return w
}

// Running goes through the jobs that hold GPUs, by GPU type and planned end.
func (s *System) Running() iter.Seq[InSystem] {
	return func(yield func(InSystem) bool) {
		for t := range s.e.running {
			for j := range s.e.running[t].all {
				if j.GPUs > 0 && !yield(InSystem{Index: int(j.index), Job: &j.Job, Request: j.request, Start: j.start, End: j.planned, Shares: j.shares, Leaving: j.state != running, tier: j.part.Tier}) {
					return
				}
			}
		}
	}
}

func (e *engine) askEvictions() {
	if e.opt.Evict == nil {
		return
	}
	for _, v := range e.opt.Evict(&System{e}) {
		if j := e.find(v.Job); j != nil && j.state == running {
			e.evict(j, v.Restore)
		}
	}
}

func (e *engine) find(index int) *job {
	for t := range e.running {
		for j := range e.running[t].all {
			if int(j.index) == index {
				return j
			}
		}
	}
	return nil
}

// evict signals a running job and requeues it once it has left.
func (e *engine) evict(j *job, restore bool) {
	if !restore {
		j.turn = 0
	}
	e.signal(j)
	j.returns = true
}

// signal tells a running job to leave. It makes no more progress, saves its state if
// it can, and leaves at the end of its grace period.
func (e *engine) signal(j *job) {
	grace := j.Grace
	if grace == 0 {
		grace = e.opt.Grace
	}
	if e.now < j.start { // in its prolog: nothing to save
		grace = 0
	}
	e.stop(j, true)
	e.outcomes[j.index].Preemptions++
	e.outcomes[j.index].Wasted += grace * float64(j.GPUs)
	j.state = leaving
	e.replan(j, e.now+grace+e.opt.Epilog)
	e.agenda.push(event{at: e.now + grace, kind: left, job: j, epoch: j.epoch})
	e.slurm.changed(j)
}

// stop ends a job's progress and books what is kept and what is lost. A job without periodic checkpoints keeps all if it was
// told, else nothing of this run.
func (e *engine) stop(j *job, told bool) {
	j.epoch++
	passed := max(e.now-j.start, 0)
	kept := e.saves(j, passed, told)
	j.vain++
	if kept > 0 {
		j.vain = 0
	}
	if j.vain == maxVain {
		e.hopeless = &Stuck{Jobs: []string{j.ID}, Reasons: []string{fmt.Sprintf("%d runs on end were cut off before anything was saved (no checkpoints?)", maxVain)}}
	}
	e.outcomes[j.index].Wasted += (passed - kept) * float64(j.GPUs)
	j.todo = max(j.todo-kept*j.speed, math.SmallestNonzeroFloat64)
}

// saves is how much of so many seconds of its run a job has saved.
func (e *engine) saves(j *job, passed float64, told bool) float64 {
	worked := max(passed-j.lost, 0)
	switch every := cmp.Or(j.Ckpt, e.opt.Checkpoint); {
	case every > 0:
		return math.Floor(worked/every) * every
	case told:
		return worked
	}
	return 0
}

// maxVain is how often a job may start in vain before it counts as stuck.
const maxVain = 1000

// leave ends the grace period.
func (e *engine) leave(j *job) {
	e.outcomes[j.index].Ran += max(e.now-j.start, 0)
	e.slurm.ran(j, "REQUEUED")
	if j.returns {
		j.eligible = max(j.eligible, e.now+e.opt.RequeueDelay)
	}
	e.close(j)
}
