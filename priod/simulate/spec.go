package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spec says which policy runs: one field for each dimension, named as priod
// simulate's flags are. Empty fields take their defaults in Check.
type Spec struct {
	Engine     string        // slurm, rounds
	Order      string        // who goes first
	LASQueues  []float64     // borders between las's queues, GPU-seconds attained
	Backfill   string        // who may go before
	Placement  string        // where
	Allocation string        // which share of which GPU type
	Preemption string        // who has to leave for whom
	Sizing     string        // with how many CPUs and how much memory
	Round      time.Duration // of engine rounds
	RoundModel string        // of engine rounds: gavel, synergy
	Window     Window
	Seed       uint64
	Overheads  Overheads
}

// Window measures only the jobs First to Last in order of arrival, inclusive.
// The zero Window measures all.
type Window struct {
	First, Last int
	Set         bool
}

// Overheads are what moving a job costs on a real cluster, in seconds; zero
// costs nothing.
type Overheads struct {
	Requeue    float64 // from leaving to being eligible again: 121 on Slurm by default
	Prolog     float64
	Epilog     float64
	Restart    float64 // from start until progress is made again after an eviction
	Checkpoint float64 // between checkpoints, for jobs that do not say
	MTBF       float64 // mean time between failures of one node; 0: none fails
	Repair     float64 // mean time until a failed node is back
}

// choice is a dimension: its values, the first of which is the default, and
// those that this version does not know yet.
type choice struct {
	flag  string
	have  []string
	later []string
}

// The dimensions of policy. A value of later names a policy of the papers that
// this version of priod cannot run.
var (
	engines     = choice{"engine", []string{"slurm", "rounds"}, nil}
	orders      = choice{"order", []string{"fifo", "sjf", "srtf", "las", "ftf", "multifactor", "priod"}, nil}
	backfills   = choice{"backfill", []string{"none", "easy", "conservative", "skip"}, nil}
	placements  = choice{"placement", []string{"pool", "packed", "consolidated"}, nil}
	allocations = choice{"allocation", []string{"none", "isolated", "proportional"}, []string{"max-min", "water-filling", "hierarchical", "finish-time-fairness", "makespan", "max-throughput", "min-cost", "fifo", "sjf", "allox", "gandiva", "strategy-proof"}}
	preemptions = choice{"preemption", []string{"none", "te-first"}, []string{"lrtp", "random", "fitgpp", "least-loss"}}
	sizings     = choice{"sizing", []string{"request", "proportional"}, []string{"greedy", "tune", "opt", "waterfill"}}
	models      = choice{"round-model", []string{"gavel", "synergy"}, nil}
)

// Values lists what a flag takes, for its help.
func (c choice) Values() string { return strings.Join(c.have, ", ") }

func (c choice) check(value *string) error {
	if *value == "" {
		*value = c.have[0]
	}
	if slices.Contains(c.have, *value) {
		return nil
	}
	if slices.Contains(c.later, *value) {
		return fmt.Errorf("--%s %s: this version of priod does not have that policy yet; it has %s", c.flag, *value, c.Values())
	}
	return fmt.Errorf("--%s %q: want one of %s", c.flag, *value, c.Values())
}
