package preemption

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
)

// Eight cheap victims on one node are more than a limit allows: the dear one on the other node leaves, instead of none for ever.
func TestLimitIsPartOfTheSearch(t *testing.T) {
	node := placement.Node{Amount: placement.Amount{GPUs: 8, CPUs: 16, MemMB: 1000}}
	on := func(node, gpus int32, grace float64) Candidate {
		return Candidate{Shares: []placement.Share{{Node: node, Amount: placement.Amount{GPUs: gpus}}}, Elapsed: 1e4, Grace: grace, Restart: 60}
	}
	s := Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{node, node})}
	for range 8 {
		s.Candidates = append(s.Candidates, on(0, 1, 5))
	}
	s.Candidates = append(s.Candidates, on(1, 8, 300))
	for i := range s.Candidates {
		s.Nodes.Take(s.Candidates[i].Shares)
	}
	s.Claimants = []Claimant{{Request: placement.Request{Types: 1, Nodes: 1, Amount: placement.Amount{GPUs: 8}}, Start: math.Inf(1)}}
	for name, x := range map[string]struct {
		limits  Limits
		victims []int
		why     Why
	}{
		"none":      {Limits{}, []int{0, 1, 2, 3, 4, 5, 6, 7}, Evicts},
		"an hour's": {Limits{MaxPerHour: 1}, []int{8}, Evicts},
		"GPU-hours": {Limits{GPUHoursPerDay: 0.01}, nil, PerDay},
	} {
		v := Decide(&s, Settings{Policy: LeastLoss, Urgency: 5, Limits: x.limits}).Verdicts[0]
		if v.Why != x.why || !slices.Equal(v.Victims, x.victims) {
			t.Errorf("%s: %s %v, want %s %v", name, v.Why, v.Victims, x.why, x.victims)
		}
	}
}

// Where what the cheapest start costs is more than the day allows, the set that loses least leaves, though the trial waits longer for it.
func TestLeastLossWithinTheDay(t *testing.T) {
	node := placement.Node{Amount: placement.Amount{GPUs: 1, CPUs: 16, MemMB: 1000}}
	s := Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{node, node})}
	for i, c := range []Candidate{{Unsaved: 1200}, {Grace: 600}} {
		c.Elapsed, c.Shares = 1e4, []placement.Share{{Node: int32(i), Amount: placement.Amount{GPUs: 1}}}
		s.Nodes.Take(c.Shares)
		s.Candidates = append(s.Candidates, c)
	}
	s.Claimants = []Claimant{{Request: placement.Request{Types: 1, Nodes: 1, Amount: placement.Amount{GPUs: 1}}, Start: math.Inf(1)}}
	for hours, want := range map[float64]Verdict{0: {Why: Evicts, Victims: []int{0}}, 0.2: {Why: Evicts, Victims: []int{1}}, 0.1: {Why: PerDay}} {
		v := Decide(&s, Settings{Policy: LeastLoss, Urgency: 5, Limits: Limits{GPUHoursPerDay: hours}}).Verdicts[0]
		if v.Why != want.Why || !slices.Equal(v.Victims, want.Victims) {
			t.Errorf("%v GPU-hours: %s %v, want %s %v", hours, v.Why, v.Victims, want.Why, want.Victims)
		}
	}
}

// No limit on how many leave refuses the first trial of a decision while some set of allowed victims within it makes room on a node.
func TestNoLimitHidesASetWithinIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, false)
		s.Claimants, s.Claims = s.Claimants[:1], nil
		for i := range s.Candidates {
			s.Candidates[i].Leaving = false
		}
		s.Claimants[0].Start, s.Claimants[0].Request.Nodes = math.Inf(1), 1
		set := Settings{Policy: LeastLoss, Urgency: 1, MinRun: 20, MaxEvictions: 2, Limits: Limits{
			MaxPerHour: rapid.IntRange(0, 4).Draw(t, "an hour"),
		}}
		d := Decide(&s, set)
		if d.Verdicts[0].Why != PerHour {
			return
		}
		if n := fewest(&s, d.Standing, &set); n <= set.Limits.MaxPerHour {
			t.Fatalf("%s, and a set of %d victims makes room", d.Verdicts[0].Why, n)
		}
	})
}

