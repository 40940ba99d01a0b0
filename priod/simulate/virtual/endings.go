package virtual

import "math"

// Slurm's sched/backfill counts running jobs that end close to each other as if all ended with the last of them: those within
// endsWindow of the first, from then on twice as long, and so on, in whole windows of the clock (_future_run_test in
// select/cons_tres). What it plans for later begins with a whole bf_resolution of the clock.
const endsWindow, resolution = 30, 60

// whole rounds a time down to so many whole seconds of the clock.
func (e *engine) whole(at, seconds float64) float64 {
	of := float64(e.opt.Origin.Unix() % resolution)
	return math.Floor((at+of)/seconds)*seconds - of
}

// endings are the running jobs on nodes of one type, and when each is planned to end as backfill counts it, rising.
func (e *engine) endings(t int32) func(yield func(*job, float64) bool) {
	if e.opt.Backfill != Conservative {
		return func(yield func(*job, float64) bool) {
			e.running[t].all(func(j *job) bool { return yield(j, j.planned) })
		}
	}
	return func(yield func(*job, float64) bool) {
		var group []*job // that end together
		start, window := 0.0, float64(endsWindow)
		last := func() float64 { return group[len(group)-1].planned }
		end := func() bool {
			for _, j := range group {
				if !yield(j, last()) {
					return false
				}
			}
			group = group[:0]
			return true
		}
		for j := range e.running[t].all {
			if start == 0 {
				start = e.whole(j.planned, endsWindow) + endsWindow
			}
			if len(group) > 0 && j.planned > start+window && !e.endsWithin(t, last(), start+window) {
				for window *= 2; j.planned > start+window; {
					window *= 2
				}
				if !end() {
					return
				}
			}
			group = append(group, j)
		}
		end()
	}
}

// endsWithin reports whether the next job after a time ends until another, on nodes of other types than one: Slurm takes the
// next job of these nodes along where the next of all ends within the window.
func (e *engine) endsWithin(t int32, after, until float64) bool {
	for other := range int32(len(e.running)) {
		if j := e.running[other].after(after); other != t && j != nil && j.planned <= until {
			return true
		}
	}
	return false
}
