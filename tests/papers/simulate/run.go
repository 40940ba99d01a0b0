// Package simulate runs traces through the policies of the papers: on the virtual Slurm of priod/simulate, in rounds
// at whose start every job may be moved, or in a pool of GPUs.
package simulate

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"slurmprio/priod/config"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/tests/papers/gavel"
	"slurmprio/tests/papers/pool"
	"slurmprio/tests/papers/preempt"
	"slurmprio/tests/papers/rounds"
	"slurmprio/tests/papers/sizing"
)

// Input is what a policy is run on.
type Input struct {
	Cluster    trace.Cluster
	NodeEvents []trace.NodeEvent
	Jobs       iter.Seq2[trace.Job, error] // in the order of submission
	Speed      func(job *trace.Job, gpuType string) float64
	Curve      func(job *trace.Job, gpuType string) *workload.Curve
	Config     *config.Config
	Table      *workload.Table

	// Of engine rounds.
	Pairs         gavel.Pairs   // of allocations with space sharing
	PairWorkloads []string      // those that Pairs knows, which may be references for the others
	Trouble       gavel.Trouble // gets what an allocation's optimiser failed on
}

// Result is what came out.
type Result = site.Result

// Run simulates; spec has passed Check.
func Run(ctx context.Context, spec Spec, in Input) (Result, error) {
	run := slurm
	if spec.GPUsOnly() {
		if slices.ContainsFunc(in.Cluster.Nodes, func(g trace.NodeGroup) bool { return len(g.Slowdown) > 0 }) {
			return Result{}, virtual.OptionError("slowdown of nodes belongs to --engine slurm: in rounds and in a pool no job is on a node")
		}
		if run = inRounds; spec.Engine == "pool" {
			run = inPool
		}
	}
	r, err := run(ctx, spec, in)
	if err != nil {
		return r, err
	}
	r.Figures, err = metrics.Measure(r.Jobs, r.Outcomes, spec.Window, in.Cluster.TotalGPUs())
	return r, err
}

// slurm runs the policy on the virtual Slurm of priod simulate.
func slurm(ctx context.Context, spec Spec, in Input) (Result, error) {
	if spec.Sizing == "proportional" { // its share counts, whatever the trace says
		in.Jobs = proportional(in.Jobs)
	}
	to, err := spec.site(&in)
	if err != nil {
		return Result{}, err
	}
	into := in.site(&spec)
	opt, err := to.Options(&into)
	if err != nil {
		return Result{}, err
	}
	if !spec.Priod() {
		opt.TEFirst = spec.Preemption != "none"
		if spec.evicts() && spec.Preemption != site.SlurmQOS {
			opt.Evict = preempt.Evict(spec.Eviction, preempt.Costs{Grace: opt.Grace, Checkpoint: opt.Checkpoint, Restart: opt.RestartCost})
		}
	}
	return into.Run(ctx, opt)
}

// inPool runs the policy in a pool of GPUs.
func inPool(ctx context.Context, spec Spec, in Input) (Result, error) {
	r, err := pool.Run(ctx, in.Cluster, in.Jobs, pool.Options{
		Order: pool.Order(spec.Order), Backfill: pool.Backfill(spec.Backfill), LASQueues: spec.LASQueues, Speed: in.Speed, Window: spec.Window,
	})
	return Result{Types: in.Cluster.Types(), Jobs: r.Jobs, Outcomes: r.Outcomes, Series: r.Series}, err
}

// site is the same for priod simulate, whose Input explains it.
func (in *Input) site(spec *Spec) site.Input {
	all := func(gpus int) (list slurmplug.TRES) {
		if gpus > 0 {
			list = slurmplug.TRES{{Name: "gres/gpu", Count: int64(gpus)}}
		}
		return list
	}
	if spec.UserGPUs+spec.AccountGPUs > 0 {
		in.Cluster.QOS = map[string]slurmplug.QOSLimits{"": {User: all(spec.UserGPUs), Account: all(spec.AccountGPUs)}}
	}
	return site.Input{Cluster: in.Cluster, NodeEvents: in.NodeEvents, Jobs: in.Jobs, Speed: in.Speed, Curve: in.Curve, Config: in.Config, Table: in.Table}
}

// Fitting leaves out of jobs those that the empty cluster cannot run; see priod/simulate.
func (in *Input) Fitting(spec *Spec, leftOut func(j *trace.Job, why string) error) {
	if spec.Sizing == "proportional" {
		in.Jobs = proportional(in.Jobs)
	}
	to := in.site(spec)
	to.Fitting(&site.Spec{Placement: spec.Placement}, leftOut)
	in.Jobs = to.Jobs
}

