package speed

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// estimate is what history says of one program on some types.
type estimate struct {
	log   []float64     // natural log of the work per second, by place of the type
	known []int         // places of the types that any run was on
	cov   *mat.SymDense // of log, by place in known
}

// program is what history says of a program on these types. Where runs with and
// without steps are known, those without count only if they answer for more types.
func (k *Knowledge) program(p Program, types []string, within float64) claim {
	best := newClaim(Past, len(types))
	if k == nil || !p.Named() {
		return best
	}
	for _, steps := range []bool{true, false} {
		if r := k.rows[subject{p, steps}]; r != nil {
			e := k.estimate(r.mean, r.cov, types)
			if c := e.claim(Past, within); count(c.speeds) > count(best.speeds) {
				best = c
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
func (k *Knowledge) site(types []string, within float64) claim {
	if k == nil || len(k.rows) == 0 {
		return newClaim(Site, len(types))
	}
	var cov mat.SymDense
	cov.AddSym(k.doubt, k.spread)
	e := k.estimate(k.usual, &cov, types)
	return e.claim(Site, within)
}

func (k *Knowledge) estimate(mean *mat.VecDense, cov *mat.SymDense, types []string) estimate {
	e := estimate{log: make([]float64, len(types))}
	var columns []int
	for i, t := range types {
		if j := slices.Index(k.types, t); j >= 0 && math.Abs(mean.AtVec(j)) < beyond {
			e.log[i] = mean.AtVec(j)
			e.known, columns = append(e.known, i), append(columns, j)
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

// contrast is the standard deviation of the log speed of the type at place u of
// known, against the mean of those that are kept.
func (e *estimate) contrast(u int, kept []int) float64 {
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

// worst is the least sure of the types that are kept.
func (e *estimate) worst(kept []int) (at int, sd float64) {
	sd = -1
	for i, u := range kept {
		if s := e.contrast(u, kept); s > sd {
			at, sd = i, s
		}
	}
	return at, sd
}

func all(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// claim answers for those types whose ratios are known to within a factor. One
// type alone has no ratio.
func (e *estimate) claim(source Source, within float64) claim {
	c := newClaim(source, len(e.log))
	kept := all(len(e.known))
	for len(kept) > 1 {
		at, sd := e.worst(kept)
		if math.Exp(sd) <= within {
			break
		}
		kept = slices.Delete(kept, at, at+1)
	}
	if len(kept) < 2 {
		return c
	}
	for _, u := range kept {
		i := e.known[u]
		c.speeds[i], c.factors[i] = math.Exp(e.log[i]), math.Exp(e.contrast(u, kept))
	}
	return c
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
			if j := slices.Index(k.types, t); r != nil && j >= 0 && j < len(r.on) {
				counts[i] += r.on[j]
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
