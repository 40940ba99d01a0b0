package preemption

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// price fills in what each candidate costs and, for FitGpp, the order in which candidates are tried.
func (v *view) price() {
	if v.set.Policy == LeastLoss {
		for i := range v.Candidates {
			c := &v.Candidates[i]
			if c.Idle {
				v.cost[i] = idleCost * float64(c.gpus())
				continue
			}
			v.cost[i] = (c.Loss() + float64(c.gpus())*max(v.set.Young-c.Elapsed, 0) + v.set.Each) * v.set.times(c)
		}
		return
	}
	v.cost = Scores(v.Snapshot, v.set.S)
	for i, why := range v.standing {
		if v.Candidates[i].Idle {
			v.cost[i] = 0
		}
		if why == Allowed {
			v.order = append(v.order, int32(i))
		}
	}
	slices.SortStableFunc(v.order, func(a, b int32) int { return cmp.Compare(v.cost[a], v.cost[b]) })
}

// times is how many times its loss a candidate costs: the oftener it was evicted and the shorter it is, the more.
func (set *Settings) times(c *Candidate) float64 {
	return (1 + float64(c.Evicted)*set.Rise) * max(set.Long/max(c.Elapsed+c.Remaining, shortest), 1)
}

// shortest is the time limit, s, below which a job is no dearer.
const shortest = 3600

// idleCost is what each GPU costs of a job that does not work: less than any work lost.
const idleCost = 1e-3

// Scores are FitGpp's of each candidate (Yabuuchi et al., OpML 2019), over all running BE jobs k:
//
//	Score(j) = Size(j) / max Size(k)  +  weight x Grace(j) / max Grace(k)
func Scores(s *Snapshot, weight float64) []float64 {
	scores := make([]float64, len(s.Candidates))
	largest, longest := 0.0, 0.0
	for i := range s.Candidates {
		if c := &s.Candidates[i]; !c.Leaving {
			scores[i] = c.size(s.Nodes)
			largest, longest = max(largest, scores[i]), max(longest, c.Grace)
		}
	}
	over := func(x, most float64) float64 {
		if most == 0 {
			return 0
		}
		return x / most
	}
	for i := range s.Candidates {
		scores[i] = over(scores[i], largest) + weight*over(s.Candidates[i].Grace, longest)
	}
	return scores
}

// size is the Euclidean length of the demand, each resource as a part of what the node has; a gang's parts on several nodes add up.
func (c *Candidate) size(nodes *placement.Nodes) (size float64) {
	for _, share := range c.Shares {
		has, takes, sum := resources(nodes.Size(share.Node)), resources(share.Amount), 0.0
		for k, amount := range takes[:3] { // the paper's
			if has[k] > 0 {
				part := float64(amount) / float64(has[k])
				sum += part * part
			}
		}
		size += math.Sqrt(sum)
	}
	return size
}

// maxVain is how many different claimants without a place are remembered.
const maxVain = 16

// choosePlace leaves a claimant out that is like one for which there was no place since the last place was given.
func (v *view) choosePlace(t *Claimant) Verdict {
	if slices.ContainsFunc(v.vain, t.alike) {
		return Verdict{Why: Impossible}
	}
	verdict := v.bestPlace(v.orLikely(t))
	switch {
	case verdict.Why == Anyway:
		v.waiting++
	case verdict.Why == Evicts && verdict.Grace+t.Limit < t.Likely:
		v.short = append(v.short, short{t.Request, verdict.Grace + t.Limit, v.Nodes.Type(verdict.Shares[0].Node)})
	}
	if t.Spreads && v.set.Policy == LeastLoss && slices.Contains([]Why{Evicts, Impossible, Anyway}, verdict.Why) {
		verdict = v.orInParts(t, verdict)
	}
	switch {
	case verdict.Why == Impossible && len(v.vain) < maxVain:
		v.vain = append(v.vain, t)
	case len(verdict.Shares) > 0:
		v.vain = nil
	}
	return verdict
}

// orLikely is the claimant with the time at which it is likely to start, where that is sooner than the one that is known. Claimants that
// wait already come first.
func (v *view) orLikely(t *Claimant) *Claimant {
	if t.Likely == 0 || v.set.Policy != LeastLoss {
		return t
	}
	for i, s := range v.short {
		r := s.request
		if r.Nodes, r.Amount = t.Request.Nodes, t.Request.Amount; r == t.Request && s.request.Holds(r.Amount) && s.until < t.Start {
			v.short = slices.Delete(v.short, i, i+1)
			after := *t
			after.Start, after.StartsOn = s.until, s.kind
			return &after
		}
	}
	if len(pieces(v.Nodes, t.Request)) > 1 {
		return t
	}
	rate, known := v.rates[t.Request]
	if !known {
		rate = v.rate(t.Request)
		v.rates[t.Request] = rate
	}
	start := float64(v.waiting+1) / rate.each
	if !(start < min(t.Start, t.Likely)) {
		return t
	}
	likely := *t
	likely.Start, likely.StartsOn = start, rate.kind
	return &likely
}

// short is a claimant for which room is made, and that has ended after a time, s: the next one can have its place.
type short struct {
	request placement.Request
	until   float64
	kind    int32
}

