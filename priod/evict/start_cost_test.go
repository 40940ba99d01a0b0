package evict

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
)

// Few claims: the settings tell. From ten on, what they cost: waits of 60 s at 5 for each of 2 GPUs, and 100 GPU-seconds of work.
func TestStartCost(t *testing.T) {
	j := NewJournal()
	e := Feature{Journal: j, Settings: Settings{Grace: 30 * time.Second, Restart: 20 * time.Second}}
	for i := range int64(12) {
		if got := e.StartCost(epoch); i < enoughClaims && got != 30*6+20 {
			t.Fatalf("%v after %d claims", got, i)
		}
		j.Update(&Changes{
			Claims:    []Claim{{Number: i + 1, Purpose: ForTrial, Job: slurmplug.Plain(uint32(i + 1)), GPUs: 2, State: Started, At: epoch.Add(-time.Hour), Ended: epoch.Add(-59 * time.Minute), Shares: []ClaimShare{{Node: "n1"}}}},
			Evictions: []Eviction{{Number: i + 1, Claim: i + 1, Job: slurmplug.Plain(uint32(i + 100)), State: Done, SignalledAt: epoch.Add(-time.Hour), LeftAt: epoch.Add(-time.Hour), Promised: 100, Paid: 100}},
		})
	}
	if got := e.StartCost(epoch); got != (5*2*60+100)/2.0 {
		t.Errorf("%v GPU-seconds for each GPU", got)
	}
	if got := e.StartCost(epoch.Add(48 * time.Hour)); got != 30*6+20 {
		t.Errorf("%v: what was two days ago counts", got)
	}
	if kept, _ := e.Claimed("n1"); kept {
		t.Error("a place counts as kept whose job has started")
	}
	j.Update(&Changes{Claims: []Claim{{Number: 20, Purpose: ForTrial, Job: slurmplug.Plain(77), State: Planned, Shares: []ClaimShare{{Node: "n1"}}}}})
	j.Update(&Changes{Claims: []Claim{{Number: 21, Purpose: ForTrial, Job: slurmplug.Plain(78), State: Holding, Shares: []ClaimShare{{Node: "n3"}}}}})
	for node, want := range map[string][2]bool{"n1": {true, false}, "n2": {false, false}, "n3": {true, true}} {
		if kept, free := e.Claimed(node); [2]bool{kept, free} != want {
			t.Errorf("%s: kept %t, free %t", node, kept, free)
		}
	}
}
