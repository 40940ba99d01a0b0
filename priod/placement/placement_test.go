package placement

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawNodes(t *rapid.T, mode Mode) *Nodes {
	var nodes []Node
	for i := range rapid.IntRange(1, 2).Draw(t, "types") {
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			nodes = append(nodes, Node{Type: int32(i), Amount: Amount{GPUs: int32(rapid.IntRange(1, 4).Draw(t, "gpus")), CPUs: int32(rapid.IntRange(2, 8).Draw(t, "cpus")), MemMB: Plenty}})
		}
	}
	return New(mode, nodes)
}

func drawRequest(t *rapid.T) Request {
	r := Request{Types: Types(rapid.IntRange(1, 3).Draw(t, "types")), Amount: Amount{GPUs: int32(rapid.IntRange(1, 9).Draw(t, "gpus"))}}
	if rapid.Bool().Draw(t, "says cpus") {
		r.CPUs = int32(rapid.IntRange(1, 12).Draw(t, "cpus"))
	}
	if rapid.Bool().Draw(t, "says nodes") {
		r.Nodes = int32(rapid.IntRange(1, min(3, int(r.GPUs))).Draw(t, "nodes"))
	}
	r.Whole = rapid.IntRange(0, 3).Draw(t, "whole") == 0
	return r
}

// What Fit returns is free, of one type, whole, and on as many nodes as asked.
func TestFitIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{Pool, Packed, Consolidated}).Draw(t, "mode")
		n := drawNodes(t, mode)
		type held struct{ shares []Share }
		var all []held
		for range rapid.IntRange(1, 20).Draw(t, "jobs") {
			r := drawRequest(t)
			if shares, ok := n.Fit(r, nil); ok {
				shares = slices.Clone(shares)
				gpus := int32(0)
				seen := map[int32]bool{}
				for _, s := range shares {
					gpus += s.GPUs
					if !r.Types.Has(n.Type(s.Node)) || n.Type(s.Node) != n.Type(shares[0].Node) || seen[s.Node] || s.GPUs <= 0 {
						t.Fatalf("%+v for %+v", shares, r)
					}
					seen[s.Node] = true
				}
				if whole := r.Whole && mode != Pool; whole {
					for _, s := range shares {
						if size := n.Size(s.Node); n.FreeOn(s.Node) != size || s.GPUs != size.GPUs || s.CPUs != size.CPUs {
							t.Fatalf("%+v of %+v for %+v", s, n.FreeOn(s.Node), r)
						}
					}
				} else if gpus != r.GPUs {
					t.Fatalf("%+v for %+v", shares, r)
				}
				if gpus < r.GPUs || mode != Pool && r.Nodes > 0 && len(shares) != int(r.Nodes) || !n.Hold(shares) {
					t.Fatalf("%+v for %+v", shares, r)
				}
				n.Take(shares)
				all = append(all, held{shares})
			} else if mode == Pool {
				for i := range n.Len() {
					if r.Types.Has(n.Type(int32(i))) && n.FreeOn(int32(i)).GPUs >= r.GPUs {
						t.Fatalf("%+v fits and was refused", r)
					}
				}
			}
			if len(all) > 0 && rapid.Bool().Draw(t, "ends") {
				n.Release(all[0].shares)
				all = all[1:]
			}
		}
		for _, h := range all {
			n.Release(h.shares)
		}
		for i := range n.Len() {
			if n.FreeOn(int32(i)) != n.Size(int32(i)) {
				t.Fatal("what was taken did not come back")
			}
		}
	})
}

func TestBestFitAndWholeNodes(t *testing.T) {
	nodes := []Node{{Type: 0, Amount: Amount{GPUs: 8, CPUs: Plenty, MemMB: Plenty}}, {Type: 0, Amount: Amount{GPUs: 8, CPUs: Plenty, MemMB: Plenty}}, {Type: 0, Amount: Amount{GPUs: 8, CPUs: Plenty, MemMB: Plenty}}}
	n := New(Consolidated, nodes)
	n.Take([]Share{{1, Amount{GPUs: 5}}})
	n.Take([]Share{{2, Amount{GPUs: 2}}})
	on := func(gpus int32) (nodes []int32) {
		shares, _ := n.Fit(Request{Types: 1, Amount: Amount{GPUs: gpus}}, nil)
		for _, s := range shares {
			nodes = append(nodes, s.Node)
		}
		return nodes
	}
	for gpus, want := range map[int32][]int32{3: {1}, 4: {2}, 7: {0}, 11: {0, 1}, 14: {0, 2}, 16: nil} {
		if got := on(gpus); !slices.Equal(got, want) {
			t.Errorf("%d GPUs go to nodes %v, want %v", gpus, got, want)
		}
	}
	n.mode = Packed
	if got := on(16); !slices.Equal(got, []int32{0, 2, 1}) {
		t.Errorf("spread over %v", got)
	}
}

