package allocate

import (
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/allocate/market"
)

// Ascent is how the classes rise together: a target for each over a common
// level, at most its fastest speed, and constant from the level where it was held.
type Ascent interface {
	market.Target
	Top() float64                  // above this level no class rises
	Rising(class int) bool         // it is neither held nor at its fastest speed for good
	Hold(class int, level float64) // its target stays what it is at this level
	AfterHolds(level float64)      // is called when all classes that stop at this level are held
	Cap(class int) (level float64) // the level at which it reaches its fastest speed
}

// raise finds the lexicographic max-min allocation over the ascent (Gavel, section 4.3,
// water filling): it takes the common level as far as it goes, holds the classes that
// the scarce types stop there and continues with the others, until no class can have more
// without another having less. The prices that prove a level optimal say which classes
// are stopped: those for which more would cost something. bound is the first of these
// levels.
func raise(c *Classes, a Ascent, warm *Warm) (time [][]float64, bound float64, err error) {
	open := make([]int, 0, len(c.Jobs))
	bound = math.Inf(1)
	for i := range c.Jobs {
		if a.Rising(i) {
			open = append(open, i)
			bound = min(bound, a.Cap(i))
		}
	}
	guess, from := c.Guess, 0.0
	for solve := 0; len(open) > 0; solve++ {
		top := a.Top()
		c.Guess = guess
		answer, err := market.MaxLevel(&c.Market, a, from, top)
		if err != nil {
			return nil, 0, err
		}
		time, from = answer.Time, answer.Level
		if solve == 0 {
			bound = min(bound, answer.Bound)
			if warm != nil {
				warm.price = answer.Price
			}
		}
		if from >= top {
			break
		}
		open = stop(c, a, open, answer, solve > maxSolves)
		guess = nil
	}
	if time == nil {
		time = make([][]float64, len(c.Jobs))
		for i := range time {
			time[i] = make([]float64, len(c.GPUs))
		}
	}
	c.Tidy(time)
	c.fill(time)
	return time, bound, nil
}

// maxSolves is how often the level is raised at most: there are fewer steps
// than GPU types unless prices are ambiguous.
const maxSolves = 60

// stop holds the classes for which a higher rate would cost something and returns the
// others.
func stop(c *Classes, a Ascent, open []int, answer *market.Answer, all bool) []int {
	price, level := answer.Price, answer.Level
	dearest, most := -1, 0.0
	cost := func(i int) float64 { // of one per cent of its fastest speed, as a part of a GPU
		rate, _ := a.At(i, level)
		return c.Jobs[i].Marginal(rate, price) * c.Jobs[i].Fastest() / c.Jobs[i].GPUs
	}
	left := open[:0]
	for _, i := range open {
		u := cost(i)
		if u > most {
			dearest, most = i, u
		}
		if all || u > 1e-7 {
			a.Hold(i, level)
		} else {
			left = append(left, i)
		}
	}
	if len(left) == len(open) && dearest >= 0 {
		a.Hold(dearest, level)
	}
	a.AfterHolds(level)
	return slices.DeleteFunc(left, func(i int) bool { return !a.Rising(i) })
}

// curve is the rate that a policy asks for a class at a level, and the level at a rate.
type curve interface {
	at(class int, level float64) (rate, slope float64)
	level(class int, rate float64) float64
}

// climb is the Ascent of classes that do not depend on each other.
type climb struct {
	curve
	fastest  []float64
	heldRate []float64 // rate of those held; NaN: rises
}

// Slack keeps what is held slightly below what is possible, so that rounding does not
// make it impossible.
const Slack = 1e-9

func newClimb(c *Classes, rise curve) *climb {
	a := &climb{curve: rise, fastest: make([]float64, len(c.Jobs)), heldRate: make([]float64, len(c.Jobs))}
	for i := range c.Jobs {
		a.fastest[i], a.heldRate[i] = c.Jobs[i].Fastest(), math.NaN()
	}
	return a
}

func (a *climb) At(class int, level float64) (rate, slope float64) {
	if held := a.heldRate[class]; !math.IsNaN(held) {
		return held, 0
	}
	rate, slope = a.at(class, level)
	if rate >= a.fastest[class] || math.IsNaN(rate) {
		return a.fastest[class], 0
	}
	return rate, slope
}

func (a *climb) Top() float64 {
	top := 0.0
	for i := range a.heldRate {
		if a.Rising(i) {
			top = max(top, a.Cap(i))
		}
	}
	return top
}

