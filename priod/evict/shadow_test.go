package evict

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
)

// What is kept from one trial to the next with the same request changes no start: each is that of
// a schedule made from the beginning.
func TestShadowTimesAreTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(most int) placement.Amount {
			n := int32(rapid.IntRange(1, most).Draw(t, "gpus"))
			return placement.Amount{GPUs: n, CPUs: n * int32(rapid.IntRange(1, 3).Draw(t, "cpus")), MemMB: int64(n)}
		}
		nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
		size := make([]placement.Node, nodes)
		for i := range size {
			size[i] = placement.Node{Type: int32(rapid.IntRange(0, 1).Draw(t, "type")), Amount: placement.Amount{GPUs: 4, CPUs: 12, MemMB: 16}}
		}
		m := &nodemap.Map{Nodes: placement.New(placement.Packed, size)}
		c := &Choice{}
		c.search.Nodes = m.Nodes
		for range rapid.IntRange(0, 12).Draw(t, "running") {
			r := placement.Request{Types: 3, Nodes: int32(rapid.IntRange(1, 2).Draw(t, "on")), Amount: amount(4)}
			shares, fits := m.Nodes.Fit(r, nil)
			if !fits {
				continue
			}
			m.Nodes.Take(shares)
			c.search.Candidates = append(c.search.Candidates, preemption.Candidate{
				Shares: slices.Clone(shares), Grace: 60, Remaining: float64(10 * rapid.IntRange(0, 14).Draw(t, "remaining")),
			})
		}
		requests := make([]placement.Request, rapid.IntRange(1, 4).Draw(t, "requests"))
		for i := range requests {
			requests[i] = placement.Request{Types: placement.Types(rapid.IntRange(1, 3).Draw(t, "types")), Nodes: int32(rapid.IntRange(0, 2).Draw(t, "on")), Amount: amount(8)}
		}
		for range rapid.IntRange(1, 20).Draw(t, "trials") {
			c.search.Claimants = append(c.search.Claimants, preemption.Claimant{Request: rapid.SampledFrom(requests).Draw(t, "request"), Start: math.Inf(1)})
		}
		want, taken := make([]float64, len(c.search.Claimants)), []placement.Share(nil)
		ends := slices.Clone(c.search.Candidates)
		slices.SortStableFunc(ends, func(a, b preemption.Candidate) int { return int(a.Remaining - b.Remaining) })
		for i := range want {
			future := m.Nodes.Clone()
			future.Take(taken)
			want[i] = future.Shadow(0, c.search.Claimants[i].Request, func(yield func(float64, []placement.Share) bool) {
				for _, x := range ends {
					if x.Remaining <= 60+patience && !yield(x.Remaining, x.Shares) {
						return
					}
				}
			})
			if !math.IsInf(want[i], 1) {
				shares, _ := future.Fit(c.search.Claimants[i].Request, nil)
				taken = append(taken, shares...)
			}
		}
		c.setShadowTimes()
		for i, x := range c.search.Claimants {
			if x.Start != want[i] {
				t.Fatalf("trial %d starts at %v, want %v", i, x.Start, want[i])
			}
		}
	})
}
