package preemption

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// orInParts has a claimant lie on several nodes where no node has room for it, or where fewer GPUs have to leave for that.
func (v *view) orInParts(t *Claimant, whole Verdict) Verdict {
	v.apply(&whole, false)
	parts := v.inParts(t)
	if parts.Why != Impossible && (whole.Why != Evicts || v.held(&parts) < v.held(&whole)) {
		return parts
	}
	v.apply(&parts, false)
	v.apply(&whole, true)
	return whole
}

// held is how many GPUs a verdict's victims hold.
func (v *view) held(verdict *Verdict) (gpus int32) {
	for _, i := range verdict.Victims {
		gpus += v.Candidates[i].gpus()
	}
	return gpus
}

// inParts makes room on as many nodes as it takes: the candidates leave that cost least for each GPU that they free for the
// claimant, until it fits.
func (v *view) inParts(t *Claimant) Verdict {
	best := Verdict{Why: Impossible}
	sets := t.Alike
	if len(sets) == 0 {
		sets = []placement.Types{t.Request.Types}
	}
	for _, types := range sets {
		part := *t
		part.Request.Types &= types
		for kind, run := range t.Run {
			if math.IsInf(run, 1) {
				part.Request.Types &^= 1 << uint(kind)
			}
		}
		other := v.partsOf(&part)
		v.apply(&other, false)
		if v.better(&other, &best, t) {
			best = other
		}
	}
	v.apply(&best, true)
	return best
}

// partsOf makes room on nodes of these types.
func (v *view) partsOf(t *Claimant) (verdict Verdict) {
	missing, gains := t.Request.GPUs, make([]int32, len(v.Candidates))
	for n := range v.places {
		missing -= v.holds(t, int32(n), placement.Amount{})
	}
	for i := range v.Candidates {
		if c := &v.Candidates[i]; v.standing[i] == Allowed && !v.chosen[i] && !v.set.late(c, t) {
			gains[i] = v.gain(t, c)
		}
	}
	for missing > 0 {
		best, least := -1, math.Inf(1)
		for i, gain := range gains {
			if gain = min(gain, missing); gain > 0 {
				if cost := (v.cost[i] + v.set.Spare*float64(v.Candidates[i].gpus())) / float64(gain); cost < least {
					best, least = i, cost
				}
			}
		}
		if best < 0 {
			v.apply(&verdict, false)
			return Verdict{Why: Impossible}
		}
		missing -= v.gain(t, &v.Candidates[best])
		v.setVictim(int32(best), true)
		verdict.Victims, gains[best] = append(verdict.Victims, best), 0
	}
	if !v.spread(t, &verdict) {
		v.apply(&verdict, false)
		return Verdict{Why: Impossible}
	}
	v.dropNeedless(&verdict)
	slices.Sort(verdict.Victims)
	v.sumCosts(&verdict)
	if verdict.Why = Evicts; len(verdict.Victims) == 0 {
		verdict.Why = Fits
	}
	return verdict
}

// gain is how many GPUs more a claimant could have on the nodes of a candidate that left.
func (v *view) gain(t *Claimant, c *Candidate) (gpus int32) {
	for _, s := range c.Shares {
		gpus += v.holds(t, s.Node, s.Amount) - v.holds(t, s.Node, placement.Amount{})
	}
	return gpus
}

// holds is how many of a claimant's GPUs a node has room for, with so much more.
func (v *view) holds(t *Claimant, node int32, more placement.Amount) int32 {
	p := &v.places[node]
	if p.down || !t.Request.Types.Has(v.Nodes.Type(node)) {
		return 0
	}
	room := p.room.Plus(more)
	for gpus := min(room.GPUs, t.Request.GPUs); gpus > 0; gpus-- {
		if room.Holds(v.Nodes.Need(t.Request, gpus, node)) {
			return gpus
		}
	}
	return 0
}

// spread gives a claimant a place on nodes with room, those with the most first; false: there is none.
func (v *view) spread(t *Claimant, verdict *Verdict) bool {
	type part struct{ node, gpus int32 }
	var parts []part
	for n := range v.places {
		if gpus := v.holds(t, int32(n), placement.Amount{}); gpus > 0 {
			parts = append(parts, part{int32(n), gpus})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.gpus, a.gpus) })
	left := t.Request.GPUs
	for _, p := range parts {
		if gpus := min(v.holds(t, p.node, placement.Amount{}), left); gpus > 0 { // less now where two GPU types share a node
			share := placement.Share{Node: p.node, Amount: v.Nodes.Need(t.Request, gpus, p.node)}
			v.apply(&Verdict{Shares: []placement.Share{share}}, true)
			verdict.Shares, left = append(verdict.Shares, share), left-gpus
		}
	}
	return left == 0 && (t.Request.Most == 0 || len(verdict.Shares) <= int(t.Request.Most))
}
