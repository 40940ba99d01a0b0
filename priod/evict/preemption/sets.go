package preemption

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// ranking lists nodes by the least that it can cost to free a number of GPUs on them, whatever else a claimant needs there. A search can
// stop where that exceeds the best that it has found.
type ranking struct {
	demand
	least []float64 // by node
	nodes []int32   // by least, then node
}

// demand is what several claimants may have in common.
type demand struct {
	gpus   int32
	second float64 // what a second of waiting costs
}

func (v *view) ranking(w demand) *ranking {
	r := v.rankings[w]
	if r == nil {
		r = &ranking{demand: w, least: make([]float64, len(v.places)), nodes: make([]int32, len(v.places))}
		for i := range r.nodes {
			r.nodes[i], r.least[i] = int32(i), v.atLeast(&v.places[i], w)
		}
		slices.SortFunc(r.nodes, r.compare)
		v.rankings[w] = r
	}
	return r
}

func (r *ranking) compare(a, b int32) int {
	return cmp.Or(cmp.Compare(r.least[a], r.least[b]), cmp.Compare(a, b))
}

// move brings a node forward that has become cheaper. One that has become dearer stays where it is: its old cost is still a lower bound.
func (r *ranking) move(v *view, node int32) {
	least := v.atLeast(&v.places[node], r.demand)
	if least >= r.least[node] {
		return
	}
	from, _ := slices.BinarySearchFunc(r.nodes, node, r.compare)
	r.nodes = slices.Delete(r.nodes, from, from+1)
	r.least[node] = least
	to, _ := slices.BinarySearchFunc(r.nodes, node, r.compare)
	r.nodes = slices.Insert(r.nodes, to, node)
}

// atLeast is what freeing the GPUs costs if nothing else is missing: that of the cheapest set, exactly. The longest grace is no shorter
// than the mean grace, weighted by the GPUs that each victim frees, so the cost of waiting can be divided among the GPUs.
func (v *view) atLeast(p *place, w demand) float64 {
	missing := w.gpus - p.room.GPUs
	switch {
	case p.down || missing > p.most.GPUs:
		return math.Inf(1)
	case missing <= 0:
		return 0
	}
	second, least := w.second/float64(missing), append(v.least[:0], 0) // least for so many GPUs
	for range missing {
		least = append(least, math.Inf(1))
	}
	v.least = least
	for _, c := range p.pieces {
		cost, wait := v.cost[c.candidate], second*v.Candidates[c.candidate].Grace
		for m := missing; c.GPUs > 0 && m > 0; m-- {
			frees := min(c.GPUs, m)
			least[m] = min(least[m], least[m-frees]+cost+wait*float64(frees))
		}
	}
	return least[missing] * (1 - rounding)
}

// rounding is the relative difference that two sums of the same numbers, added up in different orders, may have.
const rounding = 1e-12

// cheapest finds the node and the set of victims on it, which may be empty, that make room for so many of the request's GPUs at the least
// cost, beside what is decided so far. The victims are valid until the next call.
func (v *view) cheapest(t *Claimant, gpus int32, soFar *Verdict) (node int32, need placement.Amount, victims []int32, found bool) {
	v.search.begin(v.set, t, soFar)
	if v.thrifty {
		v.search.second = 0
	}
	if v.search.most = math.MaxInt; v.most > 0 {
		v.search.most = v.most - len(soFar.Victims)
	}
	if v.search.mostGPUs = math.MaxInt32; v.mostGPUs > 0 {
		v.search.mostGPUs = v.mostGPUs
		for _, i := range soFar.Victims {
			v.search.mostGPUs -= v.Candidates[i].gpus()
		}
	}
	w := demand{gpus, v.search.second}
	if soFar.Grace > 0 {
		w.second = 0 // it waits for other victims anyway
	}
	r := v.ranking(w)
	for _, n := range r.nodes {
		if r.least[n] >= v.search.best*(1-2*rounding) {
			break
		}
		p := &v.places[n]
		if !t.Request.Types.Has(v.Nodes.Type(n)) || slices.ContainsFunc(soFar.Shares, func(s placement.Share) bool { return s.Node == n }) {
			continue
		}
		wants := v.Nodes.Need(t.Request, gpus, n)
		missing := wants.Minus(p.room)
		if !p.most.Holds(missing) {
			continue
		}
		v.search.split = v.search.spare * v.set.Left * float64(max(p.room.GPUs+p.most.GPUs-gpus, 0))
		if v.search.run(v, t, p, missing) {
			node, need, found = n, wants, true
		}
	}
	return node, need, v.search.set, found
}

// setSearch looks through the sets of victims on one node.
type setSearch struct {
	pieces []piece
	costs  []float64
	graces []float64
	rest   []placement.Amount // sum of pieces from here on
	in     []int32
	best   float64
	set    []int32
	better bool
	second float64 // what a second of the claimant's waiting costs
	waited float64 // s that it has to wait for earlier victims anyway
	spare  float64 // what each GPU of the victims costs beside their loss
	split  float64 // what splitting this node costs
	most   int     // victims
	// mostGPUs is how many GPUs the victims may hold, held how many each piece's candidate does.
	mostGPUs int32
	held     []int32
}

