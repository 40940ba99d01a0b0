package placement

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainCPUs places a job without GPUs by the rule in words: equal parts, rounded up, on the
// first nodes of one type with room; one part on the node with fewest free GPUs.
func plainCPUs(n, within *Nodes, r Request) []Share {
	parts := max(r.Nodes, 1)
	for t := range n.byType {
		var shares []Share
		fewest := int32(math.MaxInt32)
		for node := range int32(n.Len()) {
			size, free := n.size[node], n.free[node]
			if within != nil {
				free = free.least(within.free[node])
			}
			if !r.Types.Has(int32(t)) || size.Type != int32(t) || n.down[node] || slices.Contains(n.Off(r), node) {
				continue
			}
			need := Amount{CPUs: max((r.CPUs+parts-1)/parts, 1)}
			if size.MemMB < Plenty {
				if need.MemMB = (r.MemMB + int64(parts) - 1) / int64(parts); r.MemMB == 0 && size.CPUs < Plenty {
					need.MemMB = int64(need.CPUs) * size.MemMB / int64(size.CPUs)
				}
			}
			if free.CPUs < need.CPUs || free.MemMB < need.MemMB {
				continue
			}
			gpus := max(free.GPUs, 0)
			switch {
			case parts > 1:
				shares = append(shares, Share{node, need})
			case gpus < fewest:
				shares, fewest = []Share{{node, need}}, gpus
			}
		}
		if len(shares) >= int(parts) {
			return shares[:parts]
		}
	}
	return nil
}

// A job with all memory of its nodes takes as much as each has, whatever the size of the others.
func TestAllMemory(t *testing.T) {
	n := New(Packed, []Node{{Amount: Amount{GPUs: 4, CPUs: 8, MemMB: 100}}, {Amount: Amount{GPUs: 2, CPUs: 8, MemMB: 300}}})
	r := Request{Types: 1, Amount: Amount{GPUs: 1, CPUs: 2}, Nodes: 1, AllMem: true}
	n.Take([]Share{{Node: 1, Amount: Amount{MemMB: 1}}})
	if place, found := n.Fit(r, nil); !found || place[0].Node != 0 || place[0].MemMB != 100 {
		t.Errorf("%+v, %v", place, found)
	}
	n.Take([]Share{{Node: 0, Amount: Amount{MemMB: 1}}})
	if place, found := n.Fit(r, nil); found {
		t.Errorf("%+v, where each node's memory is in use", place)
	}
}

// A whole node beyond the CPUs that the jobs of a partition may hold is none.
func TestWholeNodeWithinALimitOfItsPartition(t *testing.T) {
	n := New(Packed, []Node{{Amount: Amount{GPUs: 2, CPUs: 16, MemMB: 100, Others: Others{6}}}})
	r := Request{Types: 1, Amount: Amount{GPUs: 1, CPUs: 1, MemMB: 10}, CPUsIn: 1}
	if _, found := n.Fit(r, nil); !found {
		t.Error("no place within the limit")
	}
	r.Whole = true
	if place, found := n.Fit(r, nil); found {
		t.Errorf("%+v", place)
	}
}

// Memory of each node is that, however few of the GPUs lie there.
func TestMemoryOfEachNode(t *testing.T) {
	n := New(Packed, []Node{{Amount: Amount{GPUs: 4, CPUs: 8, MemMB: 100}}, {Amount: Amount{GPUs: 4, CPUs: 8, MemMB: 100}}})
	r := Request{Types: 1, Amount: Amount{GPUs: 5, CPUs: 5, MemMB: 60}, NodeMemMB: 60}
	if place, found := n.Fit(r, nil); !found || len(place) != 2 || place[0].MemMB != 60 || place[1].MemMB != 60 {
		t.Errorf("%+v, %v", place, found)
	}
	n.Take([]Share{{Node: 1, Amount: Amount{MemMB: 50}}})
	if place, found := n.Fit(r, nil); found {
		t.Errorf("%+v, where one node has less", place)
	}
}

