package market

import (
	"errors"
	"math"
	"slices"
)

// ErrNumeric says that rounding kept the optimiser from an answer.
var ErrNumeric = errors.New("the optimiser lost its way in rounding errors")

// clearing is a simplex over mixes. Each job has one key mix, whose share is what the
// job's other mixes leave of 1. So the basis that has to be solved is as small as the
// number of types: a column in it is a further mix of some job, a type's slack, or a
// type's excess (generalised upper bounding, Dantzig and Van Slyke 1967).
//
// Excess costs a little more than the type's price, and slack earns a little less. That
// keeps prices in a box around those that they start from, in which only jobs change
// their mix whose two cheapest mixes cost nearly the same ("wavering"). Where prices
// reach a wall the box moves on (boxstep, Marsten et al. 1975).
type clearing struct {
	m     *Market
	rate  []float64
	key   []mix
	free  []float64 // GPUs that the keys leave of each type; negative: too few
	basis []column
	inv   [][]float64 // inverse of the basis
	share []float64   // of each column of the basis
	price []float64
	earns []float64 // a GPU of slack
	costs []float64 // a GPU of excess
	whole float64   // what all GPUs cost
	width float64   // of the box, as a part of the prices

	start    []float64 // prices that the keys were chosen at
	lead     []float64 // how much less a job's key cost there than its next best, as a part of that; 0: no longer its key
	near     float64   // a margin within which a job counts as wavering
	wavering []int
	a, d     []float64 // scratch of enter and refactor
}

type column struct {
	job  int // -1: slack or excess
	mix  mix
	kind int8
	unit int // type of a slack or an excess
}

const (
	further int8 = iota
	slack
	excess
)

const (
	tolerance = 1e-11 // of a cost that counts as lower, relative
	rounding  = 1e-14 // of what all GPUs cost: a cost that counts as none, as prices of 0 are seldom exactly 0
	pivotMin  = 1e-10
	rest      = 1e-12 // of the GPUs: an excess that counts as none
)

func newClearing(m *Market) *clearing {
	n := len(m.GPUs)
	c := &clearing{m: m, rate: make([]float64, len(m.Jobs)), key: make([]mix, len(m.Jobs)), lead: make([]float64, len(m.Jobs)),
		free: make([]float64, n), basis: make([]column, n), share: make([]float64, n), price: make([]float64, n), earns: make([]float64, n), costs: make([]float64, n), width: min(0.05, boxWidth/math.Sqrt(float64(len(m.Jobs)))), near: 0.02, a: make([]float64, n), d: make([]float64, n)}
	c.inv = make([][]float64, n)
	for i := range c.inv {
		c.inv[i] = make([]float64, 2*n) // Gauss-Jordan works in the same rows
	}
	return c
}

// run finds mixes that reach the rates set, starting from the cheapest at
// prices p. It returns whether they fit; if not, c.price proves it: at those
// prices the cheapest mixes cost more than all GPUs are worth.
func (c *clearing) run(p []float64) (bool, error) {
	c.start = p
	for i := range c.m.Jobs {
		key, cost, margin := c.m.Jobs[i].cheapest(c.rate[i], p)
		c.key[i], c.lead[i] = key, 1
		if c.rate[i] > 0 && !math.IsInf(margin, 1) {
			c.lead[i] = margin / (cost + margin)
		}
	}
	c.recount()
	for t, free := range c.free {
		c.basis[t] = column{job: -1, kind: slack, unit: t}
		if free < 0 {
			c.basis[t].kind = excess
		}
	}
	for {
		c.setBox(p)
		fits, proved, err := c.minimise()
		last := c.width >= 1
		switch pressed := c.distanceMoved(p); {
		case pressed > 0.99:
			c.width *= 4
		default:
			c.width *= max(0.25, pressed)
		}
		if err != nil || fits || proved || last {
			return fits, err
		}
		p = slices.Clone(c.price)
	}
}

// boxWidth / sqrt(jobs) is the first width: about as far off as the prices of
// a sample are.
const boxWidth = 0.3

// distanceMoved is how far the prices have gone towards the walls of the box.
func (c *clearing) distanceMoved(p []float64) (most float64) {
	for t, n := range c.m.GPUs {
		if n > 0 {
			most = max(most, math.Abs(c.price[t]-p[t])/(c.costs[t]-p[t]))
		}
	}
	return most
}

// setBox lets prices go as far from p as the width says. From width 1 on slack earns
// nothing: any excess that is left then is a proof.
func (c *clearing) setBox(p []float64) {
	c.whole = 0
	for t, n := range c.m.GPUs {
		c.whole += p[t] * n
	}
	for t, n := range c.m.GPUs {
		far := c.width * max(p[t], c.whole/(max(1, n)*float64(len(p))))
		c.earns[t], c.costs[t] = max(0, p[t]-far), p[t]+far
	}
}

