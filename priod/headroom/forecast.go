package headroom

import (
	"cmp"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// The forecast reads the last hours, and an hour from the same time of the day before on.
const (
	recent    = 2 * time.Hour
	dayBefore = 24 * time.Hour
	sameTime  = time.Hour
)

// window is a part of the past that stands for the time to come.
type window struct{ from, to time.Time }

// windows are those that the forecast reads; the day before only where it is known.
func windows(now time.Time, stays []*cluster.Stay) []window {
	list := []window{{now.Add(-recent), now}}
	last := window{now.Add(-dayBefore), now.Add(-dayBefore + sameTime)}
	if slices.ContainsFunc(stays, func(s *cluster.Stay) bool { return s.Closed && s.End.Before(last.to) }) {
		list = append(list, last)
	}
	return list
}

// demand is what the TE jobs of one GPU type held in the windows: a step function for each. GPUs are those of
// nodes that they filled: see size.part.
type demand struct {
	seconds float64 // of all windows
	steps   []step
	starts  []start
}

// step is for how long TE jobs held so many GPUs.
type step struct{ gpus, seconds float64 }

// start is a stay that began while others held so many GPUs.
type start struct{ held, gpus float64 }

// demandOf reads the stays of TE jobs on one GPU type, of which each GPU counts as so many.
func demandOf(stays []*cluster.Stay, gpuType string, factor float64, now time.Time) (d demand) {
	type change struct {
		at   time.Time
		gpus float64
	}
	for _, w := range windows(now, stays) {
		var changes []change
		for _, s := range stays {
			if s.GPUType != gpuType || !s.Start.Before(w.to) || s.Closed && !s.End.After(w.from) {
				continue
			}
			gpus := factor * float64(s.GPUs)
			changes = append(changes, change{s.Start, gpus})
			if s.Closed && s.End.Before(w.to) {
				changes = append(changes, change{s.End, -gpus})
			}
		}
		slices.SortFunc(changes, func(a, b change) int {
			if c := a.at.Compare(b.at); c != 0 {
				return c
			}
			return cmp.Compare(a.gpus, b.gpus) // what ends, ends first
		})
		held, at := 0.0, w.from
		for _, c := range changes {
			if c.at.After(at) {
				d.steps = append(d.steps, step{held, c.at.Sub(at).Seconds()})
				at = c.at
			}
			if c.gpus > 0 && !c.at.Before(w.from) {
				d.starts = append(d.starts, start{held, c.gpus})
			}
			held = max(held+c.gpus, 0)
		}
		d.steps = append(d.steps, step{held, w.to.Sub(at).Seconds()})
		d.seconds += w.to.Sub(w.from).Seconds()
	}
	return d
}

// gain is what GPUs from one number on would have saved in the windows for each GPU-second that they would have been idle, where the start
// of each GPU of a TE job elsewhere costs so many GPU-seconds. +Inf: they would never have been idle.
func (d *demand) gain(from, gpus, cost float64) float64 {
	busy, started := 0.0, 0.0
	for _, s := range d.steps {
		busy += s.seconds * min(max(s.gpus-from, 0), gpus)
	}
	for _, s := range d.starts {
		started += max(min(s.held+s.gpus, from+gpus)-max(s.held, from), 0)
	}
	idle := d.seconds*gpus - busy
	switch {
	case started == 0:
		return 0
	case idle <= 0:
		return math.Inf(1)
	}
	return started * cost / idle
}
