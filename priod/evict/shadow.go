package evict

import (
	"math"

	"slurmprio/priod/placement"
)

// patience is how much longer than for victims, s, a claimant may wait for jobs that end by themselves, where that costs less.
const patience = 60

// setShadowTimes finds the shadow time of each claimant, which is when it would start
// without evictions: by the time limits of what runs, and behind the places of the
// claimants before it.
func (c *Choice) setShadowTimes() {
	longest := 0.0
	for i := range c.search.Candidates {
		if x := &c.search.Candidates[i]; x.Stays == "" {
			longest = max(longest, x.Grace)
		}
	}
	horizon := longest + c.policy.MinGain + patience // a job that ends later than that makes no eviction needless
	line := placement.NewTimeline(0, c.search.Nodes)
	for i := range c.search.Candidates {
		if x := &c.search.Candidates[i]; !x.Leaving && x.Remaining <= horizon {
			line.Free(x.Shares, max(x.Remaining, 0), math.Inf(1))
		}
	}
	claimed := map[int]bool{}
	for _, x := range c.search.Claims {
		line.Reserve(x.Shares, 0, math.Inf(1))
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
		line.Reserve(shares, start, math.Inf(1))
	}
}
