package placement

import (
	"testing"

	"pgregory.net/rapid"
)

// Switches change where a job of several nodes lies, never whether it has a place; what it
// accepts holds; and where one switch has room for it, it lies on one.
func TestFewSwitches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{Packed, Consolidated}).Draw(t, "mode")
		var nodes []Node
		var of []int32
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			gpus := int32(4)
			if mode == Packed {
				gpus = rapid.SampledFrom([]int32{2, 4}).Draw(t, "gpus")
			}
			nodes = append(nodes, Node{Type: int32(rapid.IntRange(0, 1).Draw(t, "type")), Amount: Amount{GPUs: gpus, CPUs: 16, MemMB: Plenty}})
			of = append(of, int32(i*rapid.IntRange(0, 1).Draw(t, "scattered")%4))
		}
		plain := New(mode, nodes)
		for i := range nodes {
			plain.Take([]Share{{int32(i), Amount{GPUs: int32(rapid.IntRange(0, int(nodes[i].GPUs)).Draw(t, "used"))}}})
			plain.SetDown(int32(i), rapid.IntRange(0, 9).Draw(t, "down") == 0)
		}
		hung := plain.Clone()
		hung.SetLeaves(of)
		r := Request{Types: 1 << rapid.IntRange(0, 1).Draw(t, "of type"), Nodes: int32(rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "on nodes"))}
		r.GPUs = int32(rapid.IntRange(max(1, int(r.Nodes)), 16).Draw(t, "of GPUs"))
		_, want := plain.Fit(r, nil)
		shares, got := hung.Fit(r, nil)
		if got != want {
			t.Fatalf("%+v: fits %v, without switches %v", r, got, want)
		}
		if !got {
			return
		}
		sum := int32(0)
		for _, s := range shares {
			sum += s.GPUs
		}
		fewest := hung.Leaves(shares)
		if sum != r.GPUs || !hung.Hold(shares) || fewest < 1 || fewest > len(shares) {
			t.Fatalf("%+v lies on %+v, %d switches", r, shares, fewest)
		}
		for r.Switches = 1; r.Switches <= 4; r.Switches++ {
			shares, fits := hung.Fit(r, nil)
			if fits != (fewest <= int(r.Switches)) || fits && hung.Leaves(shares) != fewest {
				t.Fatalf("%+v: %v, %+v; it can lie on %d", r, fits, shares, fewest)
			}
		}
		r.Switches = 0
		for leaf := range int32(4) {
			under := plain.Clone()
			for i := range nodes {
				under.SetDown(int32(i), plain.Down(int32(i)) || of[i] != leaf)
			}
			if _, fits := under.Fit(r, nil); fits && fewest > 1 {
				t.Fatalf("%+v fits under switch %d, and lies on %d", r, leaf, fewest)
			}
		}
	})
}

// A job that wants a whole node and one GPU more fits on two switches, also where the two
// with most room have no whole node.
func TestWholeNodeOnAnEmptySwitch(t *testing.T) {
	var nodes []Node
	for range 5 {
		nodes = append(nodes, Node{Amount: Amount{GPUs: 4, CPUs: 16, MemMB: Plenty}})
	}
	n := New(Consolidated, nodes)
	n.SetLeaves([]int32{0, 0, 1, 1, 2})
	for node := range int32(4) {
		n.Take([]Share{{node, Amount{GPUs: 1}}})
	}
	r := Request{Types: 1, Amount: Amount{GPUs: 5}, Switches: 2}
	if shares, fits := n.Fit(r, nil); !fits || n.Leaves(shares) != 2 {
		t.Errorf("%v on %v", fits, shares)
	}
	r.Switches = 1
	if shares, fits := n.Fit(r, nil); fits {
		t.Errorf("on one switch: %v", shares)
	}
}
