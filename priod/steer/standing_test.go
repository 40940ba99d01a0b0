package steer

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Until the time that Decide names, verdicts come out the same, when nothing happens.
func TestVerdictsStand(t *testing.T) {
	stood := 0
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
		stood++
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
	if stood == 0 && !testing.Short() { // then there are few draws
		t.Error("nothing ever stood")
	}
}
