package placement

import (
	"iter"
	"math"
)

// Shadow finds when a request will fit as running jobs release their shares,
// given in the order of time; infinite when they never make room, not before
// now. It takes the releases in: the receiver, a copy of what is free now,
// shows then what is free at that time (EASY's shadow time: Mu'alem and
// Feitelson, TPDS 2001).
func (n *Nodes) Shadow(now float64, r Request, releases iter.Seq2[float64, []Share]) float64 {
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
