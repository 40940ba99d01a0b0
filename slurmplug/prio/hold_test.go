package prio

import (
	"testing"
	"time"
)

func TestParseHold(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "\n\n": 0, "20s": 20 * time.Second, "20s\n": 20 * time.Second, "# why\n#20s\n": 0, "# why\n\n 1m \n": time.Minute, "0": 0, "0\n": 0,
		"20": -1, "61s": -1, "1.5s": -1, "-2s": -1, "20s\n30s": -1, "20s # why": -1, "\x00": -1,
	} {
		if got, err := ParseHold(text); err != nil && want >= 0 || err == nil && got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
