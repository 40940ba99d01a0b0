package speed

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// fit is the state of Learn's iterations.
type fit struct {
	rows    []*row   // sorted
	groups  []*group // sorted
	n       int      // types
	robust  bool     // Huber's weights; else least squares
	linked  []int    // see Usual
	mean    *mat.VecDense
	meanCov *mat.SymDense // posterior covariance of mean
	rowCov  *mat.SymDense // covariance of groups, and of rows without one, around mean

	meanPrior *mat.SymDense
	within    map[Unit]*within
	// Of rowCov, see updatePrecision:
	precision   *mat.SymDense
	gain        *mat.VecDense
	constantVar float64
}

func newFit(types []string, h *History) *fit {
	n := len(types)
	f := &fit{
		n: n, mean: mat.NewVecDense(n, nil), meanCov: mat.NewSymDense(n, nil), rowCov: mat.NewSymDense(n, nil),
		precision: mat.NewSymDense(n, nil), gain: mat.NewVecDense(n, nil), within: map[Unit]*within{},
	}
	for i := range n {
		f.rowCov.SetSym(i, i, typeSpread*typeSpread)
	}
	for key, observations := range h.programs {
		f.rows = append(f.rows, newRow(types, key, observations))
	}
	slices.SortFunc(f.rows, func(a, b *row) int { return a.key.compare(b.key) })
	f.group()
	f.linked = link(n, f.rows)
	f.meanPrior = meanPrior(f.linked)
	return f
}

// updateNoise estimates the noise of each row's runs, shrunk towards that of all rows with
// the same unit of work, which is shrunk towards the prior belief.
func (f *fit) updateNoise() {
	for _, unit := range units {
		usual := noiseOfRuns
		if unit == Steps {
			usual = noiseOfSteps
		}
		var residuals []float64
		freedom := 0
		for _, r := range f.rows {
			if f.robust && r.key.unit == unit && r.freedom > 0 {
				residuals = append(residuals, r.residuals()...)
				freedom += r.freedom
			}
		}
		usual = shrunk(usual, residuals, freedom)
		for _, r := range f.rows {
			if r.key.unit == unit && !f.robust {
				r.noise = usual
			} else if r.key.unit == unit {
				r.noise = max(shrunk(usual, r.residuals(), r.freedom), minNoise)
			}
		}
	}
}

// shrunk is the standard deviation of residuals with so many degrees of freedom,
// estimated by their median absolute deviation, as if priorCount others had the usual one.
func shrunk(usual float64, residuals []float64, freedom int) float64 {
	if freedom == 0 {
		return usual
	}
	for i, r := range residuals {
		residuals[i] = math.Abs(r)
	}
	const normal = 1.4826 // standard deviation over median absolute deviation
	own := normal * median(residuals) * math.Sqrt(float64(len(residuals))/float64(freedom))
	return math.Sqrt((priorCount*usual*usual + float64(freedom)*own*own) / float64(priorCount+freedom))
}

func (r *row) residuals() []float64 {
	all := make([]float64, len(r.observations))
	for i, o := range r.observations {
		all[i] = o.logRate - r.logRate(o.shares)
	}
	return all
}

