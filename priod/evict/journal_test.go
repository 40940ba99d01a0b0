package evict

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The rows that are not done are those that a scan of all rows finds, whatever happened to them.
func TestOpenRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var open []bool
		o := openRows{}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0, 1:
				open = append(open, rapid.Bool().Draw(t, "open"))
			case 2:
				for _, i := range rapid.SliceOfN(rapid.IntRange(0, 60), 0, 3).Draw(t, "done") {
					if i < len(open) {
						open[i] = false
					}
				}
			case 3: // rows are dropped, or one is open again
				if n := rapid.IntRange(0, len(open)).Draw(t, "kept"); n < len(open) {
					open[n] = true
					open = open[n:]
				}
				o.seen = 0
			}
			var want []int
			for i, is := range open {
				if is {
					want = append(want, i)
				}
			}
			if got := o.update(len(open), func(i int) bool { return open[i] }); !slices.Equal(got, want) {
				t.Fatalf("%v: %v, not %v", open, got, want)
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
