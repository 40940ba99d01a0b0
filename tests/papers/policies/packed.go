package policies

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/allocate"
	"slurmprio/priod/allocate/lp"
)

// Space sharing (Gavel, section 3.1): beside jobs, pairs of jobs with equal
// gangs get time, during which both run on the same GPUs. With rate_m summed
// over what m runs in, and a job's time over all of these at most 1, the
// policies are the same. Prices do not decompose that, since a pair belongs to
// two jobs; but classes keep it small: a variable for each class and type, and
// for each two classes and type.
type packing struct {
	*Problem
	*Program
	member [][]int  // jobs of each class
	what   []packed // of each column
}

// packed is a column: a class, or two, on a type.
type packed struct {
	a, b  int // b is -1 for one class alone
	t     int
	speed [2]float64 // steps/s of a member of a and of one of b
}

// column is that of the program.
func (w packed) column() Column {
	switch {
	case w.b < 0:
		return Column{Type: w.t, Runs: []Run{{Class: w.a, Jobs: 1, Speed: w.speed[0]}}}
	case w.b == w.a:
		return Column{Type: w.t, Runs: []Run{{Class: w.a, Jobs: 2, Speed: w.speed[0] + w.speed[1]}}}
	}
	return Column{Type: w.t, Runs: []Run{{Class: w.a, Jobs: 1, Speed: w.speed[0]}, {Class: w.b, Jobs: 1, Speed: w.speed[1]}}}
}

// pack makes the columns of these classes and their pairs.
func pack(p *Problem, c *allocate.Classes, together func(a, b, t int) (float64, float64)) *packing {
	k := &packing{Problem: p, Program: &Program{Classes: c}}
	n := len(c.Jobs)
	k.member = make([][]int, n)
	for i, class := range c.Of {
		k.member[class] = append(k.member[class], i)
	}
	for a := range n {
		for t, s := range c.Jobs[a].Speed {
			if s > 0 {
				k.what = append(k.what, packed{a, -1, t, [2]float64{s, 0}})
			}
		}
		for b := a; b < n; b++ {
			if c.Jobs[a].GPUs != c.Jobs[b].GPUs || a == b && len(k.member[a]) < 2 {
				continue
			}
			x, y := k.member[a][0], k.member[b][0]
			if a == b {
				y = k.member[a][1]
			}
			for t := range p.Types {
				if !p.Usable(&p.Jobs[x], t) || !p.Usable(&p.Jobs[y], t) {
					continue
				}
				if s, r := together(x, y, t); s > 0 && r > 0 {
					k.what = append(k.what, packed{a, b, t, [2]float64{s, r}})
				}
			}
		}
	}
	for _, w := range k.what {
		k.Columns = append(k.Columns, w.column())
	}
	return k
}

// rise is what a policy raises, and the program with pairs that can give it.
func rise(p *Problem, policy string) (*packing, *allocate.Rise) {
	together, tell := p.together()
	r := p.Rise(policy, tell)
	return pack(p, r.Classes, together), r
}

// together looks pairs up, and tells jobs apart for that: those that pairs name
// are not taken for equal.
func (p *Problem) together() (speed func(a, b, t int) (float64, float64), tell func(i int) float64) {
	if p.Together != nil {
		return p.Together, func(i int) float64 { return float64(p.Kinds[i]) }
	}
	paired := make([]bool, len(p.Jobs))
	known := map[[2]int][][2]float64{}
	for _, s := range p.Pairs {
		known[[2]int{s.A, s.B}] = s.Speed
		paired[s.A], paired[s.B] = true, true
	}
	find := func(a, b, t int) (float64, float64) {
		if s, ok := known[[2]int{a, b}]; ok {
			return s[t][0], s[t][1]
		}
		if s, ok := known[[2]int{b, a}]; ok {
			return s[t][1], s[t][0]
		}
		return 0, 0
	}
	return find, func(i int) float64 {
		if paired[i] {
			return float64(i + 1)
		}
		return 0
	}
}

// normalised is what a column adds to the sum of rates over their references:
// what decides among allocations that are equally fair.
func (k *packing) normalised(column int) float64 {
	w := k.what[column]
	v := w.speed[0] / k.Proportional(w.a)
	if w.b >= 0 {
		v += w.speed[1] / k.Proportional(w.b)
	}
	return v
}

