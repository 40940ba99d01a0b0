// Package expect says when the waiting jobs of a cycle start and its running ones end, as the daemon and a recorded simulation store it.
package expect

import (
	"slices"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/runtimes"
)

// What expectations rest on, in the daemon and where a user asks about one job.
const (
	Draws     = 20
	PastRuns  = 20_000              // the last of accounting that run times are learned from
	ScoredFor = 30 * 24 * time.Hour // promises that fit the next ones

	most = 10_000 // waiting jobs of which a start is expected
)

// Planned are the nodes, the jobs that run and the first that wait, copied: the next cycle may use them again.
func Planned(r *cycle.Result) (s *cluster.Snapshot, order []*cluster.Job) {
	small := r.Snapshot
	s = &small
	s.Nodes, s.Jobs = slices.Clone(s.Nodes), nil
	for i := range r.Snapshot.Jobs {
		if j := &r.Snapshot.Jobs[i]; j.State == cluster.Running || j.State == cluster.Completing {
			s.Jobs = append(s.Jobs, *j)
		}
	}
	waiting := len(s.Jobs)
	for _, q := range r.Plan.Queue {
		if j := &r.Snapshot.Jobs[q.Job]; j.GPUs > 0 && len(s.Jobs)-waiting < most {
			s.Jobs = append(s.Jobs, *j)
		}
	}
	for i := range s.Jobs[waiting:] {
		order = append(order, &s.Jobs[waiting+i])
	}
	return s, order
}

// Of are the starts of jobs in their order: by time limits, and where past runs taught a model, by what these took; and the ends of
// those that run. fit is by what to multiply what nine of ten do not exceed.
func Of(s *cluster.Snapshot, order []*cluster.Job, m *runtimes.Model, fit float64) (starts map[cluster.JobID]store.ExpectedStart, ends map[cluster.JobID]store.ExpectedEnd) {
	after := func(seconds float64) time.Time { return s.At.Add(time.Duration(seconds * float64(time.Second))) }
	queue := forecast.Queue{Now: s, Order: order, Memory: true}
	starts, ends = map[cluster.JobID]store.ExpectedStart{}, map[cluster.JobID]store.ExpectedEnd{}
	for id, at := range queue.Starts() {
		starts[id] = store.ExpectedStart{At: after(at)}
	}
	if m == nil || !m.Calibrated() { // too few runs to promise anything
		return starts, ends
	}
	runs := forecast.ByPast(m, s.At)
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Running && j.GPUs > 0 {
			if d, ran := runs(j), s.At.Sub(j.Start); d != nil {
				ends[j.ID] = store.ExpectedEnd{Median: j.Start.Add(d.Left(0.5, ran)), P90: j.Start.Add(d.Left(0.9, ran))}
			}
		}
	}
	if len(starts) == 0 {
		return starts, ends
	}
	of := make(map[cluster.JobID]*cluster.Job, len(order))
	for _, j := range order {
		of[j.ID] = j
	}
	for id, eta := range queue.Expect(runs, Draws) {
		x, planned := starts[id]
		if !planned { // never, by time limits
			continue
		}
		x.Median, x.P90 = after(eta.Median), after(max(eta.P90*fit, eta.Median))
		if of[id].TaskCount <= 1 { // of an array only the first task is meant
			x.Raw = after(eta.P90)
		}
		if d := runs(of[id]); d != nil {
			x.RunS = d.Quantile(0.5).Seconds()
		}
		starts[id] = x
	}
	return starts, ends
}

// Learn learns run times from past runs and those that go on; nil: there are no past ones.
func Learn(s *cluster.Snapshot, past []runtimes.Run) *runtimes.Model {
	if len(past) == 0 {
		return nil
	}
	return runtimes.Learn(slices.Concat(past, runtimes.Going(s.Jobs)), s.At)
}

// FitOf is by what earlier promises were too short or too long.
func FitOf(promises []store.Promise, now time.Time) float64 {
	waited := make([]advise.Waited, 0, len(promises))
	for i := range promises {
		p := &promises[i]
		w := advise.Waited{Said: p.Raw.Sub(p.At).Seconds()}
		switch {
		case !p.Start.IsZero():
			w.Was = p.Start.Sub(p.At).Seconds()
		case p.Left.IsZero():
			w.Was, w.Cut = now.Sub(p.At).Seconds(), true
		default: // it left the queue without a start that was seen
			continue
		}
		waited = append(waited, w)
	}
	return advise.FitP90(waited)
}
