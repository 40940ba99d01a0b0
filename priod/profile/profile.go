// Package profile measures how the speed of a program depends on the CPUs that
// each of its GPUs gets: the optimistic profiling of Synergy (Mohan et al.,
// OSDI'22), for any user, on the cluster as it is. One short job for each GPU
// type holds the resources; in it the program runs repeatedly, as a step
// with other CPU counts, until its own reports say how fast it is.
package profile

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"slurmprio/priod/profile/curve"
)

// Cluster is all that profiling needs of Slurm.
type Cluster interface {
	// Submit submits a job that holds what the request asks for, and does
	// nothing else until its time is over.
	Submit(context.Context, Request) (job string, err error)
	// State says what has become of a job.
	State(ctx context.Context, job string) (State, error)
	// Run runs the program as a step of a running job until it ends or ctx is
	// done, and hands over what it prints line by line, one call at a time.
	// The error of a program that failed is an *ExitError, that of one that ctx
	// ended ctx's; others are Slurm's.
	Run(ctx context.Context, job string, cpus int, line func(string)) error
	// Cancel ends a job, whatever its state.
	Cancel(ctx context.Context, job string) error
}

// Request is what a job holds, on one node.
type Request struct {
	GPUType string
	CPUs    int
	Time    time.Duration // it ends by itself after that
}

// State of a job.
type State struct {
	Running bool
	Ended   bool
	Name    string // as Slurm says it: PENDING, TIMEOUT, ...
	Reason  string // why it waits: Resources, Priority, ...
	MemMB   int64  // that a running job has
}

