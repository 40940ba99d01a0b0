package virtual

import (
	"slices"
	"testing"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// What the main scheduler cannot start waits for backfill, which sleeps between its runs, and then until something changes; what
// it can starts in the second after it may.
func TestSchedulersHaveTheirTimes(t *testing.T) {
	job := func(gpus int, submit, duration float64) trace.Job {
		return trace.Job{GPUs: gpus, Submit: submit, Duration: duration, Limit: duration}
	}
	jobs := numbered(
		job(3, 0, 300), job(4, 1.5, 50), // the second one waits for the first
		job(1, 3, 20), // and backfill starts those that end before: at 31,
		job(1, 58.5, 30),
		job(1, 200.5, 20), // and at 201: nothing has changed for long
		job(4, 340.5, 5),
	)
	for _, w := range []struct {
		own    Own
		starts []float64
	}{
		{Own{}, []float64{0, 300, 3, 58.5, 200.5, 350}},
		{Own{Interval: 30}, []float64{0, 300, 31, 61, 201, 350}},
		{Own{Pause: 1}, []float64{1, 302, 4, 59, 201, 353}},
		{Own{Interval: 30, Pause: 3}, []float64{1, 302, 31, 61, 201, 353}},
	} {
		for _, backfill := range []Backfill{EASY, Conservative} {
			var starts []float64
			for _, o := range run(t, nodes(1, 4), jobs, Options{Placement: placement.Packed, Backfill: backfill, Own: w.own}).Outcomes {
				starts = append(starts, o.Start)
			}
			if !slices.Equal(starts, w.starts) {
				t.Errorf("%s, %+v: starts at %v, want %v", backfill, w.own, starts, w.starts)
			}
		}
	}
}
