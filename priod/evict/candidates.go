package evict

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
)

// Holders are the jobs that hold GPUs, as far as the poll tells of them.
type Holders struct {
	all    []preemption.Candidate
	jobs   []*cluster.Job   // of all
	agreed []bool           // their owners
	why    []preemption.Why // why a candidate may not leave though its owner agreed
}

// FindHolders finds the jobs that hold GPUs. The order of the queue plays no part.
func FindHolders(s *cluster.Snapshot, m *nodemap.Map, j *Journal, set *Settings) *Holders {
	leaving, untold := map[cluster.JobID]bool{}, map[cluster.JobID]bool{}
	_, evictions := j.live()
	for e := range evictions {
		if e.Leaving() {
			leaving[e.Job] = true
			untold[e.Job] = e.State == Recorded && e.SignalledAt.IsZero()
		}
	}
	learned := j.leavingByUser()
	n := 0
	for i := range s.Jobs {
		if s.Jobs[i].State != cluster.Pending {
			n++
		}
	}
	h := &Holders{make([]preemption.Candidate, 0, n), make([]*cluster.Job, 0, n), make([]bool, 0, n), make([]preemption.Why, 0, n)}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		running := job.State == cluster.Running
		if job.State == cluster.Pending || job.GPUs == 0 || !running && job.State != cluster.Completing && !leaving[job.ID] {
			continue
		}
		shares := m.Shares(job)
		agreed, why := running && set.Consents(job), preemption.Why("")
		switch {
		case len(shares) == 0:
			continue
		case !agreed:
		case job.Right == cluster.Entitled:
			why = WithinShare
		case job.Fragile != "":
			why = Fragile
		case job.Tag.Grace > set.MaxGrace:
			why = LongGrace
		case len(shares) > 1 && job.Parts == nil && (job.CPUs%len(shares) != 0 || job.MemMB%int64(len(shares)) != 0):
			why = Scattered
		}
		x := preemption.Candidate{
			Shares: shares, Consent: agreed && why == "" || leaving[job.ID], Leaving: leaving[job.ID], Untold: untold[job.ID],
			Evicted: j.Times[job.ID], Elapsed: max(s.At.Sub(job.Start).Seconds(), 0), Remaining: job.Remaining(s.At),
			Restart: set.Restart.Seconds(),
		}
		x.Grace, x.Unsaved = learned.expect(job, set, x.Elapsed)
		h.all, h.jobs, h.agreed, h.why = append(h.all, x), append(h.jobs, job), append(h.agreed, agreed), append(h.why, why)
	}
	return h
}

// addCandidates adds the jobs that hold GPUs. Those that a closer look ruled out stay.
func (c *Choice) addCandidates(held *Holders, set *Settings, vetoed map[cluster.JobID]preemption.Why) {
	c.snapshot.Candidates, c.running, c.ownWhy = slices.Clone(held.all), held.jobs, slices.Clone(held.why)
	if len(vetoed) == 0 && set.Since.IsZero() {
		return
	}
	for i, job := range held.jobs {
		if !held.agreed[i] {
			continue
		}
		if why := vetoed[job.ID]; why != "" && why != Constraint && why != Bound { // those are about its place as a waiting job
			c.ownWhy[i], c.snapshot.Candidates[i].Consent = why, held.all[i].Leaving
		}
		if c.ownWhy[i] == "" && job.Start.Before(set.Since) {
			c.doubtful = max(c.doubtful, set.grace(job)+time.Second)
		}
	}
}

const day = 24 * time.Hour

// within reports whether something happened no longer ago than a span. What lies in the
// future by more than that was dated by a clock that was ahead, and is past.
func within(span time.Duration, now, at time.Time) bool { return now.Sub(at).Abs() < span }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// costNow is what the eviction cost, or is expected to cost.
func (e *Eviction) costNow() float64 {
	if e.Paid > 0 || !e.Open() {
		return e.Paid
	}
	return e.Promised
}

// countRecent counts the evictions of the last hour and day, for the limits.
func (c *Choice) countRecent(s *cluster.Snapshot, j *Journal) {
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.Counts() {
			if within(time.Hour, s.At, e.At) {
				c.snapshot.PastHour++
			}
			if within(day, s.At, e.At) {
				c.snapshot.PastDay += e.costNow() / 3600
			}
		}
	}
}
