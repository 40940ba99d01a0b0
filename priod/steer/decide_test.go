package steer

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
)

var never = math.Inf(1)

// two is a cluster with so many GPUs of a fast and of a slow type, and what
// holds them until when.
func two(fast, slow int32, held ...Running) *Snapshot {
	s := &Snapshot{Types: 2, Running: held, Nodes: placement.New(placement.Packed, []placement.Node{
		{Type: 0, Amount: placement.Amount{GPUs: fast, CPUs: placement.Plenty, MemMB: placement.Plenty}},
		{Type: 1, Amount: placement.Amount{GPUs: slow, CPUs: placement.Plenty, MemMB: placement.Plenty}},
	})}
	for _, r := range held {
		s.Nodes.Take(r.Shares)
	}
	return s
}

func holds(node, gpus int32, until float64) Running {
	return Running{Shares: []placement.Share{{Node: node, Amount: placement.Amount{GPUs: gpus}}}, End: until}
}

// pending is a job with one GPU that runs so long on either type.
func pending(fast, slow float64) Job {
	return Job{
		Request: placement.Request{Types: 3, Amount: placement.Amount{GPUs: 1}}, Consent: true,
		Run: []float64{fast, slow}, Time: []float64{0.5, 0}, Steered: Open,
	}
}

func set() Rule { return Rule{Wait: 1, Least: 0.01, Change: 0.2, Cycles: 5} }

func TestVerdicts(t *testing.T) {
	type change func(*Snapshot, *Job)
	for _, c := range []struct {
		name     string
		s        *Snapshot
		change   change
		want     Why
		to       int32
		back     Why
		start    float64
		explains string
	}{
		{"free", two(1, 1), nil, Starts, 0, "", 0, "is allocated to it and free"},
		{"ends sooner by waiting", two(1, 1, holds(0, 1, 50)), nil, Waits, 0, "", 50, "waits for fast, where it ends"},
		{"waits longer than it gains", two(1, 1, holds(0, 1, 950)), nil, Takes, 1, "", 0, "takes slow"},
		{"a node is down", two(1, 1), func(s *Snapshot, j *Job) { s.Nodes.SetDown(0, true) }, Takes, 1, "", 0, "takes slow"},
		{"steered to what is down", two(1, 1), func(s *Snapshot, j *Job) { s.Nodes.SetDown(0, true); j.Steered, j.Given = 0, 0.5 }, Takes, 1, Down, 0, "its nodes are down"},
		{"the allocation has changed", two(1, 1), func(_ *Snapshot, j *Job) { j.Steered, j.Given = 1, 0.5 }, Starts, 0, Changed, 0, "the allocation has changed"},
		{"better by the threshold", two(1, 1, holds(1, 1, 5000)), func(_ *Snapshot, j *Job) { j.Steered, j.Given, j.Time = 1, 0.4, []float64{0.5, 0.4} }, Starts, 0, Better, 0, "another type is better"},
		{"better by less", two(1, 1), func(_ *Snapshot, j *Job) {
			j.Steered, j.Given, j.Time, j.Run = 1, 0.4, []float64{0.5, 0.4}, []float64{90, 100}
		}, Starts, 1, "", 0, "slow is allocated"},
		{"never started", two(1, 1), func(_ *Snapshot, j *Job) { j.Steered, j.Given, j.Ready, j.Held = 0, 0.5, 5, 900 }, Stuck, Open, Stuck, 0, "did not start it"},
		{"not started for less than the slow type costs", two(1, 1), func(_ *Snapshot, j *Job) { j.Steered, j.Given, j.Ready, j.Held = 0, 0.5, 5, 899 }, Starts, 0, "", 0, "free"},
		{"not yet never started", two(1, 1), func(_ *Snapshot, j *Job) { j.Steered, j.Given, j.Ready = 0, 0.5, 4 }, Starts, 0, "", 0, "free"},
		{"no consent", two(1, 1), func(_ *Snapshot, j *Job) { j.Consent = false }, NoConsent, Open, "", 0, "no speed or workload"},
		{"its own type", two(1, 1), func(_ *Snapshot, j *Job) { j.Request.Types = 2 }, OneType, Open, "", 0, "one GPU type"},
		{"its own type, and nodes apart", two(1, 1), func(s *Snapshot, j *Job) { s.Unlabelled, j.Request.Types = []int32{0}, 1|4 }, OneType, Open, "", 0, "one GPU type"},
		{"too large", two(1, 1), func(_ *Snapshot, j *Job) { j.Request.GPUs = 2 }, NoRoom, Open, "", never, "no GPU type has room"},
		{"nothing allocated", two(1, 1), func(_ *Snapshot, j *Job) { j.Time = nil }, Takes, 0, "", 0, "takes fast"},
		{"runs nowhere", two(1, 1), func(_ *Snapshot, j *Job) { j.Run = []float64{never, never} }, NoRoom, Open, "", never, "no GPU type has room"},
		{"owed more of one of two", two(1, 1), func(_ *Snapshot, j *Job) {
			j.Time, j.Received, j.Run = []float64{0.5, 0.5}, []float64{0.2, 0.1}, []float64{100, 100}
		}, Starts, 1, "", 0, "slow is allocated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := pending(100, 1000)
			if c.change != nil {
				c.change(c.s, &j)
			}
			c.s.Jobs = []Job{j}
			v := Decide(c.s, set())[0]
			if v.Why != c.want || v.Type != c.to || v.Back != c.back || v.Start != c.start {
				t.Errorf("%+v, want %s to %d, back %q, start %v", v, c.want, c.to, c.back, c.start)
			}
			if text := v.Choice([]string{"fast", "slow"}, noon).Words(); !strings.Contains(text, c.explains) {
				t.Errorf("explains %q, want %q in it", text, c.explains)
			}
		})
	}
}

