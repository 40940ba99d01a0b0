package simulate

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/simulate/metrics"
)

// returns watches the cycles for what guaranteed shares came to.
type returns struct {
	since  map[cluster.JobID]time.Time // waiting jobs that are entitled, and since when
	waits  []float64                   // s, of those that started
	first  map[cluster.JobID]float64   // when a job was first entitled while it waited, s from the trace's start
	prolog time.Duration
	origin time.Time
	asked  float64 // GPUs that entitled jobs lacked where room was made for them
	left   float64 // GPUs of the jobs that left for that
}

func newReturns(prolog float64, origin time.Time) *returns {
	return &returns{origin: origin, since: map[cluster.JobID]time.Time{}, first: map[cluster.JobID]float64{}, prolog: time.Duration(prolog * float64(time.Second))}
}

// see takes in one cycle.
func (r *returns) see(c *cycle.Result) {
	rights := map[cluster.JobID]cluster.Right{}
	for i := range c.Snapshot.Jobs {
		j := &c.Snapshot.Jobs[i]
		since, waited := r.since[j.ID]
		switch {
		case j.State == cluster.Pending:
			if rights[j.ID] = j.Right; j.Right != cluster.Entitled {
				delete(r.since, j.ID)
			} else if !waited {
				r.since[j.ID] = c.Snapshot.At
				if _, before := r.first[j.ID]; !before {
					r.first[j.ID] = c.Snapshot.At.Sub(r.origin).Seconds()
				}
			}
		case waited:
			r.waits = append(r.waits, max(j.Start.Sub(since)-r.prolog, 0).Seconds())
			delete(r.since, j.ID)
		}
	}
	free := map[string]int{} // GPUs of each node that no job holds
	for i := range c.Snapshot.Nodes {
		free[c.Snapshot.Nodes[i].Name] = c.Snapshot.Nodes[i].GPUs - c.Snapshot.Nodes[i].GPUsUsed
	}
	for _, choice := range c.Room {
		due := map[int64]bool{} // claims of entitled jobs
		for i := range choice.Changes.Claims {
			claim := &choice.Changes.Claims[i]
			if rights[claim.Job] != cluster.Entitled {
				continue
			}
			due[claim.Number] = true
			for _, s := range claim.Shares {
				r.asked += float64(max(s.GPUs-free[s.Node], 0))
			}
		}
		for i := range choice.Changes.Evictions {
			if e := &choice.Changes.Evictions[i]; due[e.Claim] {
				r.left += float64(e.GPUs)
			}
		}
	}
}

// figures are those of the run.
func (r *returns) figures() *metrics.Returns {
	slices.Sort(r.waits)
	f := &metrics.Returns{Jobs: len(r.waits), AskedGPUs: r.asked, EvictedGPUs: r.left}
	if f.Jobs > 0 {
		f.P50, f.P95, f.P99, f.Worst = metrics.Percentile(r.waits, 50), metrics.Percentile(r.waits, 95), metrics.Percentile(r.waits, 99), r.waits[f.Jobs-1]
	}
	return f
}
