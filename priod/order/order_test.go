package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var start = time.Unix(1_800_000_000, 0)

const span = 40_000

func settings() Settings {
	return Settings{Top: 2_000_000_000, NiceLimit: 1000}
}

// controller does to priorities what slurmctld does: site factor and Nice add
// to the factors, a set priority replaces them and zeroes Nice, a release
// brings the factors back.
type controller struct {
	jobs    []cluster.Job
	factors map[cluster.JobID]int64
	set     map[cluster.JobID]int64
	writes  int
}

func newController() *controller {
	return &controller{factors: map[cluster.JobID]int64{}, set: map[cluster.JobID]int64{}}
}

func (c *controller) add(id uint32, typ string, factors, nice int64, eligible time.Time) {
	c.jobs = append(c.jobs, cluster.Job{
		ID: slurmplug.Plain(id), TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending,
		GPUs: 1, TimeLimit: time.Minute, Eligible: eligible, Nice: nice, SiteFactorKnown: true,
		Tag: jobtag.Tag{Type: typ},
	})
	c.factors[slurmplug.Plain(id)] = factors
}

func (c *controller) snapshot(at time.Time) *cluster.Snapshot {
	for i := range c.jobs {
		j := &c.jobs[i]
		j.Priority = max(c.factors[j.ID]+j.SiteFactor-j.Nice, 1)
		if p, ok := c.set[j.ID]; ok {
			j.Priority = p
		}
	}
	return &cluster.Snapshot{At: at, Jobs: slices.Clone(c.jobs), Multifactor: cluster.Multifactor{Span: span}}
}

func (c *controller) apply(actions []plan.Action, h *cluster.History, at time.Time) {
	for _, a := range actions {
		c.writes++
		i := slices.IndexFunc(c.jobs, func(j cluster.Job) bool { return j.ID == a.Job })
		j := &c.jobs[i]
		j.SiteFactor = a.After.Number()
		plan.Hear(&plan.Cycle{Snapshot: &cluster.Snapshot{At: at}, History: h, Outcomes: []plan.Outcome{{Action: a, Status: slurmplug.Applied}}})
	}
}

// served is the order in which Slurm would look at the jobs.
func (c *controller) served(at time.Time) []cluster.Job {
	jobs := c.snapshot(at).Jobs
	slices.SortStableFunc(jobs, func(a, b cluster.Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.ID.Compare(b.ID))
	})
	return jobs
}

func checkServed(t *rapid.T, c *controller, at time.Time) {
	var last *cluster.Job
	jobs := c.served(at)
	for i := range jobs {
		j := &jobs[i]
		if last != nil {
			te, lastTE := j.Tag.Type == "te", last.Tag.Type == "te"
			if te && !lastTE {
				t.Fatalf("TE job %s stands behind BE job %s: %d < %d", j.ID, last.ID, j.Priority, last.Priority)
			}
			if te && lastTE && (j.Eligible.Before(last.Eligible) || j.Eligible.Equal(last.Eligible) && j.ID.Compare(last.ID) < 0) {
				t.Fatalf("TE job %s stands behind %s", j.ID, last.ID)
			}
		}
		last = j
	}
}

func TestOrderIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, h, at := newController(), cluster.NewHistory(), start
		id := uint32(0)
		for range rapid.IntRange(1, 8).Draw(t, "cycles") {
			for range rapid.IntRange(0, 6).Draw(t, "arrivals") {
				id++
				c.add(id, rapid.SampledFrom([]string{"te", "be", ""}).Draw(t, "type"),
					rapid.Int64Range(0, span).Draw(t, "factors"), rapid.Int64Range(-100, 1000).Draw(t, "nice"),
					at.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "age"))*time.Second))
			}
			for range rapid.IntRange(0, 3).Draw(t, "starts") {
				if len(c.jobs) > 0 {
					k := rapid.IntRange(0, len(c.jobs)-1).Draw(t, "start")
					c.jobs = slices.Delete(c.jobs, k, k+1)
				}
			}
			s := c.snapshot(at)
			h.Observe(s)
			p := Decide(s, h, settings())
			c.apply(p.Actions, h, at)
			checkServed(t, c, at)
			at = at.Add(5 * time.Second)
		}
		quiet := c.snapshot(at)
		h.Observe(quiet)
		if p := Decide(quiet, h, settings()); len(p.Actions) != 0 {
			t.Fatalf("nothing changed, and still %d writes: %+v", len(p.Actions), p.Actions)
		}
	})
}

