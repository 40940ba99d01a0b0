package speed

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// fit is the state of Learn's iterations.
type fit struct {
	*Knowledge
	all       []*row // sorted
	n         int    // types
	robust    bool   // Huber's weights; else least squares
	meanPrior *mat.SymDense

	// Of rowCov, see updatePrecision:
	precision    *mat.SymDense
	gain         *mat.VecDense
	constantVar  float64
	inner, outer mat.Dense // results of products, kept for their memory
	residuals    []float64 // likewise
}

func newFit(k *Knowledge, rows []*row) *fit {
	n := len(k.types)
	return &fit{Knowledge: k, all: rows, n: n, meanPrior: k.meanPrior(), precision: mat.NewSymDense(n, nil), gain: mat.NewVecDense(n, nil)}
}

// updateNoise estimates the noise of each row's runs, shrunk towards that of all rows with
// the same unit of work, which is shrunk towards the prior belief.
func (f *fit) updateNoise() {
	for _, steps := range []bool{true, false} {
		usual := noiseOfRuns
		if steps {
			usual = noiseOfSteps
		}
		f.residuals = f.residuals[:0]
		freedom := 0
		for _, r := range f.all {
			if f.robust && r.key.steps == steps && r.freedom > 0 {
				f.residuals = r.residuals(f.residuals)
				freedom += r.freedom
			}
		}
		usual = shrunk(usual, f.residuals, freedom)
		for _, r := range f.all {
			if r.key.steps == steps && !f.robust {
				r.noise = usual
			} else if r.key.steps == steps {
				r.noise = max(shrunk(usual, r.residuals(f.residuals[:0]), r.freedom), minNoise)
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

func (r *row) residuals(to []float64) []float64 {
	for _, o := range r.observations {
		to = append(to, o.logRate-r.logRate(o.shares))
	}
	return to
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

// derivative is that of logRate by the log speed on a type: the part of the work that is
// done there.
func (r *row) derivative(s share, logRate float64) float64 {
	return s.part * math.Exp(r.mean.AtVec(s.column)-logRate)
}

// normalEquations are J'WJ x = J'Wy of a row's runs alone, linearised at its mean, with
// Huber's weights to a power; 0: least squares.
func (r *row) normalEquations(jwj *mat.SymDense, jwy *mat.VecDense, power int) {
	jwj.Zero()
	jwy.Zero()
	for _, o := range r.observations {
		at := r.logRate(o.shares)
		residual := o.logRate - at
		weight := 1 / (r.noise * r.noise)
		for range power {
			weight *= min(1, huberK*r.noise/math.Abs(residual))
		}
		y := residual
		for _, s := range o.shares {
			y += r.derivative(s, at) * r.mean.AtVec(s.column)
		}
		for u, s := range o.shares {
			ds := r.derivative(s, at)
			jwy.SetVec(s.column, jwy.AtVec(s.column)+weight*ds*y)
			for _, t := range o.shares[u:] {
				jwj.SetSym(s.column, t.column, jwj.At(s.column, t.column)+weight*ds*r.derivative(t, at))
			}
		}
	}
}

// posterior sets a row's cov to (J'WJ + precision)^-1, and jwy.
func (f *fit) posterior(r *row, jwj *mat.SymDense, jwy *mat.VecDense, power int) (ok bool) {
	var chol mat.Cholesky
	r.normalEquations(jwj, jwy, power)
	jwj.AddSym(jwj, f.precision)
	return chol.Factorize(jwj) && chol.InverseTo(r.cov) == nil
}

// gaussNewton takes one step with the rows and the mean together; it returns the largest
// change before the line search. With C_r = r.cov, P = precision and b_r = J'Wy of a row,
// the joint normal equations are
//
//	row_r = C_r (b_r + P mean)
//	(meanPrior + R P - P sum C_r P) mean = P sum C_r b_r       R rows: the Schur complement
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
	)
	power := 0
	if f.robust {
		power = 1
	}
	for _, r := range f.all {
		if !f.posterior(r, jwj, vector, power) {
			return 0, false
		}
		r.step.CopyVec(vector) // b_r, until mean is known
		tmp.MulVec(r.cov, vector)
		sumCb.AddVec(sumCb, &tmp)
		sumC.AddSym(sumC, r.cov)
	}
	schur.ScaleSym(float64(len(f.all)), f.precision)
	schur.AddSym(schur, f.meanPrior)
	f.inner.Mul(f.precision, sumC)
	f.outer.Mul(&f.inner, f.precision)
	f.outer.Scale(-1, &f.outer)
	addTo(schur, &f.outer)
	rhs.MulVec(f.precision, sumCb)
	if !chol.Factorize(schur) || chol.InverseTo(f.meanCov) != nil {
		return 0, false
	}
	step.MulVec(f.meanCov, rhs)
	tmp.MulVec(f.precision, step)
	for _, r := range f.all {
		vector.AddVec(r.step, &tmp)
		r.step.MulVec(r.cov, vector)
		r.step.SubVec(r.step, r.mean)
		change = max(change, mat.Norm(r.step, math.Inf(1)))
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
		for _, r := range f.all {
			r.mean.AddScaledVec(r.mean, length-at, r.step)
		}
		if f.loss() <= enough {
			return
		}
	}
}

// loss is minus the log likelihood of everything, given the noise and rowCov.
func (f *fit) loss() (sum float64) {
	deviation := mat.NewVecDense(f.n, nil)
	for _, r := range f.all {
		for _, o := range r.observations {
			z := math.Abs(o.logRate-r.logRate(o.shares)) / r.noise
			quadratic := z
			if f.robust {
				quadratic = min(z, huberK)
			}
			sum += quadratic * (z - quadratic/2)
		}
		deviation.SubVec(r.mean, f.mean)
		sum += mat.Inner(deviation, f.precision, deviation) / 2
	}
	return sum + mat.Inner(f.mean, f.meanPrior, f.mean)/2
}

// updatePrecision makes of rowCov the precision of a row around mean when the row's
// constant a_p is free: rowCov^-1 without its part along (1, ..., 1). gain turns a
// deviation into the likeliest constant, constantVar is the variance of that.
func (f *fit) updatePrecision() {
	var chol mat.Cholesky
	inverse := mat.NewSymDense(f.n, nil)
	if !chol.Factorize(f.rowCov) || chol.InverseTo(inverse) != nil {
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
	f.constantVar = 1 / total
	f.gain.ScaleVec(f.constantVar, f.gain)
	for i := range f.n {
		for j := i; j < f.n; j++ {
			f.precision.SetSym(i, j, inverse.At(i, j)-f.gain.AtVec(i)*f.gain.AtVec(j)*total)
		}
	}
}

// updateRowCov sets rowCov to its expectation, shrunk towards the prior belief.
func (f *fit) updateRowCov() {
	scatter := mat.NewSymDense(f.n, nil) // expected squares of row - mean, summed over the rows
	for _, r := range f.all {
		scatter.AddSym(scatter, r.cov)
	}
	var deviation mat.VecDense
	for _, r := range f.all {
		deviation.SubVec(r.mean, f.mean)
		scatter.SymRankOne(scatter, 1, &deviation)
	}
	scatter = f.withoutConstants(scatter)
	for i := range f.n {
		for j := i; j < f.n; j++ {
			s := scatter.At(i, j)
			if i == j {
				s += priorCount * typeSpread * typeSpread
			}
			f.rowCov.SetSym(i, j, s/float64(priorCount+len(f.all)))
		}
	}
}

// withoutConstants takes the rows' constants out of a scatter: (I - 1 gain') scatter
// (I - 1 gain')', plus what is not known of the constants themselves.
func (f *fit) withoutConstants(scatter *mat.SymDense) *mat.SymDense {
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
			sum.SetSym(i, j, f.constantVar*float64(len(f.all)))
		}
	}
	f.inner.Mul(project, scatter)
	f.outer.Mul(&f.inner, project.T())
	addTo(sum, &f.outer)
	return sum
}

// updateCovariances sets the rows' covariances at the end, with that of mean added. An
// outlier pulls at the mean with its Huber weight, but makes it no surer: here the weight
// is squared.
func (f *fit) updateCovariances() {
	jwj, jwy := mat.NewSymDense(f.n, nil), mat.NewVecDense(f.n, nil)
	for _, r := range f.all {
		if !f.posterior(r, jwj, jwy, 2) {
			delete(f.rows, r.key)
			continue
		}
		f.inner.Mul(r.cov, f.precision)
		f.outer.Mul(&f.inner, f.meanCov)
		f.inner.Mul(&f.outer, f.inner.T())
		addTo(r.cov, &f.inner)
	}
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