// ExitError is a program that ended by itself with a status other than 0.
type ExitError struct{ Status int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// Type is one GPU type to profile on.
type Type struct {
	Name       string
	Share      float64 // CPUs for each GPU in proportion to a node's GPUs
	ShareMB    int64   // MB of memory likewise
	MostMB     int64   // MB of memory for each GPU that such a job can have
	Candidates []int   // CPUs for each GPU to choose from
}

// Settings of a run.
type Settings struct {
	GPUs    int            // of the job
	Pattern *regexp.Regexp // finds the progress in a line; see curve.NewCounter
	curve.Window
	Patience time.Duration // for the first report of a run, and from there for a steady rate
	Budget   time.Duration // for a job, once it runs
	Wait     time.Duration // for a job to begin
	// Seen, if set, hears how far the profile of a GPU type is.
	Seen func(Progress)
}

// Progress is how far the profile of a GPU type is.
type Progress struct {
	GPUType string
	Used    time.Duration // of the budget
	Doing   string        // "waits (Resources)", "12 CPUs"
}

// Result is the profile of one GPU type.
type Result struct {
	Type     Type
	Job      string
	Measured []curve.Point // in the order of measuring
	MemMB    int64         // that the job had
	Unsteady []int         // CPUs for each GPU whose rate did not settle within the patience
	Stopped  bool          // the budget ended before the curve was known well
}

// Run profiles on all types at once. Results and errors are by type; a result
// counts when its error is nil. When Run returns, no job of its is left in the
// queue; what could not be cancelled is an error that says so.
func Run(ctx context.Context, c Cluster, types []Type, set Settings) ([]Result, []error) {
	results, errs := make([]Result, len(types)), make([]error, len(types))
	var all sync.WaitGroup
	for i, t := range types {
		all.Go(func() {
			p := profiler{cluster: c, set: set, result: Result{Type: t}}
			err := p.run(ctx)
			if cause := context.Cause(ctx); err != nil && cause != nil {
				err = fmt.Errorf("stopped: %w", cause)
			}
			switch left := p.cancel(ctx); {
			case left != nil && err != nil:
				err = fmt.Errorf("%w; and %w", err, left)
			case left != nil:
				err = left
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", t.Name, err)
			}
			results[i], errs[i] = p.result, err
		})
	}
	all.Wait()
	return results, errs
}

// profiler profiles on one type.
type profiler struct {
	cluster Cluster
	set     Settings
	result  Result
	began   time.Time // when the job did; zero while it waits
}

func (p *profiler) run(ctx context.Context) error {
	t := p.result.Type
	p.see("submits a job")
	job, err := p.cluster.Submit(ctx, Request{t.Name, slices.Max(t.Candidates) * p.set.GPUs, p.set.Budget + reserve})
	if err != nil {
		return err
	}
	p.result.Job = job
	if err := p.await(ctx); err != nil {
		return err
	}
	end := p.began.Add(p.set.Budget)
	// The first run warms what the program reads and is not counted; it tells
	// how long a run takes.
	cpus, _ := curve.Next(nil, t.Candidates, int(t.Share))
	before := time.Now()
	if _, _, err := p.measure(ctx, cpus); err != nil {
		return err
	}
	took := time.Since(before)
	for {
		cpus, more := curve.Next(p.result.Measured, t.Candidates, int(t.Share))
		if !more {
			return nil
		}
		if time.Until(end) < took {
			if len(p.result.Measured) < min(2, len(t.Candidates)) {
				return fmt.Errorf("a run takes %s, and the budget of %s is over after %d CPU counts: raise --budget, or lower --warmup and --measure",
					took.Round(time.Second), p.set.Budget, len(p.result.Measured))
			}
			p.result.Stopped = true
			return nil
		}
		rate, steady, err := p.measure(ctx, cpus)
		if err != nil {
			return err
		}
		p.result.Measured = append(p.result.Measured, curve.Point{CPUs: cpus, Rate: rate})
		if !steady {
			p.result.Unsteady = append(p.result.Unsteady, cpus)
		}
	}
}

// reserve is how much longer than the budget a job may run: nothing that is
// being measured when the budget ends is cut off by Slurm.
const reserve = 2 * time.Minute

// await returns when the job runs.
func (p *profiler) await(ctx context.Context) error {
	deadline := time.Now().Add(p.set.Wait)
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		s, err := p.cluster.State(ctx, p.result.Job)
		switch {
		case err != nil:
			return err
		case s.Running:
			p.began, p.result.MemMB = time.Now(), s.MemMB
			return nil
		case s.Ended:
			return fmt.Errorf("job %s ended before it began: %s", p.result.Job, s.Name)
		case time.Now().After(deadline):
			return fmt.Errorf("no room: job %s did not begin within %s (%s); try later, or raise --wait", p.result.Job, p.set.Wait, s.Reason)
		}
		p.see("waits (" + s.Reason + ")")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// How a run that did not end by itself ended.
var (
	errMeasured = errors.New("measured")
	errSilent   = errors.New("no report")
	errLong     = errors.New("no steady rate")
)

// measure runs the program once.
func (p *profiler) measure(ctx context.Context, cpus int) (rate float64, steady bool, err error) {
	s, err := p.cluster.State(ctx, p.result.Job)
	switch {
	case err != nil:
		return 0, false, err
	case !s.Running:
		return 0, false, p.gone(ctx, s)
	}
	p.see(fmt.Sprintf("%d CPUs/GPU", cpus))
	w := watch{window: p.set.Window, counter: curve.NewCounter(p.set.Pattern), began: time.Now()}
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(p.set.Patience, func() { stop(errSilent) })
	defer func() { timer.Stop() }()
	ended := p.cluster.Run(run, p.result.Job, cpus*p.set.GPUs, func(line string) {
		first := len(w.reports) == 0
		if w.read(line) {
			stop(errMeasured)
		} else if first && len(w.reports) > 0 && timer.Stop() {
			timer = time.AfterFunc(p.set.Patience, func() { stop(errLong) })
		}
		if first != (len(w.reports) == 0) || time.Since(w.shown) > time.Second {
			w.shown = time.Now()
			p.see(fmt.Sprintf("%d CPUs/GPU", cpus))
		}
	})
	rate, steady = p.set.Rate(w.reports)
	cause := context.Cause(run)
	if ctx.Err() != nil {
		return 0, false, ctx.Err()
	}
	if cause == nil {
		// The program's end may be that of its job, or of Slurm.
		if s, err := p.cluster.State(ctx, p.result.Job); err != nil {
			return 0, false, err
		} else if !s.Running {
			return 0, false, p.gone(ctx, s)
		}
	}
	var exit *ExitError
	failed := errors.As(ended, &exit)
	if ended != nil && !failed && !errors.Is(ended, context.Canceled) {
		return 0, false, ended
	}
	with := fmt.Sprintf("with %s for each GPU", count(cpus, "CPU"))
	switch {
	case cause == errMeasured || rate > 0 && (cause == errLong || ended == nil):
		return rate, steady, nil
	case failed:
		return 0, false, fmt.Errorf("the program failed %s: exit status %d after %s; %s", with, exit.Status, w.age(), w.ending())
	case len(w.last) == 0:
		return 0, false, fmt.Errorf("the program printed nothing in %s %s: let it print its progress, or name the file with --progress-file", w.age(), with)
	case len(w.reports) == 0:
		return 0, false, fmt.Errorf("nothing that the program printed in %s %s matches %q: give a --progress pattern that does; %s", w.age(), with, p.set.Pattern, w.ending())
	case cause == nil:
		return 0, false, fmt.Errorf("the program ended by itself %s after %s and %s: give it more to do, or lower --warmup and --measure", with, w.age(), count(len(w.reports), "report"))
	case w.reports[len(w.reports)-1].Done == 0:
		return 0, false, fmt.Errorf("the program made no progress in %s %s: its %s all say the same; %s", w.age(), with, count(len(w.reports), "report"), w.ending())
	}
	return 0, false, fmt.Errorf("the program made only %s in %s %s: let it report more often, or raise --patience", count(len(w.reports), "report"), w.age(), with)
}

// gone is the error of a job that runs no more.
func (p *profiler) gone(ctx context.Context, s State) error {
	job := p.result.Job
	for range 20 { // until Slurm says why
		if s.Name != "COMPLETING" {
			break
		}
		time.Sleep(200 * time.Millisecond)
		if now, err := p.cluster.State(ctx, job); err == nil {
			s = now
		}
	}
	if !s.Ended {
		return fmt.Errorf("job %s is %s again: it was requeued, or Slurm lost it", job, s.Name)
	}
	return fmt.Errorf("job %s ended in the middle of it: %s", job, s.Name)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// watch is what is known about one run of the program.
type watch struct {
	window  curve.Window
	counter *curve.Counter
	began   time.Time
	reports []curve.Report
	last    []string // lines, for an error
	shown   time.Time
}

// finest is how near to each other two reports that are kept can be; of what
// comes in between the last one stands for all.
const finest = 10 * time.Millisecond

// read takes in a line and says whether the rate is known now.
func (w *watch) read(line string) bool {
	if text := strings.TrimSpace(line); text != "" {
		w.last = append(w.last[max(0, len(w.last)-2):], text)
	}
	done, ok := w.counter.Read(line)
	if !ok {
		return false
	}
	r := curve.Report{At: time.Since(w.began), Done: done}
	if n := len(w.reports); n > 1 && r.At-w.reports[n-2].At < finest {
		w.reports[n-1] = r
		return false
	}
	w.reports = append(w.reports, r)
	_, steady := w.window.Rate(w.reports)
	return steady
}

func (w *watch) age() time.Duration { return time.Since(w.began).Round(100 * time.Millisecond) }

// ending is what the program printed last.
func (w *watch) ending() string {
	const most = 200
	text := strings.Join(w.last, " | ")
	if len(text) > most {
		text = "..." + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	if text == "" {
		return "it printed nothing"
	}
	return fmt.Sprintf("it printed last: %s", text)
}

func (p *profiler) see(doing string) {
	if p.set.Seen == nil {
		return
	}
	now := Progress{GPUType: p.result.Type.Name, Doing: doing}
	if !p.began.IsZero() {
		now.Used = time.Since(p.began)
	}
	p.set.Seen(now)
}

// Cancelling continues for a while when Slurm does not answer.
const (
	cancelFor   = time.Minute
	cancelPause = time.Second
)

// cancel ends the job. It is not stopped by what stopped the profile.
func (p *profiler) cancel(ctx context.Context) error {
	job := p.result.Job
	if job == "" {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelFor)
	defer stop()
	for {
		err := p.cluster.Cancel(ctx, job)
		if err == nil {
			return nil
		}
		p.see("waits for Slurm to cancel it")
		select {
		case <-ctx.Done():
			return fmt.Errorf("job %s could not be cancelled (%w): run scancel %s; it ends by itself after %s", job, err, job, p.set.Budget+reserve)
		case <-time.After(cancelPause):
		}
	}
}
