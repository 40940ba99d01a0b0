package daemon

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/runtimes"
)

const (
	expectEvery = time.Minute // and no more often than costs a fiftieth of a core
	expectShare = 50
	expectMost  = 10_000 // waiting jobs of which a start is expected
)

// What expectations rest on, in the daemon and where a user asks about one job.
const (
	ExpectDraws = 20
	PastRuns    = 20_000              // the last of accounting that run times are learned from
	ScoredFor   = 30 * 24 * time.Hour // promises that fit the next ones
)

// expecting plans when the first jobs of the queue start, beside the cycles, one plan at a time.
type expecting struct {
	next    time.Time          // by the time that a process keeps
	running chan time.Duration // what one took
}

// expect begins a plan when it is time for one.
func (d *Daemon) expect(ctx context.Context, r *cycle.Result) {
	e := &d.expecting
	if e.running != nil {
		select {
		case took := <-e.running:
			e.running, e.next = nil, cluster.Later(e.next, time.Now().Add(expectShare*took))
		default:
		}
	}
	if e.running != nil || time.Now().Before(e.next) {
		return
	}
	e.next, e.running = time.Now().Add(expectEvery), make(chan time.Duration, 1)
	s, order := planned(r)
	past, fit, done := d.learning.speeds.past, d.learning.speeds.fit, e.running
	go func() {
		began := time.Now()
		defer func() { done <- time.Since(began) }()
		starts := expectedStarts(s, order, past, fit)
		d.metrics.starting(starts, s.At)
		if err := d.Store.SaveStarts(ctx, s.At, starts); err != nil && ctx.Err() == nil {
			d.Log.Warn("when jobs are expected to start is not stored", "error", err)
		}
	}()
}

// planned are the nodes, the jobs that run and the first that wait, copied: the next cycle may use them again.
func planned(r *cycle.Result) (s *cluster.Snapshot, order []*cluster.Job) {
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
		if j := &r.Snapshot.Jobs[q.Job]; j.GPUs > 0 && len(s.Jobs)-waiting < expectMost {
			s.Jobs = append(s.Jobs, *j)
		}
	}
	for i := range s.Jobs[waiting:] {
		order = append(order, &s.Jobs[waiting+i])
	}
	return s, order
}

// finish waits for a plan that is under way: it uses the store.
func (e *expecting) finish() {
	if e.running != nil {
		<-e.running
		e.running = nil
	}
}

// expectedStarts are those of jobs in their order: by time limits, and where past runs are known, by what these took. fit is by
// what to multiply what nine of ten do not exceed.
func expectedStarts(s *cluster.Snapshot, order []*cluster.Job, past []runtimes.Run, fit float64) map[cluster.JobID]store.ExpectedStart {
	after := func(seconds float64) time.Time { return s.At.Add(time.Duration(seconds * float64(time.Second))) }
	site := &advise.Site{Snapshot: s, Memory: true}
	starts := map[cluster.JobID]store.ExpectedStart{}
	for id, at := range advise.Starts(site, order) {
		starts[id] = store.ExpectedStart{At: after(at)}
	}
	if len(past) == 0 || len(starts) == 0 {
		return starts
	}
	m := runtimes.Learn(slices.Concat(past, runtimes.Going(s.Jobs)), s.At)
	if !m.Calibrated() { // too few runs to promise anything
		return starts
	}
	arrays := map[cluster.JobID]bool{}
	for _, j := range order {
		arrays[j.ID] = j.TaskCount > 1
	}
	for id, eta := range advise.Expect(site, order, advise.ByPast(m, s.At), ExpectDraws, uint64(s.At.Unix())) {
		x, planned := starts[id]
		if !planned { // never, by time limits
			continue
		}
		x.Median, x.P90 = after(eta.Median), after(max(eta.P90*fit, eta.Median))
		if !arrays[id] { // of which only the first task is meant
			x.Raw = after(eta.P90)
		}
		starts[id] = x
	}
	return starts
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