// barred is the job where it cannot run on a type.
func barred(j Job, t int32) Job {
	j.Run = slices.Clone(j.Run)
	j.Run[t] = math.Inf(1)
	return j
}

// Who is not to wait is bound only where it starts now and has a choice; what it holds
// goes as soon as it does not start there.
func TestNow(t *testing.T) {
	now := func(steered int32, ready int, left placement.Types) Job {
		j := pending(100, 1000)
		j.NoWait, j.Steered, j.Given, j.Ready, j.JustLeft = true, steered, 0.5, ready, left
		return j
	}
	for _, c := range []struct {
		name string
		s    *Snapshot
		j    Job
		want Why
		to   int32
		back Why
	}{
		{"both free", two(1, 1), now(Open, 0, 0), Starts, 0, ""},
		{"one free", two(1, 1, holds(0, 1, 50)), now(Open, 0, 0), Unbound, Open, ""},
		{"none free", two(1, 1, holds(0, 1, 50), holds(1, 1, 60)), now(Open, 0, 0), Unbound, Open, ""},
		{"bound where it is free", two(1, 1), now(1, 0, 0), Starts, 1, ""},
		{"bound where alone it is free", two(1, 1, holds(0, 1, 50)), now(1, 0, 0), Starts, 1, ""},
		{"bound where it is not free", two(1, 1, holds(1, 1, 50)), now(1, 0, 0), Unbound, Open, Full},
		{"bound to what is down", two(0, 1), now(0, 0, 0), Unbound, Open, Full},
		{"not started", two(1, 1), now(1, patience, 0), Stuck, Open, Stuck},
		{"the other one left just now", two(1, 1), now(Open, 0, 1), Unbound, Open, ""},
		{"cannot run on the free one", two(1, 1, holds(0, 1, 50)), barred(now(Open, 0, 0), 1), Barred, 0, ""},
		{"cannot run on the other one", two(1, 1), barred(now(Open, 0, 0), 0), Barred, 1, ""},
		{"cannot run on any", two(1, 1), barred(barred(now(Open, 0, 0), 0), 1), Unbound, Open, ""},
	} {
		for _, held := range []float64{0, 30, 1000} { // however new the type is
			with := set()
			with.Keep, c.j.Held = 60, held
			c.s.Jobs = []Job{c.j}
			if v := Decide(c.s, with)[0]; v.Why != c.want || v.Type != c.to || v.Back != c.back {
				t.Errorf("%s, held %v s: %+v", c.name, held, v)
			}
		}
	}
	s := two(1, 1, holds(0, 1, 50), holds(1, 1, 60)) // others have to take into account it
	s.Jobs = []Job{now(Open, 0, 0), pending(100, 1000)}
	if v := Decide(s, set()); v[0].Start != 50 || v[1].Start != 150 {
		t.Errorf("%+v", v)
	}
}

