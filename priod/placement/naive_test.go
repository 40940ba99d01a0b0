package placement

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive finds places as one would write it at first: it tries every node with
// every number of GPUs and keeps no counts.
type naive struct {
	*Nodes
	free   []Amount // what may be taken of each node
	chosen []Share
}

func newNaive(n, within *Nodes) *naive {
	v := &naive{Nodes: n, free: make([]Amount, n.Len())}
	for i := range v.free {
		switch {
		case n.down[i] || within != nil && within.down[i]:
		case within != nil:
			v.free[i] = n.free[i].least(within.free[i])
		default:
			v.free[i] = n.free[i]
		}
	}
	return v
}

// takes is what so many of a request's GPUs take of a node, and whether they may: of
// whole nodes all GPUs and CPUs, where nobody has any of them.
func (v *naive) takes(r Request, gpus, node int32) (need Amount, may bool) {
	if v.mode == Pool {
		return Amount{GPUs: gpus}, true
	}
	whole, size, free := r.Whole, v.Size(node), v.free[node]
	r.Whole = false
	if need = v.need(r, gpus, node); !whole {
		return need, true
	}
	may = need.GPUs <= size.GPUs && free.GPUs == size.GPUs
	if need.GPUs = size.GPUs; size.CPUs < Plenty {
		may = may && need.CPUs <= size.CPUs && free.CPUs == size.CPUs
		need.CPUs = size.CPUs
	}
	return need, may
}

func (v *naive) holds(r Request, gpus, node int32) bool {
	need, may := v.takes(r, gpus, node)
	return may && v.free[node].Holds(need) && !slices.ContainsFunc(v.chosen, func(s Share) bool { return s.Node == node })
}

func (v *naive) choose(r Request, gpus, node int32) {
	need, _ := v.takes(r, gpus, node)
	v.chosen = append(v.chosen, Share{node, need})
}

// best takes the node that is fullest afterwards.
func (v *naive) best(r Request, gpus int32, nodes []int32) bool {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node int32) bool { return !v.holds(r, gpus, node) })
	if len(nodes) == 0 {
		return false
	}
	v.choose(r, gpus, slices.MinFunc(nodes, func(a, b int32) int { return cmp.Compare(v.free[a].GPUs, v.free[b].GPUs) }))
	return true
}

func (v *naive) fit(r Request) ([]Share, bool) {
	for _, node := range v.Off(r) {
		v.free[node] = Amount{}
	}
	for t := range v.byType {
		nodes := v.byType[t].nodes
		if v.chosen = nil; r.Types.Has(int32(t)) && v.on(r, nodes, v.byType[t].largest) {
			return v.chosen, true
		}
	}
	for _, together := range r.Together {
		types, nodes, largest := together&r.Types, []int32{}, int32(0)
		for node := range int32(v.Len()) {
			if types.Has(v.Type(node)) {
				nodes, largest = append(nodes, node), max(largest, v.Size(node).GPUs)
			}
		}
		if v.chosen = nil; bits.OnesCount64(uint64(types)) > 1 && r.Nodes != 1 && v.mode != Pool && v.on(r, nodes, largest) {
			return v.chosen, true
		}
	}
	return nil, false
}

func (v *naive) on(r Request, nodes []int32, largest int32) bool {
	if r.Nodes > 1 && v.mode != Pool {
		for i := range r.Nodes {
			if !v.best(r, (r.GPUs+r.Nodes-1-i)/r.Nodes, nodes) {
				return false
			}
		}
		return true
	}
	if v.best(r, r.GPUs, nodes) {
		return true
	}
	if r.Nodes == 1 || v.mode == Pool || v.mode == Consolidated && r.GPUs <= largest {
		return false
	}
	left := r.GPUs
	emptiest := slices.Clone(nodes)
	if v.mode == Packed {
		slices.SortStableFunc(emptiest, func(a, b int32) int { return cmp.Compare(v.free[b].GPUs, v.free[a].GPUs) })
	}
	for _, node := range emptiest {
		if v.mode == Packed && v.best(r, left, nodes) {
			return true
		}
		gpus := min(left, v.free[node].GPUs)
		for gpus > 0 && !v.holds(r, gpus, node) {
			gpus--
		}
		if gpus <= 0 || v.mode == Consolidated && gpus < largest {
			continue
		}
		v.choose(r, gpus, node)
		if left -= gpus; left == 0 {
			return true
		}
	}
	return v.mode == Consolidated && left < largest && v.best(r, left, nodes)
}

func (v *naive) shadow(now float64, r Request, releases iter.Seq2[float64, []Share]) float64 {
	ends := []float64{now}
	for end := range releases {
		ends = append(ends, end)
	}
	for _, end := range ends {
		then := v.Clone()
		for at, shares := range releases {
			if at <= end {
				then.Release(shares)
			}
		}
		if _, fits := newNaive(then, nil).fit(r); fits {
			return max(end, now)
		}
	}
	return math.Inf(1)
}

