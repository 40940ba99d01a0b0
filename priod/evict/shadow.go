package evict

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
)

// setShadowTimes finds the shadow time of each trial, which is when it would start
// without evictions: by the time limits of what runs, and behind the places of the
// trials before it.
func (c *Choice) setShadowTimes(m *nodemap.Map, set *Settings) {
	longest := 0.0
	for i := range c.snapshot.Candidates {
		if x := &c.snapshot.Candidates[i]; x.Consent {
			longest = max(longest, x.Grace)
		}
	}
	horizon := longest + set.Policy.MinGain // a job that ends later than that makes no eviction needless
	var releases []*preemption.Candidate
	for i := range c.snapshot.Candidates {
		if x := &c.snapshot.Candidates[i]; !x.Leaving && x.Remaining <= horizon {
			releases = append(releases, x)
		}
	}
	slices.SortStableFunc(releases, func(a, b *preemption.Candidate) int { return cmp.Compare(a.Remaining, b.Remaining) })
	var taken []placement.Share
	claimed := map[int]bool{}
	for _, x := range c.snapshot.Claims {
		taken = append(taken, x.Shares...)
		claimed[x.Trial] = true
	}
	future := m.Nodes.Clone()
	never := map[placement.Request]int{} // does not start within the horizon, behind so many shares of taken
	for i := range c.snapshot.Trials {
		if claimed[i] {
			continue
		}
		request := c.snapshot.Trials[i].Request
		if behind, known := never[request]; known && behind == len(taken) {
			continue
		}
		future.CopyFree(m.Nodes)
		future.Take(taken)
		at := future.Shadow(0, request, func(yield func(float64, []placement.Share) bool) {
			for _, r := range releases {
				if !yield(r.Remaining, r.Shares) {
					return
				}
			}
		})
		if !math.IsInf(at, 1) {
			c.snapshot.Trials[i].Start = at
			shares, _ := future.Fit(request, nil)
			taken = append(taken, shares...)
		} else {
			never[request] = len(taken)
		}
	}
}