// Restore gives back what priod wrote: then each job has what its user asked for.
func TestRestoreLeavesNothingBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, h, at := newController(), cluster.NewHistory(), start
		for id := uint32(1); id <= 12; id++ {
			c.add(id, rapid.SampledFrom([]string{"te", "be"}).Draw(t, "type"), rapid.Int64Range(0, span).Draw(t, "factors"),
				rapid.Int64Range(-100, 1000).Draw(t, "nice"), at.Add(-time.Minute))
		}
		before := c.snapshot(at)
		for range rapid.IntRange(0, 3).Draw(t, "cycles") {
			s := c.snapshot(at)
			h.Observe(s)
			c.apply(Decide(s, h, settings()).Actions, h, at)
			at = at.Add(5 * time.Second)
			checkServed(t, c, at)
		}
		s := c.snapshot(at)
		for i := range s.Jobs {
			if w, ok := h.Written[s.Jobs[i].ID]; ok {
				if back, needed := plan.Restore(&s.Jobs[i], w); needed {
					c.apply([]plan.Action{back}, h, at)
				}
			}
		}
		after := c.snapshot(at)
		for i := range before.Jobs {
			b, a := before.Jobs[i], after.Jobs[i]
			if a.Priority != b.Priority || a.Nice != b.Nice || a.SiteFactor != b.SiteFactor || len(c.set) != 0 {
				t.Fatalf("job %s: priority %d, Nice %d, SiteFactor %d; before priod %d, %d, %d",
					a.ID, a.Priority, a.Nice, a.SiteFactor, b.Priority, b.Nice, b.SiteFactor)
			}
		}
	})
}

func TestStepCoversFactorsAndNice(t *testing.T) {
	c := newController()
	c.add(1, "te", 0, -50, start)
	c.add(2, "te", 0, 950, start)
	c.add(3, "te", 0, 2_000_000, start) // its owner's own wish
	p := Decide(c.snapshot(start), cluster.NewHistory(), settings())
	if p.Band.Step != 50_000 || p.Band.Lo != 50_000 || p.Band.Hi != 2_000_000_000 {
		t.Fatalf("%+v", p.Band)
	}
}

func TestMoreTEJobsThanPlaces(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	for id := uint32(1); id <= 20; id++ {
		c.add(id, "te", int64(id), 0, start)
	}
	set := settings()
	set.Top = 500_000 // ten steps
	s := c.snapshot(start)
	h.Observe(s)
	p := Decide(s, h, set)
	values := map[int64]int{}
	for _, d := range p.Decisions {
		values[d.Value]++
	}
	if values[50_000] != 15 || len(values) != 6 {
		t.Fatalf("values %v", values)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0].Text, "20 TE jobs wait") {
		t.Fatal(p.Notes)
	}
}

func TestForeignValueIsLeftAlone(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	c.add(1, "te", 0, 0, start)
	c.add(2, "be", 0, 0, start)
	cycle := func(at time.Time) plan.Plan {
		s := c.snapshot(at)
		h.Observe(s)
		p := Decide(s, h, settings())
		c.apply(p.Actions, h, at)
		return p
	}
	c.jobs[1].SiteFactor = 77
	p := cycle(start)
	if len(p.Actions) != 1 || p.Decisions[1].Unmoved != ForeignValue {
		t.Fatalf("%+v", p)
	}
	c.jobs[0].SiteFactor = 123
	if p = cycle(start.Add(time.Minute)); len(p.Actions) != 0 || p.Decisions[0].Unmoved != ForeignValue || len(p.Notes) != 1 {
		t.Fatalf("%+v", p)
	}
	c.jobs[0].SiteFactor = 0 // taken back: priod may go on, but not for ever
	for i := range 10 {
		p = cycle(start.Add(time.Duration(2+i) * time.Minute))
		c.jobs[0].SiteFactor = 0
	}
	if p.Decisions[0].Unmoved != KeepsGoing || c.writes != 1+maxReverts {
		t.Fatalf("%d writes, %+v", c.writes, p.Decisions[0])
	}
}

