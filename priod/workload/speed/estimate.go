package speed

import (
	"math"
	"slices"
)

// estimate is what history says of one program on the types that were asked for.
type estimate struct {
	logSpeed []float64 // natural log of the work per second, by type
	types    []int     // the types that any run was on
	columns  []int     // where these stand in a Knowledge
	cov      []float64 // of the log speeds, by column: see Usual
	n        int       // columns in all
}

// Knows reports whether runs of a program are known: of two programs of which none are, For
// answers alike.
func (k *Knowledge) Knows(p Program) bool {
	return k != nil && slices.ContainsFunc(units, func(u Unit) bool { return k.programs[subject{p, u}] != nil })
}

// program is what history says of a program on these types. Where runs with and without steps are known, those
// without count only if they answer for more types. Of runs without steps the unit counts that leaves less doubt.
func (k *Knowledge) program(p Program, types []string, most []float64) answers {
	best := noAnswers(Past, len(types))
	if k == nil || !p.Named() {
		return best
	}
	from := Steps
	for _, unit := range units {
		if l := k.programs[subject{p, unit}]; l != nil {
			e := k.estimate(l.Mean, l.Covariance, types)
			a := e.answers(Past, most)
			more := count(a.speeds) - count(best.speeds)
			if more > 0 || more == 0 && from == Runs && unit == Limits && a.doubt() < best.doubt() {
				best, from = a, unit
			}
		}
	}
	return best
}

// doubt sums the logs of the factors of what is answered.
func (a *answers) doubt() (sum float64) {
	for i, f := range a.factors {
		if !math.IsNaN(a.speeds[i]) {
			sum += math.Log(f)
		}
	}
	return sum
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
func (k *Knowledge) site(types []string, most []float64) answers {
	if k == nil || len(k.programs) == 0 {
		return noAnswers(Site, len(types))
	}
	cov := slices.Clone(k.usual.Doubt)
	for i, v := range k.usual.Spread {
		cov[i] += v
	}
	e := k.estimate(k.usual.Mean, cov, types)
	return e.answers(Site, most)
}

func (k *Knowledge) estimate(mean, cov []float64, types []string) estimate {
	e := estimate{logSpeed: make([]float64, len(types)), cov: cov, n: len(mean)}
	for i, t := range types {
		if j := slices.Index(k.usual.Types, t); j >= 0 && math.Abs(mean[j]) < maxLogRate {
			e.logSpeed[i] = mean[j]
			e.types, e.columns = append(e.types, i), append(e.columns, j)
		}
	}
	return e
}

// covariance is that of the log speeds at places u and v of types.
func (e *estimate) covariance(u, v int) float64 {
	i, j := min(e.columns[u], e.columns[v]), max(e.columns[u], e.columns[v])
	return e.cov[i*(2*e.n-i-1)/2+j]
}

// sd is the standard deviation of the log speed at place u of types, relative to the
// mean of those kept.
func (e *estimate) sd(u int, kept []int) float64 {
	n := float64(len(kept))
	v := e.covariance(u, u)
	for _, i := range kept {
		v -= 2 * e.covariance(u, i) / n
		for _, j := range kept {
			v += e.covariance(i, j) / (n * n)
		}
	}
	return math.Sqrt(max(v, 0))
}

// rounding is less than any two doubts differ by that are not the same: which of equal ones is left out is not left to it.
const rounding = 1e-9

// leastSure is the place in kept of the type whose sd is the most above, or the least below, what it may be.
func (e *estimate) leastSure(kept []int, most []float64) (at int, above float64) {
	above = math.Inf(-1)
	for i, u := range kept {
		if x := e.sd(u, kept) - most[e.types[u]]; x > above+rounding {
			at, above = i, x
		}
	}
	return at, above
}

// firstIntegers are 0 to n-1.
func firstIntegers(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// answers are those on the types whose log ratios leave at most so much doubt, by type (nil: any); the least
// sure type is left out until all do. One type alone has no ratio.
func (e *estimate) answers(source Source, most []float64) answers {
	a := noAnswers(source, len(e.logSpeed))
	kept := firstIntegers(len(e.types))
	for most != nil && len(kept) > 1 {
		at, above := e.leastSure(kept, most)
		if above <= rounding {
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
	for _, unit := range []Unit{Steps, Runs} { // each run counts in Limits once more
		l := k.programs[subject{p, unit}]
		for i, t := range types {
			if j := slices.Index(k.usual.Types, t); l != nil && j >= 0 && j < len(l.OnType) {
				counts[i] += l.OnType[j]
			}
		}
	}
	return counts
}
