package plan

import (
	"math"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/speed"
)

// Shares is what the allocation gives the jobs of one cycle, and what they have
// had of it. It is valid until the next one.
type Shares struct {
	Types []string               // GPU types of the nodes, sorted: the order of the slices below
	Jobs  cluster.JobMap[*Share] // GPU jobs of ranked partitions that run, or wait and may start
	Queue []*Share               // the same in the order of the snapshot, nil for its other jobs; may be left out
	At    time.Time              // of the allocation
	Until time.Time              // then it is too old
	Since time.Time              // Share.Received counts from here
	Notes []Note
}

// Of is that of a job, which stands at this place in the snapshot; nil: it has none.
func (s *Shares) Of(j *cluster.Job, at int) *Share {
	if at < len(s.Queue) {
		return s.Queue[at]
	}
	return s.Jobs.Get(j.ID)
}

// Share is one job's. An unsplit array has one, of each of its tasks. All slices
// go by GPU type; do not write into them.
type Share struct {
	Answers  *speed.Answers // the sources of its speed, and how sure that is
	Speed    []float64      // relative: 1 on its fastest type; 0: it cannot run there (its own constraint, or it is too large)
	Time     []float64      // fraction of its time that is allocated; nil: not yet
	Received []float64      // its part of the time that all jobs ran there (allocate.Account)
	Seconds  []float64      // s received in its life
	Owed     []float64      // s promised in its life and not received; below zero: it has had more
	Run      []float64      // s that it would still run there, by its steps or its time limit, a second of work at least; infinite where it cannot run
	Beyond   float64        // s of work on its fastest type that it has done beyond its steps or time limit

	// What is promised: Promised s up to Given, and Time since then.
	Promised []float64
	Given    time.Time

	// Priority is the best of Time over Received (Gavel, OSDI'20, section 5), and of
	// Time x Untouched where nothing was received; 0: no time is allocated.
	Priority float64
}

// Unknown reports whether the job's speed is unknown on any type where it can run.
func (s *Share) Unknown() bool {
	if s.Answers == nil {
		return false
	}
	for t, a := range s.Answers.Speeds {
		if s.Speed[t] > 0 && a.Source != speed.None {
			return false
		}
	}
	return true
}

// Untouched is what Gavel weighs the time by that a job is allocated on a type of
// which it has received nothing yet.
const Untouched = 1e9

// Owing is what the allocation owes the jobs of one cycle: what the end of a round
// is decided on. Times are in seconds; what is owed is on a job's fastest type.
type Owing struct {
	Waiting []Owed // in the order of the queue, jobs that wait for the GPU type that their constraint holds
	Running cluster.JobMap[Owed]
	First   []cluster.JobID // in their order, TE jobs without a place: Slurm gives them what becomes free before all of Waiting
}

// Owed is one job's part of it.
type Owed struct {
	Job   cluster.JobID
	Owed  float64 // below zero: it has had more than its due
	Start float64 // expected, from now; of a job that waits
	Run   float64 // expected on the GPU type that it holds or waits for
}

// Lead is what a job that is nearly done is owed beyond its due: Most s at its end,
// half of that with Half s to run. The zero value: run times are unknown.
type Lead struct{ Most, Half float64 }

// Owed is what a job is owed by its allocations, in seconds on its fastest
// type: owed[t] is what it was promised and did not receive of type t, s, run[t]
// how long it would still run there.
func (l Lead) Owed(owed, run []float64) float64 {
	shortest := math.Inf(1)
	for _, r := range run {
		shortest = min(shortest, r)
	}
	if math.IsInf(shortest, 1) {
		return 0
	}
	sum := 0.0
	for t, o := range owed {
		if !math.IsInf(run[t], 1) && run[t] > 0 {
			sum += o * shortest / run[t]
		}
	}
	return sum + l.Ahead(shortest)
}

// Ahead is what a job is owed beyond its due when its fastest type would be done
// with it in left seconds: it comes before its turn, and those that wait for it
// are soon alone again. So the mean of the times falls and no share does.
func (l Lead) Ahead(left float64) float64 {
	if l.Most == 0 {
		return 0
	}
	return l.Most * l.Half / (left + l.Half)
}