// A new type stays, whatever has changed, but for one where the job starts now and
// that it has not left just before; one whose nodes are down goes at once.
func TestKeep(t *testing.T) {
	job := func(held float64, left placement.Types) Job {
		j := pending(100, 1000)
		j.Steered, j.Given, j.Held, j.JustLeft = 1, 0.5, held, left
		return j
	}
	sooner := func() *Snapshot { return two(1, 1, holds(0, 1, 50), holds(1, 1, 5000)) }
	for _, c := range []struct {
		name string
		s    *Snapshot
		j    Job
		want Why
		to   int32
	}{
		{"another is better", sooner(), job(59, 0), Waits, 1},
		{"for a minute", sooner(), job(60, 0), Waits, 0},
		{"the other is free", two(1, 1, holds(1, 1, 5000)), job(0, 0), Starts, 0},
		{"the other is free, and was left", two(1, 1, holds(1, 1, 5000)), job(0, 1), Waits, 1},
		{"down", two(1, 0, holds(0, 1, 50)), job(0, 0), Waits, 0},
		{"down, and the other was left", two(1, 0, holds(0, 1, 50)), job(0, 1), NoTime, Open},
	} {
		with := set()
		with.Keep = 60
		c.s.Jobs = []Job{c.j}
		if v := Decide(c.s, with)[0]; v.Why != c.want || v.Type != c.to {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	stuck := job(59, 0)
	stuck.Ready = 100
	s, with := two(1, 1), set()
	with.Keep, s.Jobs = 60, []Job{stuck}
	if v := Decide(s, with)[0]; v.Why == Stuck {
		t.Errorf("let go before its time: %+v", v)
	}
}

// A type whose CPUs jobs without GPUs hold is not down: a job keeps it, or waits for it.
func TestGPUsWithoutCPUs(t *testing.T) {
	for _, steered := range []int32{Open, 0} {
		s, with := &Snapshot{Types: 2, Nodes: placement.New(placement.Packed, []placement.Node{
			{Type: 0, Amount: placement.Amount{GPUs: 1, CPUs: 4, MemMB: placement.Plenty}}, {Type: 1},
		})}, set()
		with.Keep = 60
		j := pending(100, 1000)
		j.Request.CPUs, j.Steered, j.Given = 1, steered, 0.5
		s.Jobs = []Job{j}
		s.Nodes.Take([]placement.Share{{Node: 0, Amount: placement.Amount{CPUs: 4}}})
		if v := Decide(s, with)[0]; v.Type != 0 || v.Why != Waits || v.Back != "" {
			t.Errorf("steered to %d: %+v", steered, v)
		}
	}
}

// Nodes are read after jobs: a GPU in use by a job that is in no list keeps nobody off
// its type for good.
func TestGPUsInUseByUnknownJobs(t *testing.T) {
	s, with := two(2, 2, holds(0, 1, 50)), set()
	s.Nodes.Take([]placement.Share{{Node: 0, Amount: placement.Amount{GPUs: 1}}})
	j := pending(100, 1000)
	j.Request.GPUs, j.Steered, j.Given, j.Held = 2, 0, 0.5, 1000
	s.Jobs = []Job{j}
	if v := Decide(s, with)[0]; v.Type != 0 || v.Back != "" || v.Start != 50 {
		t.Errorf("%+v", v)
	}
}

// Where no job on a type is known, who holds its GPUs has just started; in the next cycle
// that is known, or they are nobody's.
func TestGPUsInUseWhereNoJobIsKnown(t *testing.T) {
	for _, before := range []bool{false, true} {
		s, with := two(2, 2), set()
		s.Nodes.Take([]placement.Share{{Node: 0, Amount: placement.Amount{GPUs: 2}}})
		if s.heldByNobody() != 1 {
			t.Errorf("held by nobody: %b", s.heldByNobody())
		}
		if before {
			s.Unknown = 1
		}
		j := pending(100, 1000)
		j.Steered, j.Given, j.Held = 0, 0.5, 1000
		s.Jobs = []Job{j}
		v := Decide(s, with)[0]
		if before && (v.Type != 1 || v.Back != Down) || !before && (v.Type != 0 || v.Back != "" || v.Start != unknownFor) {
			t.Errorf("in the cycle before, too: %v: %+v", before, v)
		}
	}
}

// A job that is not to wait is not bound to a type for which another waits before it.
func TestNowBehindAnother(t *testing.T) {
	for _, first := range []bool{true, false} {
		s := two(2, 2, holds(0, 1, 50))
		gang, trial := pending(100, math.Inf(1)), pending(10, 20)
		gang.Request.GPUs, trial.NoWait = 2, true
		trial.Time = []float64{0.5, 0.5}
		if s.Jobs = []Job{trial, gang}; first {
			s.Jobs = []Job{gang, trial}
		}
		v := Decide(s, set())
		if got := v[map[bool]int{true: 1, false: 0}[first]]; (got.Type == Open) != first {
			t.Errorf("the gang is first: %v: %+v", first, got)
		}
	}
}

// The job that gains least from the fast type takes the slow one.
func TestSuitsBest(t *testing.T) {
	s := two(1, 1, holds(0, 1, 10_000))
	s.Jobs = []Job{pending(100, 900), pending(100, 110), pending(100, 500)}
	got := []Why{}
	for _, v := range Decide(s, set()) {
		got = append(got, v.Why)
	}
	if want := []Why{Waits, Takes, Waits}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	deep := set()
	deep.Depth = 1
	if v := Decide(s, deep); v[1].Why != Far || v[1].Type != Open || v[0].Why != Takes {
		t.Errorf("only the head is looked at: %+v", v)
	}
}

// A job that waits holds up others: waiting may weigh more than running.
func TestWaitWeighs(t *testing.T) {
	j := pending(100, 200)
	j.Time = []float64{0.5, 0.5}
	s := two(1, 1, holds(0, 1, 50))
	s.Jobs = []Job{j}
	if v := Decide(s, set())[0]; v.Why != Waits || v.Type != 0 || v.Other != 1 || v.OtherEnd != 200 || !v.Idle {
		t.Errorf("150 s there, 200 s here: %+v", v)
	}
	with := set()
	with.Wait = 16
	if v := Decide(s, with)[0]; v.Why != Starts || v.Type != 1 {
		t.Errorf("16 x 50 s of waiting save only 100 s: %+v", v)
	}
}

// What a job that takes another type leaves behind is there for others.
func TestMovesMakeRoom(t *testing.T) {
	s := two(2, 2, holds(0, 1, 50))
	gang, one := pending(1000, 1010), pending(500, never)
	gang.Request.GPUs = 2
	s.Jobs = []Job{gang, one}
	v := Decide(s, set())
	if v[0].Why != Takes || v[0].Type != 1 || v[0].OtherEnd != 1050 || v[1].Why != Takes || v[1].Type != 0 {
		t.Errorf("%+v", v)
	}
}

// drawn is a small cluster with jobs, and a rule.
func drawn(t *rapid.T) (*Snapshot, Rule) {
	types := int32(rapid.IntRange(1, 3).Draw(t, "types"))
	var nodes []placement.Node
	for g := range types {
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			nodes = append(nodes, placement.Node{Type: g, Amount: placement.Amount{GPUs: int32(rapid.IntRange(1, 2).Draw(t, "gpus")), CPUs: placement.Plenty, MemMB: placement.Plenty}})
		}
	}
	s := &Snapshot{Nodes: placement.New(placement.Packed, nodes), Types: int(types)}
	for n := range nodes {
		if rapid.Bool().Draw(t, "busy") {
			r := holds(int32(n), 1, float64(rapid.IntRange(0, 1000).Draw(t, "end")))
			s.Nodes.Take(r.Shares)
			s.Running = append(s.Running, r)
		}
	}
	for range rapid.IntRange(1, 8).Draw(t, "jobs") {
		j := Job{Request: placement.Request{Amount: placement.Amount{GPUs: 1}}, Consent: rapid.IntRange(0, 5).Draw(t, "consent") > 0, Steered: Open, Ready: rapid.IntRange(0, 6).Draw(t, "ready"), NoWait: rapid.IntRange(0, 3).Draw(t, "now") == 0}
		for g := range types {
			j.Run = append(j.Run, float64(rapid.SampledFrom([]int{10, 20, 50, 100, 1000}).Draw(t, "run")))
			if rapid.IntRange(0, 9).Draw(t, "never") == 0 {
				j.Run[g] = never
			}
			j.Time = append(j.Time, rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "time"))
			if rapid.IntRange(0, 4).Draw(t, "may") > 0 {
				j.Request.Types |= 1 << uint(g)
			}
		}
		if rapid.Bool().Draw(t, "steered") {
			j.Steered, j.Given = int32(rapid.IntRange(0, int(types)-1).Draw(t, "to")), 0.3
		}
		s.Jobs = append(s.Jobs, j)
	}
	with := set()
	with.Wait = rapid.SampledFrom([]float64{0, 1, 16}).Draw(t, "wait")
	with.Depth = rapid.SampledFrom([]int{0, 3}).Draw(t, "depth")
	with.Keep = rapid.SampledFrom([]float64{0, 60}).Draw(t, "keep")
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Held = float64(rapid.IntRange(0, 100).Draw(t, "held")); j.Held < with.Keep {
			j.JustLeft = placement.Types(rapid.IntRange(0, 7).Draw(t, "left"))
		}
		if j.Steered != Open {
			j.JustLeft &^= 1 << uint(j.Steered)
		}
	}
	return s, with
}

