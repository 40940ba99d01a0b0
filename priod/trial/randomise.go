package trial

import (
	"math"
	"math/rand/v2"
)

// difference is what two blocks of a pair differ by, on less off, with a weight in it: of an outcome, and of the exposure to priod
// of the jobs behind it.
type difference struct{ outcome, exposure float64 }

// interval is an effect for a full exposure, with the values that a randomisation test does not refuse.
type interval struct {
	estimate, low, high float64
	bounded             bool    // false: the pairs do not tell
	p                   float64 // of no effect
}

const (
	doubt      = 0.10 // an interval of 90 %
	orders     = 4095 // orders of the blocks that a test goes by where there are more
	exactPairs = 12   // up to so many pairs it goes by all orders
	halvings   = 60
)

// invert finds the effects b for which the order in the pairs that was drawn is not among the tenth of all possible orders with
// the largest |sum(outcome - b exposure)|. Under such an effect, outcome less b times exposure is what the jobs would have come to
// without priod, in whatever order the blocks came: so the interval holds without any assumption on how outcomes are distributed.
func invert(pairs []difference, seed uint64) interval {
	var y, d float64
	for _, p := range pairs {
		y, d = y+p.outcome, d+p.exposure
	}
	x := interval{estimate: y / d, low: math.Inf(-1), high: math.Inf(1), p: 1}
	if len(pairs) == 0 || !(d > 0) {
		return interval{estimate: math.NaN(), low: math.Inf(-1), high: math.Inf(1), p: 1}
	}
	others := reordered(pairs, seed)
	chance := func(b float64) float64 {
		here, as := math.Abs(y-b*d)*(1-1e-12), 0
		for _, o := range others {
			if math.Abs(o.outcome-b*o.exposure) >= here {
				as++
			}
		}
		return float64(as) / float64(len(others))
	}
	x.p = chance(0)
	scale := 0.0
	for _, p := range pairs {
		scale += math.Abs(p.outcome - x.estimate*p.exposure)
	}
	scale = max(scale/d, 1e-9)
	end := func(sign float64) (float64, bool) {
		near, far := 0.0, scale/64
		for chance(x.estimate+sign*far) > doubt {
			if near, far = far, 2*far; far > 1e3*scale {
				return sign * math.Inf(1), false
			}
		}
		for range halvings {
			if middle := (near + far) / 2; chance(x.estimate+sign*middle) > doubt {
				near = middle
			} else {
				far = middle
			}
		}
		return x.estimate + sign*far, true
	}
	var below, above bool
	x.low, below = end(-1)
	x.high, above = end(1)
	x.bounded = below && above
	for _, v := range []*float64{&x.estimate, &x.low, &x.high} {
		if math.Abs(*v) < 1e-12 {
			*v = 0
		}
	}
	return x
}

// reordered are the sums over the pairs in other orders of their blocks, the one that was drawn among them.
func reordered(pairs []difference, seed uint64) []difference {
	sum := func(flipped func(i int) bool) (s difference) {
		for i, p := range pairs {
			if flipped(i) {
				p.outcome, p.exposure = -p.outcome, -p.exposure
			}
			s.outcome, s.exposure = s.outcome+p.outcome, s.exposure+p.exposure
		}
		return s
	}
	if len(pairs) <= exactPairs {
		all := make([]difference, 1<<len(pairs))
		for bits := range all {
			all[bits] = sum(func(i int) bool { return bits>>i&1 == 1 })
		}
		return all
	}
	draw := rand.New(rand.NewPCG(seed, 57))
	all := make([]difference, orders+1)
	all[0] = sum(func(int) bool { return false })
	for k := range orders {
		all[k+1] = sum(func(int) bool { return draw.IntN(2) == 0 })
	}
	return all
}
