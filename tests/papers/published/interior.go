package published

import (
	"errors"
	"math"
)

// program is the linear program behind the policies. Rows are equal jobs:
//
//	maximise    level
//	subject to  speed_i . x_i >= need_i + ask_i x level
//	            sum over types of x_i <= 1,  x >= 0
//	            sum over rows of count_i x gang_i x x_i <= gpus
//
// When nobody asks for a level, any feasible point is optimal.
type program struct {
	gpus []float64
	rows []row
}

type row struct {
	speed       []float64 // of the fastest type; 1 at most
	need, ask   float64
	gang, count float64
}

var errStalled = errors.New("the interior point method of the published policies does not converge")

// slack is an inequality: how far it is from tight, its price, and a step of both.
type slack struct {
	s, z, ds, dz float64
	residual     float64 // of s
	product      float64 // what the step is to make of s x z, less what it is
}

// path is a point near the central path of a program, where all slacks times
// their prices are equal.
type path struct {
	*program
	x      [][]float64
	level  float64
	fixed  bool      // nobody asks for a level
	time   [][]slack // x >= 0, by row and type
	idle   []slack   // sum of x <= 1
	rate   []slack   // speed . x >= need + ask x level
	free   []slack   // GPUs of a type
	weight float64   // of all slacks, by jobs

	// A step solves for prices of the types and the level, after each row is
	// eliminated by itself: its block times a column for each type, the level,
	// and the right-hand side.
	columns      [][]float64
	block        []float64
	schur, right []float64
}

// interior follows the central path to its end: the point of the optimal ones
// at which the product of the slacks is largest, their analytic centre. Primal-
// dual, with Mehrotra's predictor and corrector; centring is never left out, so
// that the end is the centre. A step costs rows x types^3.
func interior(p *program) (x [][]float64, level float64, err error) {
	q := newPath(p)
	for range 100 {
		gap, off := q.residuals()
		mu := gap / q.weight
		if mu < 1e-8 && off < 1e-8 {
			return q.x, q.level, nil
		}
		q.each(func(_ float64, a *slack) { a.product = -a.s * a.z })
		length, err := q.step()
		if err != nil {
			return nil, 0, err
		}
		after := 0.0
		q.each(func(w float64, a *slack) { after += w * (a.s + length*a.ds) * (a.z + length*a.dz) })
		least := 0.3
		if q.fixed {
			least = 0.5
		}
		centre := mu * min(1, max(least, math.Pow(after/gap, 3)))
		q.each(func(_ float64, a *slack) { a.product = centre - a.s*a.z - a.ds*a.dz })
		if length, err = q.step(); err != nil {
			return nil, 0, err
		}
		q.move(0.98 * length)
	}
	return nil, 0, errStalled
}

func newPath(p *program) *path {
	n, types := len(p.rows), len(p.gpus)
	q := &path{
		program: p, fixed: true, weight: float64(types),
		idle: make([]slack, n), rate: make([]slack, n), free: make([]slack, types),
		block: make([]float64, types*types), schur: make([]float64, (types+1)*(types+1)), right: make([]float64, types+1),
	}
	wanted := 0.0
	for i := range p.rows {
		r := &p.rows[i]
		q.fixed = q.fixed && r.ask == 0
		wanted += r.count * r.gang
		q.weight += r.count * float64(types+2)
	}
	for i := range p.rows {
		x, time := make([]float64, types), make([]slack, types)
		for j, n := range p.gpus {
			x[j] = min(1/float64(types+1), n/(2*wanted))
			time[j] = slack{s: x[j], z: 1}
		}
		q.x, q.time = append(q.x, x), append(q.time, time)
		q.idle[i], q.rate[i] = slack{s: 1, z: 1}, slack{s: 1, z: 1}
		q.columns = append(q.columns, make([]float64, types*(types+2)))
	}
	for j, n := range p.gpus {
		q.free[j] = slack{s: n / 2, z: 1}
	}
	return q
}

// each visits the slacks, with the number of jobs that they stand for.
func (q *path) each(visit func(weight float64, a *slack)) {
	for i := range q.rows {
		w := q.rows[i].count
		for j := range q.time[i] {
			visit(w, &q.time[i][j])
		}
		visit(w, &q.idle[i])
		visit(w, &q.rate[i])
	}
	for j := range q.free {
		visit(1, &q.free[j])
	}
}

// residuals brings the slacks' residuals up to date.
func (q *path) residuals() (gap, off float64) {
	for j := range q.free {
		q.free[j].residual = q.gpus[j] - q.free[j].s
	}
	for i := range q.rows {
		r := &q.rows[i]
		sum, rate := 0.0, 0.0
		for j, x := range q.x[i] {
			sum += x
			rate += r.speed[j] * x
			q.time[i][j].residual = x - q.time[i][j].s
			q.free[j].residual -= r.count * r.gang * x
		}
		q.idle[i].residual = 1 - sum - q.idle[i].s
		q.rate[i].residual = rate - r.need - r.ask*q.level - q.rate[i].s
	}
	q.each(func(w float64, a *slack) {
		gap += w * a.s * a.z
		off = max(off, math.Abs(a.residual))
	})
	return gap, off
}

// next is the price after the step, but for what the step of the slack beyond
// its residual changes.
func (a *slack) next() float64 { return a.z + (a.product-a.z*a.residual)/a.s }

