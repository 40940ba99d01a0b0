package placement

import (
	"testing"

	"pgregory.net/rapid"
)

// A request for one node is met there and nowhere else, now and later.
func TestOnOneNode(t *testing.T) {
	size := Amount{GPUs: 4, CPUs: 16, MemMB: 4000}
	for _, mode := range []Mode{Packed, Consolidated} {
		n := New(mode, []Node{{Type: 0, Amount: size}, {Type: 0, Amount: size}, {Type: 1, Amount: size}})
		r := Request{Types: 3, Amount: Amount{GPUs: 2, CPUs: 12}, On: 2}
		shares, fits := n.Fit(r, nil)
		if !fits || len(shares) != 1 || shares[0].Node != 1 || shares[0].CPUs != 12 || shares[0].MemMB != 2000 {
			t.Errorf("%v, %v", shares, fits)
		}
		held := []Share{{1, Amount{GPUs: 1, CPUs: 8}}}
		n.Take(held)
		if shares, fits := n.Fit(r, nil); fits {
			t.Errorf("fits on %v, and a node that is not asked for has room", shares)
		}
		r.On = 3
		if shares, fits := n.Fit(r, nil); !fits || shares[0].Node != 2 {
			t.Errorf("%v, %v", shares, fits)
		}
		r.Types = 1
		if shares, fits := n.Fit(r, nil); fits {
			t.Errorf("fits on %v of a type that is not asked for", shares)
		}
		r.On = 2
		when, _ := n.Clone().Shadow(10, r, func(yield func(float64, []Share) bool) { yield(70, held) })
		if when != 70 {
			t.Errorf("room at %v, want 70", when)
		}
		n.SetDown(1, true)
		n.Release(held)
		if shares, fits := n.Fit(r, nil); fits {
			t.Errorf("fits on %v, which is down", shares)
		}
	}
}

// A request for several nodes together fits where each of them has a GPU for it and all have enough, however much more is
// free on the first ones: week 60 of Venus had room made in vain for two entitled jobs, seven times.
func TestAmongNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Amount{GPUs: 8, CPUs: 64, MemMB: 8000}
		n := New(Packed, []Node{{Amount: size}, {Amount: size}, {Amount: size}, {Amount: size}})
		set := []int32{0, 1, 3}
		sum, least := int32(0), int32(8)
		for _, node := range set {
			free := rapid.Int32Range(0, 8).Draw(t, "free")
			n.Take([]Share{{node, Amount{GPUs: 8 - free, CPUs: 8 * (8 - free), MemMB: 1000 * int64(8-free)}}})
			sum, least = sum+free, min(least, free)
		}
		r := Request{Types: 1, Amount: Amount{GPUs: rapid.Int32Range(3, 24).Draw(t, "GPUs")}, On: n.Among(set)}
		shares, fits := n.Fit(r, nil)
		if want := least > 0 && sum >= r.GPUs; fits != want {
			t.Fatalf("fits %v on %v, want %v", fits, shares, want)
		}
		if !fits {
			return
		}
		for i, s := range shares {
			if len(shares) != len(set) || s.Node != set[i] || s.GPUs < 1 {
				t.Fatalf("%v, want a GPU of each of %v", shares, set)
			}
			r.GPUs -= s.GPUs
		}
		if r.GPUs != 0 {
			t.Fatalf("%v: %d GPUs are missing", shares, r.GPUs)
		}
	})
}
