package preemption

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// ranking lists nodes by the least that freeing so many GPUs on them can cost,
// whatever else a trial needs there; a search ends where that exceeds what it
// has found.
type ranking struct {
	gpus  int64
	least []float64 // by node
	nodes []int32   // by least, then node
}

func (v *view) ranking(gpus int32) *ranking {
	r := v.rankings[gpus]
	if r == nil {
		r = &ranking{gpus: int64(gpus), least: make([]float64, len(v.places)), nodes: make([]int32, len(v.places))}
		for i := range r.nodes {
			r.nodes[i], r.least[i] = int32(i), v.places[i].atLeast(r.gpus, v.cost)
		}
		slices.SortFunc(r.nodes, r.compare)
		v.rankings[gpus] = r
	}
	return r
}

func (r *ranking) compare(a, b int32) int {
	return cmp.Or(cmp.Compare(r.least[a], r.least[b]), cmp.Compare(a, b))
}

func (r *ranking) move(v *view, node int32) {
	least := v.places[node].atLeast(r.gpus, v.cost)
	if least == r.least[node] {
		return
	}
	from, _ := slices.BinarySearchFunc(r.nodes, node, r.compare)
	r.nodes = slices.Delete(r.nodes, from, from+1)
	r.least[node] = least
	to, _ := slices.BinarySearchFunc(r.nodes, node, r.compare)
	r.nodes = slices.Insert(r.nodes, to, node)
}

// atLeast is what freeing GPUs would cost if jobs could leave in part.
func (p *place) atLeast(gpus int64, cost []float64) float64 {
	missing, sum := gpus-p.room[0], 0.0
	if p.down {
		return math.Inf(1)
	}
	for _, c := range p.pieces {
		if missing <= 0 {
			return sum
		}
		if c.vector[0] == 0 {
			break // these come last
		}
		sum += cost[c.candidate] * float64(min(missing, c.vector[0])) / float64(c.vector[0])
		missing -= c.vector[0]
	}
	if missing > 0 {
		return math.Inf(1)
	}
	return sum
}

// cheapest finds the node and the set of victims on it, which may be empty, that
// make room for so many of the request's GPUs at the least cost. The victims are
// valid until the next call.
func (v *view) cheapest(t *Trial, gpus int32, taken []placement.Share) (node int32, need vector, victims []int32, found bool) {
	v.search.best = math.Inf(1)
	r := v.ranking(gpus)
	for _, n := range r.nodes {
		if r.least[n] >= v.search.best {
			break
		}
		p := &v.places[n]
		if !t.Request.Types.Has(v.Nodes.Type(n)) || slices.ContainsFunc(taken, func(s placement.Share) bool { return s.Node == n }) {
			continue
		}
		wants := v.need(t.Request, gpus, n)
		missing := wants.minus(p.room)
		if !p.most.holds(missing) || p.dearer(missing, v.search.best) {
			continue
		}
		if v.search.run(v, t, p, missing) {
			node, need, found = n, wants, true
		}
	}
	return node, need, v.search.set, found
}

// dearer tells whether the CPUs or the memory alone already cost so much.
func (p *place) dearer(missing vector, best float64) bool {
	return missing[1] > 0 && float64(missing[1])*p.least[0] >= best || missing[2] > 0 && float64(missing[2])*p.least[1] >= best
}

// search looks through the sets of victims on one node.
type search struct {
	pieces []piece
	costs  []float64
	rest   []vector // sum of pieces from here on
	in     []int32
	best   float64
	set    []int32
	better bool
}

// exact is up to how many candidates on a node all sets are looked at.
const exact = 16

// run tells whether a set on this node costs less than the best so far, and keeps
// it. Candidates that would leave too late are not looked at.
func (s *search) run(v *view, t *Trial, p *place, missing vector) bool {
	s.pieces, s.costs, s.in, s.better = s.pieces[:0], s.costs[:0], s.in[:0], false
	for _, c := range p.pieces {
		if v.set.Policy != LeastLoss || !v.set.late(&v.Candidates[c.candidate], t) {
			s.pieces, s.costs = append(s.pieces, c), append(s.costs, v.cost[c.candidate])
		}
	}
	s.rest = slices.Grow(s.rest[:0], len(s.pieces)+1)[:len(s.pieces)+1]
	s.rest[len(s.pieces)] = vector{}
	for i := len(s.pieces) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1].plus(s.pieces[i].vector)
	}
	if len(s.pieces) <= exact {
		s.all(0, missing, 0)
	} else {
		s.greedy(missing)
	}
	return s.better
}

// all tries every set that may still win: with the piece, then without it.
func (s *search) all(i int, missing vector, cost float64) {
	if cost >= s.best || !s.rest[i].holds(missing) {
		return
	}
	if (vector{}).holds(missing) {
		s.keep(cost)
		return
	}
	s.in = append(s.in, s.pieces[i].candidate)
	s.all(i+1, missing.minus(s.pieces[i].vector), cost+s.costs[i])
	s.in = s.in[:len(s.in)-1]
	s.all(i+1, missing, cost)
}

func (s *search) keep(cost float64) {
	s.best, s.better = cost, true
	s.set = append(s.set[:0], s.in...)
}

// greedy takes, again and again, who frees most of what is missing for its cost,
// and then lets those stay whom the others made needless, the dearest first.
func (s *search) greedy(missing vector) {
	if !s.rest[0].holds(missing) {
		return
	}
	var chosen []int
	left := missing
	for !(vector{}).holds(left) {
		best, value := -1, 0.0
		for i, c := range s.pieces {
			if slices.Contains(chosen, i) {
				continue
			}
			gain := 0.0
			for k := range left {
				if left[k] > 0 {
					gain += float64(min(left[k], c.vector[k])) / float64(left[k])
				}
			}
			if worth := gain / max(s.costs[i], math.SmallestNonzeroFloat64); gain > 0 && (best < 0 || worth > value) {
				best, value = i, worth
			}
		}
		chosen = append(chosen, best)
		left = left.minus(s.pieces[best].vector)
	}
	slices.SortFunc(chosen, func(a, b int) int { return cmp.Or(cmp.Compare(s.costs[b], s.costs[a]), cmp.Compare(a, b)) })
	cost := 0.0
	for _, i := range chosen {
		if without := left.plus(s.pieces[i].vector); (vector{}).holds(without) {
			left = without
			continue
		}
		s.in = append(s.in, s.pieces[i].candidate)
		cost += s.costs[i]
	}
	if cost < s.best {
		s.keep(cost)
	}
}