// logRate is the log of the work done in a second that is spent on the types like this.
func (r *row) logRate(shares []share) float64 {
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

// normalEquations are J'WJ x = J'Wy of a row's runs alone, linearised at its mean, with
// Huber's weights to a power; 0: least squares. A run's line of J is the part of its work
// that is done on each type.
func (r *row) normalEquations(jwj *mat.SymDense, jwy *mat.VecDense, power int) {
	jwj.Zero()
	jwy.Zero()
	line := mat.NewVecDense(jwy.Len(), nil)
	for _, o := range r.observations {
		at := r.logRate(o.shares)
		residual := o.logRate - at
		weight := o.weight / (r.noise * r.noise)
		for range power {
			weight *= min(1, huberK*r.noise/math.Abs(residual))
		}
		line.Zero()
		for _, s := range o.shares {
			line.SetVec(s.column, s.part*math.Exp(r.mean.AtVec(s.column)-at))
		}
		jwj.SymRankOne(jwj, weight, line)
		jwy.AddScaledVec(jwy, weight*(residual+mat.Dot(line, r.mean)), line)
	}
}

// posterior sets a row's cov to (J'WJ + prior)^-1, and jwy. The prior is the precision of the rows of its group
// around it, or that of all groups around the mean.
func (f *fit) posterior(r *row, jwj *mat.SymDense, jwy *mat.VecDense, power int) (ok bool) {
	var chol mat.Cholesky
	r.normalEquations(jwj, jwy, power)
	jwj.AddSym(jwj, f.prior(r))
	return chol.Factorize(jwj) && chol.InverseTo(r.cov) == nil
}

// gaussNewton takes one step with rows, groups and the mean together; it returns the largest
// change before the line search. With C_r = r.cov, Q the precision of rows around their group, P that of groups
// around the mean, and b_r = J'Wy of a row, the joint normal equations are
//
//	row_r = C_r (b_r + Q group_g)
//	group_g = C_g (b_g + P mean)     C_g = (sum Q - Q C_r Q + P)^-1, b_g = sum Q C_r b_r: the Schur complement
//	(meanPrior + G P - P sum C_g P) mean = P sum C_g b_g       G groups: the same once more
//
// A row without a group is as a group of its own, with b_r and C_r = (J'WJ + P)^-1.
func (f *fit) gaussNewton() (change float64, ok bool) {
	f.updatePrecision()
	var (
		jwj    = mat.NewSymDense(f.n, nil)
		vector = mat.NewVecDense(f.n, nil)
		sumC   = mat.NewSymDense(f.n, nil)
		sumCb  = mat.NewVecDense(f.n, nil)
		schur  = mat.NewSymDense(f.n, nil)
		rhs    = mat.NewVecDense(f.n, nil)
		step   = mat.NewVecDense(f.n, nil) // of mean
		chol   mat.Cholesky
		tmp    mat.VecDense

		product mat.Dense
	)
	power := 0
	if f.robust {
		power = 1
	}
	for _, g := range f.groups {
		g.clear()
	}
	tops := 0
	top := func(cov *mat.SymDense, b *mat.VecDense) {
		tops++
		tmp.MulVec(cov, b)
		sumCb.AddVec(sumCb, &tmp)
		sumC.AddSym(sumC, cov)
	}
	for _, r := range f.rows {
		if !f.posterior(r, jwj, vector, power) {
			return 0, false
		}
		r.step.CopyVec(vector) // b_r, until the means are known
		if r.group == nil {
			top(r.cov, vector)
		} else {
			r.group.add(r, f.prior(r))
		}
	}
	for _, g := range f.groups {
		if !g.posterior(f.precision) {
			return 0, false
		}
		top(g.cov, g.step)
	}
	schur.ScaleSym(float64(tops), f.precision)
	schur.AddSym(schur, f.meanPrior)
	product.Product(f.precision, sumC, f.precision)
	addTo(schur, -1, &product)
	rhs.MulVec(f.precision, sumCb)
	if !chol.Factorize(schur) || chol.InverseTo(f.meanCov) != nil {
		return 0, false
	}
	step.MulVec(f.meanCov, rhs)
	// solve turns b into the step from a mean.
	solve := func(b *mat.VecDense, cov, prior *mat.SymDense, above mat.Vector, mean *mat.VecDense) {
		tmp.MulVec(prior, above)
		vector.AddVec(b, &tmp)
		b.MulVec(cov, vector)
		b.SubVec(b, mean)
		change = max(change, mat.Norm(b, math.Inf(1)))
	}
	for _, g := range f.groups {
		solve(g.step, g.cov, f.precision, step, g.mean)
	}
	var above mat.VecDense
	for _, r := range f.rows {
		if r.group == nil {
			solve(r.step, r.cov, f.precision, step, r.mean)
			continue
		}
		above.AddVec(r.group.mean, r.group.step)
		solve(r.step, r.cov, f.prior(r), &above, r.mean)
	}
	step.SubVec(step, f.mean)
	change = max(change, mat.Norm(step, math.Inf(1)))
	f.lineSearch(step)
	return change, true
}

// lineSearch takes the steps of all rows and of mean, halved until the whole is at least
// as likely as before: rates are not linear in log speeds, so a full step may lead too far.
func (f *fit) lineSearch(step *mat.VecDense) {
	enough := f.loss() * (1 + 1e-12) // rounding is no reason to halve
	for at, length := 0.0, 1.0; length > 1e-6; at, length = length, length/2 {
		f.mean.AddScaledVec(f.mean, length-at, step)
		for _, r := range f.rows {
			r.mean.AddScaledVec(r.mean, length-at, r.step)
		}
		for _, g := range f.groups {
			g.mean.AddScaledVec(g.mean, length-at, g.step)
		}
		if f.loss() <= enough {
			return
		}
	}
}

// loss is minus the log likelihood of everything, given the noise and rowCov.
func (f *fit) loss() (sum float64) {
	deviation := mat.NewVecDense(f.n, nil)
	for _, r := range f.rows {
		for _, o := range r.observations {
			z := math.Abs(o.logRate-r.logRate(o.shares)) / r.noise
			quadratic := z
			if f.robust {
				quadratic = min(z, huberK)
			}
			sum += o.weight * quadratic * (z - quadratic/2)
		}
		if r.group != nil {
			deviation.SubVec(r.mean, r.group.mean)
			sum += mat.Inner(deviation, f.prior(r), deviation) / 2
			continue
		}
		deviation.SubVec(r.mean, f.mean)
		sum += mat.Inner(deviation, f.precision, deviation) / 2
	}
	for _, g := range f.groups {
		deviation.SubVec(g.mean, f.mean)
		sum += mat.Inner(deviation, f.precision, deviation) / 2
	}
	return sum + mat.Inner(f.mean, f.meanPrior, f.mean)/2
}

// updatePrecision makes of rowCov the precision of a group around mean when its
// constant a is free: rowCov^-1 without its part along (1, ..., 1). gain turns a
// deviation into the likeliest constant, constantVar is the variance of that.
func (f *fit) updatePrecision() {
	var chol mat.Cholesky
	inverse := mat.NewSymDense(f.n, nil)
	if !chol.Factorize(f.rowCov) || chol.InverseTo(inverse) != nil {
		return // as before
	}
	ones := mat.NewVecDense(f.n, slices.Repeat([]float64{1}, f.n))
	f.gain.MulVec(inverse, ones)
	total := mat.Sum(f.gain)
	f.constantVar = 1 / total
	f.gain.ScaleVec(f.constantVar, f.gain)
	f.precision.SymRankOne(inverse, -total, f.gain)
}

// updateRowCov sets rowCov to its expectation, shrunk towards the prior belief. Of the
// groups' squares around mean it takes their constants out, (I - 1 gain') scatter
// (I - 1 gain')', and adds what is not known of the constants themselves.
func (f *fit) updateRowCov() {
	scatter := mat.NewSymDense(f.n, nil) // expected squares of group - mean, summed over the groups
	var deviation, along mat.VecDense
	tops := 0.0
	add := func(mean *mat.VecDense, cov *mat.SymDense) {
		tops++
		scatter.AddSym(scatter, cov)
		deviation.SubVec(mean, f.mean)
		scatter.SymRankOne(scatter, 1, &deviation)
	}
	for _, r := range f.rows {
		if r.group == nil {
			add(r.mean, r.cov)
		}
	}
	for _, g := range f.groups {
		add(g.mean, g.cov)
	}
	along.MulVec(scatter, f.gain)
	constant := mat.Dot(f.gain, &along) + f.constantVar*tops
	for i := range f.n {
		for j := i; j < f.n; j++ {
			s := scatter.At(i, j) - along.AtVec(i) - along.AtVec(j) + constant
			if i == j {
				s += priorCount * typeSpread * typeSpread
			}
			f.rowCov.SetSym(i, j, s/(priorCount+tops))
		}
	}
	f.updateWithin()
}

// updateCovariances sets the rows' covariances at the end, with that of mean added. An
// outlier pulls at the mean with its Huber weight, but makes it no surer: here the weight
// is squared.
func (f *fit) updateCovariances() {
	jwj, jwy := mat.NewSymDense(f.n, nil), mat.NewVecDense(f.n, nil)
	for _, g := range f.groups {
		g.clear()
	}
	f.rows = slices.DeleteFunc(f.rows, func(r *row) bool {
		if !f.posterior(r, jwj, jwy, 2) {
			return true
		}
		if r.group != nil {
			r.group.add(r, f.prior(r))
		}
		return false
	})
	// above adds what is not known of what a row or group stands around.
	above := func(cov, prior, doubt *mat.SymDense) {
		var part, spread mat.Dense
		part.Mul(cov, prior)
		spread.Product(&part, doubt, part.T())
		addTo(cov, 1, &spread)
	}
	f.groups = slices.DeleteFunc(f.groups, func(g *group) bool {
		known := g.posterior(f.precision)
		if known {
			above(g.cov, f.precision, f.meanCov)
		}
		return !known
	})
	for _, r := range f.rows {
		if r.group == nil {
			above(r.cov, f.precision, f.meanCov)
		} else {
			above(r.cov, f.prior(r), r.group.cov)
		}
	}
}

// addTo adds a matrix that is symmetric but for rounding, times a number.
func addTo(to *mat.SymDense, times float64, m mat.Matrix) {
	for i := range to.SymmetricDim() {
		for j := i; j < to.SymmetricDim(); j++ {
			to.SetSym(i, j, to.At(i, j)+times*(m.At(i, j)+m.At(j, i))/2)
		}
	}
}

// triangle is the upper one, row by row.
func triangle(m *mat.SymDense) (all []float64) {
	for i := range m.SymmetricDim() {
		all = append(all, m.RawSymmetric().Data[i*m.RawSymmetric().Stride+i:][:m.SymmetricDim()-i]...)
	}
	return all
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
