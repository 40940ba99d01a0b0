// Package simulate runs traces through policies in virtual time. Its parts: virtual is a Slurm behind plan.Slurm, metrics
// measures what came out, compare says how two runs differ, sweep runs many, tune chooses settings by them. What only the
// papers assume is a program of its own, tests/papers.
package simulate

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/trial"
	"slurmprio/priod/workload"
)

// Input is what a policy is run on.
type Input struct {
	Cluster trace.Cluster
	// NodeEvents are what happens to the nodes, beside Overheads.MTBF.
	NodeEvents []trace.NodeEvent
	Jobs       iter.Seq2[trace.Job, error] // in the order of submission
	// Speed is the work per second of a job on a GPU type with all of its GPUs: steps for a job with a workload, seconds of its
	// duration else; 0 where it cannot run.
	Speed func(job *trace.Job, gpuType string) float64
	// Curve is how that speed depends on CPUs and memory; nil: unknown.
	Curve  func(job *trace.Job, gpuType string) *workload.Curve
	Config *config.Config  // of priod, where it runs
	Origin time.Time       // second 0 of the trace; zero: left open
	Record *Recording      // nil: the run is not recorded, else it has its own
	Table  *workload.Table // what that priod knows of programs
}

// Result is what came out.
type Result struct {
	Figures  metrics.Figures
	Types    []string      // GPU types of the cluster
	Jobs     []metrics.Job // by order of arrival
	Outcomes []metrics.Outcome
	Series   []metrics.Point // GPUs in use and jobs waiting over time

	Entitled map[cluster.JobID]float64 // when jobs that waited were first entitled to GPUs of their accounts, s; nil: without shares

	Waited map[plan.Cause]float64 // s, of all jobs together, by what priod saw them wait for; nil without priod
	Shares *cycle.Statement       // what became of guaranteed shares; nil: there are none

	Returned []float64 // when jobs that left before windows ran again, s; -1: they did not
}

// Run simulates; spec has passed Check.
func Run(ctx context.Context, spec Spec, in Input) (r Result, err error) {
	if in.Record != nil {
		if err := in.Record.open(ctx); err != nil {
			return Result{}, err
		}
		defer func() { err = in.Record.close(ctx, r.Shares, err) }()
	}
	opt, err := spec.Options(&in)
	if err != nil {
		return Result{}, err
	}
	watch := newReturns(opt.Prolog, cmp.Or(in.origin(), virtual.Epoch))
	shared := spec.Priod() && len(in.Config.Shares) > 0
	if shared {
		opt.Daemon.Seen = watch.see
	}
	if in.Record != nil {
		in.Record.watch(&opt)
	}
	if r, err = in.Run(ctx, opt); err == nil && shared {
		r.Figures.Returns, r.Entitled = watch.figures(), watch.first
	}
	return r, err
}

// origin is second 0 of the trace; zero: left open.
func (in *Input) origin() time.Time {
	if in.Record != nil {
		return in.Record.Origin
	}
	return in.Origin
}

// Run simulates with these options of the virtual Slurm.
func (in *Input) Run(ctx context.Context, opt virtual.Options) (Result, error) {
	v, err := virtual.Run(ctx, in.Cluster, in.Jobs, opt)
	r := Result{Types: v.Types, Jobs: v.Jobs, Outcomes: v.Outcomes, Series: v.Series, Waited: waited(&opt.Daemon), Shares: statement(&opt.Daemon)}
	r.Returned = returned(&opt.Daemon, cmp.Or(in.origin(), virtual.Epoch))
	if err == nil {
		r.Figures, err = metrics.Measure(r.Jobs, r.Outcomes, opt.Window, in.Cluster.TotalGPUs())
	}
	return r, err
}

var placementModes = map[string]placement.Mode{"packed": placement.Packed, "consolidated": placement.Consolidated}

