package allocation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/lp"
)

// Space sharing (Gavel, section 3.1): beside jobs, pairs of jobs with equal
// gangs get time, during which both run on the same GPUs. With rate_m summed
// over what m runs in, and a job's time over all of these at most 1, the
// policies are the same. Prices do not decompose that, since a pair belongs to
// two jobs; but classes keep it small: a variable for each class and type, and
// for each two classes and type.
type packing struct {
	*Problem
	*classes
	member  [][]int // jobs of each class
	column  [][]lp.Term
	what    []packed // of each column but the last
	limit   []float64
	floor   []int // class whose rate a row asks for, -1
	program *lp.Program
}

// packed is a column: a class, or two, on a type.
type packed struct {
	a, b  int // b is -1 for one class alone
	t     int
	speed [2]float64 // steps/s of a member of a and of one of b
}

func newPacking(p *Problem, trait func(i int) traits) *packing {
	together, trait := p.together(trait)
	k := &packing{Problem: p, classes: p.classify(trait)}
	n := len(k.classes.Jobs)
	k.member = make([][]int, n)
	for i, c := range k.of {
		k.member[c] = append(k.member[c], i)
	}
	for a := range n {
		for t, s := range k.classes.Jobs[a].Speed {
			if s > 0 {
				k.what = append(k.what, packed{a, -1, t, [2]float64{s, 0}})
			}
		}
		for b := a; b < n; b++ {
			if k.classes.Jobs[a].GPUs != k.classes.Jobs[b].GPUs || a == b && len(k.member[a]) < 2 {
				continue
			}
			x, y := k.member[a][0], k.member[b][0]
			if a == b {
				y = k.member[a][1]
			}
			for t := range k.Types {
				if !p.usable(&p.Jobs[x], t) || !p.usable(&p.Jobs[y], t) {
					continue
				}
				if s, r := together(x, y, t); s > 0 && r > 0 {
					k.what = append(k.what, packed{a, b, t, [2]float64{s, r}})
				}
			}
		}
	}
	return k
}

// together looks pairs up. Jobs that pairs name are not taken for equal.
func (p *Problem) together(trait func(i int) traits) (func(a, b, t int) (float64, float64), func(i int) traits) {
	with := func(extra func(i int) float64) func(i int) traits {
		return func(i int) traits {
			var t traits
			if trait != nil {
				t = trait(i)
			}
			t[3] = extra(i)
			return t
		}
	}
	if p.Together != nil {
		return p.Together, with(func(i int) float64 { return float64(p.Jobs[i].Kind) })
	}
	paired := make([]bool, len(p.Jobs))
	speed := map[[2]int][][2]float64{}
	for _, s := range p.Pairs {
		speed[[2]int{s.A, s.B}] = s.Speed
		paired[s.A], paired[s.B] = true, true
	}
	find := func(a, b, t int) (float64, float64) {
		if s, ok := speed[[2]int{a, b}]; ok {
			return s[t][0], s[t][1]
		}
		if s, ok := speed[[2]int{b, a}]; ok {
			return s[t][1], s[t][0]
		}
		return 0, 0
	}
	return find, with(func(i int) float64 {
		if paired[i] {
			return float64(i + 1)
		}
		return 0
	})
}

// solve maximises t up to most such that each class's jobs have t x need, and
// then value, a sum over columns. It returns t and its bound.
func (k *packing) solve(need []float64, most float64, value func(packed) float64) (t, bound float64, err error) {
	n, types := len(k.classes.Jobs), len(k.Types)
	k.limit = k.limit[:0]
	for i := range k.classes.Jobs {
		k.limit = append(k.limit, k.classes.Jobs[i].Count)
	}
	k.limit = append(k.limit, k.GPUs...)
	row := make([]int, n)
	for i := range row {
		if row[i] = -1; need[i] > 0 {
			row[i] = len(k.limit)
			k.limit = append(k.limit, 0)
		}
	}
	floors := len(k.limit) - n - types
	k.limit = append(k.limit, min(most, 1e9))
	k.floor = slices.Repeat([]int{-1}, len(k.limit))
	for i, r := range row {
		if r >= 0 {
			k.floor[r] = i
		}
	}
	k.column = k.column[:0]
	for _, w := range k.what {
		col := []lp.Term{{Row: w.a, Value: 1}, {Row: n + w.t, Value: k.classes.Jobs[w.a].GPUs}}
		rate := func(c int, speed float64) {
			if row[c] >= 0 {
				col = append(col, lp.Term{Row: row[c], Value: -speed / (k.classes.Jobs[c].Fastest() * k.classes.Jobs[c].Count)})
			}
		}
		switch {
		case w.b == w.a:
			col[0].Value = 2
			rate(w.a, w.speed[0]+w.speed[1])
		case w.b >= 0:
			col = append(col, lp.Term{Row: w.b, Value: 1})
			rate(w.a, w.speed[0])
			rate(w.b, w.speed[1])
		default:
			rate(w.a, w.speed[0])
		}
		k.column = append(k.column, col)
	}
	last := []lp.Term{{Row: len(k.limit) - 1, Value: 1}}
	for i, r := range row {
		if r >= 0 {
			last = append(last, lp.Term{Row: r, Value: need[i] / k.classes.Jobs[i].Fastest()})
		}
	}
	k.column = append(k.column, last)
	k.program = lp.New(k.limit, k.column)
	cost := make([]float64, len(k.column))
	t, bound = most, most
	if floors > 0 {
		cost[len(cost)-1] = 1
		if t, err = k.program.Maximise(cost); err != nil {
			return 0, 0, err
		}
		bound = min(most, k.program.Bound(1))
		k.program.Keep()
	}
	if value != nil {
		cost[len(cost)-1] = 0
		for j, w := range k.what {
			cost[j] = value(w)
		}
		if _, err := k.program.Maximise(cost); err != nil {
			return 0, 0, err
		}
	}
	return t, bound, nil
}