// Nor is it fought for with another value each time, as other jobs come and go.
func TestTakenBackUnderAMovingQueue(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	c.add(1, "te", 0, 0, start.Add(-time.Hour))
	writes := 0
	for i := range 10 {
		c.add(uint32(2+i), "te", 0, 0, start.Add(-2*time.Hour).Add(time.Duration(i)*time.Second))
		at := start.Add(time.Duration(i) * time.Minute)
		s := c.snapshot(at)
		h.Observe(s)
		p := Decide(s, h, settings())
		for _, a := range p.Actions {
			if a.Job == c.jobs[0].ID {
				writes++
			}
		}
		c.apply(p.Actions, h, at)
		c.jobs[0].SiteFactor, c.jobs[0].Nice = 0, 0
	}
	if writes != 1+maxReverts {
		t.Errorf("%d writes", writes)
	}
}

// A job that moves where priod ranks nothing does not take its place along.
func TestValueIsTakenOffAJobThatLeavesTheRanks(t *testing.T) {
	for name, leave := range map[string]func(*cluster.Job){
		"partition":   func(j *cluster.Job) { j.Partition = "elsewhere" },
		"reservation": func(j *cluster.Job) { j.Reservation = "course" },
	} {
		c, h, set := newController(), cluster.NewHistory(), settings()
		set.Ranking.Partitions = []string{"gpu"}
		c.add(1, "te", 0, 7, start)
		cycle := func() []plan.Action {
			s := c.snapshot(start)
			h.Observe(s)
			p := Decide(s, h, set)
			c.apply(p.Actions, h, start)
			return p.Actions
		}
		cycle()
		leave(&c.jobs[0])
		cycle()
		if _, direct := c.set[c.jobs[0].ID]; c.jobs[0].SiteFactor != 0 || c.jobs[0].Nice != 7 || direct {
			t.Errorf("%s: it keeps %+v", name, c.jobs[0])
		}
		if again := cycle(); len(again) != 0 {
			t.Errorf("%s: written again: %+v", name, again)
		}
	}
}

// A value that was sent when the connection broke may have arrived.
func TestUncertainWriteIsNotForeign(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	c.add(1, "te", 0, 0, start)
	s := c.snapshot(start)
	h.Observe(s)
	a := Decide(s, h, settings()).Actions[0]
	h.Try(a.Job, plan.Effect(a, s.At))
	c.jobs[0].SiteFactor = a.After.Number()
	s = c.snapshot(start)
	if p := Decide(s, h, settings()); len(p.Actions) != 0 || p.Decisions[0].Unmoved != "" {
		t.Fatalf("%+v", p)
	}
	c.jobs[0].SiteFactor = 0
	s = c.snapshot(start)
	if p := Decide(s, h, settings()); len(p.Actions) != 1 {
		t.Fatalf("the lost write is not sent again: %+v", p)
	}
}

// A slurmctld that lost its last seconds shows a value of priod's from before:
// written over, but not for ever.
func TestOlderValueIsPriodsOwn(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	c.add(1, "te", 0, 7, start)
	tops := []int64{9_000_000, 3_000_000, 1_000_000}
	cycle := func(top int64, at time.Time) plan.Plan {
		set := settings()
		set.Top = top
		s := c.snapshot(at)
		h.Observe(s)
		p := Decide(s, h, set)
		c.apply(p.Actions, h, at)
		return p
	}
	cycle(tops[0], start)
	first := c.jobs[0]
	cycle(tops[1], start.Add(time.Second))
	if p := cycle(tops[2], start.Add(2*time.Second)); len(p.Actions) != 1 {
		t.Fatalf("the value stayed: %+v", p)
	}
	last := c.jobs[0]
	for i, want := range []string{"", ForeignValue} {
		c.jobs[0] = first
		p := cycle(tops[2], start.Add(time.Duration(1+40*i)*time.Minute))
		if got := p.Decisions[0].Unmoved; got != want || (got == "") != (c.jobs[0].SiteFactor == last.SiteFactor && c.jobs[0].Nice == last.Nice) {
			t.Errorf("%d: %q, %+v", i, got, c.jobs[0])
		}
		cycle(500_000, start.Add(time.Duration(20+40*i)*time.Minute)) // long after that came back
	}
}