// site is the policy as priod simulate has it; in gets the keys of priod.toml
// that flags stand for in short: --allocation, --order owed, --preemption, --round and --sizing.
func (s *Spec) site(in *Input) (site.Spec, error) {
	to := site.Spec{
		Order: s.Order, SlurmOrder: s.SlurmOrder, Backfill: s.Backfill, Placement: s.Placement, Retry: s.Retry, Waits: s.Waits, Window: s.Window,
		Seed: s.Seed, Overheads: s.Overheads, NodeCosts: s.NodeCosts, SpreadCosts: s.SpreadCosts,
	}
	if s.Preemption == site.SlurmQOS {
		to.Preemption = s.Preemption
	}
	if s.Priod() {
		c, err := s.configured(in)
		in.Config, to.Order = c, "priod"
		return to, err
	}
	return to, to.Check()
}

// configured is priod's configuration with what flags say in short.
func (s *Spec) configured(in *Input) (*config.Config, error) {
	if in.Config == nil {
		return nil, errors.New("order priod wants a configuration")
	}
	c := *in.Config
	switch {
	case s.Preemption == site.SlurmQOS:
		return nil, virtual.OptionError("--preemption slurm-qos is Slurm's own, without priod: want --order multifactor or fifo beside it")
	case s.evicts():
		c.Preemption.Enabled, c.Preemption.Policy = true, s.Preemption
	case s.Preemption == "te-first":
		c.Preemption.Enabled = false
	}
	if s.Allocation != "none" {
		c.Allocation.Policy, c.Steering.Enabled = s.Allocation, true
	}
	if s.Order == "owed" {
		c.Ranking.Order = s.Order
	}
	if s.Round != 0 {
		c.Rounds.Enabled, c.Rounds.Length = true, config.Duration(s.Round*float64(time.Second))
	}
	if s.sizes() {
		c.Sizing.Enabled = true
	}
	return &c, nil
}

// proportional drops what jobs with GPUs ask for beside these: each then gets its share
// of the node.
func proportional(jobs iter.Seq2[trace.Job, error]) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			if j.GPUs > 0 {
				j.CPUs, j.MemMB = 0, 0
			}
			if !yield(j, err) {
				return
			}
		}
	}
}

func inRounds(ctx context.Context, spec Spec, in Input) (Result, error) {
	order, err := rounds.ParseOrder(spec.Order)
	if err != nil {
		return Result{}, err
	}
	opt := rounds.Options{Round: spec.Round, Order: order, Speed: in.Speed, Window: spec.Window}
	if opt.Model, err = spec.model(&in); err != nil {
		return Result{}, err
	}
	if spec.Speeds != "known" {
		opt.Estimator = gavel.Learner(spec.Speeds == "history", spec.HistoryJobs)
	}
	var series metrics.Series
	opt.Watch = func(r rounds.Round) {
		gpus := 0
		for _, a := range r.Runs {
			if a.Beside == nil || a.Job.Index < a.Beside.Index {
				gpus += a.Job.Job.GPUs
			}
		}
		series.Add(metrics.Point{At: r.Start, GPUs: gpus, Queued: r.Jobs - len(r.Runs)})
	}
	var seen []metrics.Job
	r, err := rounds.Run(ctx, in.Cluster, func(yield func(trace.Job, error) bool) {
		for j, err := range in.Jobs {
			seen = append(seen, metrics.JobOf(&j))
			if !yield(j, err) {
				return
			}
		}
	}, opt)
	return Result{Types: in.Cluster.Types(), Jobs: seen[:len(r.Outcomes)], Outcomes: r.Outcomes, Series: series.Points()}, err
}

// model is how time counts in a round.
func (s *Spec) model(in *Input) (rounds.Model, error) {
	if s.RoundModel == "synergy" {
		sizer, err := sizing.NewSizer(s.Sizing, in.Cluster, in.Curve)
		return rounds.Synergy{FirstRound: s.FirstRound, Sizer: sizer}, err
	}
	return gavel.Model(gavel.Options{
		Policy: s.Allocation, Published: s.RoundModel == "gavel-published", Seed: s.Seed, Speed: in.Speed, Types: in.Cluster.Types(),
		Pairs: in.Pairs, Tried: s.PairsTried, References: s.PairReferences, Workloads: in.PairWorkloads, Trouble: in.Trouble,
	})
}
