// Package virtual is a Slurm in virtual time: nodes with GPU types, a priority order, the main scheduler, backfill by time
// limits, requeue and node failures. It is an event-driven simulator and reads no clock: the same jobs, options and seed give
// the same result.
//
// Jobs with equal requests but for memory share a class (queue.go), which watches for room for the job that asks for least. A
// scheduling pass asks each class for its first job that may start, so the cost of an event does not grow with the length of
// the queue. Jobs with GPUs, and those without in each partition, are lines that do not block each other (kinds.go).
package virtual

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// Order is the order of the queue.
type Order string

// The orders.
const (
	FIFO        Order = "fifo"        // first come, first served
	Multifactor Order = "multifactor" // Slurm's own
	Priod       Order = "priod"       // Slurm's own, with priod's daemon beside it
)

// Backfill is what may start before the head of the queue.
type Backfill string

// The ways of backfill.
const (
	NoBackfill Backfill = "none" // nothing: the head blocks
	EASY       Backfill = "easy" // what does not delay the head (Lifka, JSSPP'95)
	// Conservative is what delays no job before it (Mu'alem and Feitelson, TPDS'01): Slurm's sched/backfill.
	Conservative Backfill = "conservative"
)

// Options say how the virtual Slurm schedules. The zero value of each field of the second half switches it off.
type Options struct {
	Order    Order    // "" is FIFO
	Backfill Backfill // "" is none
	Own
	Placement placement.Mode // 0 is packed
	TEFirst   bool           // TE jobs rank ahead of BE jobs; none is evicted for it
	Daemon    Daemon         // of order priod
	// Speed is what a job does on a GPU type, in steps per second; 0 where it
	// cannot run. A job given by its duration has speed 1 everywhere.
	Speed  func(job *trace.Job, gpuType string) float64
	Window *metrics.Window // stop when these jobs are done
	Seed   uint64
	Origin time.Time // second 0 of the trace; zero: Epoch
	// Number, if set, is a job's id in Slurm, by its id in the trace and its place in the order of arrival.
	Number func(id string, place int) cluster.JobID

	// Hold is how long, s, a BE job with a workload and no GPU type of its own begins
	// after its submission: sbatchwrap sends it so, for priod to see it first.
	Hold         float64
	Grace        float64           // s to leave, for jobs that do not say; see Evict
	RequeueDelay float64           // s from leaving until the job may run again; Slurm's is 121
	Prolog       float64           // s before each run, on its nodes
	Epilog       float64           // s after each run, on its nodes
	Checkpoint   float64           // s between checkpoints, for jobs that do not say
	RestartCost  float64           // s of each later run that make no progress
	Shares       map[string]int    // Fairshare of accounts
	MTBF         float64           // mean time between failures of one node, s; exponential
	Repair       float64           // s until a failed node is back
	NodeEvents   []trace.NodeEvent // what else happens to nodes

	// Speedup, if set, is how many times as fast a job is with so many CPUs and MB
	// for each of its GPUs as with their share; its slowest node counts.
	Speedup func(job *trace.Job, gpuType string, cpus, memMB float64) float64
	// Spread, if set, is the part of its speed that a job keeps on so many times as many leaf switches as it needs.
	Spread func(times float64) float64
	// SpreadNodes, if set, is the same of nodes.
	SpreadNodes func(times float64) float64
	// Evict, if set, is asked after each scheduling pass which jobs have to leave.
	Evict func(*System) []Eviction
}

// Own is what a Slurm's configuration and version say of its own scheduling. The zero value is a Slurm by default.
type Own struct {
	Depth       int     `json:"depth"`    // so many jobs, each counted in each of its partitions, conservative backfill keeps places for; 0: Slurm's default
	ByNode      bool    `json:"by_node"`  // a place that it keeps begins when the last job on its nodes ends, not the last of those that end together
	Interval    float64 `json:"interval"` // s that backfill sleeps between two runs; 0: it runs after each event
	Pause       float64 `json:"pause"`    // s from one run of the main scheduler to the next at the least, in whole seconds; 0: it runs after each event
	Multifactor Weights `json:"weights"`
}

