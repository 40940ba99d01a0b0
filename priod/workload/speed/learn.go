package speed

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// What is taken for likely before any run is seen. The spreads are standard
// deviations of natural logs.
const (
	spreadSteps = 0.1  // of the speed of a program's runs on one type
	spreadRuns  = 0.5  // of the work of its runs where nobody says it
	spreadTypes = 0.35 // of programs around the usual ratio of two types: as of the 26 of Gavel (OSDI'20)
	priorRuns   = 4    // how many runs, or programs, these count as
	leastSpread = 0.01 // no clock is better
	bend        = 1.5  // standard deviations beyond which a run pulls no harder (Huber 1964)
	spreadApart = 1.5  // of types that no program compares
)

// Knowledge is what a History teaches: for each program the logs of its speeds
// on all types, normal around what is usual on this site, with the types' own
// covariance. It completes the matrix of programs and types: a cell that no run
// has seen follows from the program's other cells and from how the types
// usually compare.
type Knowledge struct {
	types  []string
	linked []int         // by column: the lowest column that programs compare it with, directly or not
	usual  *mat.VecDense // mean of the rows, up to a constant for each
	doubt  *mat.SymDense // covariance of usual
	spread *mat.SymDense // covariance of the rows around it
	rows   map[subject]*row
}

// row is one program: posterior mean and covariance of its log speeds.
type row struct {
	key    subject
	seen   []observation
	mean   *mat.VecDense
	cov    *mat.SymDense
	step   *mat.VecDense // to where mean would be best if all were linear
	spread float64       // of its runs
	runs   int
	on     []int // runs that were longest on a type
	free   int   // runs beyond those that one speed for each type takes up
}

// Learn fits the model to all that was added: rows s_p = a_p + N(usual, spread),
// a_p free (the unit of work), and for each run log rate = log sum_t part_t
// exp(s_pt) + noise with Huber's tails: heavy, and still one likeliest answer
// where runs on one type contradict each other. The fit alternates, as
// expectation maximisation does: rows and usual together by Gauss and Newton with
// robust weights, scales of the noise by median absolute deviations, spread by
// its expectation.
func (h *History) Learn() *Knowledge {
	k := &Knowledge{types: h.types(), rows: make(map[subject]*row, len(h.programs))}
	n := len(k.types)
	if n == 0 {
		return k
	}
	k.usual, k.doubt, k.spread = mat.NewVecDense(n, nil), identity(n, 1), identity(n, spreadTypes*spreadTypes)
	rows := make([]*row, 0, len(h.programs))
	for key, seen := range h.programs {
		r := k.start(key, seen)
		rows, k.rows[key] = append(rows, r), r
	}
	slices.SortFunc(rows, func(a, b *row) int { return a.key.compare(b.key) })
	k.linked = link(n, rows)
	f := newFit(n)
	for i := range 100 {
		f.robust = i >= 5 // least squares first: far from the answer all runs look like outliers
		f.noise(rows)
		if k.step(f, rows) < 1e-6 && f.robust {
			break
		}
	}
	k.doubts(f, rows)
	return k
}

// doubts sets the rows' covariances. A run far off pulls at the mean as much as
// one not so far, and makes it no surer: here it has its weight squared. The
// doubt about usual is theirs, too.
func (k *Knowledge) doubts(f *fit, rows []*row) {
	evidence, target := mat.NewSymDense(f.n, nil), mat.NewVecDense(f.n, nil)
	var chol mat.Cholesky
	for _, r := range rows {
		r.evidence(evidence, target, 2)
		evidence.AddSym(evidence, f.precision)
		if !chol.Factorize(evidence) || chol.InverseTo(r.cov) != nil {
			delete(k.rows, r.key)
			continue
		}
		f.inner.Mul(r.cov, f.precision)
		f.outer.Mul(&f.inner, k.doubt)
		f.inner.Mul(&f.outer, f.inner.T())
		addTo(r.cov, &f.inner)
	}
}