// minimise minimises what excess costs less what slack earns. It ends when there is no
// excess; else proved reports whether the prices show that there must be some.
func (c *clearing) minimise() (fits, proved bool, err error) {
	if err := c.refactor(); err != nil {
		return false, false, err
	}
	for stalled, last := 0, math.Inf(1); ; {
		moved, err := c.pass()
		if err != nil {
			return false, false, err
		}
		if c.done() {
			return true, false, nil
		}
		if !moved {
			return false, c.loss() > rest*c.whole, nil
		}
		c.recount() // without the rounding errors that have added up
		if err := c.refactor(); err != nil {
			return false, false, err
		}
		if now := c.loss(); now < last-rest*c.whole {
			last, stalled = now, 0
		} else if stalled++; stalled > 50 {
			return false, false, ErrNumeric
		}
	}
}

// pass looks at every job once, and then repeatedly at those that nearly
// prefer another mix, until none of them moves. Most jobs never waver.
func (c *clearing) pass() (moved bool, err error) {
	c.wavering = c.wavering[:0]
	sure := c.sure()
	for i := range c.m.Jobs {
		if c.lead[i] > sure {
			continue
		}
		entered, margin, err := c.improve(i)
		if err != nil {
			return false, err
		}
		moved = moved || entered
		if entered || margin < c.near {
			c.wavering = append(c.wavering, i)
		}
	}
	switch n := len(c.wavering); { // keep the wavering jobs few, but enough to choose from
	case n > len(c.m.Jobs)/50+100:
		c.near /= 2
	case n < len(c.m.Jobs)/200+20:
		c.near *= 2
	}
	last, stalled := math.Inf(1), 0
	for again := true; again && !c.done(); {
		if now := c.loss(); now < last-rest*c.whole {
			last, stalled = now, 0
		} else if stalled++; stalled > 50 { // the prices cycle
			return false, ErrNumeric
		}
		if again, err = c.units(); err != nil {
			return false, err
		}
		for _, i := range c.wavering {
			entered, _, err := c.improve(i)
			if err != nil {
				return false, err
			}
			again = again || entered
		}
		moved = moved || again
	}
	return moved, nil
}

// sure is the lead with which a job's key is the cheapest at these prices, too:
// when all prices have moved by a part d at most, a key gained (1+d)/(1-d) on
// the next best at most.
func (c *clearing) sure() float64 {
	d := 0.0
	for t, p := range c.start {
		if p > 0 {
			d = max(d, math.Abs(c.price[t]/p-1))
		} else if c.price[t] != 0 {
			return 1
		}
	}
	return min(1, 2*d/(1+d)+1e-9)
}

// recount computes what the key mixes leave free.
func (c *clearing) recount() {
	used := make([]float64, len(c.free))
	for i := range c.m.Jobs {
		c.m.Jobs[i].load(c.key[i], 1, used)
	}
	for t := range c.free {
		c.free[t] = c.m.GPUs[t] - used[t]
	}
}

// loss is what excess costs less what slack earns.
func (c *clearing) loss() (sum float64) {
	for i, col := range c.basis {
		switch col.kind {
		case excess:
			sum += c.share[i] * c.costs[col.unit]
		case slack:
			sum -= c.share[i] * c.earns[col.unit]
		}
	}
	return sum
}

// lack adds up what each type lacks, as a part of its GPUs.
func (c *clearing) lack() (sum float64) {
	for i, col := range c.basis {
		if col.kind == excess {
			sum += max(0, c.share[i]) / c.m.GPUs[col.unit]
		}
	}
	return sum
}

func (c *clearing) done() bool { return c.lack() <= rest }

// improve lets a job take a cheaper mix if there is one. Margin is how much
// dearer its next best is, as a part of the cost.
func (c *clearing) improve(i int) (moved bool, margin float64, err error) {
	j := &c.m.Jobs[i]
	if c.rate[i] <= 0 {
		return false, math.Inf(1), nil
	}
	best, cost, margin := j.cheapest(c.rate[i], c.price)
	old := j.worth(c.key[i], c.price)
	if cost*j.Count >= old-tolerance*old-rounding*c.whole {
		return false, margin / (cost + rest), nil
	}
	return true, 0, c.enter(column{job: i, mix: best})
}

// units lets slacks and excesses enter.
func (c *clearing) units() (moved bool, err error) {
	for t, p := range c.price {
		kind := further
		if p < c.earns[t]-tolerance*c.costs[t] {
			kind = slack
		} else if p > (1+tolerance)*c.costs[t] {
			kind = excess
		}
		if kind != further {
			if err := c.enter(column{job: -1, kind: kind, unit: t}); err != nil {
				return moved, err
			}
			moved = true
		}
	}
	return moved, nil
}

// vector writes what the column adds to each type, beyond its job's key.
func (c *clearing) vector(col column, into []float64) {
	clear(into)
	switch col.kind {
	case slack:
		into[col.unit] = 1
	case excess:
		into[col.unit] = -1
	default:
		j := &c.m.Jobs[col.job]
		j.load(col.mix, 1, into)
		j.load(c.key[col.job], -1, into)
	}
}

