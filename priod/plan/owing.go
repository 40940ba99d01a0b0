package plan

import "slurmprio/priod/cluster"

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
