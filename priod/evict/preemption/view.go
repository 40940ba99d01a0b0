package preemption

import (
	"cmp"
	"slices"

	"slurmprio/priod/placement"
)

// resources are an amount as a list: GPUs, CPUs, MB and the others.
func resources(a placement.Amount) [3 + placement.MaxOthers]int64 {
	all := [3 + placement.MaxOthers]int64{int64(a.GPUs), int64(a.CPUs), a.MemMB}
	copy(all[3:], a.Others[:])
	return all
}

// piece is what leaves one node with a candidate.
type piece struct {
	candidate int32
	placement.Amount
}

// place is one node with what may be freed on it.
type place struct {
	down   bool
	room   placement.Amount // free, or being freed, and not claimed
	pieces []piece          // of allowed candidates, by cost for each GPU
	most   placement.Amount // sum of pieces
}

// view is the cluster as it will be when all that was decided so far has happened.
type view struct {
	*Snapshot
	set      *Settings
	standing []Why
	places   []place
	cost     []float64           // of each candidate
	order    []int32             // candidates, in the order of FitGpp's scores
	chosen   []bool              // victims so far
	rankings map[demand]*ranking // of nodes, by GPUs wanted
	gangs    []int32             // candidates on several nodes
	search   setSearch
	waiting  int // claimants that start anyway
	rates    map[placement.Request]rate
	short    []short
	vain     []*Claimant // for which there was no place since the last place was given
	most     int         // victims of one claimant at most; 0: any number
	mostGPUs int32       // that these hold at most; 0: any number
	thrifty  bool        // the least loss counts, however long the claimant waits for it
	least    []float64   // scratch of atLeast
}

func newView(s *Snapshot, set *Settings, standing []Why) *view {
	v := &view{
		Snapshot: s, set: set, standing: standing, places: make([]place, s.Nodes.Len()), cost: make([]float64, len(s.Candidates)),
		rankings: map[demand]*ranking{}, rates: map[placement.Request]rate{}, chosen: make([]bool, len(s.Candidates)),
	}
	for i := range v.places {
		v.places[i].room, v.places[i].down = s.Nodes.FreeOn(int32(i)), s.Nodes.Down(int32(i))
	}
	for _, c := range s.Claims {
		for _, share := range c.Shares {
			v.addRoom(share.Node, placement.Amount{}.Minus(share.Amount))
		}
	}
	v.price()
	for i := range s.Candidates {
		if len(s.Candidates[i].Shares) > 1 {
			v.gangs = append(v.gangs, int32(i))
		}
		for _, share := range s.Candidates[i].Shares {
			p, amount := &v.places[share.Node], share.Amount
			switch {
			case s.Candidates[i].Leaving:
				v.addRoom(share.Node, amount)
			case standing[i] == Allowed:
				p.pieces = append(p.pieces, piece{int32(i), amount})
			}
		}
	}
	for i := range v.places {
		v.updateSums(int32(i))
	}
	return v
}

// addRoom adds what becomes free on a node. Its CPUs and memory do on the other parts of a node with several GPU types, too.
func (v *view) addRoom(node int32, amount placement.Amount) {
	p := &v.places[node]
	p.room = p.room.Plus(amount)
	for _, other := range v.Nodes.OtherParts(node) {
		p := &v.places[other]
		p.room = p.room.Plus(amount.BesideGPUs())
		v.rerank(other)
	}
}

// updateSums sorts a node's pieces and adds them up again.
func (v *view) updateSums(node int32) {
	p := &v.places[node]
	slices.SortStableFunc(p.pieces, func(a, b piece) int {
		return cmp.Compare(v.cost[a.candidate]*float64(b.GPUs), v.cost[b.candidate]*float64(a.GPUs))
	})
	p.most = placement.Amount{}
	for _, c := range p.pieces {
		p.most = p.most.Plus(c.Amount)
	}
}