// link finds the types that programs compare with each other, by runs on the
// one and runs on the other. A run on both may say no more of a type than that
// it is not too fast: all of its work may be the other's.
func link(n int, rows []*row) []int {
	linked := all(n)
	for _, r := range rows {
		var alone []int
		for _, o := range r.seen {
			if len(o.shares) == 1 {
				alone = append(alone, linked[o.shares[0].column])
			}
		}
		for j, l := range linked {
			if slices.Contains(alone, l) {
				linked[j] = slices.Min(alone)
			}
		}
	}
	return linked
}

// apart is what is known of usual beforehand: nothing of the ratios of linked
// types, and of the means of types that are not that they are alike.
func (k *Knowledge) apart(normal *mat.SymDense) {
	size := map[int]float64{}
	for _, l := range k.linked {
		size[l]++
	}
	for i, l := range k.linked {
		for j := i; j < len(k.linked); j++ {
			if k.linked[j] == l {
				normal.SetSym(i, j, 1/(spreadApart*spreadApart*size[l]*size[l]))
			}
		}
	}
}

// types are those that any run was on, sorted.
func (h *History) types() []string {
	types := map[string]bool{}
	for _, seen := range h.programs {
		for _, o := range seen {
			for _, s := range o.shares {
				types[s.gpuType] = true
			}
		}
	}
	return sorted(types)
}

// start puts a row at the medians of the runs on each type.
func (k *Knowledge) start(key subject, seen []observation) *row {
	n := len(k.types)
	r := &row{
		key: key, seen: seen, runs: len(seen), on: make([]int, n),
		mean: mat.NewVecDense(n, nil), cov: mat.NewSymDense(n, nil), step: mat.NewVecDense(n, nil),
	}
	slices.SortFunc(seen, observation.compare)
	rates, touched := make([][]float64, n), make([]bool, n)
	for _, o := range seen {
		for i := range o.shares {
			s := &o.shares[i]
			s.column, _ = slices.BinarySearch(k.types, s.gpuType)
			touched[s.column] = true
		}
		most := o.most().column
		rates[most] = append(rates[most], o.rate)
	}
	m := len(seen) / 2
	all := (seen[m].rate + seen[len(seen)-1-m].rate) / 2
	r.free = len(seen)
	for j := range n {
		r.mean.SetVec(j, all)
		if r.on[j] = len(rates[j]); r.on[j] > 0 {
			r.mean.SetVec(j, median(rates[j]))
		}
		if touched[j] {
			r.free--
		}
	}
	r.free = max(r.free, 0)
	return r
}

// fit holds what the iterations work on.
type fit struct {
	n            int
	robust       bool
	precision    *mat.SymDense // of a row around usual, up to a constant: spread's inverse without its part along (1, ..., 1)
	gain         *mat.VecDense // of the constant
	loose        float64       // variance of the constant, given all else
	inner, outer mat.Dense
	residuals    []float64
}

func newFit(n int) *fit {
	return &fit{n: n, precision: mat.NewSymDense(n, nil), gain: mat.NewVecDense(n, nil)}
}

// noise sets the spreads of all rows' runs, each between its own and that of
// all rows of its kind.
func (f *fit) noise(rows []*row) {
	for _, steps := range []bool{true, false} {
		usual := spreadRuns
		if steps {
			usual = spreadSteps
		}
		f.residuals = f.residuals[:0]
		free := 0
		for _, r := range rows {
			if f.robust && r.key.steps == steps && r.free > 0 {
				f.residuals = r.residuals(f.residuals)
				free += r.free
			}
		}
		usual = between(usual, f.residuals, free)
		for _, r := range rows {
			if r.key.steps == steps && !f.robust {
				r.spread = usual
			} else if r.key.steps == steps {
				r.spread = max(between(usual, r.residuals(f.residuals[:0]), r.free), leastSpread)
			}
		}
	}
}

// between is the standard deviation of residuals with so many degrees of
// freedom, where priorRuns others have the usual one.
func between(usual float64, residuals []float64, free int) float64 {
	if free == 0 {
		return usual
	}
	for i, r := range residuals {
		residuals[i] = math.Abs(r)
	}
	const normal = 1.4826 // standard deviation over median absolute deviation
	own := normal * median(residuals) * math.Sqrt(float64(len(residuals))/float64(free))
	return math.Sqrt((priorRuns*usual*usual + float64(free)*own*own) / float64(priorRuns+free))
}

