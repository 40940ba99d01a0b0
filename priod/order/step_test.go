package order

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// polled is the controller's queue as priod sees it on a site with such a sum of weights.
func (c *controller) polled(at time.Time, weights int64) *cluster.Snapshot {
	s := c.snapshot(at)
	m := cluster.Multifactor{Span: weights, Polled: true}
	var own []int64
	for i := range s.Jobs {
		if _, set := c.set[s.Jobs[i].ID]; !set { // of those sprio shows no factors
			own = append(own, c.factors[s.Jobs[i].ID])
		}
		if s.Jobs[i].Priority > math.MaxUint32 {
			s.Jobs[i].Priority = math.MaxUint32 // as Slurm does
		}
	}
	if len(own) > 0 {
		m.Seen, m.Highest = slices.Max(own)-slices.Min(own), slices.Max(own)
	}
	s.Multifactor = m
	return s
}

// Weights that add up to 10^9 and more leave the order exact for the jobs in the queue, whose
// priorities lie close together, while jobs come and go and factors move. Where no factor moves
// nothing is written.
func TestOrderIsExactUnderLargeWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, h, at := newController(), cluster.NewHistory(), start
		weights := rapid.Int64Range(1_000_000_000, 4_000_000_000).Draw(t, "weights")
		base, spread := rapid.Int64Range(0, 1_000_000_000).Draw(t, "base"), rapid.SampledFrom([]int64{0, 10, 100_000, 20_000_000}).Draw(t, "spread")
		id := uint32(0)
		for range rapid.IntRange(1, 8).Draw(t, "cycles") {
			for range rapid.IntRange(0, 6).Draw(t, "arrivals") {
				id++
				c.add(id, rapid.SampledFrom([]string{"te", "be", ""}).Draw(t, "type"),
					base+rapid.Int64Range(0, spread).Draw(t, "factors"), rapid.Int64Range(-100, 1000).Draw(t, "nice"),
					at.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "age"))*time.Second))
			}
			for i := range c.jobs {
				c.factors[c.jobs[i].ID] = base + rapid.Int64Range(0, spread).Draw(t, "moved")
			}
			s := c.polled(at, weights)
			h.Observe(s)
			p := Decide(s, h, settings())
			if p.Band.Capacity() < wideSteps-1 {
				t.Fatalf("%d steps: %+v of %+v", p.Band.Capacity(), p.Band, s.Multifactor)
			}
			c.apply(p.Actions, h, at)
			checkServed(t, c, at)
			for _, j := range c.polled(at, weights).Jobs {
				if j.Priority >= math.MaxUint32 {
					t.Fatalf("%s has all that Slurm's 32 bits hold", j.ID)
				}
			}
			at = at.Add(5 * time.Second)
		}
		quiet := c.polled(at, weights)
		h.Observe(quiet)
		if p := Decide(quiet, h, settings()); len(p.Actions) != 0 {
			t.Fatalf("nothing changed, and still %d writes: %+v", len(p.Actions), p.Actions)
		}
	})
}

// A spread that shrinks and grows again within what it was moves no value.
func TestStepThatShrinksWritesNothing(t *testing.T) {
	c, h, at := newController(), cluster.NewHistory(), start
	for id := uint32(1); id <= 8; id++ {
		c.add(id, "te", int64(id%2)*30_000_000, 0, start.Add(-time.Minute))
	}
	written := 0
	for turn := range 20 {
		c.factors[slurmplug.Plain(1)] = int64(turn%3) * 15_000_000
		c.factors[slurmplug.Plain(3)], c.factors[slurmplug.Plain(5)], c.factors[slurmplug.Plain(7)] = c.factors[slurmplug.Plain(1)], 0, 0
		s := c.polled(at, 3_000_000_000)
		h.Observe(s)
		p := Decide(s, h, settings())
		c.apply(p.Actions, h, at)
		if turn == 2 {
			written = c.writes
		}
		at = at.Add(5 * time.Second)
	}
	if c.writes != written || written == 0 {
		t.Errorf("%d writes, %d of them in the first turn of spreads", c.writes, written)
	}
}

func TestStepFor(t *testing.T) {
	const top = 2_000_000_000
	for name, x := range map[string]struct {
		m    cluster.Multifactor
		want int64
	}{
		"small weights":       {cluster.Multifactor{Span: 4_000_000, Seen: 5, Polled: true}, 5_000_000},
		"nobody looked":       {cluster.Multifactor{Span: 3_000_000_000}, 5_000_000_000},
		"close together":      {cluster.Multifactor{Span: 3_000_000_000, Seen: 5, Polled: true}, 10_000_000},
		"twice fits":          {cluster.Multifactor{Span: 3_000_000_000, Seen: 24_000_000, Polled: true}, 50_000_000},
		"twice does not fit":  {cluster.Multifactor{Span: 3_000_000_000, Seen: 190_000_000, Polled: true}, 200_000_000},
		"as far as they can":  {cluster.Multifactor{Span: 1_000_000_000, Seen: 1_000_000_000, Polled: true}, 2_000_000_000},
		"weights of 19990000": {cluster.Multifactor{Span: 19_990_000, Seen: 900, Polled: true}, 10_000_000},
	} {
		if step, narrow := stepFor(x.m, 1000, top); step != x.want || narrow != (step <= x.m.Span) {
			t.Errorf("%s: %d, %v, want %d", name, step, narrow, x.want)
		}
	}
}
