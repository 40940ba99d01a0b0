package daemon

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slurmprio/priod/config"
)

// What programs used is read alongside the cycles of a daemon that acts, now and then,
// and where sizes are asked for. A failure is said, and what is known stays.
func TestLearnUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d, log := newDaemon(t, f)
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycle := func(reads int, what string) {
			t.Helper()
			d.readUse(t.Context(), time.Now())
			synctest.Wait()
			if f.useReads != reads {
				t.Errorf("%s: accounting was read %d times, want %d", what, f.useReads, reads)
			}
		}
		d.watching = true
		cycle(0, "off")
		d.Config.Sizing.Enabled, d.watching = true, false
		cycle(0, "the first cycle")
		if past := d.learning.uses.past; past != nil || !d.learning.uses.unread() {
			t.Errorf("nothing was read, and that teaches %v", past)
		}
		d.watching = true
		cycle(1, "on")
		if !d.learning.uses.unread() {
			t.Error("jobs are sized before the answer")
		}
		cycle(1, "the answer")
		if d.learning.uses.past == nil || d.learning.uses.unread() {
			t.Error("the answer was not taken in")
		}
		f.pastErr = errors.New("slurmdbd is away")
		time.Sleep(useEvery)
		cycle(2, "later")
		cycle(2, "no answer")
		if d.learning.uses.past == nil || strings.Count(log.String(), "slurmdbd is away") != 1 {
			t.Errorf("%v: %s", d.learning.uses.past, log)
		}
	})
}

// A single cycle reads what programs used before it decides, once; and goes on
// without it.
func TestLearnUseAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		enabled bool
		history time.Duration
		err     error
		reads   int
		known   bool
	}{
		{"on", true, 24 * time.Hour, nil, 1, true},
		{"off", false, 24 * time.Hour, nil, 0, false},
		{"without history", true, 0, nil, 0, false},
		{"without accounting", true, 24 * time.Hour, errors.New("slurmdbd is away"), 1, false},
	} {
		f := &fake{pastErr: c.err}
		d, log := newDaemon(t, f)
		d.Config.Sizing.Enabled, d.Config.Speeds.History = c.enabled, config.Duration(c.history)
		if _, err := d.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.readUse(t.Context(), time.Now())
		if f.useReads != c.reads || (d.learning.uses.past != nil) != c.known {
			t.Errorf("%s: read %d times, %v", c.name, f.useReads, d.learning.uses.past)
		}
		if said := strings.Count(log.String(), "was not learned from accounting"); (said == 1) != (c.err != nil) {
			t.Errorf("%s: %s", c.name, log)
		}
	}
}