func (r *row) residuals(to []float64) []float64 {
	for _, o := range r.seen {
		to = append(to, o.rate-r.rate(o.shares))
	}
	return to
}

// rate is the log of the work done in a second of which so much is spent on
// each type.
func (r *row) rate(shares []share) float64 {
	if len(shares) == 1 { // exactly
		return r.mean.AtVec(shares[0].column)
	}
	top, sum := math.Inf(-1), 0.0
	for _, s := range shares {
		top = max(top, r.mean.AtVec(s.column))
	}
	for _, s := range shares {
		sum += s.part * math.Exp(r.mean.AtVec(s.column)-top)
	}
	return top + math.Log(sum)
}

// evidence is the normal equations of a row's runs, linear around its mean, with
// robust weights to a power; 0: least squares.
func (r *row) evidence(a *mat.SymDense, b *mat.VecDense, power int) {
	a.Zero()
	b.Zero()
	for _, o := range r.seen {
		at := r.rate(o.shares)
		residual := o.rate - at
		weight := 1 / (r.spread * r.spread)
		for range power {
			weight *= min(1, bend*r.spread/math.Abs(residual))
		}
		target := residual
		for _, s := range o.shares {
			target += r.slope(s, at) * r.mean.AtVec(s.column)
		}
		for u, s := range o.shares {
			x := r.slope(s, at)
			b.SetVec(s.column, b.AtVec(s.column)+weight*x*target)
			for _, t := range o.shares[u:] {
				a.SetSym(s.column, t.column, a.At(s.column, t.column)+weight*x*r.slope(t, at))
			}
		}
	}
}

// slope is the part of the work that is done on a type.
func (r *row) slope(s share, rate float64) float64 {
	return s.part * math.Exp(r.mean.AtVec(s.column)-rate)
}

// step is one round of the alternation; it returns the largest change.
func (k *Knowledge) step(f *fit, rows []*row) (change float64) {
	n := f.n
	f.prior(k.spread)
	var (
		evidence = mat.NewSymDense(n, nil)
		target   = mat.NewVecDense(n, nil)
		apart    = mat.NewSymDense(n, nil)
		normal   = mat.NewSymDense(n, nil)
		right    = mat.NewVecDense(n, nil)
		usual    = mat.NewVecDense(n, nil) // its step
		pull     = mat.NewVecDense(n, nil) // sums over the rows
		square   = mat.NewSymDense(n, nil)
		chol     mat.Cholesky
		of       mat.VecDense
	)
	power := 0
	if f.robust {
		power = 1
	}
	for _, r := range rows {
		r.evidence(evidence, target, power)
		evidence.AddSym(evidence, f.precision)
		if !chol.Factorize(evidence) || chol.InverseTo(r.cov) != nil {
			clear(k.rows) // cannot be; then nothing is known, and no daemon ends
			return 0
		}
		r.step.CopyVec(target)
		of.MulVec(r.cov, target)
		pull.AddVec(pull, &of)
		square.AddSym(square, r.cov)
	}
	// What the rows say of usual, whatever their own constants and deviations.
	k.apart(apart)
	normal.ScaleSym(float64(len(rows)), f.precision)
	normal.AddSym(normal, apart)
	f.inner.Mul(f.precision, square)
	f.outer.Mul(&f.inner, f.precision)
	f.outer.Scale(-1, &f.outer)
	addTo(normal, &f.outer)
	right.MulVec(f.precision, pull)
	if !chol.Factorize(normal) || chol.InverseTo(k.doubt) != nil {
		clear(k.rows)
		return 0
	}
	usual.MulVec(k.doubt, right)
	of.MulVec(f.precision, usual)
	for _, r := range rows {
		target.AddVec(r.step, &of)
		r.step.MulVec(r.cov, target)
		r.step.SubVec(r.step, r.mean)
		change = max(change, mat.Norm(r.step, math.Inf(1)))
	}
	usual.SubVec(usual, k.usual)
	change = max(change, mat.Norm(usual, math.Inf(1)))
	k.walk(f, rows, apart, usual)

	for _, r := range rows {
		of.SubVec(r.mean, k.usual)
		square.SymRankOne(square, 1, &of)
	}
	sum := f.deviation(square, len(rows))
	for i := range n {
		for j := i; j < n; j++ {
			s := sum.At(i, j)
			if i == j {
				s += priorRuns * spreadTypes * spreadTypes
			}
			k.spread.SetSym(i, j, s/float64(priorRuns+len(rows)))
		}
	}
	return change
}