// normalised is what a column adds to the sum of rates over their references:
// what decides among allocations that are equally fair.
func (k *packing) normalised(w packed) float64 {
	v := w.speed[0] / k.proportional(w.a)
	if w.b >= 0 {
		v += w.speed[1] / k.proportional(w.b)
	}
	return v
}

// result gives the classes' times to their jobs: alone, the same to each; in
// pairs, the jobs of one class in turn beside those of the other.
func (k *packing) result() *Allocation {
	a := k.nothing()
	for j, w := range k.what {
		x := k.program.Value(j)
		n := len(k.member[w.a])
		if x <= crumb {
			continue
		}
		mix := Mix{A: k.member[w.a], Type: w.t, Time: x, Speed: w.speed}
		if w.b >= 0 {
			mix.B = k.member[w.b]
		}
		a.Mixes = append(a.Mixes, mix)
		pair := func(m, o int, time float64) {
			times := make([]float64, len(k.Types))
			times[w.t] = time
			a.Pairs = append(a.Pairs, PairTime{A: m, B: o, Time: times, Rate: [2]float64{time * w.speed[0], time * w.speed[1]}})
		}
		switch {
		case w.b < 0:
			for _, m := range k.member[w.a] {
				a.Time[m][w.t] += x / float64(n)
			}
		case w.b == w.a: // around in a ring
			for i, m := range k.member[w.a] {
				if n == 2 && i == 1 {
					break
				}
				part := x / float64(n)
				if n == 2 {
					part = x
				}
				pair(m, k.member[w.a][(i+1)%n], part)
			}
		default:
			other := k.member[w.b]
			left, right := 1/float64(n), 1/float64(len(other))
			for i, o := 0, 0; i < n && o < len(other); {
				part := min(left, right)
				if part > 1e-12 {
					pair(k.member[w.a][i], other[o], x*part)
				}
				if left -= part; left <= 1e-12 {
					i, left = i+1, 1/float64(n)
				}
				if right -= part; right <= 1e-12 {
					o, right = o+1, 1/float64(len(other))
				}
			}
		}
	}
	return a
}

// packedPolicies are those that the paper has with space sharing.
var packedPolicies = map[string]allocate{
	"max-min":              packedMaxMin,
	"water-filling":        packedWaterFilling,
	"hierarchical":         packedHierarchical,
	"finish-time-fairness": packedFinishTimeFairness,
	"makespan":             packedMakespan,
	"max-throughput":       packedThroughput,
	"min-cost":             packedCost,
	"fifo":                 packedFIFO,
}

// packedMaxMin raises the least only; what is left goes to the sum of
// normalised rates. packedWaterFilling goes on as long as somebody can rise.
func packedMaxMin(p *Problem) (*Allocation, error) {
	k := newPacking(p, nil)
	return k.worst(shares(p, k.classes))
}

func packedWaterFilling(p *Problem) (*Allocation, error) {
	k := newPacking(p, nil)
	rise := shares(p, k.classes)
	return k.raise(newClimb(k.classes, rise), func(rate []float64) float64 { return lowest(k.classes, rise, rate) })
}

func packedHierarchical(p *Problem) (*Allocation, error) {
	place := p.places()
	k := newPacking(p, p.entityTraits())
	return k.raise(newEntities(p, k.classes, place), newEntities(p, k.classes, place).lowest)
}

func packedMakespan(p *Problem) (*Allocation, error) {
	k := newPacking(p, func(i int) traits { return traits{p.Jobs[i].StepsLeft} })
	a, err := k.worst(stepsLeft(p, k.classes))
	if err != nil {
		return nil, err
	}
	a.Objective, a.Bound = 1/a.Objective, 1/a.Bound
	return a, nil
}

