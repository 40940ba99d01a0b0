// Package rounds runs a trace in the papers' ideal: time is cut into rounds, at
// whose starts every job may be moved at no cost. Gavel (OSDI 2020) and Synergy
// (OSDI 2022) account for time in different ways; each is a Model here.
package rounds

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// ErrStuck is wrapped by the error for jobs that can never run.
var ErrStuck = errors.New("stuck")

// Type is one GPU type of the cluster.
type Type struct {
	Name string
	GPUs int
}

// Options of a run.
type Options struct {
	Model  Model
	Round  float64         // s; 0: the paper's, 360 for Gavel and 300 for Synergy
	Order  Order           // of the jobs; with an allocation it only breaks ties
	Window *metrics.Window // nil: every job; the run stops when they are done

	// Speed is how much work a job does per second on a type with all of its
	// GPUs; 0: it never runs there. The unit of work is the trace's step, or a
	// second of Duration for a job without steps. Called once for each job and
	// type, when the job arrives.
	Speed func(job *trace.Job, gpuType string) float64

	// Estimator stands between Speed and the scheduler, if it is set: jobs run
	// at Speed, and what is decided is decided by the estimates.
	Estimator Estimator

	// Watch sees every round, when it is over, if it is set.
	Watch func(Round)
}

// Model is the time accounting of a paper: Gavel or Synergy.
type Model interface {
	run(ctx context.Context, e *engine) error
	round() float64
}

// Result of a run.
type Result struct {
	Outcomes []metrics.Outcome // of the jobs that arrived, in the order of the trace
	Rounds   int               // in which something ran
	End      float64           // s, when the last round ended
}

// Round is what ran in one round.
type Round struct {
	Start, End float64      // s
	Jobs       int          // running and waiting
	Reset      bool         // a new allocation was made at its start
	Runs       []Assignment // valid during the call only
}

// Assignment is one job in one round.
type Assignment struct {
	Job    *Active
	Type   int
	GPUs   []int32 // Gavel: numbers within the type
	Beside *Active // the job on the same GPUs; nil: none
	Parts  []Part  // Synergy
}

// Active is a job between its arrival and its end.
type Active struct {
	Job   trace.Job
	Index int       // in the trace
	Speed []float64 // work per second on each type; 0: it never runs there
	Done  float64   // work
	Ran   float64   // s on GPUs
	RanOn []float64 // s on GPUs of each type; nil without an Estimator

	Estimate []float64 // Speed as the scheduler believes it; Speed itself without an Estimator

	work     float64
	best     float64 // s for one unit of work on the fastest type
	key      float64 // of Order
	pos      int     // in the last order
	moved    bool    // the key may have changed since the last order
	starving bool
	last     float64 // s, end of its last round; its submission before that

	shares    []share
	allocated bool
	run       int // the last turn or round that it was chosen for
	gpuType   int // in that turn
	gpus      []int32
	gpusOf    int  // their type
	placed    int  // the last turn that it held gpus in
	displaced bool // it does not hold the GPUs that it held before

	kind     int     // of the sharer
	promised float64 // work per second
	owed     float64 // work promised until the last allocation
	beside   *Active // the job on the same GPUs, in that turn
	together float64 // work per second beside it
	guest    bool    // its GPUs are chosen for the job beside it
}

// Left is the work still to do.
func (a *Active) Left() float64 { return a.work - a.Done }

// Total is all of the job's work.
func (a *Active) Total() float64 { return a.work }

// engine is what the models have in common: arrivals, ends, the window.
type engine struct {
	opt      Options
	length   float64 // s, of a round
	types    []Type
	cluster  trace.Cluster
	order    orderer
	active   []*Active
	outcomes []metrics.Outcome
	rounds   int
	now      float64
	whole    bool // a round does whole units of work only

	pull    func() (trace.Job, error, bool)
	ahead   trace.Job // the next job to arrive
	more    bool      // ahead is one
	pending int       // jobs of the window not yet done
}

// Run runs the trace, whose jobs come in the order of their submission, until
// the last job, or the window, is done. The same input gives the same result.
// An error wraps ErrStuck when some jobs can never run.
func Run(ctx context.Context, c trace.Cluster, jobs iter.Seq2[trace.Job, error], opt Options) (Result, error) {
	e := &engine{opt: opt, length: opt.Round, cluster: c, pending: math.MaxInt, order: orderer{by: opt.Order}}
	if e.length == 0 {
		e.length = opt.Model.round()
	}
	if !(e.length > 0) || math.IsInf(e.length, 1) {
		return Result{}, fmt.Errorf("round of %v s: want a positive time", e.length)
	}
	for _, name := range c.Types() {
		e.types = append(e.types, Type{name, c.GPUs(name)})
	}
	if len(e.types) == 0 {
		return Result{}, errors.New("the cluster has no GPUs")
	}
	if w := opt.Window; w != nil {
		if w.First < 0 || w.Last < w.First {
			return Result{}, fmt.Errorf("window %d:%d: want 0 <= first <= last", w.First, w.Last)
		}
		e.pending = w.Last - w.First + 1
	}
	pull, stop := iter.Pull2(jobs)
	defer stop()
	e.pull = pull
	if err := e.advance(); err != nil {
		return Result{}, err
	}
	if !e.more {
		return Result{}, errors.New("the trace is empty")
	}
	e.now = e.ahead.Submit
	err := opt.Model.run(ctx, e)
	return Result{Outcomes: e.outcomes, Rounds: e.rounds, End: e.now}, err
}

