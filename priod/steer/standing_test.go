package steer

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Until the time that Decide names, verdicts come out the same, when nothing happens.
func TestVerdictsStand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, with := drawn(t)
		for i := range s.Running {
			s.Running[i].Sure = s.Running[i].End - float64(rapid.IntRange(0, 3).Draw(t, "sure"))
		}
		was, stands := decide(s, with)
		// Dyadic fractions keep sums exact: two moments that are the same stay so.
		passed := math.Floor(min(stands, 1e6)*rapid.Float64Range(0, 1).Draw(t, "passed")*64) / 64
		if passed <= 0 || passed >= stands {
			return
		}
		for i := range s.Running {
			s.Running[i].End -= passed
		}
		for i := range s.Jobs {
			s.Jobs[i].Held += passed
		}
		for i, v := range Decide(s, with) {
			if w := was[i]; v.Type != w.Type || v.Why != w.Why || v.Back != w.Back || v.Start == 0 {
				t.Fatalf("job %d, %v of %v s later: %+v, was %+v", i, passed, stands, v, w)
			}
		}
	})
}

// A job that waits for one that ends in 50 s goes on to do so until then.
func TestVerdictsStandUntilAnEnd(t *testing.T) {
	held := holds(0, 1, 50)
	held.Sure = 50
	s := two(1, 0, held)
	s.Jobs = []Job{pending(100, math.Inf(1))}
	if v, stands := decide(s, set()); v[0].Why != Waits || stands != 50-soon {
		t.Errorf("%+v stands for %v s", v, stands)
	}
}
