package evict

import (
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
)

// Holders are the jobs that hold GPUs, as far as the poll tells of them.
type Holders struct {
	all  []preemption.Candidate
	jobs []*cluster.Job // of all
}

// overtime is for how long Slurm may look away from a job beyond its limit, and let it end by itself (KillWait). One that runs
// longer has time from OverTimeLimit.
const overtime = 2 * time.Minute

// FindHolders finds the jobs that hold GPUs. The order of the queue plays no part.
func FindHolders(s *cluster.Snapshot, m *nodemap.Map, j *Journal, set *Settings) *Holders {
	leaving := j.underWay()
	learned := j.leavingByUser()
	h := &Holders{}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		leaves, running := leaving[job.ID] != 0, job.State == cluster.Running
		if job.State == cluster.Pending || job.GPUs == 0 || !running && job.State != cluster.Completing && !leaves {
			continue
		}
		shares := m.Shares(job)
		if len(shares) == 0 {
			continue
		}
		x := preemption.Candidate{
			Shares: shares, Leaving: leaves, Evicted: j.Times[job.ID], Elapsed: max(s.At.Sub(job.Start).Seconds(), 0), Remaining: job.Remaining(s.At),
			Restart: set.Restart.Seconds(), Borrows: job.Right == cluster.Borrows,
		}
		if running && x.Remaining == 0 && s.At.Sub(job.Start.Add(job.TimeLimit)) > overtime {
			x.Remaining = math.Inf(1)
		}
		switch {
		case leaves:
		case !running || !set.Consents(job):
			x.Stays = preemption.NoConsent
		case job.Right == cluster.Entitled:
			x.Stays = WithinShare
		case job.Fragile != "":
			x.Stays = Fragile
		case job.Tag.Grace > set.MaxGrace:
			x.Stays = LongGrace
		case len(shares) > 1 && job.Parts == nil && (job.CPUs%len(shares) != 0 || job.MemMB%int64(len(shares)) != 0):
			x.Stays = Scattered
		}
		if x.Grace, x.Unsaved = learned.expect(job, set, x.Elapsed); job.Idle { // what it did not save is lost in any case
			x.Idle, x.Unsaved, x.Restart = true, 0, 0
		}
		h.all, h.jobs = append(h.all, x), append(h.jobs, job)
	}
	return h
}

// addCandidates adds the jobs that hold GPUs. Those that a closer look ruled out stay.
func (c *Choice) addCandidates() {
	c.search.Candidates, c.running = slices.Clone(c.Holders.all), c.Holders.jobs
	if len(c.Vetoed) == 0 && c.Settings.Since.IsZero() {
		return
	}
	for i, job := range c.running {
		x := &c.search.Candidates[i]
		if why := c.Vetoed[job.ID]; why != "" && why != Constraint && why != Bound && why != OneNode && x.Stays == "" { // those are about its place as a waiting job
			c.stay(i, why)
		}
		if x.Stays == "" && job.Start.Before(c.Settings.Since) {
			c.doubtful = max(c.doubtful, c.Settings.grace(job)+time.Second)
		}
	}
}

// stay has a candidate leave for no claimant, unless it is leaving.
func (c *Choice) stay(i int, why preemption.Why) {
	if x := &c.search.Candidates[i]; !x.Leaving {
		x.Stays = why
	}
}

// enoughEvictions is how many evictions of a user's jobs say more than what a job declares.
const enoughEvictions = 3

// leavingStats are how victims really left lately, by user.
type leavingStats map[string]*userLeaving

// userLeaving is how one user's victims left.
type userLeaving struct {
	took   []float64 // s from the signal, rising
	forced int
}

// leavingByUser returns how each user's victims left.
func (j *Journal) leavingByUser() leavingStats {
	l := leavingStats{}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		if e.User == "" || e.LeftAt.IsZero() || e.How != Exited && e.How != Forced {
			continue
		}
		c := l[e.User]
		if c == nil {
			c = &userLeaving{}
			l[e.User] = c
		}
		c.took = append(c.took, e.LeftAt.Sub(e.SignalledAt).Seconds())
		if e.How == Forced {
			c.forced++
		}
	}
	for _, c := range l {
		slices.Sort(c.took)
	}
	return l
}

// expect returns how long a job will take to leave, and how much of its work is lost beyond that, in seconds. A job that saves its state
// on a signal loses nothing, unless its owner's jobs mostly had to be forced out.
func (l leavingStats) expect(j *cluster.Job, set *Settings, elapsed float64) (grace, unsaved float64) {
	grace = set.grace(j).Seconds()
	saves := j.Tag.Signal != ""
	if c := l[j.User]; c != nil && len(c.took) >= enoughEvictions {
		grace = min(grace, c.took[len(c.took)*9/10])
		saves = saves && 2*c.forced <= len(c.took)
	}
	switch every := j.Tag.Ckpt.Seconds(); {
	case saves:
	case every > 0:
		unsaved = elapsed - float64(int(elapsed/every))*every
	default:
		unsaved = elapsed
	}
	return grace, unsaved
}
