package allocate

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// hierarchical is water filling over entities (Gavel, section 4.3):
//
//	n_m rises by level x w_m / gang_m, where of an entity of weight W
//	fairness: w_m = W x weight_m / sum of the weights that still rise
//	FIFO:     w_m = W for its first job that still rises, 0 for the others
//
// A job stops where no allocation gives it more without taking from another;
// what its entity was to give it goes to the entity's other jobs. Jobs without
// an entity share as one of weight 1, by fairness. The objective is the level
// at which the first job stops.
func hierarchical(p *Problem) (*Allocation, error) {
	return p.solveByLevel(p.Rise("hierarchical", nil))
}

// arrivalRanks returns the place of each job in the order of arrival.
func (p *Problem) arrivalRanks() []int {
	place := make([]int, len(p.Jobs))
	for n, i := range p.Arrivals() {
		place[i] = n
	}
	return place
}

// entityTraits tell the jobs of different entities apart, and all of one of FIFO.
func (p *Problem) entityTraits() func(i int) Traits {
	return func(i int) Traits {
		e := p.Jobs[i].Entity
		if e != NoEntity && p.Entities[e].FIFO {
			return Traits{float64(e), float64(i)}
		}
		return Traits{float64(e)}
	}
}

// entities is the ascent of jobs in entities.
type entities struct {
	groups   []group
	of       []int     // group of each class
	share    []float64 // P x weight / gang (FIFO: without weight): rate at inner level 1
	weight   []float64 // of the whole class
	fastest  []float64
	most     []float64 // inner level at which the class is at its fastest
	heldRate []float64 // rate of those held; NaN: rises
	start    []float64 // FIFO: the level at which the class begins to rise
}

// group is one entity. In one of fairness all jobs are at one inner level, rate
// / share, which rises the faster the fewer jobs there are that still rise: a
// line with a knot wherever a job comes to its fastest.
type group struct {
	weight float64
	fifo   bool
	member []int // classes: by most (fairness), by arrival (FIFO)
	level  []float64
	inner  []float64 // at level
	slope  []float64 // from level on
}

func newEntities(p *Problem, c *Classes, place []int) *entities {
	n := len(c.Jobs)
	a := &entities{groups: make([]group, len(p.Entities)+1), of: make([]int, n), share: make([]float64, n), weight: make([]float64, n),
		fastest: make([]float64, n), most: make([]float64, n), heldRate: make([]float64, n), start: make([]float64, n)}
	for e := range a.groups {
		a.groups[e].weight = 1
		if e < len(p.Entities) {
			a.groups[e].weight, a.groups[e].fifo = p.Entities[e].Weight, p.Entities[e].FIFO
		}
	}
	for i := range c.Jobs {
		j := &p.Jobs[c.First[i]]
		e := j.Entity
		if e == NoEntity {
			e = len(p.Entities)
		}
		g := &a.groups[e]
		g.member = append(g.member, i)
		a.of[i], a.heldRate[i] = e, math.NaN()
		a.share[i] = c.Proportional(i) / c.Jobs[i].GPUs
		if !g.fifo {
			a.share[i] *= j.Weight
			a.weight[i] = j.Weight * c.Jobs[i].Count
		}
		a.fastest[i] = c.Jobs[i].Fastest()
		if a.most[i] = a.fastest[i] / a.share[i]; a.fastest[i] == 0 {
			a.most[i], a.heldRate[i] = 0, 0
		}
	}
	for e := range a.groups {
		g := &a.groups[e]
		slices.SortStableFunc(g.member, func(x, y int) int {
			if g.fifo {
				return cmp.Compare(place[c.First[x]], place[c.First[y]])
			}
			return cmp.Compare(a.most[x], a.most[y])
		})
	}
	for e := range a.groups {
		a.layLine(&a.groups[e], 0, 0)
	}
	return a
}