// Daemon is priod beside the virtual Slurm.
type Daemon struct {
	Settings cycle.Settings
	Interval time.Duration
	Watch    time.Duration // evictions under way are looked at so often between two cycles
	// Learn, if set, is given the runs that have ended, every LearnEvery: it teaches the
	// settings what the daemon would learn from accounting.
	Learn      func(set *cycle.Settings, past []cluster.PastStay)
	LearnEvery time.Duration
	LearnFrom  time.Duration // runs that ended longer ago teach nothing
	// Partitions are those of jobs without GPUs that priod looks at, beside Partition; none: all.
	Partitions []string
	Seen       func(*cycle.Result) // if set, is shown each cycle; it keeps nothing of it
	Unseen     func(cluster.Stay)  // if set, hears of each run that no cycle saw, as accounting tells of it
	Calls      int                 // cycles that TE submissions bring forward within a minute, at most

	// Record, if set, returns what keeps the cycles; nil: nothing does. History is then what an earlier priod knew.
	Record  func(cycle.Slurm) Recorder
	History *cluster.History

	Off func(at time.Time) bool // whether a trial has priod off then; nil: never

	Every bool // also those cycles that would change nothing
}

// Recorder keeps cycles, evictions and failures as the daemon's store does.
type Recorder interface {
	cycle.Recorder
	SaveEvictions(context.Context, *cycle.Evictions) error
	SaveFailures(context.Context, *cycle.Failures) error
	SaveSpells(context.Context, cycle.Spells) error
}

// Result is a finished run.
type Result struct {
	Types    []string      // the cluster's GPU types
	Jobs     []metrics.Job // by order of arrival
	Outcomes []metrics.Outcome
	Series   []metrics.Point
	End      float64 // when it stopped, s
}

// OptionError says which options do not go together, or with this cluster.
type OptionError string

func (e OptionError) Error() string { return string(e) }

// Run simulates the jobs, which come in the order of their submission, on the
// cluster. It ends when all jobs, or those of the window, are done.
func Run(ctx context.Context, c trace.Cluster, jobs iter.Seq2[trace.Job, error], opt Options) (Result, error) {
	if err := check(c, &opt); err != nil {
		return Result{}, err
	}
	e := newEngine(ctx, c, opt)
	err := e.run(jobs)
	if err == nil && opt.Daemon.Record != nil { // once more, for those that left last
		e.now = next(e.now, opt.Daemon.Interval.Seconds())
		err = e.step()
	}
	if err != nil {
		return Result{}, err
	}
	return e.finish(), nil
}

// check fills in what is left open and refuses what makes no sense.
func check(c trace.Cluster, o *Options) error {
	if o.Order == "" {
		o.Order = FIFO
	}
	if o.Backfill == "" {
		o.Backfill = NoBackfill
	}
	o.Depth = cmp.Or(o.Depth, slurmplug.BackfillDepth)
	finite := func(values ...float64) bool {
		return !slices.ContainsFunc(values, func(v float64) bool { return !(v >= 0) || math.IsInf(v, 1) })
	}
	types := len(c.Types())
	for _, rule := range []struct {
		broken bool
		say    string
	}{
		{c.TotalGPUs() == 0, "the cluster has no GPUs"},
		{len(kindsOf(c).names) > placement.MaxTypes, fmt.Sprintf("the cluster has %d GPU types; %d is the most, with nodes without GPUs one less", types, placement.MaxTypes)},
		{!slices.Contains([]Order{FIFO, Multifactor, Priod}, o.Order), fmt.Sprintf("no order %q: want fifo, multifactor or priod", o.Order)},
		{!slices.Contains([]Backfill{NoBackfill, EASY, Conservative}, o.Backfill), fmt.Sprintf("no backfill %q: want none, easy or conservative", o.Backfill)},
		{!finite(o.Hold, o.Grace, o.RequeueDelay, o.Prolog, o.Epilog, o.Checkpoint, o.RestartCost, o.MTBF, o.Repair), "times are finite and not negative"},
		{o.Window != nil && (o.Window.First < 0 || o.Window.Last < o.Window.First), "the window's last job comes before its first"},
		{o.MTBF > 0 && o.Repair == 0, "a failed node wants a time for its repair: --repair beside --mtbf"},
		{o.Order == Priod && o.Daemon.Interval <= 0, "order priod wants the daemon's interval"},
	} {
		if rule.broken {
			return OptionError(rule.say)
		}
	}
	return nil
}
