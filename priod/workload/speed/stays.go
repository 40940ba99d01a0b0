package speed

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
)

// requeueStates are those in which a stay ends and the job does not.
var requeueStates = []string{"PREEMPTED", "REQUEUED", "NODE_FAIL", "RESIZING"}

// Completed joins the stays of each job that completed into one Run, in the order of
// their ids. The stays before a requeue count when the job's tag says that it saves its
// state; else it started over. Jobs that ran shorter than shortest are left out.
func (s *Settings) Completed(stays []cluster.PastStay, shortest time.Duration, table *workload.Table) []Run {
	slices.SortStableFunc(stays, func(a, b cluster.PastStay) int {
		return cmp.Or(cmp.Compare(a.RawID, b.RawID), a.Start.Compare(b.Start))
	})
	var (
		runs    []Run
		seconds map[string]float64
		resized bool // the last stay ended because the job's resources changed: the job continued
		unknown bool // a part of the seconds was on GPUs of an unknown type
		last    uint32
		place   Place
	)
	for i := range stays {
		r := &stays[i]
		if r.RawID != last {
			seconds, unknown, last = nil, false, r.RawID
		}
		if r.Start.IsZero() || r.End.IsZero() || r.GPUs == 0 {
			continue
		}
		if seconds == nil || !resized && r.Tag.Ckpt == 0 && r.Tag.Grace == 0 {
			seconds, unknown = map[string]float64{}, false
			place = Place{Nodes: r.NodeList, Start: r.Start, Job: r.RawID}
		}
		if place.Nodes != r.NodeList {
			place.Nodes = ""
		}
		resized = r.State == "RESIZING"
		seconds[s.Today(r.GPUType)] += r.Length().Seconds()
		unknown = unknown || r.GPUType == ""
		if slices.Contains(requeueStates, r.State) {
			continue
		}
		total := 0.0
		for _, x := range seconds {
			total += x
		}
		if r.State == "COMPLETED" && !unknown && total >= shortest.Seconds() {
			j := Job{Tag: r.Tag.Tag, User: r.User, Name: r.Name, GPUs: r.GPUs}
			if place.Nodes == "" {
				place = Place{}
			}
			runs = append(runs, Run{Program: j.Program(table), Seconds: seconds, Work: cmp.Or(r.Tag.Steps, r.Steps), Limit: r.Limit.Seconds(), End: r.End, Place: place})
		}
		seconds = nil // the id may come again
	}
	return runs
}
