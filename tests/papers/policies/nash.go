package policies

import (
	"math"

	"slurmprio/priod/allocate/market"
)

// nash maximises sum over jobs of weight x log rate (proportional fairness,
// Nash welfare) and returns the rates of a job of each class. gap is how much
// more that sum could be at most, proved by prices: with q = weight / rate the
// logarithm is below its tangent, and no allocation has a greater sum of q x
// rate than what all GPUs cost plus what each job gains at those prices.
//
// Every job must be able to run somewhere. It is a primal-dual interior point
// method: jobs meet only in the types' capacity, so a step solves a system as
// small as the number of types for each class, and one for the prices.
func nash(m *market.Market, weight []float64) (rate []float64, gap float64, err error) {
	n := newInterior(m, weight)
	rate, gap = make([]float64, len(m.Jobs)), math.Inf(1)
	for step, stalled := 0, 0; step < nashSteps && stalled <= nashPatience && gap > nashGap*n.total; step++ {
		if stalled++; n.gap() < gap { // rounding may end by leading away
			gap, stalled = n.gap(), 0
			for i := range rate {
				rate[i] = n.rate(i) * n.unit[i]
			}
		}
		if !n.step() {
			break
		}
	}
	if !(gap < nashEnough*n.total) {
		return nil, 0, market.ErrNumeric
	}
	return rate, max(0, gap), nil
}

const (
	nashSteps    = 200
	nashGap      = 1e-12 // of the sum of weights: as near as it is to come
	nashEnough   = 1e-7  // and what is an answer
	nashCentre   = 0.1   // the part of the complementarity that a step aims at, at least
	nashShort    = 0.99  // of the way to the border
	nashPatience = 10    // steps that come no nearer
)

// interior is the state: time x and its multipliers s for each class and type, l
// of each class's own time, p of each type's GPUs.
type interior struct {
	m      *market.Market
	weight []float64
	unit   []float64 // fastest speed of each class; speeds are in it
	total  float64   // weight of all jobs
	speed  [][]float64
	x, s   [][]float64
	l, p   []float64

	dx, ds [][]float64
	dl, dp []float64
	factor []*triangle // of each class's system
	prices *triangle
	solved [][]float64 // scratch
	length float64     // of the last step, at most 1
}

func newInterior(m *market.Market, weight []float64) *interior {
	classes, types := len(m.Jobs), len(m.GPUs)
	table := func() [][]float64 {
		t, flat := make([][]float64, classes), make([]float64, classes*types)
		for i := range t {
			t[i], flat = flat[:types:types], flat[types:]
		}
		return t
	}
	n := &interior{length: 1, m: m, weight: weight, unit: make([]float64, classes), speed: table(), x: table(), s: table(), dx: table(), ds: table(),
		l: make([]float64, classes), dl: make([]float64, classes), p: make([]float64, types), dp: make([]float64, types), factor: make([]*triangle, classes), prices: newTriangle(types)}
	for range types {
		n.solved = append(n.solved, make([]float64, types))
	}
	asked := 0.0
	for i := range m.Jobs {
		asked += m.Jobs[i].Count * m.Jobs[i].GPUs
		n.total += m.Jobs[i].Count * weight[i]
		n.factor[i] = newTriangle(types)
	}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		n.unit[i] = j.Fastest()
		for t, v := range j.Speed {
			if v > 0 {
				n.speed[i][t] = v / n.unit[i]
				n.x[i][t] = 0.5 * min(1/float64(types), m.GPUs[t]/asked)
			}
		}
	}
	mu := n.total / asked // well within: all products of the same size
	for t, free := range n.free() {
		if m.GPUs[t] > 0 {
			n.p[t] = mu / free
		}
	}
	for i := range m.Jobs {
		n.l[i] = mu / n.idle(i)
		for t, x := range n.x[i] {
			if x > 0 {
				n.s[i][t] = mu / x
			}
		}
	}
	return n
}

func (n *interior) rate(i int) (sum float64) {
	for t, x := range n.x[i] {
		sum += n.speed[i][t] * x
	}
	return sum
}

