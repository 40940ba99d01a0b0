package runtimes

import "testing"

// Intervals hold where seven of ten of a hundred did; a run that goes on counts once it has outlasted its own.
func TestIntervalsHoldByTheirPast(t *testing.T) {
	of := func(within, beyond, outlasted, young int) bool {
		m := NewModel()
		add := func(n int, log float64, over bool) {
			for range n {
				m.last = append(m.last, &life{over: over, log: log, told: told{median: 2, plain: 2, low: 1, high: 3}})
			}
		}
		add(within, 2, true)
		add(beyond, 4, true)
		add(outlasted, 4, false)
		add(young, 2, false)
		m.score(func(l *life) float64 { return l.log })
		return m.holds
	}
	for _, c := range []struct {
		within, beyond, outlasted, young int
		holds                            bool
	}{{99, 0, 0, 0, false}, {100, 0, 0, 0, true}, {70, 30, 0, 500, true}, {69, 31, 0, 0, false}, {37, 63, 0, 0, false}, {80, 0, 40, 0, false}} {
		if got := of(c.within, c.beyond, c.outlasted, c.young); got != c.holds {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
