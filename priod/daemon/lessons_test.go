package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store"
)

// A daemon reads all of accounting once, in pieces, and then what is new; it leaves
// it alone for a minute first, and learns nothing where history is off. A failure
// is said once, and costs nothing that is known.
func TestLessons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		now := time.Now()
		for n := range uint32(8) {
			end := now.Add(-time.Duration(n+1) * 30 * time.Hour)
			f.stays = append(f.stays, cluster.PastStay{
				RawID: n + 1, Name: "train", State: "COMPLETED",
				Stay: cluster.Stay{Start: end.Add(-time.Duration(100+100*(n%2)) * time.Second), End: end, GPUType: []string{"a100", "v100"}[n%2], GPUs: 1, User: "ann"},
			})
		}
		d, log := newDaemon(t, f)
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		lesson := func() {
			d.learn(t.Context())
			synctest.Wait()
			d.learn(t.Context())
		}
		lesson()
		if len(f.spans) != 0 {
			t.Error("a new daemon reads accounting at once")
		}
		time.Sleep(firstReading)
		lesson()
		k := d.learning.speeds.last.Knowledge
		if len(f.spans) != 14 || k == nil || d.learning.speeds.last.Runs != 8 || f.lessons.Knowledge != k {
			t.Fatalf("%v, %+v", f.spans, d.learning.speeds.last)
		}
		if d.features().Refusals.Slow.Known {
			t.Error("slow nodes are known, and nobody wants to")
		}
		d.Config.Locality.SlowNodes = true
		defer func() {
			if !d.features().Refusals.Slow.Known {
				t.Error("nobody has looked for slow nodes")
			}
		}()
		f.spans = nil
		for range 2 {
			time.Sleep(time.Hour)
			f.pastErr = errors.New("slurmdbd is away")
			lesson()
		}
		if d.learning.speeds.last.Knowledge != k || strings.Count(log.String(), "slurmdbd is away") != 1 {
			t.Errorf("%v: %s", d.learning.speeds.last, log)
		}
		f.pastErr = nil
		time.Sleep(time.Hour)
		lesson()
		if got := fmt.Sprint(f.spans); got != "[2h0m0s 3h0m0s 4h0m0s]" || d.learning.speeds.last.Knowledge == k {
			t.Errorf("it read %s", got)
		}
		d.Config.Speeds.History, f.spans = 0, nil
		time.Sleep(2 * time.Hour)
		lesson()
		if len(f.spans) != 0 || d.allocation().Knowledge != nil {
			t.Error("history teaches although it is off")
		}
		var c speedLearner // of a process that starts soon after another learned
		c.resume(store.Lessons{At: time.Now().Add(-10 * time.Minute)}, time.Hour, false, time.Now())
		if wait := time.Until(c.next); wait != 50*time.Minute {
			t.Errorf("the next lesson is in %v", wait)
		}
		c.resume(store.Lessons{At: time.Now().Add(-10 * time.Minute)}, time.Hour, true, time.Now())
		if wait := time.Until(c.next); wait != firstReading {
			t.Errorf("the next lesson is in %v, and nobody knows which nodes are slow", wait)
		}
	})
}

// Accounts are asked for once an hour, and only where they count.
func TestAccountsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d, log := newDaemon(t, f)
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.readAccounts(t.Context())
		d.Config.Allocation.Policy = "hierarchical"
		for range 5 {
			d.readAccounts(t.Context())
			time.Sleep(25 * time.Minute)
		}
		if f.asked != 2 || d.allocation().Accounts["vision"] != 0.3 {
			t.Errorf("asked %d times: %v", f.asked, d.learning.accounts.of)
		}
		f.pastErr = errors.New("no slurmdbd")
		for range 2 {
			time.Sleep(2 * time.Hour)
			d.readAccounts(t.Context())
		}
		if d.allocation().Accounts["vision"] != 0.3 || strings.Count(log.String(), "no slurmdbd") != 1 {
			t.Errorf("%v: %s", d.learning.accounts.of, log)
		}
	})
}