// begin sets the cost at which a set of victims is no use: letting the claimant wait until it starts anyway costs no more.
func (s *setSearch) begin(set *Settings, t *Claimant, soFar *Verdict) {
	s.best, s.second, s.waited, s.spare = math.Inf(1), 0, soFar.Grace, 0
	if set.Policy != LeastLoss {
		return
	}
	if s.second = t.second(set); t.Due {
		s.spare = set.Spare
	}
	wait := t.Start - set.MinGain - soFar.Grace
	if t.Price > 1 {
		wait = min(wait, dearWait)
	}
	if !math.IsInf(wait, 1) && s.second > 0 && !t.Due {
		s.best = s.second*wait - soFar.Cost
	}
}

// maxExact is the most candidates on a node of which every set is tried; with more, a greedy choice is made.
const maxExact = 16

// run reports whether a set on this node costs less than the best so far, and keeps
// it. Candidates that would leave too late are not looked at.
func (s *setSearch) run(v *view, t *Claimant, p *place, missing placement.Amount) bool {
	s.pieces, s.costs, s.graces, s.held, s.in, s.better = s.pieces[:0], s.costs[:0], s.graces[:0], s.held[:0], s.in[:0], false
	for _, c := range p.pieces {
		held := v.Candidates[c.candidate].gpus()
		if held <= s.mostGPUs && (v.set.Policy != LeastLoss || !v.set.late(&v.Candidates[c.candidate], t)) {
			s.held = append(s.held, held)
			s.pieces, s.costs = append(s.pieces, c), append(s.costs, v.cost[c.candidate])
			s.graces = append(s.graces, v.Candidates[c.candidate].Grace)
		}
	}
	s.rest = slices.Grow(s.rest[:0], len(s.pieces)+1)[:len(s.pieces)+1]
	s.rest[len(s.pieces)] = placement.Amount{}
	for i := len(s.pieces) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1].Plus(s.pieces[i].Amount)
	}
	if len(s.pieces) <= maxExact {
		s.all(0, missing, s.split, s.waited, 0)
	} else if s.greedy(missing, s.worth); !s.better && s.most < len(s.pieces) {
		s.greedy(missing, s.gain) // fewer, however dear
	}
	return s.better
}

// all tries every set that may still win: with the piece, then without it.
func (s *setSearch) all(i int, missing placement.Amount, cost, grace float64, held int32) {
	total := cost + s.second*(grace-s.waited) + s.spare*float64(held)
	if total >= s.best || held > s.mostGPUs || !s.rest[i].Holds(missing) {
		return
	}
	if (placement.Amount{}).Holds(missing) {
		s.keep(total)
		return
	}
	if len(s.in) == s.most {
		return
	}
	c := &s.pieces[i]
	s.in = append(s.in, c.candidate)
	s.all(i+1, missing.Minus(c.Amount), cost+s.costs[i], max(grace, s.graces[i]), held+s.held[i])
	s.in = s.in[:len(s.in)-1]
	s.all(i+1, missing, cost, grace, held)
}

func (s *setSearch) keep(cost float64) {
	s.best, s.better = cost, true
	s.set = append(s.set[:0], s.in...)
}

// greedy repeatedly adds the candidate that frees most of what is missing for
// its cost, then removes those that the others made needless, the dearest first.
func (s *setSearch) greedy(missing placement.Amount, value func(i int, left placement.Amount) float64) {
	if s.in = s.in[:0]; !s.rest[0].Holds(missing) {
		return
	}
	var chosen []int
	left := missing
	for !(placement.Amount{}).Holds(left) {
		best, most := -1, 0.0
		for i := range s.pieces {
			if slices.Contains(chosen, i) {
				continue
			}
			if is := value(i, left); is > 0 && (best < 0 || is > most) {
				best, most = i, is
			}
		}
		chosen = append(chosen, best)
		left = left.Minus(s.pieces[best].Amount)
	}
	slices.SortFunc(chosen, func(a, b int) int { return cmp.Or(cmp.Compare(s.costs[b], s.costs[a]), cmp.Compare(a, b)) })
	cost, grace, held := s.split, s.waited, int32(0)
	for _, i := range chosen {
		if without := left.Plus(s.pieces[i].Amount); (placement.Amount{}).Holds(without) {
			left = without
			continue
		}
		s.in = append(s.in, s.pieces[i].candidate)
		cost, grace, held = cost+s.costs[i], max(grace, s.graces[i]), held+s.held[i]
	}
	if total := cost + s.second*(grace-s.waited) + s.spare*float64(held); total < s.best && len(s.in) <= s.most && held <= s.mostGPUs {
		s.keep(total)
	}
}

// gain is how much of what is missing a piece frees: a sum of fractions, one for each resource.
func (s *setSearch) gain(i int, left placement.Amount) (gain float64) {
	frees := resources(s.pieces[i].Amount)
	for k, missing := range resources(left) {
		if missing > 0 {
			gain += float64(min(missing, frees[k])) / float64(missing)
		}
	}
	return gain
}

// worth is a piece's gain for its cost.
func (s *setSearch) worth(i int, left placement.Amount) float64 {
	return s.gain(i, left) / max(s.costs[i], math.SmallestNonzeroFloat64)
}

// dearWait is the longest wait, s, that counts for a claimant beyond its share.
const dearWait = 3600

// second is what a second of the claimant's wait is worth, in GPU-seconds lost.
func (t *Claimant) second(set *Settings) float64 {
	return set.Urgency * float64(t.Request.GPUs) / max(t.Price, 1)
}

// MostLoss is the loss, GPU-seconds, from which on no job leaves for a claimant of so many GPUs at this price.
func MostLoss(urgency float64, gpus int, price float64) float64 {
	return urgency * float64(gpus) / max(price, 1) * dearWait
}
