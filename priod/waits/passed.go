package waits

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// Run is a job that waited and started, for Passed.
type Run struct {
	Job   cluster.JobID
	Pool  string // GPUs of one type that it could have had
	GPUs  int
	Since time.Time // it waits for room
	Start time.Time
	End   time.Time     // or when it was last seen
	Torn  time.Duration // of its wait, by fragmentation
}

// Passed is a job that others passed to its harm: jobs that came later started before it,
// and with first come, first served, it would have started sooner.
type Passed struct {
	Job  cluster.JobID
	Late time.Duration // later than first come, first served
	By   int           // jobs that came later and started before it, after the time that it lost
}

// FindPassed compares with first come, first served in pools of so many GPUs, where each
// job runs as long as it did. What fragmentation made of a job's wait does not count as
// lost to others. earlier counts the jobs that started sooner than so.
func FindPassed(runs []Run, gpus map[string]int) (passed []Passed, earlier int) {
	pools := map[string][]*Run{}
	for i := range runs {
		r := &runs[i]
		pools[r.Pool] = append(pools[r.Pool], r)
	}
	for key, runs := range pools {
		slices.SortFunc(runs, func(a, b *Run) int { return cmp.Or(a.Since.Compare(b.Since), a.Job.Compare(b.Job)) })
		starts := inTurn(runs, gpus[key])
		for i, r := range runs {
			late := r.Start.Add(-r.Torn).Sub(starts[i])
			if late < 0 {
				earlier++
			}
			if late <= 0 {
				continue
			}
			by := 0
			for _, other := range runs[i+1:] {
				if other.Since.After(r.Start) {
					break
				}
				if other.Start.Before(r.Start) && other.End.After(starts[i]) {
					by++
				}
			}
			if by > 0 {
				passed = append(passed, Passed{Job: r.Job, Late: late, By: by})
			}
		}
	}
	slices.SortFunc(passed, func(a, b Passed) int { return cmp.Or(cmp.Compare(b.Late, a.Late), a.Job.Compare(b.Job)) })
	return passed, earlier
}

// inTurn is when each of these would start, the first first, none before another.
func inTurn(runs []*Run, gpus int) []time.Time {
	starts := make([]time.Time, len(runs))
	at, free := time.Time{}, gpus
	var running ends
	for i, r := range runs {
		at = latest(at, r.Since)
		for len(running) > 0 && (!running[0].over().After(at) || free < r.GPUs) {
			first := heap.Pop(&running).(*run)
			at, free = latest(at, first.over()), free+first.gpus
		}
		starts[i] = at
		free -= r.GPUs
		heap.Push(&running, &run{gpus: r.GPUs, start: r.Start, end: r.End, settled: at})
	}
	return starts
}
