package locality

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// philly is what one program lost between servers (docs/evidence/locality.md).
var philly = []float64{0.146, 0.199, 0.441}

// A job of ten hours waits 1.7 h for its one switch, one of 20 minutes 3 minutes.
func TestBudget(t *testing.T) {
	rule := Rule{Costs: philly, Wait: 1, Longest: 86400}
	for _, c := range []struct {
		job    Job
		budget float64
		steps  map[float64]int // by time waited
	}{
		{Job{Run: 36000, Fewest: 1, Most: 2}, 36000 * (1/(1-.146) - 1), map[float64]int{0: 1, 6000: 1, 6200: 0}},
		{Job{Run: 1200, Fewest: 1, Most: 2}, 1200 * (1/(1-.146) - 1), map[float64]int{200: 1, 210: 0}},
		{Job{Run: 36000, Fewest: 1, Most: 8}, 36000 * (1/(1-.441) - 1), map[float64]int{6000: 1, 6200: 2, 9000: 4, 28000: 4, 28500: 0}},
		{Job{Run: 36000, Fewest: 2, Most: 8}, 36000 * (1/(1-.199) - 1), map[float64]int{6000: 2, 6200: 4, 8900: 4, 9000: 0}},
		{Job{Run: 36000, Fewest: 2, Most: 2}, 0, map[float64]int{0: 0}},
		{Job{Run: 1e7, Fewest: 1, Most: 2}, 86400, map[float64]int{86000: 1, 86400: 0}},
		{Job{Run: 36000, Fewest: 1, Most: 99}, 36000 * (1/(1-.441) - 1), map[float64]int{28500: 0}},
	} {
		if got := rule.Budget(&c.job); math.Abs(got-c.budget) > 1e-6 {
			t.Errorf("%+v: it waits %v, want %v", c.job, got, c.budget)
		}
		for waited, want := range c.steps {
			j := c.job
			j.Waited = waited
			if got := rule.Accepts(&j); got != want {
				t.Errorf("%+v: accepts %d switches, want %d", j, got, want)
			}
		}
	}
}

// Nobody waits beyond the budget, what is accepted never falls and pays, and each step
// comes when it was said to.
func TestRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Float64Range(0, 0.2), 1, 4).Draw(t, "rises")
		for i := 1; i < len(costs); i++ {
			costs[i] += costs[i-1]
		}
		rule := Rule{Costs: costs, Wait: rapid.SampledFrom([]float64{0, 0.1, 1, 7}).Draw(t, "weight"), Others: rapid.SampledFrom([]float64{0, 1, 20}).Draw(t, "others"), Longest: rapid.Float64Range(60, 1e5).Draw(t, "longest")}
		j := Job{Run: rapid.Float64Range(0, 1e6).Draw(t, "run"), Fewest: rapid.IntRange(1, 9).Draw(t, "fewest"), Delayed: rapid.Float64Range(0, 9).Draw(t, "delayed")}
		j.Most = j.Fewest + rapid.IntRange(0, 40).Draw(t, "more")
		before := j.Fewest
		for range 50 {
			now := rule.Accepts(&j)
			switch {
			case j.Waited >= rule.Longest && now != 0, rule.Budget(&j) > rule.Longest:
				t.Fatalf("%+v waits beyond %v", j, rule.Longest)
			case before == 0 && now != 0, now != 0 && now < before:
				t.Fatalf("%+v accepts %d switches, and %d before", j, now, before)
			case now != 0 && (now < j.Fewest || now >= j.Most):
				t.Fatalf("%+v accepts %d", j, now)
			case now > j.Fewest && rule.cost(&j, now) > j.Waited*(1+1e-9):
				t.Fatalf("%+v accepts %d, which costs %v", j, now, rule.longer(&j, now))
			case now == 0:
				return
			case rule.relaxes(&j) <= 0:
				t.Fatalf("%+v: accepts %d, and relaxes in %v", j, now, rule.relaxes(&j))
			}
			before = now
			if rapid.Bool().Draw(t, "to the next step") {
				j.Waited += rule.relaxes(&j) * (1 + 1e-9)
				if after := rule.Accepts(&j); after == now {
					t.Fatalf("%+v still accepts %d", j, now)
				}
			} else {
				j.Waited += rapid.Float64Range(0, 1e4).Draw(t, "waits")
			}
			if w := j; now > 0 { // after a start of priod
				if w.Waited = rule.waitedFor(&j, now); w.Waited > j.Waited || rule.Accepts(&w) > 0 && rule.Accepts(&w) > rule.Accepts(&j) && rule.Accepts(&j) > 0 {
					t.Fatalf("%+v: taken for one that waited %v", j, w.Waited)
				}
			}
		}
	})
}
