package trial

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"gonum.org/v1/gonum/floats"
)

// sum is what comes of an order of the blocks: its exposures times the outcomes, and times the exposures of the order that was drawn.
type sum struct{ outcome, exposure float64 }

// interval is an effect for a full exposure, with the values that a randomisation test does not refuse.
type interval struct {
	estimate, low, high float64
	bounded             bool    // false: the orders do not tell
	p                   float64 // of no effect
}

const (
	doubt    = 0.10 // an interval of 90 %
	others   = 999  // orders of the blocks that a test goes by
	halvings = 60
)

// invert finds the effects b for which the order that was drawn, the first one, is not among the tenth of the orders with the largest
// |outcome - b exposure|. Under such an effect, outcome less b times exposure is what the jobs would have come to without priod, in
// whatever order the blocks came: so the interval holds without any assumption on how outcomes are distributed, as far as exposures
// are right (Aronow and Samii, 2017; of switchbacks: Bojinov, Simchi-Levi and Zhao, 2023).
func invert(orders []sum) interval {
	y, d := orders[0].outcome, orders[0].exposure
	if !(d > 0) {
		return interval{estimate: math.NaN(), low: math.Inf(-1), high: math.Inf(1), p: 1}
	}
	x := interval{estimate: y / d}
	scale := 1e-9
	for _, o := range orders {
		scale = max(scale, math.Abs(o.outcome-x.estimate*o.exposure)/d)
	}
	chance := func(b float64) float64 {
		here, as := math.Abs(y-b*d)*(1-1e-12), 0
		for _, o := range orders {
			if math.Abs(o.outcome-b*o.exposure) >= here {
				as++
			}
		}
		return float64(as) / float64(len(orders))
	}
	x.p = chance(0)
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

// view is what jobs see of priod, if the cluster has a certain memory.
type view struct {
	memory int         // in slots
	orders [][]float64 // exposure in each slot: in the order of blocks that was drawn, and in others
}

// memories are the parts of the GPU time in use that are younger than the cluster's memory: the likely one, the shortest, the longest.
var memories = []float64{0.8, 0.7, 0.95}

// remember finds for how long priod's work is felt in off blocks. A place that priod chose is free again when its job ends: so the
// memory follows from the ages of the jobs that run.
func (a *analysis) remember() {
	used := func(most time.Duration) (sum float64) {
		for i := range a.jobs {
			sum += float64(a.jobs[i].GPUs) * min(a.jobs[i].Ran, most).Seconds()
		}
		return sum
	}
	draw, x := rand.New(rand.NewPCG(a.t.Seed, 57)), *a.t
	orders := [][]Block{a.blocks}
	for range others {
		x.Seed = draw.Uint64()
		orders = append(orders, x.Blocks())
	}
	all := used(math.MaxInt64)
	for _, part := range memories {
		v := view{memory: sort.Search(len(a.blocks)*a.slots/4, func(n int) bool { return used(time.Duration(n)*a.slot()) >= part*all })}
		for _, blocks := range orders {
			v.orders = append(v.orders, v.exposures(blocks, a.slots))
		}
		a.views = append(a.views, v)
	}
}

// exposures are what jobs see of priod that are submitted in each slot: in on blocks all of it, in off blocks as much as it was on in the
// memory before. It was on before the trial.
func (v *view) exposures(blocks []Block, slots int) []float64 {
	all := make([]float64, len(blocks)*slots)
	on := make([]int, len(all)+1) // slots before this one
	for i := range all {
		on[i+1] = on[i] + 1
		if all[i] = 1; blocks[i/slots].Off {
			on[i+1] = on[i]
			from := i - v.memory
			all[i] = float64(on[i]-on[max(from, 0)]-min(from, 0)) / float64(max(v.memory, 1))
		}
	}
	return all
}

// sums are what comes of the orders, once outcomes and exposures have no part that the units' own properties explain. Least squares with
// weights are those of units multiplied by the root of theirs.
func (v *view) sums(units []unit) []sum {
	y, d, rows := make([]float64, len(units)), make([]float64, len(units)), make([][]float64, len(units))
	for i, u := range units {
		root := math.Sqrt(u.weight)
		y[i], d[i], rows[i] = root*u.outcome, root*mean(v.orders[0][u.first:u.last+1]), slices.Clone(u.by)
		floats.Scale(root, rows[i])
	}
	adjust(rows, y, d)
	slotY, slotD := make([]float64, len(v.orders[0])), make([]float64, len(v.orders[0]))
	for i, u := range units {
		part := math.Sqrt(u.weight) / float64(u.last-u.first+1)
		for k := u.first; k <= u.last; k++ {
			slotY[k], slotD[k] = slotY[k]+part*y[i], slotD[k]+part*d[i]
		}
	}
	all := make([]sum, len(v.orders))
	for i, o := range v.orders {
		all[i] = sum{floats.Dot(o, slotY), floats.Dot(o, slotD)}
	}
	return all
}
