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
	By   int           // jobs that came later and started before it
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
		starts, by := inTurn(runs, gpus[key]), overtakers(runs)
		for i, r := range runs {
			late := r.Start.Add(-r.Torn).Sub(starts[i])
			switch {
			case late < 0:
				earlier++
			case late > 0 && by[i] > 0:
				passed = append(passed, Passed{Job: r.Job, Late: late, By: by[i]})
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
		at = cluster.Later(at, r.Since)
		for len(running) > 0 && (!running[0].over().After(at) || free < r.GPUs) {
			first := heap.Pop(&running).(*run)
			at, free = cluster.Later(at, first.over()), free+first.gpus
		}
		starts[i] = at
		free -= r.GPUs
		heap.Push(&running, &run{gpus: r.GPUs, start: r.Start, end: r.End, settled: at})
	}
	return starts
}

// overtakers counts for each of these the later ones that started before it. Its sums
// are those of a Fenwick tree over the order of starts.
func overtakers(runs []*Run) []int {
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(runs[a].Start.Compare(runs[b].Start), cmp.Compare(a, b)) })
	before := make([]int, len(runs)) // how many started before each
	for k, i := range order {
		if before[i] = k; k > 0 && runs[order[k-1]].Start.Equal(runs[i].Start) {
			before[i] = before[order[k-1]]
		}
	}
	tree, by := make([]int, len(runs)+1), make([]int, len(runs))
	for i := len(runs) - 1; i >= 0; i-- {
		for k := before[i]; k > 0; k -= k & -k {
			by[i] += tree[k]
		}
		for k := before[i] + 1; k <= len(runs); k += k & -k {
			tree[k]++
		}
	}
	return by
}
