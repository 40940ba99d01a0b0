// Package pool runs jobs on GPUs of one type that are counted and not placed, as several published simulators do: in the
// orders of the papers, with each way of backfill, and with preemption at no cost. It looks at every job at every event.
//
// pool.go has the options and the loop over events, queue.go the orders, backfill.go what starts, preemptive.go SRTF and
// LAS, conservative.go reservations.
package pool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
)

// Order is the order of the queue.
type Order string

// The orders. SRTF and LAS preempt at every event, at no cost.
const (
	FIFO Order = "fifo" // first come, first served
	SJF  Order = "sjf"  // shortest run time first
	SRTF Order = "srtf" // shortest remaining time first
	LAS  Order = "las"  // least attained service, discretised (Tiresias, NSDI'19)
	FTF  Order = "ftf"  // worst finish-time fairness first (Themis, NSDI'20)
)

// Backfill is what may start before the head of the queue.
type Backfill string

// The ways of backfill.
const (
	NoBackfill   Backfill = "none"         // nothing: the head blocks
	EASY         Backfill = "easy"         // what does not delay the head (Lifka, JSSPP'95)
	Conservative Backfill = "conservative" // what delays no job before it in the queue
	Skip         Backfill = "skip"         // whatever fits
)

// Options say how jobs are scheduled.
type Options struct {
	Order    Order    // "" is FIFO
	Backfill Backfill // "" is none
	// LASQueues are the GPU-seconds attained at which a job falls into the next queue, rising.
	LASQueues []float64
	// Speed is what a job given by its steps does in a second.
	Speed  func(job *trace.Job, gpuType string) float64
	Window *metrics.Window // stop when these jobs are done
}

// Result is a finished run.
type Result struct {
	Jobs     []metrics.Job // by order of arrival
	Outcomes []metrics.Outcome
	Series   []metrics.Point
}

// job is one job in the system.
type job struct {
	trace.Job
	index int
	turn  int64 // first come, first served goes by it
	peers int   // jobs in the system at its arrival
	todo  float64
	speed float64

	runs     bool
	start    float64 // of this run
	end      float64
	planned  float64 // when the run ends, as far as the scheduler knows
	opens    float64 // reserved start, under conservative backfill
	level    int     // LAS queue
	attained float64 // GPU-seconds
	demoted  bool    // at this moment
}

// needs is how long the job would still run.
func (j *job) needs() float64 { return j.todo / j.speed }

// takes is how long the scheduler must think that it runs.
func (j *job) takes() float64 {
	if j.Limit > 0 {
		return j.Limit
	}
	return j.needs()
}

type engine struct {
	opt        Options
	gpus, free int
	gpuType    string
	now        float64
	turns      int64
	front      int64  // turns of jobs preempted under LAS: before all others
	queue      []*job // in order
	running    []*job // in the order of their ends
	plan       *reservations
	awaited    int // jobs of the window not yet done; -1 without one
	jobs       []metrics.Job
	outcomes   []metrics.Outcome
	series     metrics.Series
}

// Run simulates the jobs, which come in the order of their submission. It ends when all jobs, or those of the window, are done.
func Run(ctx context.Context, c trace.Cluster, jobs iter.Seq2[trace.Job, error], opt Options) (Result, error) {
	if err := opt.check(c); err != nil {
		return Result{}, err
	}
	e := &engine{opt: opt, gpus: c.TotalGPUs(), free: c.TotalGPUs(), gpuType: c.Types()[0], awaited: -1}
	if opt.Backfill == Conservative {
		e.plan = newReservations(e.gpus)
	}
	if w := opt.Window; w != nil {
		e.awaited = w.Last - w.First + 1
	}
	for t, err := range jobs {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Result{}, err
		}
		e.until(t.Submit)
		if e.awaited == 0 {
			break
		}
		if err := e.arrive(t); err != nil {
			return Result{}, err
		}
	}
	if w := opt.Window; w != nil && w.Last >= len(e.jobs) {
		return Result{}, fmt.Errorf("the window ends at job %d and the trace has only %d jobs, counted from 0", w.Last, len(e.jobs))
	}
	if len(e.jobs) == 0 {
		return Result{}, errors.New("the trace is empty")
	}
	e.until(math.Inf(1))
	for i := range e.outcomes {
		e.outcomes[i].Start = max(e.outcomes[i].Start, 0)
	}
	for _, j := range e.running {
		e.outcomes[j.index].Ran += e.now - j.start
	}
	return Result{Jobs: e.jobs, Outcomes: e.outcomes, Series: e.series.Points()}, nil
}

// check fills in what is left open and refuses what makes no sense.
func (o *Options) check(c trace.Cluster) error {
	if o.Order == "" {
		o.Order = FIFO
	}
	if o.Backfill == "" {
		o.Backfill = NoBackfill
	}
	for _, rule := range []struct {
		broken bool
		say    string
	}{
		{c.TotalGPUs() == 0, "the cluster has no GPUs"},
		{len(c.Types()) != 1, "a pool has one GPU type (--engine rounds knows several)"},
		{o.Order == LAS && (len(o.LASQueues) == 0 || !slices.IsSorted(o.LASQueues) || !(o.LASQueues[0] > 0)), "order las wants the thresholds of its queues in GPU-seconds, rising: --las-queues 3250,7200"},
		{o.preemptive() && o.Backfill != NoBackfill, fmt.Sprintf("order %s already starts whatever fits: leave backfill at none", o.Order)},
		{o.Order != FIFO && o.Backfill == Conservative, "conservative backfill keeps the order fifo"},
		{o.Window != nil && (o.Window.First < 0 || o.Window.Last < o.Window.First), "the window's last job comes before its first"},
	} {
		if rule.broken {
			return virtual.OptionError(rule.say)
		}
	}
	return nil
}

