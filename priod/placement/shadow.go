package placement

import (
	"iter"
	"math"
	"slices"
)

// Shadow finds when and where a request will fit as running jobs release their shares, given in the order of time; infinite
// when they never make room, not before now. The place is valid until the next call. Shadow takes the releases in: the receiver, a
// copy of what is free now, shows then what is free at that time (EASY's shadow time: Mu'alem and Feitelson, TPDS 2001).
func (n *Nodes) Shadow(now float64, r Request, releases iter.Seq2[float64, []Share]) (at float64, place []Share) {
	if n.mode != Pool && n.onOneNode(r) {
		if at = n.shadowOfOne(now, r, releases); !math.IsInf(at, 1) {
			place, _ = n.Fit(r, nil)
		}
		return at, place
	}
	at = now
	const few = 8
	room, looks := n.Watch(r), 0
	fits := func() (fits bool) {
		if looks++; looks <= few || room.MayFit() { // before it pays to count
			place, fits = n.Fit(r, nil)
		}
		return fits
	}
	for time, shares := range releases {
		if time > at {
			if fits() {
				return at, place
			}
			at = time
		}
		n.Release(shares)
	}
	if fits() {
		return at, place
	}
	return math.Inf(1), nil
}

// shadowOfOne is Shadow for what lies on one node: only nodes on which something is released have to be looked at.
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
