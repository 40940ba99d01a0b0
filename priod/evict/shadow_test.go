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

// That trials begin to look where the one before with the same request starts changes no start.
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
		line, want := placement.NewTimeline(0, m.Nodes), make([]float64, len(c.search.Claimants))
		for _, x := range c.search.Candidates {
			if x.Remaining <= 60+patience {
				line.Free(x.Shares, x.Remaining, math.Inf(1))
			}
		}
		for i := range want {
			start, shares, fits := line.Earliest(c.search.Claimants[i].Request, 0, math.Inf(1))
			if want[i] = math.Inf(1); fits {
				want[i] = start
				line.Reserve(shares, start, math.Inf(1))
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