// enter brings a column into the basis and throws one out.
func (c *clearing) enter(col column) error {
	a, d := c.a, c.d
	if col.job >= 0 {
		c.lead[col.job] = 0
	}
	c.vector(col, a)
	for i := range d {
		d[i] = 0
		for t := range a {
			d[i] += c.inv[i][t] * a[t]
		}
	}
	// How far until a column's share, or that of some job's key, comes to 0.
	step, leaves, key := math.Inf(1), -1, -1
	size := 0.0
	for i := range d {
		if d[i] <= pivotMin {
			continue
		}
		if s := max(0, c.share[i]) / d[i]; s < step || s == step && d[i] > size {
			step, leaves, key, size = s, i, -1, d[i]
		}
	}
	if col.job >= 0 {
		if c.keyOf(col.job, d, 1, &step) {
			leaves, key = -1, col.job
		}
	}
	for i, b := range c.basis {
		if b.job < 0 || b.job == col.job || c.first(b.job) != i {
			continue
		}
		if c.keyOf(b.job, d, 0, &step) {
			leaves, key = -1, b.job
		}
	}
	switch {
	case leaves < 0 && key < 0:
		return ErrNumeric // nothing bounds the step: cannot be, prices are positive
	case key < 0:
		c.basis[leaves] = col
	case key == col.job:
		c.rekey(key, col.mix)
	default: // another mix of that job becomes its key and makes room
		i := c.first(key)
		for k, b := range c.basis { // the one that holds most of the job
			if b.job == key && c.share[k] > c.share[i] {
				i = k
			}
		}
		c.rekey(key, c.basis[i].mix)
		c.basis[i] = col
	}
	return c.refactor()
}

// keyOf reports whether the share of a job's key comes to 0 before step when the
// shares move by -d and entering takes the rest, and then shortens step.
func (c *clearing) keyOf(job int, d []float64, entering float64, step *float64) bool {
	share, falls := 1.0, entering
	for i, b := range c.basis {
		if b.job == job {
			share -= c.share[i]
			falls -= d[i]
		}
	}
	if falls <= pivotMin {
		return false
	}
	if s := max(0, share) / falls; s < *step {
		*step = s
		return true
	}
	return false
}

// first returns the first column of the basis that belongs to the job.
func (c *clearing) first(job int) int {
	return slices.IndexFunc(c.basis, func(b column) bool { return b.job == job })
}

// rekey gives a job another key mix.
func (c *clearing) rekey(job int, m mix) {
	j := &c.m.Jobs[job]
	j.load(m, -1, c.free)
	j.load(c.key[job], 1, c.free)
	c.key[job] = m
}

// refactor inverts the basis again: it is so small that it need not be updated.
func (c *clearing) refactor() error {
	n, a := len(c.basis), c.a
	for i, col := range c.basis {
		c.vector(col, a)
		for t := range a {
			c.inv[t][i] = a[t]
		}
	}
	for t := range n {
		for i := range n {
			c.inv[t][n+i] = 0
		}
		c.inv[t][n+t] = 1
	}
	for k := range n {
		best := k
		for t := k + 1; t < n; t++ {
			if math.Abs(c.inv[t][k]) > math.Abs(c.inv[best][k]) {
				best = t
			}
		}
		c.inv[k], c.inv[best] = c.inv[best], c.inv[k]
		pivot := c.inv[k][k]
		if math.Abs(pivot) < 1e-14 {
			return ErrNumeric
		}
		for i := range 2 * n {
			c.inv[k][i] /= pivot
		}
		for t := range n {
			f := c.inv[t][k]
			if t == k || f == 0 {
				continue
			}
			for i := k; i < 2*n; i++ {
				c.inv[t][i] -= f * c.inv[k][i]
			}
		}
	}
	for t := range n {
		copy(c.inv[t][:n], c.inv[t][n:])
	}
	for i := range n {
		c.share[i] = 0
		for t := range n {
			c.share[i] += c.inv[i][t] * c.free[t]
		}
	}
	// A price is what one more GPU of the type would take off the loss.
	clear(c.price)
	for i, col := range c.basis {
		for t := range n {
			switch col.kind {
			case excess:
				c.price[t] -= c.inv[i][t] * c.costs[col.unit]
			case slack:
				c.price[t] += c.inv[i][t] * c.earns[col.unit]
			}
		}
	}
	return nil
}

// time writes the part of its time that each job spends on each type.
func (c *clearing) time(into [][]float64) {
	for i := range c.m.Jobs {
		clear(into[i])
	}
	add := func(i int, m mix, share float64) {
		if m.hi == none || share <= 0 {
			return
		}
		into[i][m.hi] += share * m.x
		if m.lo != none {
			into[i][m.lo] += share * m.y
		}
	}
	left := map[int]float64{}
	for i, b := range c.basis {
		if b.job >= 0 {
			if _, known := left[b.job]; !known {
				left[b.job] = 1
			}
			left[b.job] -= c.share[i]
			add(b.job, b.mix, c.share[i])
		}
	}
	for i, m := range c.key {
		share, mixed := left[i]
		if !mixed {
			share = 1
		}
		add(i, m, share)
	}
}
