package order

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// sharing is Settings whose order goes by what these jobs are owed, s.
func sharing(priorities map[uint32]float64) Settings {
	set := settings()
	set.Order, set.Shares = OwedOrder, &plan.Shares{}
	for id, p := range priorities {
		set.Shares.Jobs.Set(slurmplug.Plain(id), &plan.Share{Owed: []float64{p}, Run: []float64{1}})
	}
	return set
}

// TE jobs rank ahead of those of a round, these before evicted ones and these before
// the others, and of those that the allocation counts the one that is owed five minutes
// more before the other, whatever happened before. A second cycle writes nothing.
func TestOrderByShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, h, at := newController(), cluster.NewHistory(), start
		priorities := map[uint32]float64{}
		draw := func() float64 {
			return rapid.SampledFrom([]float64{0, -1e6, 1e6, rapid.Float64Range(-1000, 1000).Draw(t, "seconds")}).Draw(t, "owed")
		}
		for round := range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for n := range uint32(rapid.IntRange(1, 8).Draw(t, "arrivals")) {
				id := uint32(round)*100 + n
				typ := rapid.SampledFrom([]string{"te", "be", "be", "be"}).Draw(t, "type")
				c.add(id, typ, rapid.Int64Range(1, span).Draw(t, "factors"), 0, at)
				if h.Returning == nil {
					h.Returning, h.Claiming = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}
				}
				if typ == "be" && rapid.IntRange(0, 9).Draw(t, "evicted") == 0 {
					h.Returning[slurmplug.Plain(id)] = true
				} else if typ == "be" && rapid.IntRange(0, 9).Draw(t, "round") == 0 {
					h.Claiming[slurmplug.Plain(id)] = true
				} else if typ == "be" && rapid.IntRange(0, 9).Draw(t, "no gpus") > 0 {
					priorities[id] = draw()
				}
			}
			for _, id := range slices.Sorted(maps.Keys(priorities)) {
				if rapid.Bool().Draw(t, "moves") {
					priorities[id] = draw()
				}
			}
			set := sharing(priorities)
			for again := range 2 {
				s := c.snapshot(at)
				h.Observe(s)
				p := Decide(s, h, set)
				if again == 1 && len(p.Actions) > 0 {
					t.Fatalf("the second cycle writes %+v", p.Actions)
				}
				c.apply(p.Actions, h, at)
				at = at.Add(time.Minute)
			}
			rank := func(j *cluster.Job) (tier int, priority float64) {
				priority, shared := priorities[j.ID.ID]
				switch {
				case j.Tag.Type == "te":
					return 0, 0
				case h.Claiming[j.ID]:
					return 1, 0
				case h.Returning[j.ID]:
					return 2, 0
				case shared:
					return 3, priority
				}
				return 4, 0
			}
			jobs := c.served(at)
			for i := range jobs {
				for k := range jobs[:i] {
					tier, priority := rank(&jobs[i])
					before, p := rank(&jobs[k])
					if before > tier && before < 4 || before == tier && priority-p >= splitAt {
						t.Fatalf("job %s (%d, %v) stands before %s (%d, %v)", jobs[k].ID, before, p, jobs[i].ID, tier, priority)
					}
				}
			}
		}
	})
}

// Priorities that move a little, and jobs that come and go, cost writes only for
// those who change places.
func TestOrderByShareWritesLittle(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	priorities := map[uint32]float64{}
	for id := uint32(1); id <= 90; id++ {
		c.add(id, "be", int64(id), 0, start)
		priorities[id] = float64(id % 3 * 1000)
	}
	cycle := func(at time.Time) plan.Plan {
		s := c.snapshot(at)
		h.Observe(s)
		p := Decide(s, h, sharing(priorities))
		c.apply(p.Actions, h, at)
		return p
	}
	if n := len(cycle(start).Actions); n != 60 {
		t.Fatalf("%d writes for two of three groups of 30: one stays where Slurm puts it", n)
	}
	for id := range priorities {
		priorities[id] += 100 * float64(id%2)
	}
	if n := len(cycle(start.Add(time.Minute)).Actions); n != 0 {
		t.Errorf("%d writes although nobody changed places", n)
	}
	for id := range priorities {
		if id%3 == 2 {
			delete(priorities, id)
		}
	}
	c.jobs = c.jobs[:0]
	for id := range priorities {
		c.add(id, "be", int64(id), 0, start)
		if id%3 == 1 {
			c.jobs[len(c.jobs)-1].SiteFactor = h.Written[slurmplug.Plain(id)].Value
		}
	}
	priorities[200] = 1500
	c.add(200, "be", 1, 0, start)
	if p := cycle(start.Add(2 * time.Minute)); len(p.Actions) != 1 || p.Actions[0].Job.ID != 200 {
		t.Errorf("one came, a third went: %+v", p.Actions)
	}
}

