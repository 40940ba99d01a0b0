package preempt

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
)

// one is a node that is full of jobs of so many GPUs, and a trial.
func one(gpus int32, jobs ...int32) preemption.Snapshot {
	s := preemption.Snapshot{Claimants: []preemption.Claimant{{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: gpus}}, Start: math.Inf(1)}}}
	all := int32(0)
	for _, n := range jobs {
		all += n
		s.Candidates = append(s.Candidates, preemption.Candidate{Grace: 1, Shares: []placement.Share{{Amount: placement.Amount{GPUs: n}}}})
	}
	s.Nodes = placement.New(placement.Packed, []placement.Node{{Amount: placement.Amount{GPUs: all, CPUs: placement.Plenty, MemMB: placement.Plenty}}})
	for _, c := range s.Candidates {
		s.Nodes.Take(c.Shares)
	}
	return s
}

func TestLongestRemainingGoesFirst(t *testing.T) {
	s := one(3, 2, 2, 4)
	for i, r := range []float64{20, 30, 10} {
		s.Candidates[i].Remaining = r
	}
	if v := decide(&s, Settings{Settings: preemption.Settings{Policy: LRTP}})[0]; !slices.Equal(v.Victims, []int{0, 1}) {
		t.Errorf("%+v", v)
	}
}

// A job that was evicted P times leaves for FallAnybody alone.
func TestFallbacks(t *testing.T) {
	s := one(6, 4, 2, 2)
	for i := range s.Candidates {
		s.Candidates[i].Evicted = 1
	}
	for fallback, want := range map[Fallback]preemption.Why{FallRandom: preemption.Impossible, FallNone: preemption.Impossible, FallAnybody: preemption.Evicts} {
		set := Settings{Fallback: fallback, Settings: preemption.Settings{Policy: preemption.FitGpp, S: 4, MaxEvictions: 1}}
		if v := decide(&s, set)[0]; v.Why != want {
			t.Errorf("%s: %+v", fallback, v)
		}
	}
}

// Whatever the policy: the room that is promised is there once the victims have left, and no job leaves that must not, or twice.
func TestVictimsMakeRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []placement.Node
		for range rapid.IntRange(1, 4).Draw(t, "nodes") {
			nodes = append(nodes, placement.Node{Type: int32(rapid.IntRange(0, 1).Draw(t, "type")), Amount: placement.Amount{GPUs: 8, CPUs: 16, MemMB: 1000}})
		}
		s := preemption.Snapshot{Nodes: placement.New(placement.Packed, nodes)}
		for range rapid.IntRange(0, 12).Draw(t, "jobs") {
			r := placement.Request{Types: 3, Amount: placement.Amount{GPUs: int32(rapid.IntRange(1, 10).Draw(t, "gpus")), CPUs: 1}}
			shares, ok := s.Nodes.Fit(r, nil)
			if !ok {
				continue
			}
			s.Nodes.Take(shares)
			s.Candidates = append(s.Candidates, preemption.Candidate{
				Shares: shares, Stays: rapid.SampledFrom([]preemption.Why{"", "", "", "", preemption.NoConsent}).Draw(t, "stays"), Leaving: rapid.IntRange(0, 5).Draw(t, "leaving") == 0,
				Evicted: rapid.IntRange(0, 2).Draw(t, "evicted"), Grace: 1, Remaining: float64(rapid.IntRange(0, 9).Draw(t, "left")),
			})
		}
		for range rapid.IntRange(1, 4).Draw(t, "trials") {
			s.Claimants = append(s.Claimants, preemption.Claimant{Start: math.Inf(1), Request: placement.Request{
				Types: placement.Types(rapid.IntRange(1, 3).Draw(t, "types")), Amount: placement.Amount{GPUs: int32(rapid.IntRange(1, 10).Draw(t, "wants")), CPUs: 2},
			}})
		}
		set := Settings{Seed: 7, Fallback: rapid.SampledFrom([]Fallback{FallRandom, FallAnybody, FallNone}).Draw(t, "fallback"), Settings: preemption.Settings{
			Policy: rapid.SampledFrom([]preemption.Policy{LRTP, Random, preemption.FitGpp}).Draw(t, "policy"), S: 4,
			MaxEvictions: rapid.IntRange(0, 2).Draw(t, "max"),
		}}
		later, left := s.Nodes.Clone(), map[int]bool{}
		for i, c := range s.Candidates {
			if left[i] = c.Leaving; c.Leaving {
				later.Release(c.Shares)
			}
		}
		verdicts := decide(&s, set)
		for _, v := range verdicts {
			for _, c := range v.Victims {
				x := &s.Candidates[c]
				often := set.MaxEvictions > 0 && x.Evicted >= set.MaxEvictions && (set.Policy != preemption.FitGpp || set.Fallback != FallAnybody)
				if left[c] || x.Stays != "" || often {
					t.Fatalf("%+v leaves: %+v", x, v)
				}
				left[c] = true
				later.Release(x.Shares)
			}
		}
		for _, v := range verdicts {
			later.Take(v.Shares)
		}
		for n := range later.Len() {
			if free := later.FreeOn(int32(n)); free.GPUs < 0 || free.CPUs < 0 || free.MemMB < 0 {
				t.Fatalf("node %d holds %+v: %+v", n, free, verdicts)
			}
		}
	})
}