func (a *climb) Rising(class int) bool {
	return math.IsNaN(a.heldRate[class]) && a.fastest[class] > 0 && !math.IsInf(a.Cap(class), 1)
}

func (a *climb) Cap(class int) float64 { return a.level(class, a.fastest[class]) }

func (a *climb) Hold(class int, level float64) {
	rate, _ := a.At(class, level)
	a.heldRate[class] = rate * (1 - Slack)
}

func (*climb) AfterHolds(float64) {}

// linear is the curve rate = share x level.
type linear []float64

func (l linear) at(class int, level float64) (rate, slope float64) {
	return l[class] * level, l[class]
}

func (l linear) level(class int, rate float64) float64 { return rate / l[class] }

// lowest is the level that all classes reach with these rates: the objective.
func lowest(c *Classes, rise curve, rate []float64) float64 {
	least := math.Inf(1)
	for i := range c.Jobs {
		if c.Jobs[i].Fastest() > 0 {
			if l := rise.level(i, rate[i]); !math.IsNaN(l) {
				least = min(least, l)
			}
		}
	}
	return least
}

// Rise is what a policy raises: the classes of jobs, and how their rates rise together.
type Rise struct {
	*Classes
	Ascent Ascent
	Linear []float64                    // rates at level 1 where they are in proportion to the level, nil where they are not
	Lowest func(rate []float64) float64 // the level that all classes reach with these rates

	inverse bool // the objective is 1/level
	curve   bool // the classes do not depend on each other
}

// Rise returns what max-min, hierarchical, finish-time-fairness or
// makespan raises. mark gives jobs that the policy would take for equal, but the caller
// does not, different numbers; nil: there are none.
func (p *Problem) Rise(policy string, mark func(i int) float64) *Rise {
	switch policy {
	case "hierarchical":
		c, place := p.Classify(withMark(p.entityTraits(), mark)), p.arrivalRanks()
		return &Rise{Classes: c, Ascent: newEntities(p, c, place), Lowest: func(rate []float64) float64 { return newEntities(p, c, place).lowest(rate) }}
	case "finish-time-fairness":
		c := p.Classify(withMark(finishTraits(p), mark))
		return c.alongCurve(finishCurves(p, c)).inverted()
	case "makespan":
		c := p.Classify(withMark(func(i int) Traits { return Traits{p.Jobs[i].StepsLeft} }, mark))
		return c.inProportion(stepsLeft(p, c)).inverted()
	}
	c := p.Classify(withMark(nil, mark))
	return c.inProportion(shares(p, c))
}

// withMark adds to the traits of jobs the number by which mark tells them apart.
func withMark(trait func(i int) Traits, mark func(i int) float64) func(i int) Traits {
	if mark == nil {
		return trait
	}
	return func(i int) (t Traits) {
		if trait != nil {
			t = trait(i)
		}
		t[len(t)-1] = mark(i)
		return t
	}
}

// alongCurve raises each class along a curve of its own.
func (c *Classes) alongCurve(rise curve) *Rise {
	return &Rise{Classes: c, Ascent: newClimb(c, rise), Lowest: func(rate []float64) float64 { return lowest(c, rise, rate) }, curve: true}
}

// inProportion raises each class in proportion to the level.
func (c *Classes) inProportion(rise linear) *Rise {
	r := c.alongCurve(rise)
	r.Linear = rise
	return r
}

// inverted says that the objective is 1/level.
func (r *Rise) inverted() *Rise {
	r.inverse = true
	return r
}

// Reached makes the level that is reached, and its bound, the allocation's objective.
func (r *Rise) Reached(a *Allocation, level, bound float64) {
	if a.Objective, a.Bound = level, bound; r.inverse {
		a.Objective, a.Bound = 1/level, 1/bound
	}
}

// solveByLevel solves a policy that raises the rates of all jobs together.
func (p *Problem) solveByLevel(r *Rise) (*Allocation, error) {
	time, bound, err := raise(r.Classes, r.Ascent, p.Warm)
	if err != nil {
		return nil, err
	}
	a, level := r.Allocation(time), r.Lowest(r.rates(time))
	if r.curve && level < bound/2 && !math.IsInf(bound, 1) {
		return nil, fmt.Errorf("level %v is reached of %v: %w", level, bound, ErrNumeric)
	}
	r.Reached(a, level, bound)
	return a, nil
}
