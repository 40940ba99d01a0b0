package plan

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/speed"
)

// Shares is what the allocation gives the jobs of one cycle, and what they have
// had of it. It is valid until the next one.
type Shares struct {
	Types []string                 // GPU types of the nodes, sorted: the order of the slices below
	Jobs  map[cluster.JobID]*Share // GPU jobs of ranked partitions that run, or wait and may start
	At    time.Time                // of the allocation
	Since time.Time                // Share.Received counts from here
	Notes []string
}

// Share is one job's. An unsplit array has one, of each of its tasks. All slices
// go by GPU type; do not write into them.
type Share struct {
	Answers  *speed.Answers // who said how fast it is, and how sure that is
	Speed    []float64      // relative: 1 on its fastest type; 0: it cannot run there (its own constraint, or it is too large)
	Time     []float64      // fraction of its time that is allocated; nil: not yet
	Received []float64      // its part of the time that all jobs ran there (allocate.Account.Fraction)
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

// Unknown tells whether nobody knows how fast the job is on any type where it can run.
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
