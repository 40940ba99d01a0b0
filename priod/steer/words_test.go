package steer

import (
	"math"
	"testing"
)

// The words about a job that waits follow its wait, a few times in all.
func TestWordsFollowTheWait(t *testing.T) {
	never := math.Inf(1)
	for _, c := range []struct {
		name      string
		told, now Verdict
		want      bool
	}{
		{"the same", Verdict{Start: 600, End: 900, Other: Open}, Verdict{Start: 600, End: 900, Other: Open}, false},
		{"a cycle later", Verdict{Start: 600, End: 900, Other: Open}, Verdict{Start: 585, End: 885, Other: Open}, false},
		{"five minutes later", Verdict{Start: 600, End: 900, Other: Open}, Verdict{Start: 300, End: 600, Other: Open}, true},
		{"it never starts now", Verdict{Start: 600, End: 900, Other: Open}, Verdict{Start: never, End: never, Other: Open}, true},
		{"it never started and does not", Verdict{Start: never, End: never, Other: Open}, Verdict{Start: never, End: never, Other: Open}, false},
		{"another type is second best", Verdict{Other: 1, OtherEnd: 900}, Verdict{Other: 2, OtherEnd: 900}, true},
		{"the second best ends later", Verdict{Other: 1, OtherEnd: 900}, Verdict{Other: 1, OtherEnd: 9000}, true},
		{"left open", Verdict{Type: Open, Start: 600}, Verdict{Type: Open, Start: 0}, false},
	} {
		if got := c.now.movedFrom(&c.told); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	told, times := Verdict{Start: 36000, Other: Open}, 0
	for left := 36000.0; left >= 0; left -= 15 {
		if now := (Verdict{Start: left, Other: Open}); now.movedFrom(&told) {
			told = now
			times++
		}
	}
	if times < 10 || times > 40 || told.Start > 90 {
		t.Errorf("within ten hours %d times, the last one %v s before the start", times, told.Start)
	}
}
