package order

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Until the time that tiersStand names, jobs that wait stay in their tiers.
func TestTiersStand(t *testing.T) {
	stood := 0
	rapid.Check(t, func(t *rapid.T) {
		const floor = -1
		d := decider{set: Settings{Order: OwedOrder}}
		drawn := make([]shareJob, rapid.IntRange(1, 8).Draw(t, "jobs"))
		for i := range drawn {
			drawn[i] = shareJob{
				verdict: i, precedence: float64(rapid.IntRange(0, 900).Draw(t, "precedence")), rises: float64(rapid.IntRange(0, 4).Draw(t, "rises")) / 4,
				held: int64(rapid.IntRange(-1, 3).Draw(t, "held")), wrote: rapid.Bool().Draw(t, "wrote"),
			}
		}
		tiersAt := func(passed float64) (tiers []int, stands float64) {
			jobs := slices.Clone(drawn)
			for i := range jobs {
				jobs[i].precedence += jobs[i].rises * passed
			}
			slices.SortStableFunc(jobs, func(a, b shareJob) int { return cmp.Compare(b.precedence, a.precedence) })
			_, tierOf := d.shareTiers(jobs, floor)
			tiers = make([]int, len(jobs))
			for i := range jobs {
				tiers[jobs[i].verdict] = tierOf[i]
			}
			return tiers, d.tiersStand(jobs, tierOf, floor)
		}
		was, stands := tiersAt(0)
		passed := min(stands, 1e5) * rapid.Float64Range(0, 0.999).Draw(t, "passed")
		if passed == 0 {
			return
		}
		stood++
		if now, _ := tiersAt(passed); !slices.Equal(now, was) {
			t.Fatalf("%v of %v s later: %v, was %v: %+v", passed, stands, now, was, drawn)
		}
	})
	if stood == 0 {
		t.Error("nothing ever stood")
	}
}
