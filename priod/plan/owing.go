package plan

import (
	"math"

	"slurmprio/priod/cluster"
)

// Owing is what the allocation owes the jobs of one cycle: what the end of a round
// is decided on. Times are in seconds; what is owed is on a job's fastest type.
type Owing struct {
	Waiting []Owed // in the order of the queue, jobs that wait for the GPU type that their constraint holds
	Running map[cluster.JobID]Owed
	First   []cluster.JobID // in their order, TE jobs without a place: Slurm gives them what comes free before all of Waiting
}

// Owed is one job's part of it.
type Owed struct {
	Job   cluster.JobID
	Owed  float64 // below zero: it has had more than its due
	Start float64 // expected, from now; of a job that waits
	Run   float64 // expected on the GPU type that it holds or waits for
}

// Lead is what a job that is nearly done is owed beyond its due: Most s at its end,
// half of that with Half s to run. The zero value: nobody says how long jobs run.
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
// with it in left seconds: it comes before its turn, and those who wait for it
// are soon alone again. So the mean of the times falls and nobody's share does.
func (l Lead) Ahead(left float64) float64 {
	if l.Most == 0 {
		return 0
	}
	return l.Most * l.Half / (left + l.Half)
}
