package curve

import (
	"cmp"
	"slices"
)

// Plateau is the gain that counts as none: two CPU counts whose speeds are
// closer than this lie on a plateau, and nothing is measured between them.
const Plateau = 0.05

// Point is one measurement.
type Point struct {
	CPUs int     // for each GPU
	Rate float64 // steps a second of the whole job
}

// Candidates are the CPU counts worth measuring where none are named: 1, 2, 3, 4,
// 6, 8, 12, ... up to most, and the proportional share.
func Candidates(most, share int) []int {
	all := []int{most, share}
	for n := 1; n < most; n *= 2 {
		all = append(all, n)
		if half := n + n/2; n > 1 && half < most {
			all = append(all, half)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Next picks, out of candidates (CPUs for each GPU), the one to measure next;
// ok is false when more would tell nothing new. The largest comes first, then
// share, the proportional share, when it is a candidate, then the smallest.
// After them the middle of the gap of which least is known: more CPUs never
// make a program slower, so a gap hides at most its width times its rise. Steps
// are therefore big on a plateau and small on a slope, and whenever the budget
// ends the curve is the best that so many measurements give.
func Next(measured []Point, candidates []int, share int) (cpus int, ok bool) {
	c := slices.Compact(slices.Sorted(slices.Values(candidates)))
	if len(c) == 0 {
		return 0, false
	}
	for _, first := range []int{c[len(c)-1], share, c[0]} {
		if slices.Contains(c, first) && !has(measured, first) {
			return first, true
		}
	}
	fitted := Fit(measured)
	widest := 0.0
	for i := 1; i < len(fitted); i++ {
		lo, hi := fitted[i-1], fitted[i]
		between := inside(c, lo.CPUs, hi.CPUs)
		hidden := (hi.Rate - lo.Rate) * float64(hi.CPUs-lo.CPUs)
		if len(between) > 0 && hi.Rate > lo.Rate*(1+Plateau) && hidden > widest {
			widest, cpus, ok = hidden, between[(len(between)-1)/2], true
		}
	}
	return cpus, ok
}

func has(points []Point, cpus int) bool {
	return slices.ContainsFunc(points, func(p Point) bool { return p.CPUs == cpus })
}

// inside are the candidates strictly between lo and hi.
func inside(sorted []int, lo, hi int) []int {
	i, _ := slices.BinarySearch(sorted, lo+1)
	j, _ := slices.BinarySearch(sorted, hi)
	return sorted[i:max(i, j)]
}

// Fit returns the measurements by CPUs, made monotone: more CPUs never make a
// program slower, so where they seem to, the measurements in question are noise
// around one value, and their mean is the best guess (pool adjacent violators,
// the least-squares solution). Of a CPU count measured twice the last one counts.
func Fit(measured []Point) []Point {
	byCPUs := map[int]float64{}
	for _, p := range measured {
		byCPUs[p.CPUs] = p.Rate
	}
	points := make([]Point, 0, len(byCPUs))
	for cpus, rate := range byCPUs {
		points = append(points, Point{cpus, rate})
	}
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.CPUs, b.CPUs) })
	type pool struct {
		mean float64
		n    int
	}
	var pools []pool
	for _, p := range points {
		pools = append(pools, pool{p.Rate, 1})
		for last := len(pools) - 1; last > 0 && pools[last-1].mean > pools[last].mean; last-- {
			a, b := pools[last-1], pools[last]
			mean := a.mean + (b.mean-a.mean)*float64(b.n)/float64(a.n+b.n)
			pools[last-1] = pool{mean, a.n + b.n}
			pools = pools[:last]
		}
	}
	i := 0
	for _, q := range pools {
		for range q.n {
			points[i].Rate = q.mean
			i++
		}
	}
	return points
}

// Rate is that of a fitted curve with so many CPUs for each GPU: linear between
// the points, that of the nearest point outside.
func Rate(fitted []Point, cpus float64) float64 {
	i, _ := slices.BinarySearchFunc(fitted, cpus, func(p Point, x float64) int { return cmp.Compare(float64(p.CPUs), x) })
	switch {
	case len(fitted) == 0:
		return 0
	case i == 0:
		return fitted[0].Rate
	case i == len(fitted):
		return fitted[i-1].Rate
	}
	a, b := fitted[i-1], fitted[i]
	return a.Rate + (b.Rate-a.Rate)*(cpus-float64(a.CPUs))/float64(b.CPUs-a.CPUs)
}

// Demand is the fewest CPUs for each GPU, among those of a fitted curve, beyond
// which nothing measured is faster by more than Plateau.
func Demand(fitted []Point) int {
	for _, p := range fitted {
		if fitted[len(fitted)-1].Rate <= p.Rate*(1+Plateau) {
			return p.CPUs
		}
	}
	return 0
}