// advance reads the next job of the trace and checks it.
func (e *engine) advance() error {
	job, err, more := e.pull()
	if err != nil {
		return err
	}
	previous, first := e.ahead.Submit, len(e.outcomes) == 0 && !e.more
	e.ahead, e.more = job, more
	switch {
	case !more:
		return nil
	case !(job.Submit >= 0) || math.IsInf(job.Submit, 1):
		return fmt.Errorf("job %s: submitted at %v s: want a time from 0", job.ID, job.Submit)
	case !first && job.Submit < previous:
		return fmt.Errorf("job %s: submitted at %v s, before the job ahead of it (%v s): the trace must be in order", job.ID, job.Submit, previous)
	case job.GPUs < 1:
		return fmt.Errorf("job %s: %d GPUs: want at least one", job.ID, job.GPUs)
	case !(work(&job) > 0) || math.IsInf(work(&job), 1):
		return fmt.Errorf("job %s: no work: want steps or a duration above zero", job.ID)
	}
	return nil
}

func work(job *trace.Job) float64 {
	if job.Duration > 0 {
		return job.Duration
	}
	return job.Steps
}

// admit lets in what has been submitted by now.
func (e *engine) admit() error {
	var stuck []*Active
	for e.more && e.ahead.Submit <= e.now {
		n := len(e.types)
		a := &Active{
			Job: e.ahead, Index: len(e.outcomes), Speed: make([]float64, n),
			work: work(&e.ahead), moved: true, last: e.ahead.Submit, run: -1, placed: -1,
		}
		fastest := 0.0
		for j, t := range e.types {
			speed := e.opt.Speed(&a.Job, t.Name)
			if math.IsNaN(speed) || speed < 0 || math.IsInf(speed, 1) {
				return fmt.Errorf("job %s: speed %v on %s", a.Job.ID, speed, t.Name)
			}
			if a.Job.GPUs <= t.GPUs && (!e.whole || speed*e.length >= 1) {
				a.Speed[j] = speed
				fastest = max(fastest, speed)
			}
		}
		a.best, a.Estimate = 1/fastest, a.Speed
		if e.opt.Estimator != nil {
			a.RanOn = make([]float64, n)
		}
		if fastest == 0 {
			stuck = append(stuck, a)
		}
		e.active = append(e.active, a)
		e.outcomes = append(e.outcomes, metrics.Outcome{Type: -1})
		if err := e.advance(); err != nil {
			return err
		}
	}
	if stuck != nil {
		return stuckError(stuck, "no GPU type is both large enough and fast enough for them")
	}
	return nil
}

// done says whether there is nothing left to run for.
func (e *engine) done() bool {
	return e.pending == 0 || !e.more && len(e.active) == 0
}

// ran notes that a job held GPUs of a type from start for so many seconds.
func (e *engine) ran(a *Active, gpuType int, start, seconds float64) {
	o := &e.outcomes[a.Index]
	if a.Ran == 0 {
		o.Start = start
	}
	a.Ran += seconds
	if a.RanOn != nil {
		a.RanOn[gpuType] += seconds
	}
	a.moved = true
	o.Ran, o.Type = a.Ran, int32(gpuType)
}

// finish ends a job; drop takes it from the active ones.
func (e *engine) finish(a *Active, at float64) {
	a.Done = a.work
	o := &e.outcomes[a.Index]
	o.End, o.Done = at, true
	if e.opt.Estimator != nil {
		e.opt.Estimator.Completed(a, e.types)
	}
	if w := e.opt.Window; w != nil && w.First <= a.Index && a.Index <= w.Last {
		e.pending--
	}
}

func (e *engine) drop() {
	e.active = slices.DeleteFunc(e.active, func(a *Active) bool { return a.Done >= a.work })
}

// fastestFree is the type on which a job is fastest among those with enough
// free GPUs, -1 when there is none.
func fastestFree(a *Active, free []int) int {
	best := -1
	for j, n := range free {
		if n >= a.Job.GPUs && a.Estimate[j] > 0 && (best < 0 || a.Estimate[j] > a.Estimate[best]) {
			best = j
		}
	}
	return best
}

// stuckError names at most ten of the jobs.
func stuckError(jobs []*Active, why string) error {
	var ids []string
	for _, a := range jobs[:min(len(jobs), 10)] {
		ids = append(ids, a.Job.ID)
	}
	if more := len(jobs) - len(ids); more > 0 {
		ids = append(ids, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: these jobs can never run because %s: %s", ErrStuck, why, strings.Join(ids, ", "))
}
