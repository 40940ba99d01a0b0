package allocate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

func gpuNode(name, gpuType string, gpus int) cluster.Node {
	return cluster.Node{Name: name, Usable: true, State: "IDLE", GPUType: gpuType, GPUs: gpus, CPUs: 64, MemMB: 256 << 10, Partitions: []string{"gpu"}, Features: []string{gpuType}}
}

func speeds(a100, v100 float64) jobtag.Tag {
	return jobtag.Tag{Type: "be", Speed: map[string]float64{"a100": a100, "v100": v100}}
}

func waiting(id uint32, gpus int, tag jobtag.Tag) cluster.Job {
	return cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Priority: 1,
		GPUs: gpus, CPUs: gpus, Nodes: 1, TimeLimit: time.Hour, Submit: start, Eligible: start, SiteFactorKnown: true, Tag: tag,
	}
}

func maxMinSettings() Settings {
	return Settings{Policy: "max-min", Every: 30 * time.Minute}
}

func close(a, b float64) bool { return math.Abs(a-b) < 1e-6*(1+math.Abs(b)) }

// Two programs on two types: each gets the one that it gains most from.
func TestAllocate(t *testing.T) {
	s := &cluster.Snapshot{At: start, Nodes: []cluster.Node{gpuNode("a", "a100", 1), gpuNode("v", "v100", 1)}}
	s.Jobs = []cluster.Job{waiting(1, 1, speeds(1, 0.1)), waiting(2, 1, speeds(1, 0.9)), waiting(3, 2, speeds(1, 0.9)), waiting(4, 0, jobtag.Tag{})}
	s.Jobs[2].GPUType = "v100"
	h, l := cluster.NewHistory(), &Ledger{}
	h.Observe(s)
	set := maxMinSettings()
	set.Policy = "max-throughput"
	got := l.Allocate(s, h, set)
	if got.Jobs.Len() != 3 {
		t.Fatalf("%d jobs", got.Jobs.Len())
	}
	one, two, three := got.Jobs.Get(slurmplug.Plain(1)), got.Jobs.Get(slurmplug.Plain(2)), got.Jobs.Get(slurmplug.Plain(3))
	if one.Time[0] < 0.9 || two.Time[1] < 0.9 {
		t.Errorf("times %v and %v", one.Time, two.Time)
	}
	if three.Speed[0] != 0 || three.Speed[1] != 0 || three.Time != nil || !math.IsInf(three.Run[1], 1) {
		t.Errorf("a gang of two fits nowhere: %+v", three)
	}
	if !close(one.Priority, plan.Untouched) || three.Priority != 0 || !close(one.Run[0], 360) || !close(one.Run[1], 3600) {
		t.Errorf("%+v", one)
	}
}

// site is a cluster whose ledger is asked again and again.
type site struct {
	cluster.Snapshot
	h   *cluster.History
	l   *Ledger
	set Settings
}

func newSite(jobs ...cluster.Job) *site {
	s := &site{h: cluster.NewHistory(), l: &Ledger{}, set: maxMinSettings()}
	s.At, s.Nodes, s.Jobs = start, []cluster.Node{gpuNode("a", "a100", 2), gpuNode("v", "v100", 2)}, jobs
	return s
}

func (s *site) allocate(after time.Duration) *plan.Shares {
	s.At = s.At.Add(after)
	s.h.Observe(&s.Snapshot)
	return s.l.Allocate(&s.Snapshot, s.h, s.set)
}

// Where the optimiser fails, everybody keeps what he had; the problem is handed on
// once, and a note stays until it works again.
func TestAllocationFails(t *testing.T) {
	s := newSite(waiting(1, 1, speeds(1, 0.3)), waiting(2, 1, speeds(1, 0.6)))
	had := slices.Clone(s.allocate(0).Jobs.Get(slurmplug.Plain(1)).Time)
	failed := 0
	s.set.Policy = "nonsense"
	s.set.OnFailure = func(p *Problem, err error) string {
		failed++
		if len(p.Jobs) != 2 || err == nil {
			t.Errorf("%+v, %v", p, err)
		}
		return "it is in a file"
	}
	for range 2 {
		got := s.allocate(time.Minute)
		if !slices.Equal(got.Jobs.Get(slurmplug.Plain(1)).Time, had) || failed != 1 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0].Text, "it is in a file") {
			t.Errorf("%d failures: %+v", failed, got)
		}
	}
	s.set.Policy = "max-min"
	if got := s.allocate(time.Minute); len(got.Notes) != 0 {
		t.Errorf("%q", got.Notes)
	}
}

