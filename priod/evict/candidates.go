package evict

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
)

// addCandidates adds the jobs that hold GPUs.
func (c *Choice) addCandidates(s *cluster.Snapshot, j *Journal, set *Settings, m *nodemap.Map, vetoed map[cluster.JobID]preemption.Why) {
	leaving := map[cluster.JobID]bool{}
	_, evictions := j.live()
	for i := range evictions {
		if e := &evictions[i]; e.Leaving() {
			leaving[e.Job] = true
		}
	}
	learned := j.leavingByUser()
	holders := 0
	for i := range s.Jobs {
		if s.Jobs[i].State != cluster.Pending {
			holders++
		}
	}
	c.snapshot.Candidates, c.running, c.ownWhy = make([]preemption.Candidate, 0, holders), make([]*cluster.Job, 0, holders), make([]preemption.Why, 0, holders)
	for i := range s.Jobs {
		job := &s.Jobs[i]
		running := job.State == cluster.Running
		if job.GPUs == 0 || !running && job.State != cluster.Completing && !leaving[job.ID] || job.State == cluster.Pending {
			continue
		}
		shares := m.Shares(job)
		consent, why := running && set.Consents(job), preemption.Why("")
		switch {
		case len(shares) == 0:
			continue
		case !consent:
		case vetoed[job.ID] != "" && vetoed[job.ID] != Constraint && vetoed[job.ID] != Bound: // those are about its place as a waiting job
			consent, why = false, vetoed[job.ID]
		case job.Tag.Grace > set.MaxGrace:
			consent, why = false, LongGrace
		case len(shares) > 1 && (job.CPUs%len(shares) != 0 || job.MemMB%int64(len(shares)) != 0):
			consent, why = false, Scattered
		}
		if consent && job.Start.Before(set.Since) {
			c.doubtful = max(c.doubtful, set.grace(job)+time.Second)
		}
		x := preemption.Candidate{
			Shares: shares, Consent: consent || leaving[job.ID], Leaving: leaving[job.ID],
			Evicted: j.Times[job.ID], Elapsed: max(s.At.Sub(job.Start).Seconds(), 0), Remaining: job.Remaining(s.At),
			Restart: set.Restart.Seconds(),
		}
		x.Grace, x.Unsaved = learned.expect(job, set, x.Elapsed)
		c.snapshot.Candidates = append(c.snapshot.Candidates, x)
		c.running = append(c.running, job)
		c.ownWhy = append(c.ownWhy, why)
	}
}

const day = 24 * time.Hour

// within tells whether something happened no longer ago than a span. What lies in the
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
