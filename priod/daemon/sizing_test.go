package daemon

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What programs used is read beside the cycles of a daemon that acts, now and then,
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
			d.sizing(t.Context(), time.Now())
			synctest.Wait()
			if f.useReads != reads {
				t.Errorf("%s: accounting was read %d times, want %d", what, f.useReads, reads)
			}
		}
		d.watching = true
		cycle(0, "off")
		d.Config.Sizing.Enabled, d.watching = true, false
		cycle(0, "a single cycle")
		d.watching = true
		cycle(1, "on")
		cycle(1, "the answer")
		if d.uses.past == nil {
			t.Error("the answer was not taken in")
		}
		f.pastErr = errors.New("slurmdbd is away")
		time.Sleep(useEvery)
		cycle(2, "later")
		cycle(2, "no answer")
		if d.uses.past == nil || strings.Count(log.String(), "slurmdbd is away") != 1 {
			t.Errorf("%v: %s", d.uses.past, log)
		}
	})
}
