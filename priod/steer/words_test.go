package steer

import (
	"math"
	"testing"
	"time"
)

// The words about a job that waits are rebuilt when their times move.
func TestWordsFollowTheWait(t *testing.T) {
	const year = 365 * 24 * 3600.0
	never := math.Inf(1)
	for _, c := range []struct {
		name      string
		told, now Verdict
		later     float64 // s
		want      bool
	}{
		{"the same", Verdict{Start: 600, End: 900, Other: Open}, Verdict{Start: 600, End: 900, Other: Open}, 0, false},
		{"an hour later, at the same time", Verdict{Start: 7200, Other: Open}, Verdict{Start: 3600, Other: Open}, 3600, false},
		{"an hour later, in as many hours", Verdict{Start: 7200, Other: Open}, Verdict{Start: 7200, Other: Open}, 3600, false},
		{"three hours later, in as many hours", Verdict{Start: 7200, Other: Open}, Verdict{Start: 7200, Other: Open}, 10800, true},
		{"it starts now, not in an hour", Verdict{Start: 3600, Other: Open}, Verdict{Start: 0, Other: Open}, 15, true},
		{"it never starts now", Verdict{Start: 600, End: 900, Other: Open}, Verdict{Start: never, End: never, Other: Open}, 0, true},
		{"it never started and does not", Verdict{Start: never, End: never, Other: Open}, Verdict{Start: never, End: never, Other: Open}, 900, false},
		{"jobs without limits, a day later", Verdict{Start: year, End: 2 * year, Other: Open}, Verdict{Start: year - 86400, End: 2*year - 86400, Other: Open}, 86400, false},
		{"left open", Verdict{Type: Open, Start: 600}, Verdict{Type: Open, Start: 0}, 0, false},
	} {
		if got := c.now.movedFrom(&c.told, c.later); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// What is chosen of a job that waits for nothing is the same in each cycle: its row is not written anew.
func TestOpenChoiceHasNoTime(t *testing.T) {
	v := Verdict{Type: Open, Why: NoTime, Other: Open}
	if a, b := v.Choice(nil, noon), v.Choice(nil, noon.Add(time.Minute)); *a != *b {
		t.Errorf("%+v, a minute later %+v", a, b)
	}
}

func init() { time.Local = time.UTC } // words have times of the machine's zone
