// Package market is the optimiser behind the allocation policies of Gavel
// (OSDI'20, section 4): jobs buy time on GPU types.
//
// Jobs meet only in the capacity of a few types. With a price for each type, a
// job that needs a given throughput has a cheapest mix of at most two types, in
// closed form (mix.go). For fixed throughputs a simplex over those mixes, with
// one row for each type, finds which job has to take which type when the cheapest ones do
// not fit (clear.go); when nothing fits its prices prove it. MaxLevel raises
// the throughputs of all jobs together to the highest level that fits: prices
// that prove a level infeasible also say how much lower it has to be
// (level.go). That level is then an upper bound which the mixes reach.
package market

import "slices"

// Market is what jobs share.
type Market struct {
	GPUs  []float64 // of each type
	Jobs  []Job
	Guess []float64 // prices to start from; nil: none
}

// Job is a class of Count equal jobs.
type Job struct {
	Speed []float64 // steps/s on each type with all of a job's GPUs; 0: cannot run there
	GPUs  float64   // of one job
	Count float64
}

// Fastest is the most that a job can reach: always on its fastest type.
func (j *Job) Fastest() float64 { return slices.Max(j.Speed) }
