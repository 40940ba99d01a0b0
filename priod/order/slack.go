package order

import (
	"math"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// fairPart is the part of a job's fair finish time that it may take before it counts as late. A fair finish
// takes as long as the job would with its share of the GPUs: its run time, times the number of jobs for each
// GPU (finish-time fairness: Themis, NSDI'20; Shockwave, NSDI'23, section 2). What is left to 1 is the time in
// which a late job finds its place. docs/evidence/steering.md measures 0.7 to 0.95.
const fairPart = 0.95

// lateFirst is more than any remaining run time, s: late jobs rank ahead of all others.
const lateFirst = 1e9

// contention returns how many jobs with GPUs run or wait for each GPU that jobs of a list of partitions reach, at least 1.
func contention(s *cluster.Snapshot, h *cluster.History) func(partitions string) float64 {
	jobs := map[string]int{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.GPUs > 0 {
			jobs[h.Reaches(j)] += max(j.TaskCount, 1)
		}
	}
	perGPU := plan.PerGPU(s.Nodes, jobs)
	return func(partitions string) float64 { return max(1, perGPU(partitions)) }
}

// bySlack is the precedence in order slack of a job that waits since it could first have run, among so many for each GPU. It is late when
// its completion, if it started now on its fastest type, exceeds fairPart of its fair finish time. Late jobs
// come first, by that ratio, then the others by remaining run time, the longest first, so that no long job is
// left for the end.
func (d *decider) bySlack(since time.Time, share *plan.Share, contention float64) (precedence float64, late bool) {
	left, done := math.Inf(1), 0.0 // s on the fastest type
	for t, run := range share.Run {
		left = min(left, run)
		if t < len(share.Seconds) && t < len(share.Speed) {
			done += share.Seconds[t] * share.Speed[t]
		}
	}
	if math.IsInf(left, 1) || left <= 0 {
		return 0, false
	}
	fair := (left + done) * contention
	if ratio := (d.s.At.Sub(since).Seconds() + left) / fair; ratio > fairPart {
		return lateFirst + lateFirst*ratio, true
	}
	return min(left, lateFirst), false
}