// layLine draws a group's line from a level and inner level on.
func (a *entities) layLine(g *group, level, inner float64) {
	if g.fifo {
		next := level
		for _, i := range g.member {
			if !math.IsNaN(a.heldRate[i]) {
				continue
			}
			if a.start[i] >= level {
				a.start[i] = next
			}
			next = max(level, a.start[i]+a.most[i]/g.weight) // one that is at its fastest hands on no past
		}
		g.level = []float64{next}
		return
	}
	sum := 0.0
	for _, i := range g.member {
		if math.IsNaN(a.heldRate[i]) && a.most[i] > inner {
			sum += a.weight[i]
		}
	}
	g.level, g.inner, g.slope = g.level[:0], g.inner[:0], g.slope[:0]
	for _, i := range g.member {
		if !math.IsNaN(a.heldRate[i]) || a.most[i] <= inner {
			continue
		}
		slope := g.weight / sum
		if sum <= 0 { // rounding
			break
		}
		g.level, g.inner, g.slope = append(g.level, level), append(g.inner, inner), append(g.slope, slope)
		level += (a.most[i] - inner) / slope
		inner = a.most[i]
		sum -= a.weight[i]
	}
	g.level, g.inner, g.slope = append(g.level, level), append(g.inner, inner), append(g.slope, 0)
}

// at is the inner level of a group of fairness.
func (g *group) at(level float64) (inner, slope float64) {
	k := max(0, sort.Search(len(g.level), func(k int) bool { return g.level[k] > level })-1)
	return g.inner[k] + max(0, level-g.level[k])*g.slope[k], g.slope[k]
}

// when is its inverse.
func (g *group) when(inner float64) float64 {
	k := max(0, sort.Search(len(g.inner), func(k int) bool { return g.inner[k] > inner })-1)
	if g.slope[k] == 0 {
		return g.level[k]
	}
	return g.level[k] + (inner-g.inner[k])/g.slope[k]
}

func (a *entities) At(class int, level float64) (rate, slope float64) {
	if held := a.heldRate[class]; !math.IsNaN(held) {
		return held, 0
	}
	g := &a.groups[a.of[class]]
	var inner float64
	if g.fifo {
		inner, slope = max(0, level-a.start[class])*g.weight, g.weight
		if inner == 0 {
			slope = 0
		}
	} else {
		inner, slope = g.at(level)
	}
	if inner >= a.most[class] {
		return a.fastest[class], 0
	}
	return a.share[class] * inner, a.share[class] * slope
}

func (a *entities) Top() float64 {
	top := 0.0
	for e := range a.groups {
		if g := &a.groups[e]; len(g.member) > 0 {
			top = max(top, g.level[len(g.level)-1])
		}
	}
	return top
}

func (a *entities) Rising(class int) bool { return math.IsNaN(a.heldRate[class]) }

func (a *entities) Cap(class int) float64 {
	g := &a.groups[a.of[class]]
	if g.fifo {
		return a.start[class] + a.most[class]/g.weight
	}
	return g.when(a.most[class])
}

func (a *entities) Hold(class int, level float64) {
	rate, _ := a.At(class, level)
	a.heldRate[class] = rate * (1 - Slack)
}

func (a *entities) AfterHolds(level float64) {
	for e := range a.groups {
		g := &a.groups[e]
		inner := 0.0
		if !g.fifo {
			inner, _ = g.at(level)
		}
		a.layLine(g, level, inner)
	}
}

// lowest is the level that all groups reach with these rates.
func (a *entities) lowest(rate []float64) float64 {
	least := math.Inf(1)
	for e := range a.groups {
		g := &a.groups[e]
		for _, i := range g.member {
			if a.most[i] == 0 {
				continue
			}
			inner := rate[i] / a.share[i]
			if !g.fifo {
				least = min(least, g.when(inner))
				continue
			}
			least = min(least, a.start[i]+inner/g.weight)
			if inner < a.most[i]*(1-1e-8) {
				break
			}
		}
	}
	return least
}
