package evict

import (
	"math"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

// patience is how much longer than for victims, s, a claimant may wait for jobs that end by themselves, where that costs less.
const patience = 60

// patientUntil is how long a trial may wait for jobs that are likely to end: it would wait for its victims after that.
func (c *Choice) patientUntil(job *cluster.Job) time.Time {
	return job.Eligible.Add(seconds(patience - c.policy.MinGain))
}

// limitOf is for how long, s, a job holds its place at most. Slurm has no limit below a minute; replays do, and what a start and an end
// take is no less.
func limitOf(job *cluster.Job) float64 {
	if job.TimeLimit <= 0 {
		return math.Inf(1)
	}
	return max(job.TimeLimit, time.Minute).Seconds()
}

// horizon is how long, s, a claimant waits at most for jobs that end by themselves.
func (c *Choice) horizon() float64 {
	longest := 0.0
	for i := range c.search.Candidates {
		if x := &c.search.Candidates[i]; x.Stays == "" {
			longest = max(longest, x.Grace)
		}
	}
	return longest + c.policy.MinGain + patience
}

// setShadowTimes finds the shadow time of each claimant, which is when it would start without evictions: by the time limits of what
// runs, and behind the places of the claimants before it. One that ends within the horizon hands its place on: those that come within
// the same minute share victims.
func (c *Choice) setShadowTimes() {
	horizon := c.horizon() // a job that ends later than that makes no eviction needless
	until := func(end float64) float64 {
		if end > horizon {
			return math.Inf(1)
		}
		return end
	}
	line := placement.NewTimeline(0, c.search.Nodes)
	for i := range c.search.Candidates {
		switch x := &c.search.Candidates[i]; {
		case x.Leaving:
			line.Free(x.Shares, 0, math.Inf(1)) // as in the search
		case x.Remaining <= horizon:
			line.Free(x.Shares, max(x.Remaining, 0), math.Inf(1))
		}
	}
	claimed := map[int]bool{}
	for _, x := range c.search.Claims {
		end := math.Inf(1)
		if x.Of >= 0 {
			end = until(x.Ready + c.search.Claimants[x.Of].Limit)
		}
		line.Reserve(x.Shares, 0, end)
		claimed[x.Of] = true
	}
	last := map[placement.Request]float64{} // when the claimant before started: no later one with the same request starts sooner
	for i := range c.search.Claimants {
		t := &c.search.Claimants[i]
		if claimed[i] || math.IsInf(last[t.Request], 1) {
			continue
		}
		start, shares, fits := line.Earliest(t.Request, last[t.Request], math.Inf(1))
		if !fits {
			last[t.Request] = math.Inf(1)
			continue
		}
		if t.Due && t.Waited+start > horizon { // what was to end did not, or others took its place
			continue
		}
		last[t.Request], t.Start, t.StartsOn = start, start, c.search.Nodes.Type(shares[0].Node)
		line.Reserve(shares, start, until(start+t.Limit))
	}
}