// walk takes the steps of all rows and of usual, all of each or half or a
// quarter of it and so on, so that the whole gets likelier: a step that takes
// rates to be linear in the logs of speeds may lead too far.
func (k *Knowledge) walk(f *fit, rows []*row, apart mat.Symmetric, usual *mat.VecDense) {
	enough := k.misfit(f, rows, apart) * (1 + 1e-12) // rounding is no reason to stop
	for at, pace := 0.0, 1.0; pace > 1e-6; at, pace = pace, pace/2 {
		k.usual.AddScaledVec(k.usual, pace-at, usual)
		for _, r := range rows {
			r.mean.AddScaledVec(r.mean, pace-at, r.step)
		}
		if k.misfit(f, rows, apart) <= enough {
			return
		}
	}
}

// misfit is minus the log of how likely all of it is, given the scales.
func (k *Knowledge) misfit(f *fit, rows []*row, apart mat.Symmetric) (sum float64) {
	off := mat.NewVecDense(f.n, nil)
	for _, r := range rows {
		for _, o := range r.seen {
			z := math.Abs(o.rate-r.rate(o.shares)) / r.spread
			near := z
			if f.robust {
				near = min(z, bend)
			}
			sum += near * (z - near/2)
		}
		off.SubVec(r.mean, k.usual)
		sum += mat.Inner(off, f.precision, off) / 2
	}
	return sum + mat.Inner(k.usual, apart, k.usual)/2
}

// prior turns the rows' covariance into the precision of what can be seen of
// it: a row's constant is free.
func (f *fit) prior(spread *mat.SymDense) {
	var chol mat.Cholesky
	inverse := mat.NewSymDense(f.n, nil)
	if !chol.Factorize(spread) || chol.InverseTo(inverse) != nil {
		return // as before
	}
	total := 0.0
	for i := range f.n {
		sum := 0.0
		for j := range f.n {
			sum += inverse.At(i, j)
		}
		f.gain.SetVec(i, sum)
		total += sum
	}
	f.loose = 1 / total
	f.gain.ScaleVec(f.loose, f.gain)
	for i := range f.n {
		for j := i; j < f.n; j++ {
			f.precision.SetSym(i, j, inverse.At(i, j)-f.gain.AtVec(i)*f.gain.AtVec(j)*total)
		}
	}
}

// deviation is the expected square of what rows are off usual, their constants
// taken out; square has the constants, too. Both are sums over the rows.
func (f *fit) deviation(square *mat.SymDense, rows int) *mat.SymDense {
	project := mat.NewDense(f.n, f.n, nil)
	sum := mat.NewSymDense(f.n, nil)
	for i := range f.n {
		for j := range f.n {
			p := -f.gain.AtVec(j)
			if i == j {
				p++
			}
			project.Set(i, j, p)
		}
		for j := i; j < f.n; j++ {
			sum.SetSym(i, j, f.loose*float64(rows))
		}
	}
	f.inner.Mul(project, square)
	f.outer.Mul(&f.inner, project.T())
	addTo(sum, &f.outer)
	return sum
}

func identity(n int, scale float64) *mat.SymDense {
	m := mat.NewSymDense(n, nil)
	for i := range n {
		m.SetSym(i, i, scale)
	}
	return m
}

// addTo adds a matrix that is symmetric but for rounding.
func addTo(to *mat.SymDense, m mat.Matrix) {
	n := to.SymmetricDim()
	for i := range n {
		for j := i; j < n; j++ {
			to.SetSym(i, j, to.At(i, j)+(m.At(i, j)+m.At(j, i))/2)
		}
	}
}

// median sorts its argument.
func median(s []float64) float64 {
	slices.Sort(s)
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}