// rate is how often, per s, a place becomes free on nodes of a kind.
type rate struct {
	each float64
	kind int32
}

// rate is that of the kind of nodes on which places for a request on one node become free most often. Each running job ends at any moment
// until its limit with the same chance: it is the sum of 1 / time until the limit over those whose end alone makes room. As limits are
// longer than runs, most starts are sooner.
func (v *view) rate(r placement.Request) (best rate) {
	byKind := map[int32]float64{}
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if c.Leaving || v.chosen[i] {
			continue
		}
		for _, s := range c.Shares {
			p, kind := &v.places[s.Node], v.Nodes.Type(s.Node)
			if !p.down && r.Types.Has(kind) && p.room.Plus(s.Amount).Holds(v.Nodes.Need(r, r.GPUs, s.Node)) {
				if byKind[kind] += 1 / max(c.Remaining, 1); byKind[kind] > best.each {
					best = rate{byKind[kind], kind}
				}
				break
			}
		}
	}
	return best
}

// alike reports whether there is no place for a claimant if there is none for another.
func (t *Claimant) alike(o *Claimant) bool {
	return t.Request == o.Request && t.Price == o.Price && t.Due == o.Due && t.Spreads == o.Spreads && t.Start == o.Start && slices.Equal(t.Run, o.Run) && slices.Equal(t.Alike, o.Alike)
}

// within finds a set within the limit.
func (v *view) within(ledger *Ledger, t *Claimant, refused *Verdict, why Why) Verdict {
	v.apply(refused, false)
	switch why {
	case PerHour:
		v.most = max(ledger.MaxPerHour-ledger.perHour, 0)
	case GraceGPUs:
		v.mostGPUs = int32(max(ledger.GraceGPUs-ledger.graceGPUs, 0))
	case PerDay:
		v.thrifty = true
	}
	defer func() { v.most, v.mostGPUs, v.thrifty = 0, 0, false }()
	if v.most > 0 || v.mostGPUs > 0 || v.thrifty {
		other := v.bestPlace(t)
		if other.Why == Evicts && ledger.Refuses(v.Snapshot, t, other.Victims) == "" {
			return other
		}
		v.apply(&other, false)
	}
	return Verdict{Why: why}
}

// bestPlace chooses, of the places on nodes of each speed, that at which the claimant costs least:
//
//	Urgency x GPUs x wait  +  RunCost x GPUs x run  +  what those lose that leave for it
//
// Where its speed is not known, or plays no part, any place will do.
func (v *view) bestPlace(t *Claimant) Verdict {
	kinds := t.bySpeed()
	if t.Run != nil { // no room where it cannot run
		runs := *t
		runs.Request.Types = 0
		for _, same := range kinds {
			runs.Request.Types |= same.types
		}
		if t = &runs; t.Request.Types == 0 {
			return Verdict{Why: CannotRun}
		}
		if !t.Request.Types.Has(t.StartsOn) {
			t.Start = math.Inf(1)
		}
	}
	if len(kinds) < 2 || v.set.Policy != LeastLoss || v.set.RunCost == 0 {
		return v.decide(t)
	}
	second := t.second(v.set)
	best, least := Verdict{Why: Impossible}, math.Inf(1)
	for _, same := range kinds {
		part := *t
		part.Request.Types = same.types
		if !same.types.Has(t.StartsOn) {
			part.Start = math.Inf(1)
		}
		verdict := v.decide(&part)
		v.apply(&verdict, false)
		wait := verdict.Grace
		switch verdict.Why {
		case Impossible:
			continue
		case Anyway:
			wait = part.Start
		}
		if cost := v.loss(&verdict) + second*wait + v.set.RunCost*float64(t.Request.GPUs)*same.run; cost < least {
			best, least = verdict, cost
		}
	}
	v.apply(&best, true)
	return best
}

// loss is the cost of a verdict's victims without Settings.Each: a slower GPU type costs the claimant more than it saves in the
// number of evictions.
func (v *view) loss(verdict *Verdict) float64 {
	cost := verdict.Cost
	for _, i := range verdict.Victims {
		cost -= v.set.Each * v.set.times(&v.Candidates[i])
	}
	return cost
}

// sameSpeed are kinds of nodes on which a claimant runs equally long.
type sameSpeed struct {
	run   float64 // s
	types placement.Types
}

// bySpeed are the kinds of nodes on which a claimant may and can run, the fastest first.
func (t *Claimant) bySpeed() (kinds []sameSpeed) {
	for kind, run := range t.Run {
		if !t.Request.Types.Has(int32(kind)) || math.IsInf(run, 1) {
			continue
		}
		at := slices.IndexFunc(kinds, func(k sameSpeed) bool { return k.run == run })
		if at < 0 {
			at = len(kinds)
			kinds = append(kinds, sameSpeed{run: run})
		}
		kinds[at].types |= 1 << uint(kind)
	}
	slices.SortFunc(kinds, func(a, b sameSpeed) int { return cmp.Compare(a.run, b.run) })
	return kinds
}

