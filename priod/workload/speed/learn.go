package speed

import (
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
)

// Prior beliefs, held before any run is seen. Noise and spread are standard deviations
// of natural logs.
const (
	noiseOfSteps   = 0.1  // speed of a program's runs on one type, where the tag says the work
	noiseOfRuns    = 0.5  // the same where each run counts as one unit of work
	typeSpread     = 0.35 // programs around the usual ratio of two types: as the 26 of Gavel (OSDI'20)
	priorCount     = 4    // how many runs, or programs, these beliefs count as
	minNoise       = 0.01 // no clock is better
	huberK         = 1.5  // residuals beyond so many standard deviations get less weight (Huber 1964)
	unlinkedSpread = 1.5  // between types that no program compares
)

// halfLife is by how much later a run counts twice as much as another of its program: a program that was changed is
// known again after a week of runs.
const halfLife = 84 * time.Hour

// Knowledge is what a History teaches: for each program a row of the logs of its speeds
// on all types. Rows are normal around that of their job name, and those around the site's mean, with one
// covariance for all; so the matrix of programs and types is completed: a cell without runs follows from the
// program's other cells, from other users' runs and other sizes, and from how the types usually compare.
type Knowledge struct {
	usual    Usual
	programs map[subject]*Lesson
}

// row is one program: the posterior mean and covariance of its log speeds.
type row struct {
	key          subject
	group        *group // nil: it has none
	observations []observation
	mean         *mat.VecDense
	cov          *mat.SymDense
	step         *mat.VecDense // Gauss and Newton's next change of mean
	noise        float64       // standard deviation of its runs
	runsOn       []int         // by column, the runs that were longest on the type
	freedom      int           // degrees of freedom of the residuals: runs beyond one for each type
}

// Learn fits the model to all runs that were added:
//
//	group_g = a_g + N(mean, rowCov)                      a_g free: the unit of work
//	row_p = group_g + N(0, within)                       of several rows of one job name
//	row_p = a_p + N(mean, rowCov)                        of any other row
//	log rate = log sum_t part_t exp(row_pt) + noise      for each run, with Huber's tails
//
// Huber's tails are heavy, and the likeliest answer is still unique where runs on one
// type contradict each other. The fit alternates, as expectation maximisation does:
// rows, groups and mean together by Gauss-Newton steps with robust weights, the noise by median
// absolute deviations, rowCov by its expectation.
func (h *History) Learn() *Knowledge {
	k := &Knowledge{usual: Usual{Types: h.types()}, programs: make(map[subject]*Lesson, len(h.programs))}
	if len(k.usual.Types) == 0 {
		return k
	}
	f := newFit(k.usual.Types, h)
	settled := false // noise and covariances stay: they change by little each time, for long
	for i := range 100 {
		f.robust = i >= 5 // least squares first: far from the answer all runs look like outliers
		if !settled {
			f.updateNoise()
		}
		change, ok := f.gaussNewton()
		if !ok { // cannot be; then nothing is known, and the daemon continues
			f.rows, f.groups = nil, nil
			break
		}
		if settled = settled || f.robust && i > 10 && change < 0.01; !settled {
			f.updateRowCov()
		}
		if change < 1e-6 && f.robust {
			break
		}
	}
	f.updateCovariances()
	u := &k.usual
	u.Linked, u.Mean, u.Doubt, u.Spread = f.linked, f.mean.RawVector().Data, triangle(f.meanCov), triangle(f.rowCov)
	for _, r := range f.rows {
		k.programs[r.key] = &Lesson{
			Program: r.key.Program, Unit: r.key.unit, Runs: len(r.observations), OnType: r.runsOn,
			Mean: r.mean.RawVector().Data, Covariance: triangle(r.cov),
		}
	}
	for _, g := range f.groups {
		k.programs[g.key] = g.lesson(f.within[g.key.unit])
	}
	return k
}

// types are those that any run was on, sorted.
func (h *History) types() []string {
	types := map[string]bool{}
	for _, observations := range h.programs {
		for _, o := range observations {
			for _, s := range o.shares {
				types[s.gpuType] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// newRow starts a row at the medians of its runs on each type, and at that of all its
// runs where it has none.
func newRow(types []string, key subject, observations []observation) *row {
	n := len(types)
	r := &row{
		key: key, observations: observations, runsOn: make([]int, n),
		mean: mat.NewVecDense(n, nil), cov: mat.NewSymDense(n, nil), step: mat.NewVecDense(n, nil),
	}
	slices.SortFunc(observations, observation.compare)
	latest := slices.MaxFunc(observations, func(a, b observation) int { return a.end.Compare(b.end) }).end
	for i := range observations {
		o := &observations[i]
		o.weight = math.Exp2(-float64(latest.Sub(o.end)) / float64(halfLife))
	}
	rates, touched := make([][]float64, n), make([]bool, n)
	for _, o := range observations {
		for i := range o.shares {
			s := &o.shares[i]
			s.column, _ = slices.BinarySearch(types, s.gpuType)
			touched[s.column] = true
		}
		longest := o.longest().column
		rates[longest] = append(rates[longest], o.logRate)
	}
	m := len(observations) / 2
	all := (observations[m].logRate + observations[len(observations)-1-m].logRate) / 2
	r.freedom = len(observations)
	for j := range n {
		r.mean.SetVec(j, all)
		if r.runsOn[j] = len(rates[j]); r.runsOn[j] > 0 {
			r.mean.SetVec(j, median(rates[j]))
		}
		if touched[j] {
			r.freedom--
		}
	}
	r.freedom = max(r.freedom, 0)
	return r
}

// link finds the types that programs compare with each other, by runs on the one alone
// and runs on the other alone. A run on both may say no more of a type than that it is
// not too fast: all of its work may be the other's.
func link(n int, rows []*row) []int {
	linked := firstIntegers(n)
	for _, r := range rows {
		var compared []int
		for _, o := range r.observations {
			if len(o.shares) == 1 {
				compared = append(compared, linked[o.shares[0].column])
			}
		}
		for j, l := range linked {
			if slices.Contains(compared, l) {
				linked[j] = slices.Min(compared)
			}
		}
	}
	return linked
}

// meanPrior is the prior precision of mean: nothing is known of the ratios of linked
// types; of types that are not linked, the averages are alike.
func meanPrior(linked []int) *mat.SymDense {
	prior := mat.NewSymDense(len(linked), nil)
	size := map[int]float64{}
	for _, l := range linked {
		size[l]++
	}
	for i, l := range linked {
		for j := i; j < len(linked); j++ {
			if linked[j] == l {
				prior.SetSym(i, j, 1/(unlinkedSpread*unlinkedSpread*size[l]*size[l]))
			}
		}
	}
	return prior
}