// It is computed when somebody comes or goes, when nodes do, and when it is old;
// a job that stays keeps its times until they move.
func TestWhenItIsAllocated(t *testing.T) {
	s := newSite(waiting(1, 1, speeds(1, 0.3)), waiting(2, 1, speeds(1, 0.6)))
	last := s.allocate(0).At
	for _, c := range []struct {
		what   string
		change func()
		anew   bool
	}{
		{"nothing", func() {}, false},
		{"a job comes", func() { s.Jobs = append(s.Jobs, waiting(3, 2, speeds(1, 0.6))) }, true},
		{"it starts", func() { s.Jobs[2].State, s.Jobs[2].Start, s.Jobs[2].GPUType = cluster.Running, s.At, "v100" }, false},
		{"a job without GPUs comes", func() { s.Jobs = append(s.Jobs, waiting(4, 0, jobtag.Tag{})) }, false},
		{"a job is held", func() { s.Jobs[1].Priority = 0 }, true},
		{"a node goes down", func() { s.Nodes[1].Usable = false }, true},
		{"a new type", func() { s.Nodes = append(s.Nodes, gpuNode("k", "k80", 8)) }, true},
		{"a job goes", func() { s.Jobs = s.Jobs[1:] }, true},
		{"time", func() { s.At = s.At.Add(s.set.Every) }, true},
		{"the clock is set back", func() { s.At = s.At.Add(-24 * time.Hour) }, true},
		{"a weight", func() { s.set.Weights = map[string]float64{"x": 2} }, true},
		{"no partition is ranked any more", func() { s.set.Ranking.Partitions = []string{"none"} }, false},
		{"every node goes down", func() { s.Nodes = nil }, false},
	} {
		c.change()
		got := s.allocate(time.Second)
		if anew := !got.At.Equal(last); anew != c.anew {
			t.Errorf("%s: allocated anew: %v", c.what, anew)
		}
		last = got.At
		for id, j := range got.Jobs.All() {
			for _, row := range [][]float64{j.Speed, j.Time, j.Received, j.Seconds, j.Owed, j.Run, j.Promised} {
				if row != nil && len(row) != len(got.Types) {
					t.Errorf("%s: job %s: %+v on %v", c.what, id, j, got.Types)
				}
			}
		}
	}
}

// What a job had counts in the others' fractions after it is gone, once.
func TestFractionsOfRemainingJobs(t *testing.T) {
	s := newSite(waiting(1, 1, speeds(1, 0.3)), waiting(2, 1, speeds(1, 0.6)), waiting(3, 1, speeds(1, 0.6)))
	s.At = s.At.Truncate(s.set.Every).Add(20 * time.Minute)
	for i := range s.Jobs[:2] {
		s.Jobs[i].State, s.Jobs[i].Start, s.Jobs[i].GPUType = cluster.Running, s.At, "a100"
	}
	check := func(after time.Duration, want float64) {
		t.Helper()
		if got := s.allocate(after).Jobs.Get(slurmplug.Plain(2)).Received; !close(got[0], want) || got[1] != 0 {
			t.Errorf("fraction %v, want %v", got, want)
		}
	}
	s.allocate(0)
	check(25*time.Minute, 0.5) // 15 minutes each since the half-hour
	gone := s.Jobs[0]
	s.Jobs = s.Jobs[1:]
	check(0, 0.5)
	check(10*time.Minute, 25./40)
	s.h.Fill([]cluster.PastStay{{Stay: cluster.Stay{ // it ran five minutes longer than a poll saw
		Job: gone.ID, User: gone.User, Start: gone.Start, End: gone.Start.Add(30 * time.Minute), Closed: true, GPUType: "a100", GPUs: 1,
	}}})
	check(0, 25./45)
	s.l = &Ledger{} // the same from history alone
	check(0, 25./45)
	s.Jobs = append(s.Jobs, gone) // it was requeued
	s.Jobs[2].Restarts, s.Jobs[2].State, s.Jobs[2].Submit = 1, cluster.Pending, s.At
	check(0, 25./45)
}