// canRunOnPart reports whether a job can run on some of the types that it may have, and not on others.
func canRunOnPart(s *Snapshot, j *Job) bool {
	part, all := false, true
	for g := range int32(s.Types) {
		if j.Request.Types.Has(g) {
			part, all = part || j.runs(g), all && j.runs(g)
		}
	}
	return part && !all
}

// Whatever is asked: nothing is oversubscribed, nobody gets what it may not
// have, equal jobs keep their order, and a GPU is idle only for jobs that end
// sooner without it.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, with := drawn(t)
		before := s.Nodes.Clone()
		verdicts := Decide(s, with)
		for i, v := range verdicts {
			j := &s.Jobs[i]
			switch {
			case v.Type != Open && j.JustLeft.Has(v.Type) && v.Why != Barred:
				t.Fatalf("%+v comes back to what it left: %+v", j, v)
			case j.NoWait && v.Type != Open && v.Start > 0 && v.Why != Barred:
				t.Fatalf("%+v is bound to wait: %+v", j, v)
			case v.Type == Open && j.Consent && v.Why != Far && v.Why != Stuck && v.Why != OneType && canRunOnPart(s, j):
				t.Fatalf("%+v is left open, and may start where it cannot run: %+v", j, v)
			}
		}
		if !reflect.DeepEqual(verdicts, Decide(s, with)) {
			t.Fatal("the second time it is another decision")
		}
		left := s.Nodes.Clone()
		mine := true // every job that starts now is steered
		for i, v := range verdicts {
			j := &s.Jobs[i]
			if (v.Type == Open) == (v.Why == Starts || v.Why == Waits || v.Why == Takes || v.Why == Barred) {
				t.Fatalf("job %d: %+v", i, v)
			}
			if v.Back != "" && j.Steered == Open || v.Back == "" && j.Steered != Open && v.Type != j.Steered {
				t.Fatalf("job %d steered to %d: %+v takes back without a word", i, j.Steered, v)
			}
			if v.Type == Open {
				mine = mine && v.Start > 0
				continue
			}
			if !j.Consent || !j.Request.Types.Has(v.Type) || math.IsInf(j.Run[v.Type], 1) || v.End != v.Start+j.Run[v.Type] {
				t.Fatalf("job %d %+v: %+v", i, j, v)
			}
			if v.Start == 0 {
				r := j.Request
				r.Types = 1 << uint(v.Type)
				shares, ok := left.Fit(r, nil)
				if !ok {
					t.Fatalf("job %d starts where nothing is free", i)
				}
				left.Take(shares)
			}
		}
		for i, v := range verdicts {
			for g := range int32(s.Types) {
				if before.FreeGPUs(g) != s.Nodes.FreeGPUs(g) {
					t.Fatal("the snapshot's nodes have changed")
				}
				j := &s.Jobs[i]
				if mine && v.Why == Waits && v.Start > 0 && !j.JustLeft.Has(g) && left.FreeGPUs(g) > 0 && j.Request.Types.Has(g) && !math.IsInf(j.Run[g], 1) && j.Run[g] <= v.End {
					t.Fatalf("type %d is idle, and job %d waits for %d: %+v, runs %v", g, i, v.Type, v, j.Run)
				}
			}
			for k := range i {
				if w := verdicts[k]; reflect.DeepEqual(s.Jobs[i], s.Jobs[k]) && v.Why == Starts && w.Why == Waits {
					t.Fatalf("job %d starts before the equal job %d", i, k)
				}
			}
		}
	})
}