// pieces are the GPUs that a request takes of each of its nodes, most first.
func pieces(n *placement.Nodes, r placement.Request) []int32 {
	nodes := r.Nodes
	if nodes <= 0 {
		largest := int32(1)
		for t := range int32(placement.MaxTypes) {
			if r.Types.Has(t) {
				largest = max(largest, n.Largest(t))
			}
		}
		var all []int32
		for left := r.GPUs; left > 0; left -= largest {
			all = append(all, min(left, largest))
		}
		return all
	}
	all := make([]int32, nodes)
	for i := range all {
		all[i] = r.GPUs / nodes
		if int32(i) < r.GPUs%nodes {
			all[i]++
		}
	}
	return all
}

// giveRoom gives a claimant its place on a node, and makes the victims leave.
func (v *view) giveRoom(verdict *Verdict, node int32, need placement.Amount, victims []int32) {
	part := Verdict{Shares: []placement.Share{{Node: node, Amount: need}}}
	for _, c := range victims {
		part.Victims = append(part.Victims, int(c))
	}
	v.apply(&part, true)
	verdict.Victims, verdict.Shares = append(verdict.Victims, part.Victims...), append(verdict.Shares, part.Shares...)
	v.sumCosts(verdict)
}

// setVictim makes a candidate a victim, or takes that back.
func (v *view) setVictim(c int32, leaves bool) {
	v.chosen[c] = leaves
	for _, share := range v.Candidates[c].Shares {
		p, amount := &v.places[share.Node], share.Amount
		if leaves {
			v.addRoom(share.Node, amount)
			p.pieces = slices.DeleteFunc(p.pieces, func(x piece) bool { return x.candidate == c })
		} else {
			v.addRoom(share.Node, placement.Amount{}.Minus(amount))
			p.pieces = append(p.pieces, piece{c, amount})
		}
		v.updateSums(share.Node)
		v.rerank(share.Node)
	}
}

// apply gives a verdict its victims and place, or takes them back.
func (v *view) apply(verdict *Verdict, holds bool) {
	for _, c := range verdict.Victims {
		v.setVictim(int32(c), holds)
	}
	for _, share := range verdict.Shares {
		amount := share.Amount
		if holds {
			amount = placement.Amount{}.Minus(amount)
		}
		v.addRoom(share.Node, amount)
		v.rerank(share.Node)
	}
}

// reprice divides the cost of gangs by their nodes, or restores it.
func (v *view) reprice(byNode bool) {
	for _, i := range v.gangs {
		shares := v.Candidates[i].Shares
		if byNode {
			v.cost[i] /= float64(len(shares))
		} else {
			v.cost[i] *= float64(len(shares))
		}
		for _, share := range shares {
			v.updateSums(share.Node)
		}
	}
	clear(v.rankings)
}

// sumCosts adds up a verdict's victims.
func (v *view) sumCosts(verdict *Verdict) {
	verdict.Cost, verdict.Grace = 0, 0
	for _, c := range verdict.Victims {
		verdict.Cost += v.cost[c]
		verdict.Grace = max(verdict.Grace, v.Candidates[c].Grace)
	}
}

// rerank moves a node to its new place in the rankings.
func (v *view) rerank(node int32) {
	for _, r := range v.rankings {
		r.move(v, node)
	}
}

// dropNeedless removes victims without which the claimant still fits: a gang that leaves
// for one node of a claimant may make others needless.
func (v *view) dropNeedless(verdict *Verdict) {
	if len(verdict.Shares) < 2 {
		return
	}
	dearest := slices.SortedFunc(slices.Values(verdict.Victims), func(a, b int) int {
		return cmp.Or(cmp.Compare(v.cost[b], v.cost[a]), cmp.Compare(a, b))
	})
	for _, c := range dearest {
		needed := slices.ContainsFunc(v.Candidates[c].Shares, func(s placement.Share) bool {
			return !v.places[s.Node].room.Holds(s.Amount)
		})
		if !needed {
			v.setVictim(int32(c), false)
			verdict.Victims = slices.DeleteFunc(verdict.Victims, func(x int) bool { return x == c })
		}
	}
	v.sumCosts(verdict)
}