// A job that runs on after all the work that it said has a second left in any case, and it
// is known how far beyond it is.
func TestJobThatRunsOn(t *testing.T) {
	s := newSite(waiting(1, 1, speeds(1, 0.3)))
	j := &s.Jobs[0]
	j.State, j.Start, j.GPUType, j.TimeLimit = cluster.Running, start, "a100", 1200*time.Second
	for _, c := range []struct{ ran, left, beyond float64 }{{0, 1200, 0}, {1190, 10, 0}, {1200, 1, 0}, {1300, 1, 100}} {
		s.At = start
		if got := s.allocate(time.Duration(c.ran * 1e9)).Jobs.Get(j.ID); !close(got.Run[0], c.left) || !close(got.Beyond, c.beyond) {
			t.Errorf("after %v s: %v s are left, %v beyond", c.ran, got.Run[0], got.Beyond)
		}
	}
}

// A task that is split off its array was promised what the array was, and an
// account shares as one with policy hierarchical.
func TestArraysAndAccounts(t *testing.T) {
	array, other := waiting(1, 1, speeds(1, 0.5)), waiting(2, 1, speeds(1, 0.5))
	array.Tasks, array.TaskCount, array.Account, other.Account = "0-9", 10, "many", "one"
	s := newSite(array, other)
	flat := s.allocate(0)
	if a, o := flat.Jobs.Get(array.ID), flat.Jobs.Get(other.ID); !close(a.Time[0]+a.Time[1], o.Time[0]+o.Time[1]) {
		t.Errorf("eleven jobs: %v and %v", a.Time, o.Time)
	}
	s.set.Policy, s.set.Accounts = "hierarchical", map[string]float64{"many": 0.5, "one": 0.5}
	got := s.allocate(time.Hour)
	if o := got.Jobs.Get(other.ID); !close(o.Time[0], 1) {
		t.Errorf("an account's only job has %v", o.Time)
	}
	owed := got.Jobs.Get(array.ID).Owed[0]
	task := array
	task.ID.Task, task.Tasks, task.TaskCount = 3, "", 1
	s.Jobs = append(s.Jobs, task)
	if of := s.allocate(0).Jobs.Get(task.ID); !close(of.Owed[0], owed) || owed == 0 {
		t.Errorf("the task is owed %v, its array was owed %v", of.Owed, owed)
	}
}

// Where a policy gives some tasks of an array all of their time and others none,
// each has the mean.
func TestArrayHasTheMeanOfItsTasks(t *testing.T) {
	array := waiting(1, 1, speeds(1, 0.5))
	array.Tasks, array.TaskCount = "0-9", 10
	array.Account = "one by one"
	s := newSite(array)
	s.set.Policy, s.set.FIFO = "hierarchical", []string{array.Account}
	if of := s.allocate(0).Jobs.Get(array.ID).Time; !close(of[0], 0.2) || !close(of[1], 0.2) {
		t.Errorf("two GPUs of each type for ten tasks: %v", of)
	}
}

// What was asked about jobs that are gone is forgotten.
func TestLedgerForgets(t *testing.T) {
	s := newSite()
	for day := range 5 {
		s.Jobs = nil
		for i := range 700 {
			j := waiting(uint32(1+day*700+i), 1, jobtag.Tag{})
			j.Name, j.MemMB = fmt.Sprint(day, " ", i), int64(day*700+i)
			s.Jobs = append(s.Jobs, j)
		}
		s.allocate(time.Minute)
	}
	if most := 2*700 + 1024; len(s.l.profiles) > most || len(s.l.fits.All) > most {
		t.Errorf("%d kinds and %d requests of 700 jobs", len(s.l.profiles), len(s.l.fits.All))
	}
}