func TestCheck(t *testing.T) {
	d := Defaults
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Rule{{}, {Cycles: 1, Depth: -1}, {Cycles: 1, Wait: math.NaN()}, {Cycles: 1, Least: -1}, {Cycles: 1, Change: never}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}

// Nodes apart are free to jobs that are left alone, and to no others; what runs there
// frees nothing for these.
func TestApart(t *testing.T) {
	apart := func(running ...Running) *Snapshot {
		s := &Snapshot{Types: 2, Unlabelled: []int32{1}, Running: running, Nodes: placement.New(placement.Packed, []placement.Node{
			{Type: 0, Amount: placement.Amount{GPUs: 1, CPUs: placement.Plenty, MemMB: placement.Plenty}},
			{Type: 1, Amount: placement.Amount{GPUs: 1, CPUs: placement.Plenty, MemMB: placement.Plenty}},
			{Type: 2, Amount: placement.Amount{GPUs: 1, CPUs: placement.Plenty, MemMB: placement.Plenty}},
		})}
		for _, r := range running {
			s.Nodes.Take(r.Shares)
		}
		return s
	}
	on := func(types placement.Types, consent bool) Job {
		j := pending(100, 200)
		j.Request.Types, j.Consent, j.Time = types, consent, []float64{0, 1}
		return j
	}
	for name, c := range map[string]struct {
		s     *Snapshot
		jobs  []Job
		types []int32
		start []float64
	}{
		"a job left alone goes there":      {apart(holds(0, 1, 900), holds(1, 1, 50)), []Job{on(6, false), on(7, true)}, []int32{Open, 1}, []float64{0, 50}},
		"another waits":                    {apart(holds(0, 1, 900), holds(1, 1, 50)), []Job{on(7, true)}, []int32{1}, []float64{50}},
		"what ends there is for the alone": {apart(holds(0, 1, 900), holds(1, 1, 50), holds(2, 1, 10)), []Job{on(6, false), on(7, true)}, []int32{Open, 1}, []float64{10, 50}},
	} {
		c.s.Jobs = c.jobs
		for i, v := range Decide(c.s, set()) {
			if v.Type != c.types[i] || v.Start != c.start[i] {
				t.Errorf("%s: job %d gets type %d at %v, want %d at %v", name, i, v.Type, v.Start, c.types[i], c.start[i])
			}
		}
	}
}

// GPUs are free, and the job planned before takes the CPUs beside them: the next one
// waits for that one's end. Its type is not gone.
func TestWaitsForOnePlanned(t *testing.T) {
	s := two(4, 1)
	s.Nodes = placement.New(placement.Packed, []placement.Node{
		{Type: 0, Amount: placement.Amount{GPUs: 4, CPUs: 8, MemMB: placement.Plenty}}, {Type: 1, Amount: placement.Amount{GPUs: 1, CPUs: 8, MemMB: placement.Plenty}},
	})
	for range 2 {
		j := pending(100, 5000)
		j.Request.CPUs, j.Steered, j.Given = 8, 0, 0.5
		s.Jobs = append(s.Jobs, j)
	}
	v := Decide(s, set())
	if v[0].Type != 0 || v[0].Start != 0 || v[1].Type != 0 || v[1].Start != 100 || v[1].Back != "" {
		t.Errorf("%+v", v)
	}
}

// What one node of the slow type holds takes two of the fast one.
func TestOnSmallerNodes(t *testing.T) {
	s := two(2, 4)
	s.Nodes = placement.New(placement.Packed, []placement.Node{
		{Type: 0, Amount: placement.Amount{GPUs: 2, CPUs: 8, MemMB: 100}}, {Type: 0, Amount: placement.Amount{GPUs: 2, CPUs: 8, MemMB: 100}},
		{Type: 1, Amount: placement.Amount{GPUs: 4, CPUs: 8, MemMB: 100}},
	})
	j := pending(100, 5000)
	j.Request.GPUs, j.Request.Nodes, j.Steered, j.Given = 3, 1, 0, 0.5
	s.Jobs = []Job{j}
	if v := Decide(s, set()); v[0].Type != 0 || v[0].Start != 0 {
		t.Errorf("%+v", v)
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.Local)

// Where no time limit says when a job ends, no figure does.
func TestExplainWithoutTimeLimits(t *testing.T) {
	const year = 365 * 24 * 3600
	for want, v := range map[string]Verdict{
		"waits for fast, where jobs without a time limit run":            {Why: Waits, Start: year - 3600, End: 2 * year, Other: Open},
		"waits for fast, where it ends sooner than on slow":              {Why: Waits, Start: 300, End: year, Other: 1, OtherEnd: 2 * year},
		"takes fast, which is free; waiting for slow it would end later": {Why: Takes, End: 600, Other: 1, OtherEnd: year},
	} {
		if got := v.Choice([]string{"fast", "slow"}, noon).Words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A job that takes whole nodes starts where a node is empty, not where GPUs are free
// beside others, and what it takes is not there for those behind it.
func TestWholeNodes(t *testing.T) {
	node := func(kind int32) placement.Node {
		return placement.Node{Type: kind, Amount: placement.Amount{GPUs: 4, CPUs: 16, MemMB: placement.Plenty}}
	}
	holds := func(at, gpus, cpus int32, until float64) Running {
		return Running{Shares: []placement.Share{{Node: at, Amount: placement.Amount{GPUs: gpus, CPUs: cpus}}}, End: until}
	}
	whole := func() Job {
		j := pending(100, 1000)
		j.Request.Whole, j.Request.Nodes = true, 1
		return j
	}
	for _, c := range []struct {
		name  string
		held  []Running
		cpus  int32 // of the first node, held by jobs without GPUs
		want  Why
		to    int32
		start float64
	}{
		{"all is free", nil, 0, Starts, 0, 0},
		{"one GPU of each is held", []Running{holds(0, 1, 1, 50), holds(1, 1, 1, 900)}, 0, Waits, 0, 50},
		{"several leave one after the other", []Running{holds(0, 1, 1, 50), holds(0, 2, 2, 300), holds(1, 1, 1, 5000)}, 0, Waits, 0, 300},
		{"the fast one is held in part", []Running{holds(0, 1, 1, 5000)}, 0, Takes, 1, 0},
		{"a job without GPUs is on the fast one, nobody knows until when", nil, 1, Waits, 0, 100},
	} {
		s := &Snapshot{Types: 2, Running: c.held, Nodes: placement.New(placement.Packed, []placement.Node{node(0), node(1)})}
		for _, r := range c.held {
			s.Nodes.Take(r.Shares)
		}
		s.Nodes.Take([]placement.Share{{Amount: placement.Amount{CPUs: c.cpus}}})
		with := set()
		with.Wait = 16
		s.Jobs = []Job{whole()}
		if v := Decide(s, with)[0]; v.Why != c.want || v.Type != c.to || v.Start != c.start {
			t.Errorf("%s: %+v, want %s on %d at %v", c.name, v, c.want, c.to, c.start)
		}
	}
	s := &Snapshot{Types: 2, Nodes: placement.New(placement.Packed, []placement.Node{node(0), node(1)})}
	s.Jobs = []Job{whole(), pending(100, 1000)}
	if v := Decide(s, set())[1]; v.Why != Waits || v.Type != 0 || v.Start != 100 {
		t.Errorf("behind it: %+v", v)
	}
}
