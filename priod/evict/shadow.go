package evict

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/evict/preemption"
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
	var releases []*preemption.Candidate
	for i := range c.search.Candidates {
		if x := &c.search.Candidates[i]; !x.Leaving && x.Remaining <= horizon {
			releases = append(releases, x)
		}
	}
	slices.SortStableFunc(releases, func(a, b *preemption.Candidate) int { return cmp.Compare(a.Remaining, b.Remaining) })
	var taken []placement.Share
	claimed := map[int]bool{}
	for _, x := range c.search.Claims {
		taken = append(taken, x.Shares...)
		claimed[x.Of] = true
	}
	views := map[placement.Request]*futureView{}
	for i := range c.search.Claimants {
		if claimed[i] {
			continue
		}
		t := &c.search.Claimants[i]
		v := views[t.Request]
		if v == nil {
			v = &futureView{nodes: c.search.Nodes.Clone()}
			if len(views) < maxViews {
				views[t.Request] = v
			}
		}
		v.nodes.Take(taken[v.taken:])
		v.taken = len(taken)
		at := v.nodes.Shadow(v.at, t.Request, func(yield func(float64, []placement.Share) bool) {
			for ; v.next < len(releases) && yield(releases[v.next].Remaining, releases[v.next].Shares); v.next++ {
			}
		})
		if !math.IsInf(at, 1) {
			t.Start, v.at = at, at
			shares, _ := v.nodes.Fit(t.Request, nil)
			if len(shares) > 0 {
				t.StartsOn = c.search.Nodes.Type(shares[0].Node)
			}
			taken = append(taken, shares...)
		}
	}
}

// maxViews is for how many requests setShadowTimes keeps a view: each is the whole cluster.
const maxViews = 32

// futureView is the cluster when the last claimant with some request would start: no later one with
// the same request starts before, because more is taken then.
type futureView struct {
	nodes *placement.Nodes
	at    float64
	next  int // release that is not in nodes
	taken int // shares of the claimants before that are
}
