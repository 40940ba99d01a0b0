package plan

import (
	"testing"
	"time"
)

// What a job waits for another shape counts as long as it waits for that.
func TestFragmented(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	spans := func(causes ...Cause) *Wait { // ten seconds each, but the last
		w := &Wait{Submit: begin}
		for i, c := range causes {
			w.Spans = append(w.Spans, WaitSpan{From: at(10 * i), Cause: c})
			w.Until = at(10 * i)
		}
		return w
	}
	over := spans(Fragmentation)
	over.Ended = Started
	for what, x := range map[string]struct {
		wait *Wait
		now  int
		want time.Duration
	}{
		"all the time":           {spans(Fragmentation), 25, 25 * time.Second},
		"twice":                  {spans(Fragmentation, Capacity, Fragmentation), 25, 15 * time.Second},
		"no more":                {spans(Fragmentation, Capacity), 25, 0},
		"not seen":               {spans(), 25, 0},
		"it runs":                {over, 25, 0},
		"the clock was set back": {spans(Capacity, Fragmentation), 5, 0},
	} {
		if got := x.wait.Fragmented(at(x.now)); got != x.want {
			t.Errorf("%s: %s, want %s", what, got, x.want)
		}
	}
}
