package speed

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

// unended are the states in which a job's run ends and the job does not.
var unended = []string{"PREEMPTED", "REQUEUED", "NODE_FAIL", "RESIZING"}

// Completed puts together the runs of each job that completed, in the order of
// their ids. What a job did before it was requeued counts when its tag says that
// it saves its state; else it began anew. What ran shorter teaches nothing.
func (s *Settings) Completed(stays []cluster.PastStay, shortest time.Duration, table *workload.Table) []Run {
	slices.SortStableFunc(stays, func(a, b cluster.PastStay) int {
		return cmp.Or(cmp.Compare(a.RawID, b.RawID), a.Start.Compare(b.Start))
	})
	var (
		runs    []Run
		seconds map[string]float64
		resized bool // the run before ended in a change of what it holds, and went on
		unknown bool // time of the job on GPUs of no known type
		last    uint32
	)
	for i := range stays {
		r := &stays[i]
		if r.RawID != last {
			seconds, unknown, last = nil, false, r.RawID
		}
		if r.Start.IsZero() || r.End.IsZero() || r.GPUs == 0 {
			continue
		}
		tag, _ := jobtag.Parse(r.Tag) // one that is not valid says nothing
		if seconds == nil || !resized && tag.Ckpt == 0 && tag.Grace == 0 {
			seconds, unknown = map[string]float64{}, false
		}
		resized = r.State == "RESIZING"
		seconds[s.Today(r.GPUType)] += r.Length().Seconds()
		unknown = unknown || r.GPUType == ""
		if slices.Contains(unended, r.State) {
			continue
		}
		total := 0.0
		for _, x := range seconds {
			total += x
		}
		if r.State == "COMPLETED" && !unknown && total >= shortest.Seconds() {
			j := Job{Tag: tag, User: r.User, Name: r.Name, GPUs: r.GPUs}
			runs = append(runs, Run{Program: j.Program(table), Seconds: seconds, Work: cmp.Or(tag.Steps, r.Steps)})
		}
		seconds = nil // the id may come again
	}
	return runs
}
