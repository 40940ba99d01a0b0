package evict

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
)

// The rows that are not done are those that a scan of all rows finds, whatever happened to them.
func TestOpenRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := NewJournal()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var rows Changes
			for range rapid.IntRange(0, 3).Draw(t, "rows") {
				n := int64(rapid.IntRange(1, int(j.LastEviction)+1).Draw(t, "number"))
				rows = Changes{
					Claims:    []Claim{{Number: n, State: rapid.SampledFrom([]ClaimState{Planned, Started}).Draw(t, "claim")}},
					Evictions: []Eviction{{Number: n, Claim: n, State: rapid.SampledFrom([]State{Recorded, Done}).Draw(t, "eviction")}},
				}
				j.Update(&rows)
			}
			if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				j.Forget(epoch.Add(time.Duration(len(j.Claims))*time.Hour), func(cluster.JobID) bool { return true })
			}
			var claims []*Claim
			var evictions []*Eviction
			for i := range j.Claims {
				if c := &j.Claims[i]; c.undone() {
					claims = append(claims, c)
				}
			}
			for i := range j.Evictions {
				if e := &j.Evictions[i]; e.Open() {
					evictions = append(evictions, e)
				}
			}
			if c, e := j.live(); !slices.Equal(c, claims) || !slices.Equal(e, evictions) {
				t.Fatalf("%v and %v, not %v and %v", c, e, claims, evictions)
			}
		}
	})
}

// Holders are looked for beside the order, which asks for pins: with -race, two that only ask.
func TestJournalIsReadAtOnce(t *testing.T) {
	j := NewJournal()
	j.Claims = []Claim{{Number: 1, State: Holding}, {Number: 2, State: Started}}
	j.Evictions = []Eviction{{Number: 1, Claim: 1, State: Signalled}, {Number: 2, Claim: 2, State: Done}}
	j.ids() // a cycle begins with it
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if len(j.underWay()) != 1 || len(j.claimsByJob()) != 1 {
				t.Error("another number of open rows")
			}
		})
	}
	all.Wait()
}
