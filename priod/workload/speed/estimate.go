package speed

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// estimate is what history says of one program on the types that were asked for.
type estimate struct {
	logSpeed []float64     // natural log of the work per second, by type
	types    []int         // the types that any run was on
	cov      *mat.SymDense // of logSpeed, by place in types
}

// program is what history says of a program on these types. Where runs with and without
// steps are known, those without count only if they answer for more types.
func (k *Knowledge) program(p Program, types []string, within float64) answers {
	best := noAnswers(Past, len(types))
	if k == nil || !p.Named() {
		return best
	}
	for _, steps := range []bool{true, false} {
		if r := k.rows[subject{p, steps}]; r != nil {
			e := k.estimate(r.mean, r.cov, types)
			if a := e.answers(Past, within); count(a.speeds) > count(best.speeds) {
				best = a
			}
		}
	}
	return best
}

func count(speeds []float64) (n int) {
	for _, v := range speeds {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// site is what history says of a program that it has never seen.
func (k *Knowledge) site(types []string, within float64) answers {
	if k == nil || len(k.rows) == 0 {
		return noAnswers(Site, len(types))
	}
	var cov mat.SymDense
	cov.AddSym(k.meanCov, k.rowCov)
	e := k.estimate(k.mean, &cov, types)
	return e.answers(Site, within)
}

func (k *Knowledge) estimate(mean *mat.VecDense, cov *mat.SymDense, types []string) estimate {
	e := estimate{logSpeed: make([]float64, len(types))}
	var columns []int
	for i, t := range types {
		if j := slices.Index(k.types, t); j >= 0 && math.Abs(mean.AtVec(j)) < maxLogRate {
			e.logSpeed[i] = mean.AtVec(j)
			e.types, columns = append(e.types, i), append(columns, j)
		}
	}
	if len(columns) > 0 {
		e.cov = mat.NewSymDense(len(columns), nil)
		for u, i := range columns {
			for v, j := range columns[u:] {
				e.cov.SetSym(u, u+v, cov.At(i, j))
			}
		}
	}
	return e
}

// sd is the standard deviation of the log speed at place u of types, relative to the
// mean of those kept.
func (e *estimate) sd(u int, kept []int) float64 {
	n := float64(len(kept))
	v := e.cov.At(u, u)
	for _, i := range kept {
		v -= 2 * e.cov.At(u, i) / n
		for _, j := range kept {
			v += e.cov.At(i, j) / (n * n)
		}
	}
	return math.Sqrt(max(v, 0))
}

// leastSure is the place in kept of the type with the largest sd.
func (e *estimate) leastSure(kept []int) (at int, sd float64) {
	sd = -1
	for i, u := range kept {
		if s := e.sd(u, kept); s > sd {
			at, sd = i, s
		}
	}
	return at, sd
}

// firstIntegers are 0 to n-1.
func firstIntegers(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// answers are those on the types whose ratios are known to within a factor; the least
// sure type is left out until all are. One type alone has no ratio.
func (e *estimate) answers(source Source, within float64) answers {
	a := noAnswers(source, len(e.logSpeed))
	kept := firstIntegers(len(e.types))
	for len(kept) > 1 {
		at, sd := e.leastSure(kept)
		if math.Exp(sd) <= within {
			break
		}
		kept = slices.Delete(kept, at, at+1)
	}
	if len(kept) < 2 {
		return a
	}
	for _, u := range kept {
		i := e.types[u]
		a.speeds[i], a.factors[i] = math.Exp(e.logSpeed[i]), math.Exp(e.sd(u, kept))
	}
	return a
}

// runs counts a program's runs by the type that they spent most time on.
func (k *Knowledge) runs(p Program, types []string) []int {
	counts := make([]int, len(types))
	if k == nil {
		return counts
	}
	for _, steps := range []bool{true, false} {
		r := k.rows[subject{p, steps}]
		for i, t := range types {
			if j := slices.Index(k.types, t); r != nil && j >= 0 && j < len(r.runsOn) {
				counts[i] += r.runsOn[j]
			}
		}
	}
	return counts
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// union is the keys of both, sorted.
func union[V, W any](a map[string]V, b map[string]W) []string {
	keys := append(sorted(a), sorted(b)...)
	slices.Sort(keys)
	return slices.Compact(keys)
}