// result gives the classes' times to their jobs: alone, the same to each; in
// pairs, the jobs of one class in turn beside those of the other.
func (k *packing) result() *Allocation {
	a := k.nothing()
	for j, w := range k.what {
		x := k.Value(j)
		n := len(k.member[w.a])
		if x <= allocate.Crumb {
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
var packedPolicies = map[string]solver{
	"max-min":              packedMaxMin,
	"water-filling":        packedWaterFilling,
	"hierarchical":         packedHierarchical,
	"finish-time-fairness": packedFinishTimeFairness,
	"makespan":             packedMakespan,
	"max-throughput":       maxThroughput,
	"min-cost":             minCost,
	"fifo":                 packedFIFO,
}

// packedMaxMin raises the least only; what is left goes to the sum of
// normalised rates. packedWaterFilling goes on as long as somebody can rise.
func packedMaxMin(p *Problem) (*Allocation, error) {
	k, r := rise(p, "max-min")
	return k.worst(r)
}

func packedWaterFilling(p *Problem) (*Allocation, error) {
	k, r := rise(p, "max-min")
	return k.raise(r)
}

func packedHierarchical(p *Problem) (*Allocation, error) {
	k, r := rise(p, "hierarchical")
	return k.raise(r)
}

func packedMakespan(p *Problem) (*Allocation, error) {
	k, r := rise(p, "makespan")
	return k.worst(r)
}

// worst raises all rates in proportion to their shares. The unit is the level
// at which the first class alone is at its fastest: numbers near 1.
func (k *packing) worst(r *allocate.Rise) (*Allocation, error) {
	share := r.Linear
	unit := math.Inf(1)
	for i := range share {
		if fastest := k.Program.Jobs[i].Fastest(); fastest > 0 && share[i] > 0 {
			unit = min(unit, fastest/share[i])
		}
	}
	if math.IsInf(unit, 1) {
		return k.nothing(), nil
	}
	need := make([]float64, len(share))
	for i := range need {
		if k.Program.Jobs[i].Fastest() > 0 {
			need[i] = share[i] * unit
		}
	}
	t, bound, err := k.Solve(need, math.Inf(1), k.normalised)
	if err != nil {
		return nil, err
	}
	a := k.result()
	r.Reached(&a.Allocation, t*unit, bound*unit)
	return a, nil
}

func packedFinishTimeFairness(p *Problem) (*Allocation, error) {
	k, r := rise(p, "finish-time-fairness")
	f := r.Ascent
	level := f.Top()
	for i := range r.Jobs {
		if f.Rising(i) {
			level = min(level, f.Cap(i))
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
	r.Reached(&a.Allocation, level, level)
	return a, nil
}

// raise is what raise does without pairs: to the highest level that fits, hold
// those whom the prices stop there, and on with the others.
func (k *packing) raise(r *allocate.Rise) (*Allocation, error) {
	a := r.Ascent
	var open []int
	bound := math.Inf(1)
	for i := range k.Program.Jobs {
		if a.Rising(i) {
			open = append(open, i)
			bound = min(bound, a.Cap(i))
		}
	}
	level := 0.0
	for solve := 0; len(open) > 0; solve++ {
		top := a.Top()
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
	whole := k.result()
	r.Reached(&whole.Allocation, r.Lowest(k.rates()), bound)
	return whole, nil
}

// highest lowers the level from the top: the prices at one that does not fit
// say how far it has to come down.
func (k *packing) highest(a allocate.Ascent, from, top float64) (level float64, err error) {
	level = top
	need := make([]float64, len(k.Program.Jobs))
	for range 100 {
		for i := range need {
			need[i], _ = a.At(i, level)
		}
		t, _, err := k.Solve(need, math.Inf(1), nil)
		if err != nil {
			return 0, err
		}
		if t >= 1-allocate.Slack || level <= from {
			return level, nil
		}
		price := k.Prices(need)
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

// stop holds those who rise at a price, or the dearest, and returns the others.
func (k *packing) stop(a allocate.Ascent, open []int, level float64) []int {
	need := make([]float64, len(k.Program.Jobs))
	for i := range need {
		need[i], _ = a.At(i, level)
	}
	price := k.Prices(need)
	dearest := slices.MaxFunc(open, func(x, y int) int { return cmp.Compare(price[x], price[y]) })
	for _, i := range open {
		if i == dearest || price[i] > 1e-7 {
			a.Hold(i, level)
		}
	}
	a.AfterHolds(level)
	return slices.DeleteFunc(open, func(i int) bool { return !a.Rising(i) })
}

// finish solves for the rates at a level, and divides what is left.
func (k *packing) finish(a allocate.Ascent, level float64) error {
	need := make([]float64, len(k.Program.Jobs))
	for i := range need {
		need[i], _ = a.At(i, level)
	}
	_, _, err := k.Solve(need, 1, k.normalised)
	return err
}

// rates of a job of each class.
func (k *packing) rates() []float64 {
	rate := make([]float64, len(k.Program.Jobs))
	for j, w := range k.what {
		x := k.Value(j)
		rate[w.a] += x * w.speed[0] / k.Program.Jobs[w.a].Count
		if w.b >= 0 {
			rate[w.b] += x * w.speed[1] / k.Program.Jobs[w.b].Count
		}
	}
	return rate
}