func TestLimitOfWritesKeepsTheHead(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	for id := uint32(1); id <= 9; id++ {
		c.add(id, "te", 0, 0, start.Add(-time.Duration(id)*time.Second))
	}
	set := settings()
	set.WritesPerCycle = 2
	s := c.snapshot(start)
	h.Observe(s)
	p := Decide(s, h, set)
	if len(p.Actions) != 2 || p.Actions[0].Job.ID != 9 || p.Actions[1].Job.ID != 8 || p.Decisions[0].Unmoved != WriteLimit {
		t.Fatalf("%+v", p.Actions)
	}
}

func TestPartOfAnArray(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	c.add(5, "te", 0, 0, start)
	c.jobs[0].Tasks, c.jobs[0].TaskCount = "0-99", 100
	set := settings()
	set.Ranking.User = plan.Budget{GPUs: 2}
	c.jobs[0].TimeLimit = plan.Burst
	s := c.snapshot(start)
	h.Observe(s)
	p := Decide(s, h, set)
	if len(p.Actions) != 1 || p.Actions[0].Tasks != "0-2" || !p.Actions[0].Part {
		t.Fatalf("%+v", p.Actions)
	}
	if got := fmt.Sprint(p.Actions[0].Jobs()); got != "[5_0 5_1 5_2]" {
		t.Fatal(got)
	}
}

// A partition that is no longer ranked: what priod wrote there goes, within the limit of writes.
func TestPartitionIsRankedNoMore(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	for id := uint32(1); id <= 4; id++ {
		c.add(id, "te", 0, int64(id), start)
	}
	before := c.snapshot(start)
	set, at := settings(), start
	cycle := func() plan.Plan {
		s := c.snapshot(at)
		h.Observe(s)
		p := Decide(s, h, set)
		c.apply(p.Actions, h, at)
		at = at.Add(time.Hour)
		return p
	}
	cycle()
	set.Ranking.Partitions, set.WritesPerCycle = []string{"other"}, 2
	if p := cycle(); len(p.Actions) == 0 || p.Decisions[3].Unmoved != WriteLimit {
		t.Errorf("%+v", p)
	}
	for range 3 {
		cycle()
	}
	if p := cycle(); len(p.Actions) != 0 {
		t.Errorf("still writes %+v", p.Actions)
	}
	after := c.snapshot(at)
	for i := range before.Jobs {
		if b, a := before.Jobs[i], after.Jobs[i]; a.Priority != b.Priority || a.Nice != b.Nice || a.SiteFactor != b.SiteFactor {
			t.Errorf("job %s keeps priority %d, Nice %d, SiteFactor %d", a.ID, a.Priority, a.Nice, a.SiteFactor)
		}
	}
}

