package runtimes

import (
	"cmp"
	"math"
	"slices"
)

// What the site's own past says of predictions: whether intervals held, and whether a plain median was nearer.
const (
	leastTold = 100 // runs that ended, of which an interval had been said: with fewer none is told
	leastHeld = 0.7 // the part of these whose 80 % interval held, at least
	plainRuns = 40  // of a group that a plain median takes
	fewPlain  = 3   // a group with fewer has none
	nearer    = 0.8 // times the mean error of what was learned, in natural logs: a plain median counts below it
)

// told is what was said of a run at its submission, natural logs of s.
type told struct {
	median, plain float64
	low, high     float64 // of the 80 % interval; equal: none was said
}

// tell is what is said of a run now.
func (m *Model) tell(d *Distribution, of [groups]*group) (t told) {
	t.median = d.at(0.5)
	t.plain = plainOf(of, t.median)
	if c := *d; m.Calibrated() {
		c.levels = m.levels
		t.low, t.high = c.at(min(c.calibrated(0.1), 0.5)), c.at(max(c.calibrated(0.9), 0.5))
	}
	return t
}

// plainOf is the weighted median of the last runs of the narrowest group that has three that ended; else the other one.
func plainOf(of [groups]*group, other float64) float64 {
	for _, g := range of {
		if g == nil {
			continue
		}
		points, weight, all := make([]point, 0, plainRuns), 1.0, 0.0
		for _, l := range slices.Backward(g.started) {
			if l.over && len(points) < plainRuns {
				points, all = append(points, point{l.log, weight}), all+weight
				weight *= decay
			}
		}
		if len(points) < fewPlain {
			continue
		}
		slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		below := 0.0
		for _, p := range points {
			if below += p.weight; below >= all/2 {
				return p.x
			}
		}
	}
	return other
}

// score looks back at what was said of the last runs. One that goes on, or was cut off, has outlasted it or tells nothing yet.
func (m *Model) score(log func(l *life) float64) {
	ours, plain, ended, held, said := 0.0, 0.0, 0, 0, 0
	for _, l := range m.last {
		x, t := log(l), &l.told
		open, interval := !l.over || l.cut, t.high > t.low
		off := func(told float64) float64 {
			if open {
				return max(x-told, 0)
			}
			return math.Abs(x - told)
		}
		if ours, plain = ours+off(t.median), plain+off(t.plain); !open {
			ended++
		}
		switch {
		case !interval:
		case open && x > t.high:
			said++
		case !open:
			if said++; x >= t.low-1e-6 && x <= t.high+1e-6 {
				held++
			}
		}
	}
	m.holds = said >= leastTold && float64(held) >= leastHeld*float64(said)
	m.plain = ended >= leastTold && plain < nearer*ours
}