// step finds ds and dz of all slacks, right[types] for the level, and how much
// of that can be done at most.
func (q *path) step() (length float64, err error) {
	types := len(q.gpus)
	k := types + 1 // unknowns that the rows share
	clear(q.schur)
	clear(q.right)
	for i := range q.rows {
		r, c := &q.rows[i], q.columns[i]
		idle, rate := q.idle[i].z/q.idle[i].s, q.rate[i].z/q.rate[i].s
		for j := range q.gpus {
			for l := range q.gpus {
				q.block[j*types+l] = idle + rate*r.speed[j]*r.speed[l]
			}
			t := &q.time[i][j]
			q.block[j*types+j] += t.z / t.s
			b := c[j*(k+1) : (j+1)*(k+1)]
			clear(b)
			b[j] = r.gang
			b[types] = -rate * r.ask * r.speed[j]
			b[k] = t.next() - q.idle[i].next() + r.speed[j]*q.rate[i].next() - r.gang*q.free[j].z
		}
		if !cholesky(q.block, types, c, k+1) {
			return 0, errStalled
		}
		for l := range k + 1 {
			sum := 0.0
			for j := range q.gpus {
				v := c[j*(k+1)+l]
				q.add(j, l, r.count*r.gang*v)
				sum += r.speed[j] * v
			}
			q.add(types, l, -r.count*rate*r.ask*sum)
		}
		q.add(types, types, -r.count*rate*r.ask*r.ask)
		q.right[types] += r.count * r.ask * q.rate[i].next()
	}
	for j := range q.free {
		f := &q.free[j]
		q.add(j, j, f.s/f.z)
		q.right[j] += f.product/f.z - f.residual
	}
	q.right[types]--
	if q.fixed {
		q.schur[types*k+types], q.right[types] = 1, 0
	}
	if !gauss(q.schur, q.right, k) {
		return 0, errStalled
	}
	return q.slacks(), nil
}

// add adds to the system of the prices and the level; its last column is the
// right-hand side.
func (q *path) add(i, j int, v float64) {
	if k := len(q.right); j < k {
		q.schur[i*k+j] += v
	} else {
		q.right[i] += v
	}
}

// slacks makes the steps of the slacks from those of the shared unknowns.
func (q *path) slacks() (length float64) {
	k := len(q.right)
	for j := range q.free {
		q.free[j].ds = q.free[j].residual
	}
	for i := range q.rows {
		r := &q.rows[i]
		sum, rate := 0.0, 0.0
		for j := range q.gpus {
			b := q.columns[i][j*(k+1):]
			dx := b[k]
			for l, v := range q.right {
				dx -= b[l] * v
			}
			sum += dx
			rate += r.speed[j] * dx
			q.time[i][j].ds = q.time[i][j].residual + dx
			q.free[j].ds -= r.count * r.gang * dx
		}
		q.idle[i].ds = q.idle[i].residual - sum
		q.rate[i].ds = q.rate[i].residual + rate - r.ask*q.right[k-1]
	}
	length = 1
	q.each(func(_ float64, a *slack) {
		a.dz = (a.product - a.z*a.ds) / a.s
		if a.ds < 0 {
			length = min(length, -a.s/a.ds)
		}
		if a.dz < 0 {
			length = min(length, -a.z/a.dz)
		}
	})
	return length
}

func (q *path) move(length float64) {
	q.level += length * q.right[len(q.right)-1]
	for i := range q.x {
		for j := range q.x[i] {
			q.x[i][j] += length * (q.time[i][j].ds - q.time[i][j].residual)
		}
	}
	q.each(func(_ float64, a *slack) {
		a.s += length * a.ds
		a.z += length * a.dz
	})
}

// cholesky solves a, n x n, for the m columns of b, in place. What rounding
// takes from a pivot is given back: near the end of the path blocks are close
// to singular, and their small directions do not matter.
func cholesky(a []float64, n int, b []float64, m int) bool {
	for j := range n {
		pivot := a[j*n+j]
		least := 1e-14 * pivot
		for l := range j {
			pivot -= a[j*n+l] * a[j*n+l]
		}
		pivot = math.Sqrt(max(pivot, least))
		if !(pivot > 0) {
			return false
		}
		a[j*n+j] = pivot
		for i := j + 1; i < n; i++ {
			for l := range j {
				a[i*n+j] -= a[i*n+l] * a[j*n+l]
			}
			a[i*n+j] /= pivot
		}
	}
	for c := range m {
		for i := range n {
			for l := range i {
				b[i*m+c] -= a[i*n+l] * b[l*m+c]
			}
			b[i*m+c] /= a[i*n+i]
		}
		for i := n - 1; i >= 0; i-- {
			for l := i + 1; l < n; l++ {
				b[i*m+c] -= a[l*n+i] * b[l*m+c]
			}
			b[i*m+c] /= a[i*n+i]
		}
	}
	return true
}

// gauss solves a, n x n, for b, in place.
func gauss(a, b []float64, n int) bool {
	for j := range n {
		pivot := j
		for i := j + 1; i < n; i++ {
			if math.Abs(a[i*n+j]) > math.Abs(a[pivot*n+j]) {
				pivot = i
			}
		}
		if !(math.Abs(a[pivot*n+j]) > 0) {
			return false
		}
		for l := range n {
			a[j*n+l], a[pivot*n+l] = a[pivot*n+l], a[j*n+l]
		}
		b[j], b[pivot] = b[pivot], b[j]
		for i := j + 1; i < n; i++ {
			f := a[i*n+j] / a[j*n+j]
			for l := j; l < n; l++ {
				a[i*n+l] -= f * a[j*n+l]
			}
			b[i] -= f * b[j]
		}
	}
	for i := n - 1; i >= 0; i-- {
		for l := i + 1; l < n; l++ {
			b[i] -= a[i*n+l] * b[l]
		}
		b[i] /= a[i*n+i]
	}
	return true
}