// The order that is made again, after room began to be made for some jobs, is the one that would
// have been made then.
func TestOrderMadeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := settings()
		set.Ranking.User.GPUs = rapid.IntRange(0, 4).Draw(t, "budget")
		set.WritesPerCycle = rapid.IntRange(0, 6).Draw(t, "writes")
		h := cluster.NewHistory()
		h.Claiming, h.Returning = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}
		s := &cluster.Snapshot{At: start, Multifactor: cluster.Multifactor{Span: span}}
		var tasks []cluster.JobID
		for n := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			j := cluster.Job{
				ID: slurmplug.Plain(uint32(n + 1)), TaskCount: 1, User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), Partition: "gpu", State: cluster.Pending,
				Priority: 1000, GPUs: rapid.IntRange(0, 2).Draw(t, "gpus"), TimeLimit: time.Minute, SiteFactorKnown: true, Restarts: rapid.IntRange(0, 1).Draw(t, "restarts"),
				Eligible: start.Add(time.Duration(rapid.IntRange(-3, 1).Draw(t, "eligible")) * time.Minute), Tag: jobtag.Tag{Type: rapid.SampledFrom([]string{"te", "be", ""}).Draw(t, "type")},
				Right: rapid.SampledFrom([]cluster.Right{cluster.NoShares, cluster.Entitled, cluster.Borrows}).Draw(t, "right"),
			}
			if rapid.IntRange(0, 3).Draw(t, "array") == 0 {
				j.Tasks, j.TaskCount, j.RightTasks = "3-5", 3, rapid.IntRange(0, 2).Draw(t, "tasks")
			}
			if rapid.Bool().Draw(t, "foreign") {
				j.SiteFactor = 77
			}
			s.Jobs = append(s.Jobs, j)
			tasks = append(tasks, j.ID, j.FirstTask())
			if rapid.IntRange(0, 3).Draw(t, "returns") == 0 {
				h.Returning[j.ID] = true
			}
		}
		h.Observe(s)
		d := newDecider(s, h, set)
		d.decide(nil)
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			for range rapid.IntRange(0, 3).Draw(t, "claims") {
				h.Claiming[rapid.SampledFrom(tasks).Draw(t, "claims")] = true
			}
			if diff := gocmp.Diff(Decide(s, h, set), d.again(), gocmp.AllowUnexported(plan.Plan{})); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// An entitled job for which room is made ranks ahead of TE jobs and of other entitled ones: the place would go to one of these.
func TestClaimedJobRanksFirstWithinShares(t *testing.T) {
	s := &cluster.Snapshot{At: start, Multifactor: cluster.Multifactor{Span: span}}
	for n, class := range []string{"be", "be", "te"} {
		s.Jobs = append(s.Jobs, cluster.Job{
			ID: slurmplug.Plain(uint32(n + 1)), TaskCount: 1, Partition: "gpu", State: cluster.Pending, Priority: 1000, GPUs: 1, TimeLimit: time.Minute,
			SiteFactorKnown: true, Eligible: start.Add(-time.Minute), Tag: jobtag.Tag{Type: class}, Right: cluster.Entitled,
		})
	}
	h := cluster.NewHistory()
	h.Observe(s)
	h.Claiming = map[cluster.JobID]bool{s.Jobs[1].ID: true}
	if d := Decide(s, h, settings()).Decisions; d[0].Value <= 0 || d[2].Value <= d[0].Value || d[1].Value <= d[2].Value {
		t.Errorf("values %d, %d and %d: want the second, which has a claim, above the third, a trial, and that above the first", d[0].Value, d[1].Value, d[2].Value)
	}
}

// Entitled jobs go first, trials among trials. Of an array the tasks get records of their
// own that may start.
func TestOrderWithinShares(t *testing.T) {
	s := &cluster.Snapshot{At: start, Multifactor: cluster.Multifactor{Span: span}}
	for n, x := range []struct {
		class string
		right cluster.Right
	}{{"te", cluster.Entitled}, {"te", cluster.Borrows}, {"be", cluster.Entitled}, {"be", cluster.Borrows}} {
		s.Jobs = append(s.Jobs, cluster.Job{
			ID: slurmplug.Plain(uint32(n + 1)), TaskCount: 1, Partition: "gpu", State: cluster.Pending, Priority: 1000, GPUs: 1, TimeLimit: time.Minute,
			SiteFactorKnown: true, Eligible: start.Add(-time.Minute - time.Duration(n)*time.Second), Tag: jobtag.Tag{Type: x.class}, Right: x.right,
		})
	}
	j := &s.Jobs[3]
	j.Tasks, j.TaskCount, j.RightTasks = "0-9", 10, 3
	h := cluster.NewHistory()
	h.Observe(s)
	p := Decide(s, h, settings())
	for i := range p.Decisions[1:] {
		if p.Decisions[i].Value <= p.Decisions[i+1].Value {
			t.Errorf("job %d has %d, and job %d has %d", i+1, p.Decisions[i].Value, i+2, p.Decisions[i+1].Value)
		}
	}
	if last := p.Actions[len(p.Actions)-1]; last.Tasks != "0-2" || !last.Part {
		t.Errorf("of the array: %+v", last)
	}
}