func drawMixedNodes(t *rapid.T, mode Mode) *Nodes {
	var nodes []Node
	for range rapid.IntRange(1, 8).Draw(t, "nodes") {
		nodes = append(nodes, Node{Type: int32(rapid.IntRange(0, 2).Draw(t, "type")), Amount: Amount{
			GPUs:  int32(rapid.IntRange(1, 8).Draw(t, "gpus")),
			CPUs:  rapid.SampledFrom([]int32{8, 24, 32, Plenty}).Draw(t, "cpus"),
			MemMB: rapid.SampledFrom([]int64{100, 1000, Plenty}).Draw(t, "mem"),
		}})
	}
	return New(mode, nodes)
}

func drawMixedRequest(t *rapid.T, n *Nodes) Request {
	r := Request{Types: Types(rapid.IntRange(1, 7).Draw(t, "types")), Amount: Amount{
		GPUs: int32(rapid.IntRange(1, 20).Draw(t, "gpus")), CPUs: int32(rapid.IntRange(0, 40).Draw(t, "cpus")),
		MemMB: int64(max(0, rapid.IntRange(-200, 500).Draw(t, "mem"))),
	}}
	if rapid.Bool().Draw(t, "says nodes") {
		r.Nodes = int32(rapid.IntRange(1, min(4, int(r.GPUs))).Draw(t, "nodes"))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "sets") {
		r.Together[3*i] = Types(rapid.IntRange(0, 7).Draw(t, "together"))
	}
	r.Whole = rapid.IntRange(0, 3).Draw(t, "whole") == 0
	var off []int32
	for node := range int32(n.Len()) {
		if rapid.IntRange(0, 5).Draw(t, "refused") == 0 {
			off = append(off, node)
		}
	}
	r.Off = n.Refused(off)
	return r
}

// Fit, Shadow and Watch agree with the naive way, whatever was taken, released
// or goes down.
func TestFitIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawMixedNodes(t, rapid.SampledFrom([]Mode{Pool, Packed, Consolidated}).Draw(t, "mode"))
		beyond := n.Clone()
		r := drawMixedRequest(t, n)
		room := n.Watch(r)
		type held struct {
			until  float64
			shares []Share
		}
		var all []held
		var on []Share // where beyond gives less
		compare := func(within *Nodes, r Request) ([]Share, bool) {
			shares, fits := n.Fit(r, within)
			if want, ok := newNaive(n, within).fit(r); fits != ok || !slices.Equal(shares, want) {
				t.Fatalf("%+v: %v at %+v, naive %v at %+v", r, fits, shares, ok, want)
			}
			return slices.Clone(shares), fits
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				if shares, fits := compare(nil, drawMixedRequest(t, n)); fits {
					n.Take(shares)
					all = append(all, held{float64(rapid.IntRange(0, 9).Draw(t, "until")), shares})
				}
			case 2:
				if len(all) > 0 {
					n.Release(all[0].shares)
					all = all[1:]
				}
			case 3:
				n.SetDown(int32(rapid.IntRange(0, n.Len()-1).Draw(t, "node")), rapid.Bool().Draw(t, "down"))
			case 4: // the watch falls behind
				continue
			}
			slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(a.until, b.until) })
			ends := func(yield func(float64, []Share) bool) {
				for _, h := range all {
					if !yield(h.until, h.shares) {
						return
					}
				}
			}
			if _, fits := compare(nil, r); fits != room.MayFit() {
				t.Fatalf("%+v fits: %v, and not to the watch", r, fits)
			}
			later := n.Clone()
			got, place := later.Shadow(1, r, ends)
			if want := newNaive(n, nil).shadow(1, r, ends); got != want || !math.IsInf(want, 1) && (len(place) == 0 || !later.Hold(place)) {
				t.Fatalf("%+v: shadow time %v on %v, naive %v", r, got, place, want)
			}
			compare(beyond, drawMixedRequest(t, n)) // which may have become older than n
			beyond.CopyFree(n)
			on = nil
			if shares, fits := compare(nil, drawMixedRequest(t, n)); fits {
				on = shares
				beyond.Take(on)
			}
			if _, fits := compare(beyond, r); fits != room.MayFitWithin(beyond, on) {
				t.Fatalf("%+v fits within: %v, and not to the watch", r, fits)
			}
		}
	})
}

// The one node that Earliest finds by itself is the one that Fit finds in all
// that is free from then on.
func TestEarliestTakesFitsNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawMixedNodes(t, rapid.SampledFrom([]Mode{Pool, Consolidated}).Draw(t, "mode"))
		line := NewTimeline(0, n)
		for range rapid.IntRange(1, 20).Draw(t, "jobs") {
			r := drawMixedRequest(t, n)
			d := float64(rapid.IntRange(1, 6).Draw(t, "d"))
			start, shares, ok := line.Earliest(r, float64(rapid.IntRange(0, 5).Draw(t, "from")), d)
			if !ok {
				continue
			}
			shares = slices.Clone(shares)
			line.look(start, start+d, r.Types)
			if want, _ := line.window.Fit(r, nil); !slices.Equal(shares, want) {
				t.Fatalf("%+v at %v: %+v, Fit says %+v", r, start, shares, want)
			}
			line.Reserve(shares, start, start+d)
		}
	})
}