func (n *interior) idle(i int) float64 {
	left := 1.0
	for _, x := range n.x[i] {
		left -= x
	}
	return left
}

// free GPUs of each type.
func (n *interior) free() []float64 {
	left := append([]float64(nil), n.m.GPUs...)
	for i := range n.x {
		for t, x := range n.x[i] {
			left[t] -= n.m.Jobs[i].Count * n.m.Jobs[i].GPUs * x
		}
	}
	return left
}

func (n *interior) gap() float64 {
	sum := -n.total
	for t, p := range n.p {
		sum += p * n.m.GPUs[t]
	}
	for i := range n.x {
		q, gain := n.weight[i]/n.rate(i), 0.0
		for t, v := range n.speed[i] {
			if v > 0 {
				gain = max(gain, q*v-n.m.Jobs[i].GPUs*n.p[t])
			}
		}
		sum += n.m.Jobs[i].Count * gain
	}
	return sum
}

// step moves towards nashCentre of the present complementarity. It is false when
// the prices' system has no finite solution.
func (n *interior) step() bool {
	free := n.free()
	mu := n.target(free)
	n.factorise(mu, free)
	copy(n.dp, n.prices.right)
	n.prices.backward(n.dp)
	for _, d := range n.dp {
		if d != d || math.IsInf(d, 0) {
			return false
		}
	}
	primal, dual := n.directions(mu, free)
	primal, dual = min(1, nashShort*primal), min(1, nashShort*dual)
	n.length = min(primal, dual)
	for i := range n.x {
		for t := range n.x[i] {
			n.x[i][t] += primal * n.dx[i][t]
			n.s[i][t] += dual * n.ds[i][t]
		}
		n.l[i] += dual * n.dl[i]
	}
	for t := range n.p {
		n.p[t] += dual * n.dp[t]
	}
	return true
}

// target is the product of each variable and its multiplier that the step aims
// at: less of the present mean the longer the last step was.
func (n *interior) target(free []float64) float64 {
	mu, products := 0.0, 0.0
	for t, p := range n.p {
		if n.m.GPUs[t] > 0 {
			mu, products = mu+p*free[t], products+1
		}
	}
	for i := range n.x {
		c := n.m.Jobs[i].Count
		mu, products = mu+c*n.l[i]*n.idle(i), products+c
		for t, x := range n.x[i] {
			if n.speed[i][t] > 0 {
				mu, products = mu+c*x*n.s[i][t], products+c
			}
		}
	}
	return mu * (max(nashCentre, (1-n.length)*(1-n.length)) / products)
}

// factorise sets up the step's system. Of a class: A dx = b - gang x dp, where
// A = R'R is the curvature of its logarithm, of its time's and its zeros'
// borders. So with V = gang x R'^-1 the prices are those of least squares over
// V dp = R'^-1 b, which stands in ds until directions has read it.
func (n *interior) factorise(mu float64, free []float64) {
	types := len(n.p)
	row := make([]float64, types)
	n.prices.clear()
	b := n.ds
	for i := range n.x {
		j, q, speed := &n.m.Jobs[i], n.factor[i], n.speed[i]
		rate, idle := n.rate(i), n.idle(i)
		q.clear()
		for _, heavy := range []bool{true, false} {
			clear(row)
			for t, v := range speed {
				switch {
				case v > 0 && heavy:
					row[t] = math.Sqrt(n.l[i] / idle)
				case v > 0:
					row[t] = math.Sqrt(n.weight[i]) * v / rate
				}
			}
			q.absorb(row, 0)
		}
		for t, v := range speed {
			clear(row)
			if row[t], b[i][t] = 1, 0; v > 0 {
				row[t] = math.Sqrt(n.s[i][t] / n.x[i][t])
				b[i][t] = n.weight[i]*v/rate - mu/idle - j.GPUs*n.p[t] + mu/n.x[i][t]
			}
			q.absorb(row, 0)
		}
		q.forward(b[i])
		for t, v := range speed {
			w := n.solved[t]
			if clear(w); v > 0 {
				w[t] = j.GPUs
				q.forward(w)
			}
		}
		size := math.Sqrt(j.Count)
		for k := range types {
			for t := range types {
				row[t] = size * n.solved[t][k]
			}
			n.prices.absorb(row, size*b[i][k])
		}
	}
	for t, p := range n.p {
		clear(row)
		if row[t] = 1; n.m.GPUs[t] == 0 {
			n.prices.absorb(row, 0)
			continue
		}
		row[t] = math.Sqrt(free[t] / p)
		n.prices.absorb(row, (mu/p-free[t])/row[t])
	}
}

