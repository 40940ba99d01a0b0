package placement

import "testing"

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
		when := n.Clone().Shadow(10, r, func(yield func(float64, []Share) bool) { yield(70, held) })
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