func drawCPUNodes(t *rapid.T) *Nodes {
	var nodes []Node
	for range rapid.IntRange(1, 24).Draw(t, "nodes") {
		nodes = append(nodes, Node{Type: int32(rapid.IntRange(0, 1).Draw(t, "type")), Amount: Amount{
			CPUs:  rapid.SampledFrom([]int32{2, 4, 5, 6, 8, 9, 12, 16, 32, Plenty}).Draw(t, "cpus"),
			MemMB: rapid.SampledFrom([]int64{10, 20, Plenty}).Draw(t, "mem"),
		}})
		if last := &nodes[len(nodes)-1]; last.Type == 1 {
			last.GPUs = int32(rapid.IntRange(1, 4).Draw(t, "gpus"))
		}
	}
	nodes = append(nodes, Node{Type: 0, Amount: Amount{CPUs: 4, MemMB: 10}}, Node{Type: 1, Amount: Amount{GPUs: 2, CPUs: 4, MemMB: 10}})
	return New(rapid.SampledFrom([]Mode{Packed, Consolidated}).Draw(t, "mode"), nodes)
}

func TestWithoutGPUsIsThePlainRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawCPUNodes(t)
		anyNode := rapid.Int32Range(0, int32(n.Len())-1)
		piece := func() []Share {
			return []Share{{anyNode.Draw(t, "on"), Amount{GPUs: rapid.Int32Range(0, 2).Draw(t, "GPUs"), CPUs: rapid.Int32Range(0, 4).Draw(t, "CPUs"), MemMB: rapid.Int64Range(0, 9).Draw(t, "MB")}}}
		}
		r := Request{
			Types: Types(rapid.IntRange(1, 3).Draw(t, "types")), Nodes: int32(rapid.IntRange(0, 4).Draw(t, "parts")),
			Amount: Amount{CPUs: int32(rapid.IntRange(0, 20).Draw(t, "cpus")), MemMB: int64(rapid.IntRange(0, 15).Draw(t, "mem"))},
			Off:    n.Refused(rapid.SliceOfNDistinct(anyNode, 0, 3, rapid.ID[int32]).Draw(t, "off")),
		}
		room := n.Watch(r)
		var within *Nodes
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			within = nil
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				n.SetDown(anyNode.Draw(t, "node"), rapid.Bool().Draw(t, "down"))
			case 1:
				within = n.Clone()
				within.CopyFree(n)
				within.Take(piece()) // as a view of the future, it may fall below zero
			default:
				n.Take(piece())
			}
			for range indexFrom { // by then there is an index
				want := plainCPUs(n, within, r)
				got, fits := n.Fit(r, within)
				if fits != (want != nil) || fits && !slices.Equal(got, want) {
					t.Fatalf("%+v lies on %v, want %v", r, got, want)
				}
			}
			if within == nil && room.MayFit() != (plainCPUs(n, nil, r) != nil) {
				t.Fatalf("%+v may fit: %v", r, room.MayFit())
			}
		}
	})
}

// When a job without GPUs will fit is when the plain rule first finds it a place.
func TestShadowWithoutGPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawCPUNodes(t)
		r := Request{Types: 3, Nodes: int32(rapid.IntRange(1, 3).Draw(t, "parts")), Amount: Amount{CPUs: int32(rapid.IntRange(1, 30).Draw(t, "cpus"))}}
		var held [][]Share
		for node := range int32(n.Len()) {
			shares := []Share{{node, Amount{CPUs: n.FreeOn(node).CPUs}}}
			held = append(held, shares)
			n.Take(shares)
		}
		want, plain := math.Inf(1), n.Clone()
		for i, shares := range held {
			if plain.Release(shares); plainCPUs(plain, nil, r) != nil {
				want = float64(i + 1)
				break
			}
		}
		at, _ := n.Clone().Shadow(0, r, func(yield func(float64, []Share) bool) {
			for i, shares := range held {
				if !yield(float64(i+1), shares) {
					return
				}
			}
		})
		start, _, ok := func() (float64, []Share, bool) {
			line := NewTimeline(0, n)
			for i, shares := range held {
				line.Free(shares, float64(i+1), math.Inf(1))
			}
			return line.Earliest(r, 0, 5)
		}()
		if at != want || ok != !math.IsInf(want, 1) || ok && start != want {
			t.Fatalf("%+v fits at %v, on the timeline at %v (%v); want %v", r, at, start, ok, want)
		}
	})
}