// BenchmarkAllocate is a cycle of a large site: 100,000 jobs, a fifth of them
// running, of 60 programs and 5 sizes, on 10,000 nodes of three types.
func BenchmarkAllocate(b *testing.B) {
	s := &cluster.Snapshot{At: start, Multifactor: cluster.Multifactor{Span: 40_000}}
	for n := range 10_000 {
		s.Nodes = append(s.Nodes, gpuNode(fmt.Sprintf("n%05d", n), []string{"a100", "k80", "v100"}[n%3], 4))
	}
	for id := range uint32(100_000) {
		p := float64(id % 60)
		j := waiting(id+1, 1<<(id/60%5%3), jobtag.Tag{Type: "be", Speed: map[string]float64{"a100": 1, "v100": 0.2 + p/100, "k80": 0.05 + p/200}})
		if id%5 == 0 {
			j.State, j.Start, j.GPUType = cluster.Running, start.Add(-time.Duration(id)*time.Second), s.Nodes[id%3].GPUType
		}
		s.Jobs = append(s.Jobs, j)
	}
	for _, changed := range []bool{false, true} {
		b.Run(fmt.Sprint("changed=", changed), func(b *testing.B) {
			h, l := cluster.NewHistory(), &Ledger{}
			h.Observe(s)
			shares := l.Allocate(s, h, maxMinSettings())
			set := order.Settings{Top: 2_000_000_000}
			set.Order, set.Shares = order.OwedOrder, shares
			for _, a := range order.Decide(s, h, set).Actions {
				v := a.After.Number()
				s.Jobs[a.Job.ID-1].SiteFactor = v
				h.Wrote(a.Job, plan.Effect(a, s.At), false)
			}
			at := s.At
			b.ReportAllocs()
			for b.Loop() {
				s.At = s.At.Add(time.Second)
				h.Observe(s)
				l.dirty = changed
				set.Shares = l.Allocate(s, h, maxMinSettings())
			}
			s.At = at
		})
	}
	b.Run("decide", func(b *testing.B) {
		h, l := cluster.NewHistory(), &Ledger{}
		for i := range s.Jobs {
			s.Jobs[i].SiteFactor = 0
		}
		h.Observe(s)
		set := order.Settings{Top: 2_000_000_000}
		set.Order, set.Shares = order.OwedOrder, l.Allocate(s, h, maxMinSettings())
		for _, a := range order.Decide(s, h, set).Actions {
			v := a.After.Number()
			s.Jobs[a.Job.ID-1].SiteFactor = v
			h.Wrote(a.Job, plan.Effect(a, s.At), false)
		}
		b.ReportAllocs()
		for b.Loop() {
			if n := len(order.Decide(s, h, set).Actions); n != 0 {
				b.Fatal(n, "writes")
			}
		}
	})
}

// What a closer look ruled out is allocated to nobody from the next cycle on, and is
// again when it is ruled out no more.
func TestExclude(t *testing.T) {
	s := &cluster.Snapshot{At: start, Nodes: []cluster.Node{gpuNode("a", "a100", 2), gpuNode("v", "v100", 2)}, Jobs: []cluster.Job{waiting(1, 1, speeds(1, 0.1)), waiting(2, 1, speeds(1, 0.1))}}
	h, l := cluster.NewHistory(), &Ledger{}
	h.Observe(s)
	set := maxMinSettings()
	set.Policy = "max-throughput"
	one := slurmplug.Plain(1)
	for i, out := range []placement.Types{0, 1, 3, 0} {
		l.Exclude(map[cluster.JobID]placement.Types{one: out})
		share := l.Allocate(s, h, set).Jobs.Get(one)
		if on := share.Time[0] > 0.9; on != (out != 1) || (share.Speed[0] > 0) != on {
			t.Errorf("%d, without %b: %v at speeds %v", i, out, share.Time, share.Speed)
		}
		if other := l.shares.Jobs.Get(slurmplug.Plain(2)); other.Speed[0] != 1 {
			t.Errorf("the other job: %v", other.Speed)
		}
	}
}

// A job is allocated no time where it cannot run, unless it could run nowhere then.
func TestWithout(t *testing.T) {
	for _, c := range []struct {
		fits []bool
		out  placement.Types
		want []bool
	}{
		{[]bool{true, true, false}, 0, []bool{true, true, false}},
		{[]bool{true, true, false}, 1, []bool{false, true, false}},
		{[]bool{true, true, false}, 7, []bool{true, true, false}},
		{[]bool{true, false, true}, 5, []bool{true, false, true}},
	} {
		before := slices.Clone(c.fits)
		if got := without(c.fits, c.out); !slices.Equal(got, c.want) || !slices.Equal(c.fits, before) {
			t.Errorf("%v without %b: %v", c.fits, c.out, got)
		}
	}
}