// More places than the band has for them: the head is exact, the rest share.
func TestOrderBySharesInASmallBand(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	priorities := map[uint32]float64{}
	for id := uint32(1); id <= 10; id++ {
		c.add(id, "be", 0, 0, start)
		priorities[id] = 1000 * float64(id)
	}
	set := sharing(priorities)
	set.Step, set.Top = 50_000, 50_000*16 // 16 steps: 4 and Slurm's own are for shares
	s := c.snapshot(start)
	h.Observe(s)
	p := Decide(s, h, set)
	c.apply(p.Actions, h, start)
	if len(p.Notes) != 1 {
		t.Errorf("notes %q", p.Notes)
	}
	if jobs := c.served(start); fmt.Sprint(jobs[0].ID) != "10" || len(p.Actions) != 1 {
		t.Errorf("%v first; %+v", jobs[0].ID, p.Actions)
	}
}

// Without the order by shares nothing of it is left.
func TestOrderBySharesIsSwitchedOff(t *testing.T) {
	c, h, at := newController(), cluster.NewHistory(), start
	priorities := map[uint32]float64{}
	for id := uint32(1); id <= 9; id++ {
		c.add(id, "be", int64(id), 3, start)
		priorities[id] = 1000 * float64(id)
	}
	before := fmt.Sprint(c.served(start))
	for _, set := range []Settings{sharing(priorities), settings(), settings()} {
		s := c.snapshot(at)
		h.Observe(s)
		c.apply(Decide(s, h, set).Actions, h, at)
		at = at.Add(time.Hour)
	}
	if after := fmt.Sprint(c.served(start)); after != before {
		t.Errorf("%s, before %s", after, before)
	}
}

// In order owed those stand first who are owed most, in seconds on their fastest type,
// and a job that is nearly done is owed more; two minutes do not make a step.
func TestOrderByOwed(t *testing.T) {
	const hour = 3600.0
	c, h := newController(), cluster.NewHistory()
	owed := map[uint32]*plan.Share{
		1: {Owed: []float64{-hour, 0}, Run: []float64{50 * hour, 100 * hour}},    // has had more than its due
		2: {Owed: []float64{0, 4 * hour}, Run: []float64{50 * hour, 100 * hour}}, // of the slow type: two hours
		3: {Owed: []float64{5 * hour, 0}, Run: []float64{50 * hour, math.Inf(1)}},
		4: {Owed: []float64{0, 0}, Run: []float64{10 * hour, 10 * hour}}, // nearly done: half of the lead
		5: {Owed: []float64{5*hour - 100, 0}, Run: []float64{50 * hour, 100 * hour}},
	}
	set := settings()
	set.Order, set.Shares = OwedOrder, &plan.Shares{}
	for id, share := range owed {
		c.add(id, "be", int64(id), 0, start)
		set.Shares.Jobs.Set(slurmplug.Plain(id), share)
	}
	order := func(lead float64) (ids []uint32) {
		set.Lead = plan.Lead{Most: lead * hour, Half: 10 * hour}
		s := c.snapshot(start)
		h.Observe(s)
		c.apply(Decide(s, h, set).Actions, h, start)
		for _, j := range c.served(start) {
			ids = append(ids, j.ID.ID)
		}
		return ids
	}
	// 5 and 3 share a step, in which Slurm has 5 first.
	if got, want := order(0), []uint32{5, 3, 2, 4, 1}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	if got, want := order(24), []uint32{4, 5, 3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("with a lead for those nearly done: served %v, want %v", got, want)
	}
}

// Jobs that share a step go on sharing it where they fall to the lowest, which is the
// one where Slurm itself puts jobs.
func TestOrderByOwedOnTheLowestStep(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	cycle := func(owed map[uint32]float64) plan.Plan {
		set := sharing(owed)
		set.Step, set.Top = 50_000, 50_000*28 // 7 steps and Slurm's own are for shares
		s := c.snapshot(start)
		h.Observe(s)
		p := Decide(s, h, set)
		c.apply(p.Actions, h, start)
		return p
	}
	for id := range uint32(6) {
		c.add(id+1, "be", int64(id), 0, start)
	}
	cycle(map[uint32]float64{1: 1000, 2: 1000, 3: 0, 4: 0, 5: 0, 6: -1000})
	later := map[uint32]float64{1: -1000, 2: -1200, 3: 0, 4: 0, 5: 0, 6: 1000}
	first := cycle(later)
	if second := cycle(later); len(first.Actions) == 0 || first.Decisions[0].Value != 0 || len(second.Actions) > 0 {
		t.Errorf("wrote %+v, then %+v", first.Actions, second.Actions)
	}
}