// directions solves for everything but the prices, and says how far the primal
// and the dual variables are from the border along them, at most 1/nashShort.
func (n *interior) directions(mu float64, free []float64) (primal, dual float64) {
	primal, dual = 1/nashShort, 1/nashShort
	shorten := func(length *float64, v, d float64) {
		if d < 0 {
			*length = min(*length, -v/d)
		}
	}
	used := make([]float64, len(n.p))
	for i := range n.x {
		j := &n.m.Jobs[i]
		sum := 0.0
		dx := n.dx[i]
		for t := range dx {
			if dx[t] = 0; n.speed[i][t] > 0 {
				dx[t] = -j.GPUs * n.dp[t]
			}
		}
		n.factor[i].forward(dx)
		for t := range dx {
			dx[t] += n.ds[i][t]
		}
		n.factor[i].backward(dx)
		for t := range dx {
			sum += dx[t]
			used[t] += j.Count * j.GPUs * dx[t]
			shorten(&primal, n.x[i][t], dx[t])
		}
		idle := n.idle(i)
		shorten(&primal, idle, -sum)
		n.dl[i] = mu/idle - n.l[i] + n.l[i]/idle*sum
		shorten(&dual, n.l[i], n.dl[i])
		for t, x := range n.x[i] {
			if n.ds[i][t] = 0; n.speed[i][t] > 0 {
				n.ds[i][t] = mu/x - n.s[i][t] - n.s[i][t]/x*dx[t]
				shorten(&dual, n.s[i][t], n.ds[i][t])
			}
		}
	}
	for t := range used {
		shorten(&primal, free[t], -used[t])
		shorten(&dual, n.p[t], n.dp[t])
	}
	return primal, dual
}

// triangle is R of R'R, the sum of the outer products of the rows absorbed, and
// right goes with them: what normal equations would square, rotations do not.
type triangle struct {
	n     int
	r     []float64 // flat
	right []float64
}

func newTriangle(n int) *triangle {
	return &triangle{n: n, r: make([]float64, n*n), right: make([]float64, n)}
}

func (q *triangle) clear() {
	clear(q.r)
	clear(q.right)
}

// absorb rotates a row in, and destroys it. Heavy rows come first.
func (q *triangle) absorb(row []float64, right float64) {
	for k := range q.n {
		if row[k] == 0 {
			continue
		}
		own := q.r[k*q.n : (k+1)*q.n]
		length := math.Hypot(own[k], row[k])
		c, s := own[k]/length, row[k]/length
		for u := k; u < q.n; u++ {
			own[u], row[u] = c*own[u]+s*row[u], c*row[u]-s*own[u]
		}
		q.right[k], right = c*q.right[k]+s*right, c*right-s*q.right[k]
	}
}

// forward solves R'y = b in place, backward R y = b.
func (q *triangle) forward(b []float64) {
	for k := range q.n {
		for u := range k {
			b[k] -= q.r[u*q.n+k] * b[u]
		}
		b[k] /= q.r[k*q.n+k]
	}
}

func (q *triangle) backward(b []float64) {
	for k := q.n - 1; k >= 0; k-- {
		for u := k + 1; u < q.n; u++ {
			b[k] -= q.r[k*q.n+u] * b[u]
		}
		b[k] /= q.r[k*q.n+k]
	}
}