// Jobs share what is known of their speeds where nothing tells them apart: each has what it
// would have by itself.
func TestSharedAnswers(t *testing.T) {
	types := []string{"a100", "v100"}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"train", "infer", "test"})
		program := func() speed.Program {
			return speed.Program{User: rapid.SampledFrom([]string{"ann", "ben"}).Draw(t, "user"), Name: names.Draw(t, "name"), GPUs: rapid.IntRange(1, 2).Draw(t, "gpus")}
		}
		var lessons []speed.Lesson
		for range rapid.IntRange(0, 4).Draw(t, "lessons") {
			lessons = append(lessons, speed.Lesson{
				Program: program(), Unit: rapid.SampledFrom([]speed.Unit{speed.Runs, speed.Steps, speed.Limits}).Draw(t, "unit"), Runs: 9, OnType: []int{5, 4},
				Mean: []float64{1, rapid.Float64Range(-1, 1).Draw(t, "mean")}, Covariance: []float64{0.01, 0, 0.01},
			})
		}
		known, err := speed.Recall(speed.Usual{Types: types, Linked: []int{0, 0}, Mean: []float64{0, 0}, Doubt: []float64{0.1, 0, 0.1}, Spread: []float64{0.1, 0, 0.1}}, lessons)
		if err != nil {
			t.Fatal(err)
		}
		s := &cluster.Snapshot{At: start, Nodes: []cluster.Node{gpuNode("a", "a100", 8), gpuNode("v", "v100", 8)}}
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			p, tag := program(), jobtag.Tag{}
			if rapid.Bool().Draw(t, "tagged") {
				tag = speeds(1, rapid.SampledFrom([]float64{0.2, 0.5}).Draw(t, "speed"))
			}
			j := waiting(uint32(1+i), p.GPUs, tag)
			j.User, j.Name = p.User, p.Name
			s.Jobs = append(s.Jobs, j)
		}
		h, set := cluster.NewHistory(), maxMinSettings()
		h.Observe(s)
		set.Knowledge = known
		shares := (&Ledger{}).Allocate(s, h, set)
		for i := range s.Jobs {
			j := &s.Jobs[i]
			want := set.Speeds.For(&speed.Job{Tag: j.Tag, User: j.User, Name: j.Name, GPUs: j.GPUs}, types, nil, known)
			if diff := cmp.Diff(want, *shares.Of(j, i).Answers); diff != "" {
				t.Errorf("job %s: %s", j.ID, diff)
			}
			if shares.Of(j, i) != shares.Jobs.Get(j.ID) {
				t.Errorf("job %s has two shares", j.ID)
			}
		}
	})
}

// A job whose record cannot be read keeps its part of the allocation.
func TestUnreadJobKeepsItsShare(t *testing.T) {
	s := newSite(waiting(1, 1, speeds(1, 0.1)), waiting(2, 1, speeds(1, 0.9)))
	all := s.Jobs
	seen := func(jobs ...cluster.Job) *plan.Shares {
		s.Jobs, s.At = jobs, s.At.Add(time.Minute)
		s.h.Observe(&s.Snapshot)
		return s.l.Allocate(&s.Snapshot, s.h, s.set)
	}
	before := seen(all...).Jobs.Get(slurmplug.Plain(1))
	if before == nil {
		t.Fatal("no share")
	}
	shares := seen(cluster.Job{ID: slurmplug.Plain(1), TaskCount: 1, State: cluster.Unread}, all[1])
	if shares.Jobs.Get(slurmplug.Plain(1)) != before || shares.Queue[0] != nil || shares.Queue[1] == nil {
		t.Errorf("%+v of %+v", shares.Queue, shares.Jobs.Get(slurmplug.Plain(1)))
	}
	if shares = seen(all[1]); shares.Jobs.Get(slurmplug.Plain(1)) != nil {
		t.Error("a job that left keeps a share")
	}
}
