package runtimes

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
)

// Past are the runs of accounting, each once. They count as submitted when they started: accounting's times of
// submission change with a requeue.
func Past(stays []cluster.PastStay) []Run {
	stays = slices.Clone(stays)
	slices.SortFunc(stays, func(a, b cluster.PastStay) int {
		return cmp.Or(cmp.Compare(a.RawID, b.RawID), a.Start.Compare(b.Start))
	})
	stays = slices.CompactFunc(stays, func(a, b cluster.PastStay) bool { return a.RawID == b.RawID && a.Start.Equal(b.Start) })
	runs := make([]Run, len(stays))
	for i := range stays {
		s := &stays[i]
		runs[i] = Run{
			Kind:   Kind{User: s.User, Program: cmp.Or(s.Tag.Workload, s.Name), GPUs: s.GPUs, Limit: max(s.Limit, 0)},
			Submit: s.Start, Start: s.Start, End: s.End, Cut: !slices.Contains(ends, s.State),
		}
	}
	return runs
}

// ends are the states of runs that their program or their user ended.
var ends = []string{"COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY"}

// Going are the GPU jobs of a snapshot that run.
func Going(jobs []cluster.Job) (runs []Run) {
	for i := range jobs {
		if j := &jobs[i]; j.State == cluster.Running && j.GPUs > 0 {
			runs = append(runs, Run{Kind: KindOf(j), Submit: j.Start, Start: j.Start})
		}
	}
	return runs
}

// KindOf is what is known of a job of a snapshot.
func KindOf(j *cluster.Job) Kind {
	return Kind{User: j.User, Program: cmp.Or(j.Tag.Workload, j.Name), GPUs: j.GPUs, Limit: max(j.TimeLimit, 0)}
}
