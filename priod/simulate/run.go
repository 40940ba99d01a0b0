package simulate

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"slurmprio/priod/config"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/ideal/policies"
	"slurmprio/priod/simulate/ideal/preempt"
	"slurmprio/priod/simulate/ideal/published"
	"slurmprio/priod/simulate/ideal/rounds"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// Input is what a policy is run on.
type Input struct {
	Cluster trace.Cluster
	Jobs    iter.Seq2[trace.Job, error] // in the order of submission
	// Speed is the work per second of a job on a GPU type with all of its
	// GPUs: steps for a job with a workload, seconds of its duration else; 0
	// where it cannot run.
	Speed func(job *trace.Job, gpuType string) float64
	// Curve is how that speed depends on CPUs and memory; nil: nobody knows.
	Curve         func(job *trace.Job, gpuType string) *workload.Curve
	Pairs         Pairs           // of allocations with space sharing
	PairWorkloads []string        // those that Pairs knows, which may be references for the others
	Config        *config.Config  // of order priod
	Table         *workload.Table // what that priod is told of programs
	// Learning is how the site judges what history teaches, where speeds are
	// learned.
	Learning speed.Settings
	// Trouble gets what an allocation's optimiser failed on, at a time in s;
	// the last allocation then stays. nil: the run ends with the error.
	Trouble func(now float64, err error, p *policies.Problem)
}

// Result is what came out.
type Result struct {
	Figures  metrics.Figures
	Types    []string      // GPU types of the cluster
	Jobs     []metrics.Job // by order of arrival
	Outcomes []metrics.Outcome
	Series   []metrics.Point // GPUs in use and jobs waiting over time
}

// Run simulates; spec has passed Check.
func Run(ctx context.Context, spec Spec, in Input) (Result, error) {
	run := slurm
	if spec.Engine == "rounds" {
		run = inRounds
	}
	r, err := run(ctx, spec, in)
	if err != nil {
		return r, err
	}
	r.Figures, err = metrics.Measure(r.Jobs, r.Outcomes, spec.Window, in.Cluster.TotalGPUs())
	return r, err
}

var placementModes = map[string]placement.Mode{"pool": placement.Pool, "packed": placement.Packed, "consolidated": placement.Consolidated}

func slurm(ctx context.Context, spec Spec, in Input) (Result, error) {
	jobs := in.Jobs
	if spec.Sizing == "proportional" {
		jobs = proportional(jobs)
	}
	o, order := spec.Overheads, virtual.Order(spec.Order)
	if spec.Order == "owed" {
		order = virtual.FIFO // within the ranks that steering gives
	}
	opt := virtual.Options{
		Order: order, Backfill: virtual.Backfill(spec.Backfill), Placement: placementModes[spec.Placement],
		TEFirst: spec.Preemption != "none" && spec.Order != "priod", LASQueues: spec.LASQueues, Depth: spec.Depth,
		Multifactor: virtual.DefaultWeights, Speed: in.Speed, Window: spec.Window, Seed: spec.Seed,
		Grace: o.Grace, RequeueDelay: o.Requeue, Prolog: o.Prolog, Epilog: o.Epilog, Checkpoint: o.Checkpoint,
		RestartCost: o.Restart, Hold: o.Hold, MTBF: o.MTBF, Repair: o.Repair, UserGPUs: spec.UserGPUs, AccountGPUs: spec.AccountGPUs,
	}
	if spec.Allocation != "none" && spec.Order != "priod" {
		policy, err := policies.ParsePolicy(spec.Allocation)
		if err != nil {
			return Result{}, err
		}
		s := newSteerer(policy, spec, in.Trouble)
		opt.Steer, opt.SteerEvery = s.decide, spec.Cycle
		if spec.Round > 0 {
			opt.Evict, opt.Every = s.yields, spec.Round
		}
	}
	switch {
	case spec.Order == "priod":
		c, err := spec.configured(&in)
		if err != nil {
			return Result{}, err
		}
		if opt.Daemon = daemonOf(c, in.Table); spec.SlurmOrder == "fifo" {
			opt.Multifactor = virtual.FIFOWeights
		}
	case spec.sizes():
		s, err := newStarts(spec.Sizing, &in)
		if err != nil {
			return Result{}, err
		}
		jobs, opt.Size = s.least(proportional(jobs)), s.size
	}
	if in.sized() {
		opt.Speedup = in.speedup
	}
	if spec.evicts() && spec.Order != "priod" {
		opt.Evict = preempt.Evict(spec.Eviction, preempt.Costs{Grace: o.Grace, Checkpoint: o.Checkpoint, Restart: o.Restart})
	}
	r, err := virtual.Run(ctx, in.Cluster, jobs, opt)
	return Result{Types: r.Types, Jobs: r.Jobs, Outcomes: r.Outcomes, Series: r.Series}, err
}

// proportional drops what jobs ask for beside GPUs: each then gets its share
// of the node.
func proportional(jobs iter.Seq2[trace.Job, error]) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			j.CPUs, j.MemMB = 0, 0
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
	var model rounds.Model
	switch spec.RoundModel {
	case "gavel", "gavel-published":
		g := rounds.Gavel{Agnostic: spec.agnostic()}
		if spec.RoundModel == "gavel-published" {
			g.Published = faults(spec)
		}
		switch spec.Allocation {
		case "none":
		case "isolated":
			g.Allocator = rounds.Isolated()
		case "proportional":
			g.Allocator = rounds.Proportional()
		default:
			policy, err := policies.ParsePolicy(spec.Allocation)
			if err != nil {
				return Result{}, err
			}
			g.Makespan = policy.Name == "makespan"
			switch {
			case !policy.Pairs():
				g.Allocator = allocator(policy, g.Published != nil, in.Trouble)
			case in.Pairs == nil:
				return Result{}, fmt.Errorf("allocation %s: no speeds of pairs", spec.Allocation)
			case spec.PairsTried > 0:
				g.Sharer = sharer(policy, in.Pairs, newTrials(&spec, &in), in.Trouble)
			default:
				g.Sharer = sharer(policy, in.Pairs, nil, in.Trouble)
			}
		}
		model = g
	case "synergy":
		sizer, err := newSizer(spec.Sizing, &in)
		if err != nil {
			return Result{}, err
		}
		model = rounds.Synergy{FirstRound: spec.FirstRound, Sizer: sizer}
	default:
		return Result{}, fmt.Errorf("no round model %q", spec.RoundModel)
	}
	opt := rounds.Options{Model: model, Round: spec.Round, Order: order, Speed: in.Speed, Window: spec.Window}
	if spec.Speeds != "known" {
		opt.Estimator = newLearner(&spec, in.Learning)
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

// faults are those of Gavel's published scheduler: the baseline. Agnostic
// policies serve the types in an order drawn for each round.
func faults(spec Spec) *rounds.Published {
	p := &rounds.Published{Strict: strings.HasPrefix(spec.Allocation, "fifo")}
	if spec.agnostic() {
		p.TypeOrder = published.Shuffle(spec.Seed)
	}
	return p
}