// decide chooses the victims for one claimant and gives it their room.
func (v *view) decide(t *Claimant) Verdict {
	var verdict Verdict
	gpus := pieces(v.Nodes, t.Request)
	if len(gpus) == 1 {
		if node, need, ok := v.free(t, gpus[0]); ok {
			v.giveRoom(&verdict, node, need, nil)
			verdict.Why = Fits
			return verdict
		}
	}
	switch {
	case t.Request.Most > 0 && len(gpus) > int(t.Request.Most):
		return Verdict{Why: Impossible}
	case v.set.Policy == LeastLoss:
		return v.leastLoss(t, gpus)
	case len(gpus) > 1:
		return Verdict{Why: Gang}
	}
	verdict.Why = Evicts
	if c, node, need, ok := v.single(t, gpus[0]); ok {
		v.giveRoom(&verdict, node, need, []int32{c})
		return verdict
	}
	if node, need, victims, ok := v.cheapest(t, gpus[0], &verdict); ok { // the paper leaves open what is done here
		v.giveRoom(&verdict, node, need, victims)
		slices.Sort(verdict.Victims)
		return verdict
	}
	return Verdict{Why: Impossible}
}

// free finds, of the nodes on which the claimant fits already, the one with the least room.
func (v *view) free(t *Claimant, gpus int32) (node int32, need placement.Amount, ok bool) {
	for i := range v.places {
		p := &v.places[i]
		if p.down || p.room.GPUs < gpus || ok && p.room.GPUs >= v.places[node].room.GPUs || !t.Request.Types.Has(v.Nodes.Type(int32(i))) {
			continue
		}
		if wants := v.Nodes.Need(t.Request, gpus, int32(i)); p.room.Holds(wants) {
			node, need, ok = int32(i), wants, true
		}
	}
	return node, need, ok
}

// single finds the victim with the least score whose leaving makes room.
func (v *view) single(t *Claimant, gpus int32) (c, node int32, need placement.Amount, ok bool) {
	for _, c := range v.order {
		victim := &v.Candidates[c]
		if v.chosen[c] {
			continue
		}
		for i := range victim.Shares {
			share := &victim.Shares[i]
			p := &v.places[share.Node]
			if p.down || p.room.GPUs+share.Amount.GPUs < gpus || !t.Request.Types.Has(v.Nodes.Type(share.Node)) {
				continue
			}
			if need := v.Nodes.Need(t.Request, gpus, share.Node); p.room.Plus(share.Amount).Holds(need) {
				return c, share.Node, need, true
			}
		}
	}
	return 0, 0, placement.Amount{}, false
}

// leastLoss takes the cheapest set, of nodes of one GPU type.
func (v *view) leastLoss(t *Claimant, gpus []int32) Verdict {
	if len(gpus) < 2 || len(t.Alike) == 0 {
		return v.cheapestSet(t, gpus)
	}
	best := Verdict{Why: Impossible}
	for _, types := range t.Alike {
		part := *t
		if part.Request.Types &= types; part.Request.Types == 0 {
			continue
		}
		other := v.cheapestSet(&part, pieces(v.Nodes, part.Request))
		v.apply(&other, false)
		if v.better(&other, &best, t) {
			best = other
		}
	}
	v.apply(&best, true)
	return best
}

// better reports whether a verdict is better for a claimant than another one.
func (v *view) better(a, b *Verdict, t *Claimant) bool {
	rank := map[Why]int{Fits: 3, Evicts: 2, Anyway: 1}
	if rank[a.Why] != rank[b.Why] || a.Why != Evicts {
		return rank[a.Why] > rank[b.Why]
	}
	urgent := t.second(v.set)
	return a.Cost+urgent*a.Grace < b.Cost+urgent*b.Grace
}

// cheapestSet takes the cheapest set. For a claimant over several nodes it looks for one node after the other, and a second time with the
// cost of BE gangs divided by their nodes: a gang that leaves for one node costs nothing for the next.
func (v *view) cheapestSet(t *Claimant, gpus []int32) Verdict {
	verdict := v.piecewise(t, gpus)
	if len(gpus) > 1 && len(v.gangs) > 0 {
		v.apply(&verdict, false)
		v.reprice(true)
		other := v.piecewise(t, gpus)
		v.apply(&other, false)
		v.reprice(false)
		v.sumCosts(&other)
		if other.Why == Evicts && (verdict.Why != Evicts || v.better(&other, &verdict, t)) {
			verdict = other
		}
		v.apply(&verdict, true)
	}
	return verdict
}

func (v *view) piecewise(t *Claimant, gpus []int32) Verdict {
	var verdict Verdict
	for _, g := range gpus {
		node, need, victims, ok := v.cheapest(t, g, &verdict)
		if !ok {
			v.apply(&verdict, false)
			if !math.IsInf(t.Start, 1) {
				return Verdict{Why: Anyway}
			}
			return Verdict{Why: Impossible}
		}
		v.giveRoom(&verdict, node, need, victims)
	}
	v.dropNeedless(&verdict)
	slices.Sort(verdict.Victims)
	verdict.Why = Evicts
	if len(verdict.Victims) == 0 {
		verdict.Why = Fits
	}
	return verdict
}