// fewest is the size of the smallest set of allowed victims that makes room for the first trial
// on one node, by trying all; 65 where none does.
func fewest(s *Snapshot, standing []Why, set *Settings) int {
	least := 65
	v := newView(s, set, standing)
	for sub := range 1 << len(s.Candidates) {
		size := bits.OnesCount(uint(sub))
		if size >= least {
			continue
		}
		rooms := map[int32]placement.Amount{}
		allowed := true
		for i := range s.Candidates {
			if sub>>i&1 == 0 {
				continue
			}
			allowed = allowed && standing[i] == Allowed
			for _, share := range s.Candidates[i].Shares {
				rooms[share.Node] = rooms[share.Node].Plus(share.Amount)
			}
		}
		if !allowed {
			continue
		}
		t := &s.Claimants[0]
		gpus := pieces(s.Nodes, t.Request)
		for n := range v.places {
			p := &v.places[n]
			if len(gpus) == 1 && !p.down && t.Request.Types.Has(s.Nodes.Type(int32(n))) && p.room.Plus(rooms[int32(n)]).Holds(v.Nodes.Need(t.Request, gpus[0], int32(n))) {
				least = size
			}
		}
	}
	return least
}

// The GPUs in their grace stay within the limit, unless one set of victims alone holds more; and a set
// that is refused would have exceeded it.
func TestGraceGPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, false)
		most := rapid.IntRange(1, 12).Draw(t, "GPUs")
		set := Settings{Policy: LeastLoss, Urgency: 1, Limits: Limits{GraceGPUs: most}}
		held, sets := 0, 0
		for i := range s.Candidates {
			if s.Candidates[i].Leaving {
				held, sets = held+int(s.Candidates[i].gpus()), sets+1
			}
		}
		for i, v := range Decide(&s, set).Verdicts {
			switch v.Why {
			case Evicts:
				for _, c := range v.Victims {
					held += int(s.Candidates[c].gpus())
				}
				if sets++; held > most && sets > 1 {
					t.Fatalf("trial %d: %d GPUs in their grace, limit %d", i, held, most)
				}
			case GraceGPUs:
				if held == 0 {
					t.Fatalf("trial %d is refused, and nothing is in its grace", i)
				}
			}
		}
	})
}

// Of one trial that the limit refuses, no allowed victims within it make room on a node.
func TestGraceGPUsHideNoSetWithinThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, false)
		s.Claimants, s.Claims = s.Claimants[:1], nil
		s.Claimants[0].Start, s.Claimants[0].Request.Nodes, s.Claimants[0].Run = math.Inf(1), 1, nil
		left := rapid.IntRange(1, 6).Draw(t, "GPUs left")
		for i := range s.Candidates {
			if s.Candidates[i].Leaving = i == 0; i == 0 {
				left += int(s.Candidates[i].gpus())
			}
		}
		set := Settings{Policy: LeastLoss, Urgency: 1, Limits: Limits{GraceGPUs: left}}
		if len(s.Candidates) == 0 || Decide(&s, set).Verdicts[0].Why != GraceGPUs {
			return
		}
		if left -= int(s.Candidates[0].gpus()); fewestGPUs(&s, &set) <= left {
			t.Fatalf("refused with %d GPUs left, and victims with %d make room", left, fewestGPUs(&s, &set))
		}
	})
}

// fewestGPUs is how many GPUs victims hold at least that make room for the first trial on one node, by
// trying all sets; very many where none does.
func fewestGPUs(s *Snapshot, set *Settings) int {
	least := 1 << 20
	standing := Decide(s, *set).Standing
	v := newView(s, set, standing)
	gpus := pieces(s.Nodes, s.Claimants[0].Request)
	for sub := 1; sub < 1<<len(s.Candidates); sub++ {
		rooms, held, allowed := map[int32]placement.Amount{}, 0, true
		for i := range s.Candidates {
			if sub>>i&1 == 1 {
				allowed, held = allowed && standing[i] == Allowed, held+int(s.Candidates[i].gpus())
				for _, share := range s.Candidates[i].Shares {
					rooms[share.Node] = rooms[share.Node].Plus(share.Amount)
				}
			}
		}
		for n := range v.places {
			p := &v.places[n]
			if allowed && held < least && len(gpus) == 1 && !p.down && s.Claimants[0].Request.Types.Has(s.Nodes.Type(int32(n))) && p.room.Plus(rooms[int32(n)]).Holds(v.Nodes.Need(s.Claimants[0].Request, gpus[0], int32(n))) {
				least = held
			}
		}
	}
	return least
}
