package runtimes

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// limitSlack is how long Slurm takes to end a job at its limit.
const limitSlack = time.Minute

// Distribution is that of one job's run time.
type Distribution struct {
	Group  string // what it rests on first: the narrowest group with runs, in words
	Runs   int    // of that group, at most the last 80
	Scored int    // runs on which its intervals are calibrated; 0: too few, or those said before did not hold

	median float64 // natural log of s: of this distribution, or the plain one where that was nearer lately

	xs, cums []float64 // rising: natural logs of s, and the part below each
	highest  float64
	levels   []point // see Model
}

// fine is the part of a distribution below which steps are put together.
const fine = 0.004

// build sums up edges: the weight of each run is spread evenly over 2 smear.
func (d *Distribution) build(edges []point) {
	slices.SortFunc(edges, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	slope, sum := 0.0, 0.0
	d.xs, d.cums = make([]float64, 0, len(edges)), make([]float64, 0, len(edges))
	for i, e := range edges {
		if i > 0 {
			sum += slope * (e.x - edges[i-1].x)
		}
		slope += e.weight / (2 * smear)
		d.xs, d.cums = append(d.xs, e.x), append(d.cums, min(max(sum, 0), 1))
	}
	kept := 0
	for i := 1; i < len(d.xs); i++ {
		if last := i+1 == len(d.xs); last || d.cums[i+1]-d.cums[kept] >= fine {
			kept++
			d.xs[kept], d.cums[kept] = d.xs[i], d.cums[i]
		}
	}
	d.xs, d.cums = slices.Clone(d.xs[:kept+1]), slices.Clone(d.cums[:kept+1])
}

// level is the part of what was said that is below a log of s. At the highest all is.
func (d *Distribution) level(log float64) float64 {
	if log >= d.highest {
		return 1
	}
	i := sort.SearchFloat64s(d.xs, log)
	switch {
	case i == 0:
		return 0
	case i == len(d.xs):
		return 1
	}
	width := d.xs[i] - d.xs[i-1]
	if width <= 0 {
		return d.cums[i]
	}
	return d.cums[i-1] + (d.cums[i]-d.cums[i-1])*(log-d.xs[i-1])/width
}

// at is the log of s below which a part is said to be.
func (d *Distribution) at(level float64) float64 {
	i := sort.SearchFloat64s(d.cums, level)
	switch {
	case level >= 1 || i == len(d.cums):
		return d.highest
	case i == 0:
		return min(d.xs[0], d.highest)
	}
	x := d.xs[i]
	if rise := d.cums[i] - d.cums[i-1]; rise > 0 {
		x = d.xs[i-1] + (d.xs[i]-d.xs[i-1])*(level-d.cums[i-1])/rise
	}
	return min(x, d.highest)
}

// calibrated is the level that held for a part p of the last runs.
func (d *Distribution) calibrated(p float64) float64 {
	if d.levels == nil {
		return p
	}
	i, _ := slices.BinarySearchFunc(d.levels, p, func(l point, p float64) int { return cmp.Compare(l.weight, p) })
	return d.levels[min(i, len(d.levels)-1)].x
}

// Quantile is the run time that a part p of such jobs do not exceed, 0 <= p <= 1. The median is that of what was learned, or
// a plain one where that was nearer lately; away from it quantiles are calibrated.
func (d *Distribution) Quantile(p float64) time.Duration {
	log := d.median
	switch level := d.calibrated(p); {
	case p < 0.5:
		log = min(d.at(min(level, 0.5)), log)
	case p > 0.5:
		log = max(d.at(max(level, 0.5)), log)
	}
	return time.Duration(math.Exp(log) * float64(time.Second))
}

// Left is the run time, the whole of it, that a part p of such jobs do not exceed of those that have run so long already.
func (d *Distribution) Left(p float64, ran time.Duration) time.Duration {
	log := logOf(ran)
	below := d.level(log)
	if below >= 1 {
		return time.Duration(math.Exp(d.highest) * float64(time.Second))
	}
	level := below + (1-below)*p
	return max(ran, time.Duration(math.Exp(d.at(level))*float64(time.Second)))
}