// worst raises all rates in proportion to their shares. The unit is the level
// at which the first class alone is at its fastest: numbers near 1.
func (k *packing) worst(share linear) (*Allocation, error) {
	unit := math.Inf(1)
	for i := range share {
		if fastest := k.classes.Jobs[i].Fastest(); fastest > 0 && share[i] > 0 {
			unit = min(unit, share.level(i, fastest))
		}
	}
	if math.IsInf(unit, 1) {
		return k.nothing(), nil
	}
	need := make([]float64, len(share))
	for i := range need {
		if k.classes.Jobs[i].Fastest() > 0 {
			need[i] = share[i] * unit
		}
	}
	t, bound, err := k.solve(need, math.Inf(1), k.normalised)
	if err != nil {
		return nil, err
	}
	a := k.result()
	a.Objective, a.Bound = t*unit, bound*unit
	return a, nil
}

func packedFinishTimeFairness(p *Problem) (*Allocation, error) {
	k := newPacking(p, finishTraits(p))
	f := newClimb(k.classes, finishCurves(p, k.classes))
	level := f.top()
	for i := range k.classes.Jobs {
		if f.rising(i) {
			level = min(level, f.cap(i))
		}
	}
	if level == 0 {
		return p.nothing(), nil
	}
	level, err := k.highest(f, 0, level)
	if err != nil {
		return nil, err
	}
	if err := k.finish(f, level); err != nil {
		return nil, err
	}
	a := k.result()
	a.Objective, a.Bound = 1/level, 1/level
	return a, nil
}

// raise is what raise does without pairs: to the highest level that fits, hold
// those whom the prices stop there, and on with the others.
func (k *packing) raise(a ascent, objective func(rate []float64) float64) (*Allocation, error) {
	var open []int
	bound := math.Inf(1)
	for i := range k.classes.Jobs {
		if a.rising(i) {
			open = append(open, i)
			bound = min(bound, a.cap(i))
		}
	}
	level := 0.0
	for solve := 0; len(open) > 0; solve++ {
		top := a.top()
		reached, err := k.highest(a, level, top)
		if err != nil {
			return nil, err
		}
		if level = reached; solve == 0 {
			bound = min(bound, level)
		}
		if level >= top {
			break
		}
		open = k.stop(a, open, level)
	}
	if err := k.finish(a, level); err != nil {
		return nil, err
	}
	r := k.result()
	r.Objective, r.Bound = objective(k.rates()), bound
	return r, nil
}

// highest lowers the level from the top: the prices at one that does not fit
// say how far it has to come down.
func (k *packing) highest(a ascent, from, top float64) (level float64, err error) {
	level = top
	need := make([]float64, len(k.classes.Jobs))
	for range 100 {
		for i := range need {
			need[i], _ = a.At(i, level)
		}
		t, _, err := k.solve(need, math.Inf(1), nil)
		if err != nil {
			return 0, err
		}
		if t >= 1-slack || level <= from {
			return level, nil
		}
		price := k.prices(need)
		asked := func(l float64) (sum float64) {
			for i := range need {
				if need[i] > 0 {
					rate, _ := a.At(i, l)
					sum += price[i] * rate / need[i]
				}
			}
			return sum
		}
		low, high := from, level
		for range 100 {
			if middle := (low + high) / 2; asked(middle) > t {
				high = middle
			} else {
				low = middle
			}
		}
		if high >= level*(1-1e-13) {
			return level, nil // as near as rounding allows
		}
		level = high
	}
	return 0, fmt.Errorf("space sharing: %w", lp.ErrNumeric)
}

// prices are what the program asks of each class for what it needs, summing to 1.
func (k *packing) prices(need []float64) []float64 {
	of := make([]float64, len(k.classes.Jobs))
	for i, p := range k.program.Prices() {
		if c := k.floor[i]; c >= 0 {
			of[c] = max(0, p) * need[c] / k.classes.Jobs[c].Fastest()
		}
	}
	return of
}

// stop holds those who rise at a price, or the dearest, and returns the others.
func (k *packing) stop(a ascent, open []int, level float64) []int {
	need := make([]float64, len(k.classes.Jobs))
	for i := range need {
		need[i], _ = a.At(i, level)
	}
	price := k.prices(need)
	dearest := slices.MaxFunc(open, func(x, y int) int { return cmp.Compare(price[x], price[y]) })
	for _, i := range open {
		if i == dearest || price[i] > 1e-7 {
			a.hold(i, level)
		}
	}
	a.held(level)
	return slices.DeleteFunc(open, func(i int) bool { return !a.rising(i) })
}

// finish solves for the rates at a level, and divides what is left.
func (k *packing) finish(a ascent, level float64) error {
	need := make([]float64, len(k.classes.Jobs))
	for i := range need {
		need[i], _ = a.At(i, level)
	}
	_, _, err := k.solve(need, 1, k.normalised)
	return err
}

// rates of a job of each class.
func (k *packing) rates() []float64 {
	rate := make([]float64, len(k.classes.Jobs))
	for j, w := range k.what {
		x := k.program.Value(j)
		rate[w.a] += x * w.speed[0] / k.classes.Jobs[w.a].Count
		if w.b >= 0 {
			rate[w.b] += x * w.speed[1] / k.classes.Jobs[w.b].Count
		}
	}
	return rate
}
