package evict

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
)

func TestOverdue(t *testing.T) {
	const m = time.Minute
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * m) }
	for name, c := range map[string]struct {
		claim    Claim
		eviction Eviction
		step     string
		late     time.Duration
	}{
		"in its grace":                {Claim{State: Planned}, Eviction{State: Signalled, SignalledAt: at(50), Grace: 20 * m}, Unleft, 0},
		"its grace is over":           {Claim{State: Planned}, Eviction{State: Signalled, SignalledAt: at(30), Grace: 20 * m}, Unleft, 10 * m},
		"no signal":                   {Claim{State: Planned}, Eviction{State: Recorded, At: at(55)}, Unsignalled, 5 * m},
		"not back in the queue":       {Claim{State: Planned}, Eviction{State: Left, LeftAt: at(58)}, Unrequeued, 2 * m},
		"waits for its claim":         {Claim{State: Holding}, Eviction{State: Requeued, RequeuedAt: at(10)}, Unrestored, 0},
		"its claim has ended":         {Claim{State: Started, Ended: at(57)}, Eviction{State: Requeued, RequeuedAt: at(10)}, Unrestored, 3 * m},
		"came back later than that":   {Claim{State: Started, Ended: at(10)}, Eviction{State: Requeued, RequeuedAt: at(59)}, Unrestored, m},
		"waits like any other":        {Claim{State: Started, Ended: at(1)}, Eviction{State: Restored, RestoredAt: at(1)}, Unrestored, 0},
		"over":                        {Claim{State: Started, Ended: at(1)}, Eviction{State: Done, SignalledAt: at(0), Ended: at(1)}, Unleft, 0},
		"a reservation":               {Claim{State: Planned, Resv: "priod_1_0"}, Eviction{State: Signalled, SignalledAt: at(50), Grace: 20 * m}, Unfree, 0},
		"a reservation that stays":    {Claim{State: Holding, Resv: "priod_1_0", Room: at(40)}, Eviction{State: Requeued, RequeuedAt: at(40)}, Unfree, 20 * m},
		"a reservation of a released": {Claim{State: Released, Resv: "priod_1_0", Ended: at(45)}, Eviction{State: CalledOff, Ended: at(45)}, Unfree, 15 * m},
	} {
		j := NewJournal()
		c.claim.Number, c.claim.Job = 1, slurmplug.Plain(9)
		c.eviction.Number, c.eviction.Claim, c.eviction.Job = 1, 1, slurmplug.Plain(1)
		j.Update(&Changes{Claims: []Claim{c.claim}, Evictions: []Eviction{c.eviction}})
		late := j.Overdue(at(60))
		if late[c.step] != c.late {
			t.Errorf("%s: %v late in step %s, want %v", name, late[c.step], c.step, c.late)
		}
		for step, d := range late {
			if step != c.step && d != 0 {
				t.Errorf("%s: %v late in step %s", name, d, step)
			}
		}
	}
}
