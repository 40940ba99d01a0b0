package placement

import (
	"iter"
	"math"
	"slices"
)

// Shadow finds when a request will fit as running jobs release their shares,
// given in the order of time; infinite when they never make room, not before
// now. It takes the releases in: the receiver, a copy of what is free now,
// shows then what is free at that time (EASY's shadow time: Mu'alem and
// Feitelson, TPDS 2001).
func (n *Nodes) Shadow(now float64, r Request, releases iter.Seq2[float64, []Share]) float64 {
	if n.mode != Pool && n.onOneNode(r) {
		return n.shadowOfOne(now, r, releases)
	}
	at := now
	room := n.Watch(r)
	fits := func() bool {
		if !room.MayFit() {
			return false
		}
		_, fits := n.Fit(r, nil)
		return fits
	}
	for time, shares := range releases {
		if time > at {
			if fits() {
				return at
			}
			at = time
		}
		n.Release(shares)
	}
	if fits() {
		return at
	}
	return math.Inf(1)
}

// shadowOfOne is Shadow for what lies on one node: only nodes on which something
// is released have to be looked at.
func (n *Nodes) shadowOfOne(now float64, r Request, releases iter.Seq2[float64, []Share]) float64 {
	v := n.viewOf(r, nil)
	holds := func(node int32) bool {
		free := v.free(node)
		return (r.On == 0 || r.On == node+1) && r.GPUs <= free.GPUs && free.Holds(n.need(r, r.GPUs, node))
	}
	fits, at := false, now
	for t := range n.byType {
		fits = fits || r.Types.Has(int32(t)) && slices.ContainsFunc(n.byType[t].nodes, holds)
	}
	for time, shares := range releases {
		if time > at {
			if fits {
				return at
			}
			at = time
		}
		n.Release(shares)
		for _, s := range shares {
			fits = fits || r.Types.Has(n.Type(s.Node)) && holds(s.Node)
		}
	}
	if fits {
		return at
	}
	return math.Inf(1)
}
