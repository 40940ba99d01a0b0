package allocation

import (
	"fmt"
	"math"

	"slurmprio/priod/policy/allocation/market"
)

// ascent is how the classes rise together: a target for each over a common
// level, at most its fastest speed, and constant from where it was held.
type ascent interface {
	market.Target
	top() float64                  // nobody rises above this level
	rising(class int) bool         // neither held nor at its fastest for good
	hold(class int, level float64) // its target stays what it is at this level
	held(level float64)            // all that were to be held at this level are
	cap(class int) (level float64) // where it comes to its fastest
}

// raise takes the level as far as it goes, holds the classes that the scarce
// types stop there, and goes on with the others, until nobody can have more
// without another having less: lexicographic max-min over the ascent. Prices
// that prove a level say who is stopped: those for whom more would cost
// something. bound is the first of these levels.
func raise(c *classes, a ascent, warm *Warm) (time [][]float64, bound float64, err error) {
	open := make([]int, 0, len(c.Jobs))
	bound = math.Inf(1)
	for i := range c.Jobs {
		if a.rising(i) {
			open = append(open, i)
			bound = min(bound, a.cap(i))
		}
	}
	guess, from := c.Guess, 0.0
	for solve := 0; len(open) > 0; solve++ {
		top := a.top()
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
	c.tidy(time)
	c.fill(time)
	return time, bound, nil
}

// maxSolves is how often the level is raised at most: there are fewer steps
// than GPU types unless prices are ambiguous.
const maxSolves = 60

// stop holds those for whom more costs something and returns the others.
func stop(c *classes, a ascent, open []int, answer *market.Answer, all bool) []int {
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
			a.hold(i, level)
		} else {
			left = append(left, i)
		}
	}
	if len(left) == len(open) && dearest >= 0 {
		a.hold(dearest, level)
	}
	a.held(level)
	still := left[:0]
	for _, i := range left {
		if a.rising(i) {
			still = append(still, i)
		}
	}
	return still
}

// curve is the rate that a policy asks for a class at a level, and back.
type curve interface {
	at(class int, level float64) (rate, slope float64)
	level(class int, rate float64) float64
}

// climb is the ascent of classes that do not depend on each other.
type climb struct {
	curve
	fastest []float64
	stays   []float64 // rate of those held; NaN: rises
}

// slack keeps what is held a hair below what is possible, so that rounding
// does not make it impossible.
const slack = 1e-9

func newClimb(c *classes, rise curve) *climb {
	a := &climb{curve: rise, fastest: make([]float64, len(c.Jobs)), stays: make([]float64, len(c.Jobs))}
	for i := range c.Jobs {
		a.fastest[i], a.stays[i] = c.Jobs[i].Fastest(), math.NaN()
	}
	return a
}

func (a *climb) At(class int, level float64) (rate, slope float64) {
	if stays := a.stays[class]; stays == stays {
		return stays, 0
	}
	rate, slope = a.at(class, level)
	if rate >= a.fastest[class] || rate != rate {
		return a.fastest[class], 0
	}
	return rate, slope
}

func (a *climb) top() float64 {
	top := 0.0
	for i := range a.stays {
		if a.rising(i) {
			top = max(top, a.cap(i))
		}
	}
	return top
}

func (a *climb) rising(class int) bool {
	return a.stays[class] != a.stays[class] && a.fastest[class] > 0 && !math.IsInf(a.cap(class), 1)
}

func (a *climb) cap(class int) float64 { return a.level(class, a.fastest[class]) }

func (a *climb) hold(class int, level float64) {
	rate, _ := a.At(class, level)
	a.stays[class] = rate * (1 - slack)
}

func (*climb) held(float64) {}

// linear is the curve rate = share x level.
type linear []float64

func (l linear) at(class int, level float64) (rate, slope float64) {
	return l[class] * level, l[class]
}

func (l linear) level(class int, rate float64) float64 { return rate / l[class] }

// lowest is the level that all classes reach with these rates: the objective.
func lowest(c *classes, rise curve, rate []float64) float64 {
	least := math.Inf(1)
	for i := range c.Jobs {
		if c.Jobs[i].Fastest() > 0 {
			if l := rise.level(i, rate[i]); l == l {
				least = min(least, l)
			}
		}
	}
	return least
}

// together solves a policy that is one curve.
func together(p *Problem, c *classes, rise curve) (*Allocation, error) {
	time, bound, err := raise(c, newClimb(c, rise), p.Warm)
	if err != nil {
		return nil, err
	}
	a := c.allocation(time)
	a.Objective, a.Bound = lowest(c, rise, c.rates(time)), bound
	if a.Objective < bound/2 && !math.IsInf(bound, 1) {
		return nil, fmt.Errorf("level %v is reached of %v: %w", a.Objective, bound, ErrNumeric)
	}
	return a, nil
}