func TestProportionalShareOfCPUs(t *testing.T) {
	n := New(Packed, []Node{{Type: 0, Amount: Amount{GPUs: 8, CPUs: 24, MemMB: 500}}})
	shares, ok := n.Fit(Request{Types: 1, Amount: Amount{GPUs: 3}}, nil)
	if !ok || shares[0].CPUs != 9 || shares[0].MemMB != 187 {
		t.Fatal(shares)
	}
	if _, ok := n.Fit(Request{Types: 1, Amount: Amount{GPUs: 1, CPUs: 25}}, nil); ok {
		t.Fatal("a node of 24 CPUs holds 25")
	}
}

// Earliest agrees with trying every second.
func TestTimelineEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{Pool, Packed, Consolidated}).Draw(t, "mode")
		n := drawNodes(t, mode)
		line := NewTimeline(0, n)
		const horizon = 60
		each := make([]*Nodes, horizon) // what is free in each second
		for i := range each {
			each[i] = n.Clone()
		}
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			r := drawRequest(t)
			d := float64(rapid.IntRange(1, 6).Draw(t, "d"))
			from := float64(rapid.IntRange(0, 5).Draw(t, "from"))
			want := math.Inf(1)
			for start := int(from); start+int(d) <= horizon && math.IsInf(want, 1); start++ {
				least := each[start].Clone()
				for s := start; s < start+int(d); s++ {
					for i := range least.free {
						least.free[i] = least.free[i].least(each[s].free[i])
					}
				}
				for g := range least.byType {
					least.byType[g].free = 0
					for _, node := range least.byType[g].nodes {
						least.byType[g].free += int(least.free[node].GPUs)
					}
				}
				if _, ok := least.Fit(r, nil); ok {
					want = float64(start)
				}
			}
			got, shares, ok := line.Earliest(r, from, d)
			if ok == math.IsInf(want, 1) || ok && got != want {
				t.Fatalf("%+v for %v s: at %v %v, want %v", r, d, got, ok, want)
			}
			if ok {
				shares = slices.Clone(shares)
				line.Reserve(shares, got, got+d)
				for s := int(got); s < int(got+d); s++ {
					each[s].Take(shares)
				}
			}
		}
	})
}

// Steering counts all GPUs of the nodes that a request takes whole: the smallest that hold it.
func TestTakes(t *testing.T) {
	n := New(Packed, []Node{{Type: 0, Amount: Amount{GPUs: 8, CPUs: 64, MemMB: 800}}, {Type: 0, Amount: Amount{GPUs: 4, CPUs: 16, MemMB: 400}}, {Type: 0, Amount: Amount{GPUs: 2, CPUs: 8, MemMB: 200}}})
	for _, c := range []struct {
		r    Request
		want int32
	}{
		{Request{Amount: Amount{GPUs: 1, CPUs: 4}}, 1},
		{Request{Amount: Amount{GPUs: 1, CPUs: 4}, Whole: true}, 2},
		{Request{Amount: Amount{GPUs: 1, CPUs: 12}, Whole: true}, 4},
		{Request{Amount: Amount{GPUs: 1, MemMB: 500}, Whole: true}, 8},
		{Request{Amount: Amount{GPUs: 6}, Nodes: 2, Whole: true}, 8},
		{Request{Amount: Amount{GPUs: 10}, Whole: true}, 16},
		{Request{Amount: Amount{GPUs: 9}, Nodes: 1, Whole: true}, 16},
	} {
		if got := n.Takes(c.r, 0); got != c.want {
			t.Errorf("%+v takes %d GPUs, want %d", c.r, got, c.want)
		}
	}
}

// Fewer than no GPUs of one node, in a view of the future, are a debt of all, or of the node alone.
func TestFewerThanNone(t *testing.T) {
	n := New(Packed, []Node{{Amount: Amount{GPUs: 4, CPUs: Plenty, MemMB: Plenty}}, {Amount: Amount{GPUs: 4, CPUs: Plenty, MemMB: Plenty}}})
	n.Take([]Share{{Node: 0, Amount: Amount{GPUs: 6}}, {Node: 1, Amount: Amount{GPUs: 1}}})
	if place, fits := n.Fit(Request{Types: 1, Amount: Amount{GPUs: 3}}, nil); fits {
		t.Errorf("%+v", place)
	}
	n.Apart()
	if place, fits := n.Fit(Request{Types: 1, Amount: Amount{GPUs: 3}}, nil); !fits || place[0].Node != 1 {
		t.Errorf("%+v, %v", place, fits)
	}
	if n.FreeGPUs(0) != 1 {
		t.Errorf("%d GPUs free, want 1 in all", n.FreeGPUs(0))
	}
	n.Release([]Share{{Node: 0, Amount: Amount{GPUs: 6}}})
	if n.FreeGPUs(0) != 7 {
		t.Errorf("%d GPUs free, want 7", n.FreeGPUs(0))
	}
}