// Options are those of the virtual Slurm for a Spec that has passed Check; jobs of in that say nothing of it agree to
// requeues where the Spec says so.
func (s *Spec) Options(in *Input) (virtual.Options, error) {
	if s.Retry != "" {
		in.Jobs = agreeing(in.Jobs, s.Retry)
	}
	o := s.Overheads
	opt := virtual.Options{
		Order: virtual.Order(s.Order), Own: s.Own, Placement: placementModes[s.Placement],
		Speed: in.Speed, Window: s.Window, Seed: s.Seed, Origin: in.origin(),
		Grace: o.Grace, RequeueDelay: o.Requeue, Prolog: o.Prolog, Epilog: o.Epilog, Checkpoint: o.Checkpoint,
		RestartCost: o.Restart, Hold: o.Hold, MTBF: o.MTBF, Repair: o.Repair, NodeEvents: in.NodeEvents,
	}
	if s.Owned() {
		if err := s.own(in, &opt); err != nil {
			return opt, err
		}
	}
	if s.Priod() {
		c, err := s.configured(in)
		if err != nil {
			return opt, err
		}
		state := cycle.NewState()
		if in.Record != nil {
			state = in.Record.state
		}
		opt.Order, opt.Daemon = virtual.Priod, daemonOf(c, in.Table, state, in.Cluster.Divided(), s.Waits || in.Record != nil)
		if opt.Daemon.Off, err = s.off(in); err != nil {
			return opt, err
		}
		if s.SlurmOrder == "fifo" {
			opt.Multifactor = virtual.FIFOWeights
		}
	} else if in.Record != nil {
		c, err := config.Defaults()
		if err != nil {
			return opt, err
		}
		opt.Order, opt.Daemon = virtual.Priod, idle(c, in, in.Record.state)
		if s.Order == "fifo" {
			opt.Multifactor = virtual.FIFOWeights
		}
	}
	opt.Backfill = virtual.Backfill(s.Backfill)
	if in.sized() {
		opt.Speedup = in.speedup
	}
	if s.Preemption == SlurmQOS {
		opt.TEFirst, opt.Evict = true, virtual.SlurmQOS
	}
	if len(s.SpreadCosts) > 0 {
		opt.Spread = func(times float64) float64 { return 1 - workload.SpreadLoss(s.SpreadCosts, times) }
	}
	if len(s.NodeCosts) > 0 {
		opt.SpreadNodes = func(times float64) float64 { return 1 - workload.SpreadLoss(s.NodeCosts, times) }
	}
	opt.Daemon.Settings.Waits.Strict = opt.Backfill == virtual.NoBackfill
	return opt, nil
}

// off says when a trial has priod off; nil: there is none.
func (s *Spec) off(in *Input) (func(time.Time) bool, error) {
	switch s.Trial {
	case "":
		return nil, nil
	case "off":
		return func(time.Time) bool { return true }, nil
	}
	set, from, err := trial.Parse(s.Trial)
	if err != nil {
		return nil, virtual.OptionError("--trial " + err.Error())
	}
	t := trial.Trial{Settings: set, Start: cmp.Or(in.origin(), virtual.Epoch).Add(from)}
	blocks := t.Blocks()
	return func(at time.Time) bool {
		i := at.Sub(t.Start) / t.Block
		return !at.Before(t.Start) && int(i) < len(blocks) && blocks[i].Off
	}, nil
}

// Fitting leaves out of jobs those that the empty cluster cannot run, and hands each with the
// reason to leftOut; an error of that ends the jobs. What accounting tells of a job may name a GPU
// type that was retired, nodes that are down now, or parts that are not equal.
func (in *Input) Fitting(spec *Spec, leftOut func(j *trace.Job, why string) error) {
	never, jobs := virtual.Never(in.Cluster, virtual.Options{Placement: placementModes[spec.Placement], Speed: in.Speed}), in.Jobs
	in.Jobs = func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			if err == nil {
				if why := never(&j); why != "" {
					if err = leftOut(&j, why); err == nil {
						continue
					}
				}
			}
			if !yield(j, err) || err != nil {
				return
			}
		}
	}
}

// waited sums up what priod found out about waits.
func waited(d *virtual.Daemon) map[plan.Cause]float64 {
	tracker := d.Settings.Waits.Tracker
	if tracker == nil {
		return nil
	}
	sums := map[plan.Cause]float64{}
	for _, w := range tracker.Changed() {
		for cause, d := range w.By() {
			sums[cause] += d.Seconds()
		}
	}
	return sums
}

func returned(d *virtual.Daemon, from time.Time) (all []float64) {
	if j := d.Settings.Evictions.Journal; j != nil {
		for _, at := range j.BackFromWindows() {
			seconds := at.Sub(from).Seconds()
			if at.IsZero() {
				seconds = -1
			}
			all = append(all, seconds)
		}
	}
	return all
}

func statement(d *virtual.Daemon) *cycle.Statement {
	if len(d.Settings.Guarantee.Settings.Shares) == 0 {
		return nil
	}
	return d.Settings.Guarantee.Memory.Statement.Take()
}

// agreeing has jobs that say nothing of it agree to requeues after failures.
func agreeing(jobs iter.Seq2[trace.Job, error], retry string) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			j.Retry = cmp.Or(j.Retry, retry)
			if !yield(j, err) {
				return
			}
		}
	}
}

// sized reports whether it is known how CPUs and memory make jobs faster, and how much of them nodes have.
func (in *Input) sized() bool { return in.Curve != nil && in.measured() }

// measured reports whether the CPUs and memory of all GPU nodes are known.
func (in *Input) measured() bool {
	return !slices.ContainsFunc(in.Cluster.Nodes, func(g trace.NodeGroup) bool { return g.GPUs > 0 && (g.CPUs <= 0 || g.MemMB <= 0) })
}

// speedup is how many times as fast a job is as with the share of its GPUs.
func (in *Input) speedup(job *trace.Job, gpuType string, cpus, memMB float64) float64 {
	if c := in.Curve(job, gpuType); c != nil {
		return c.Relative(cpus, memMB)
	}
	return 1
}
