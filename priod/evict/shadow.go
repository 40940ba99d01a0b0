package evict

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
)

// patience is how much longer than for victims, s, a trial may wait for jobs that end by themselves, where that costs less.
const patience = 60

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
	horizon := longest + set.Policy.MinGain + patience // a job that ends later than that makes no eviction needless
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
	views := map[placement.Request]*futureView{}
	for i := range c.snapshot.Trials {
		if claimed[i] {
			continue
		}
		t := &c.snapshot.Trials[i]
		v := views[t.Request]
		if v == nil {
			v = &futureView{nodes: m.Nodes.Clone()}
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
				t.StartsOn = m.Nodes.Type(shares[0].Node)
			}
			taken = append(taken, shares...)
		}
	}
}

// maxViews is for how many requests setShadowTimes keeps a view: each is the whole cluster.
const maxViews = 32

// futureView is the cluster when the last trial with some request would start: no later one with
// the same request starts before, because more is taken then.
type futureView struct {
	nodes *placement.Nodes
	at    float64
	next  int // release that is not in nodes
	taken int // shares of the trials before that are
}