func (o *Options) preemptive() bool { return o.Order == SRTF || o.Order == LAS }

// arrive puts a job into the queue. Under a preemptive order jobs that come at one time are seen together.
func (e *engine) arrive(t trace.Job) error {
	j := &job{Job: t, index: len(e.jobs), speed: 1}
	if j.todo = t.Duration; t.Duration == 0 {
		if e.opt.Speed == nil {
			return fmt.Errorf("job %s is given by its steps, and no speeds are known", t.ID)
		}
		j.todo, j.speed = t.Steps, e.opt.Speed(&j.Job, e.gpuType)
	}
	switch {
	case t.GPUs <= 0:
		return fmt.Errorf("job %s requests no GPUs, and in a pool GPUs alone are counted", t.ID)
	case t.GPUs > e.gpus:
		return fmt.Errorf("stuck: job %s can never run: %d GPUs are more than the pool has (%d)", t.ID, t.GPUs, e.gpus)
	case !(j.needs() > 0) || math.IsInf(j.needs(), 1):
		return fmt.Errorf("job %s has a run time of %v", t.ID, j.needs())
	case !(t.Submit >= 0) || t.Submit < e.now:
		return fmt.Errorf("job %s is submitted at %v, before what comes before it (%v): sort the trace by submit_s", t.ID, t.Submit, e.now)
	}
	e.now = t.Submit
	e.turns++
	j.turn, j.peers = e.turns, len(e.queue)+len(e.running)+1
	e.jobs = append(e.jobs, metrics.JobOf(&t))
	e.outcomes = append(e.outcomes, metrics.Outcome{Start: -1})
	e.queue = append(e.queue, j)
	if e.plan != nil {
		e.plan.reserve(j, e.now)
	}
	if !e.opt.preemptive() {
		e.schedule()
	}
	return nil
}

// until lets everything happen that comes up to a time: what ends at it comes before what arrives at it. Published
// simulators schedule after each single event (CQSim), or after all of one time where they preempt (Tiresias).
func (e *engine) until(end float64) {
	if e.opt.preemptive() && end > e.now {
		e.schedule()
	}
	for e.awaited != 0 {
		at := e.next()
		if math.IsInf(at, 1) || at > end {
			return
		}
		e.now = at
		for first := true; first || e.opt.preemptive() && e.next() <= e.now; first = false {
			e.event()
		}
		if !e.opt.preemptive() || e.now < end {
			e.schedule()
		}
	}
}

// next is when something happens beside arrivals.
func (e *engine) next() float64 {
	at := math.Inf(1)
	for _, j := range e.running {
		at = min(at, j.end, e.falls(j))
	}
	if e.plan != nil {
		for _, j := range e.queue {
			if j.opens > e.now { // else it waits for an end
				at = min(at, j.opens)
			}
		}
	}
	return at
}

// event is the first thing that happens now: an end, a demotion, or a reserved start.
func (e *engine) event() {
	for i, j := range e.running {
		switch {
		case j.end <= e.now:
			e.running = slices.Delete(e.running, i, i+1)
			e.ends(j)
			return
		case e.falls(j) <= e.now:
			e.demote(j)
			return
		}
	}
}

// begin starts a waiting job.
func (e *engine) begin(j *job) {
	e.queue = slices.DeleteFunc(e.queue, func(o *job) bool { return o == j })
	e.free -= j.GPUs
	j.runs, j.start = true, e.now
	seconds := j.needs()
	if j.planned = e.now + j.takes(); j.Limit > 0 && !e.opt.preemptive() {
		seconds = min(seconds, j.Limit)
	}
	j.end = e.now + seconds
	at, _ := slices.BinarySearchFunc(e.running, j, func(a, b *job) int {
		if a.end <= b.end {
			return -1
		}
		return 1
	})
	e.running = slices.Insert(e.running, at, j)
	if o := &e.outcomes[j.index]; o.Start < 0 {
		o.Start = e.now
	}
}

// ends is the end of a job.
func (e *engine) ends(j *job) {
	o := &e.outcomes[j.index]
	o.Ran += e.now - j.start
	o.End, o.Done, o.Trials = e.now, true, 1
	e.free += j.GPUs
	if e.plan != nil && e.now < j.planned {
		e.plan.endedEarly(j, e.queue, e.now)
	}
	if w := e.opt.Window; w != nil && j.index >= w.First && j.index <= w.Last {
		e.awaited--
	}
}

// schedule is one pass of the scheduler.
func (e *engine) schedule() {
	e.sort()
	switch {
	case e.opt.preemptive():
		e.walk()
	case e.opt.Backfill == Conservative:
		e.open()
	case e.opt.Backfill == Skip:
		e.skip()
	default:
		e.strict()
	}
	e.series.Add(metrics.Point{At: e.now, GPUs: e.gpus - e.free, Queued: len(e.queue)})
}
