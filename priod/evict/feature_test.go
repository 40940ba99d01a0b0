package evict

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// slurm shows jobs that do not change, but for those in odd, and notes what it is told, and in which order with what is saved.
type fakeSlurm struct {
	jobs     map[cluster.JobID]plan.JobStatus
	odd      map[cluster.JobID]bool // cannot be believed
	excluded string
	bounds   slurmplug.Bounds
	switches string // that waiting jobs ask for
	unread   error  // why that is not known
	atOnce   int
	log      []string
	looked   int // jobs, by Look
	saveErr  error
}

func (f *fakeSlurm) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	sights := map[cluster.JobID]plan.JobStatus{}
	var err error
	f.looked += len(targets)
	for _, t := range targets {
		if f.odd[t.Job] {
			err = errors.New("odd")
			continue
		}
		sights[t.Job] = f.jobs[t.Job]
	}
	return sights, err
}

func (f *fakeSlurm) Places(_ context.Context, jobs map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	places := map[cluster.JobID]cluster.Place{}
	for id := range jobs {
		places[id] = cluster.Place{Excluded: f.excluded, Bounds: f.bounds}
	}
	return places, nil
}
func (f *fakeSlurm) Excluded(context.Context, plan.Target) (string, error) { return f.excluded, nil }

func (f *fakeSlurm) AtOnce(context.Context, plan.Target) (int, error) { return f.atOnce, nil }

func (f *fakeSlurm) AskSwitches(_ context.Context, jobs []*cluster.Job) error {
	for _, j := range jobs {
		j.Switches = f.switches
	}
	return f.unread
}

func (f *fakeSlurm) Do(_ context.Context, commands []plan.Command) []plan.Result {
	var results []plan.Result
	for _, c := range commands {
		f.log = append(f.log, string(c.Kind)+" "+c.Job.String())
		if s := f.jobs[c.Job]; c.Kind == plan.Pin {
			s.ReqNodes = c.Value.String()
			f.jobs[c.Job] = s
		}
		results = append(results, plan.Result{Command: c, Status: slurmplug.Applied})
	}
	return results
}

func (f *fakeSlurm) SaveEvictions(_ context.Context, t *Changes) error {
	for _, e := range t.Evictions {
		f.log = append(f.log, "save "+e.Job.String()+" "+string(e.State))
	}
	return f.saveErr
}

// scene is a node with two victims, of whom the first is cheaper, and a TE job.
func newCluster() (*fakeSlurm, *Feature, *cluster.Snapshot, *plan.Plan) {
	s := &cluster.Snapshot{At: start.Add(time.Hour), Nodes: []cluster.Node{{
		Name: "n1", Usable: true, GPUType: "a100", GPUs: 4, GPUsUsed: 4, CPUs: 4, CPUsUsed: 4, MemMB: 400, MemUsedMB: 400, Partitions: []string{"gpu"},
	}}}
	f := &fakeSlurm{jobs: map[cluster.JobID]plan.JobStatus{}, odd: map[cluster.JobID]bool{}}
	for i := range uint32(2) {
		j := cluster.Job{
			ID: slurmplug.Plain(i + 1), RawID: i + 1, TaskCount: 1, User: "alice", Partition: "gpu", State: cluster.Running, Nodes: 1, GPUs: 2, CPUs: 2,
			MemMB: 200, NodeList: "n1", Start: start, TimeLimit: 10 * time.Hour, Tag: jobtag.Tag{Type: "be", Signal: "USR1", Grace: time.Duration(i+1) * time.Minute},
		}
		s.Jobs = append(s.Jobs, j)
		f.jobs[j.ID] = plan.JobStatus{Job: j, CanRequeue: true}
	}
	te := cluster.Job{
		ID: slurmplug.Plain(9), RawID: 9, TaskCount: 1, User: "bob", Partition: "gpu", State: cluster.Pending, Reason: "Resources", Priority: 5, Nodes: 1,
		GPUs: 2, CPUs: 2, MemMB: 200, Tag: jobtag.Tag{Type: "te"},
	}
	s.Jobs = append(s.Jobs, te)
	f.jobs[te.ID] = plan.JobStatus{Job: te, CanRequeue: true}
	p := &plan.Plan{Decisions: []plan.Decision{{Job: te.ID, Class: cluster.TE, Ranked: true, Value: 5}}}
	p.MakeQueue(s)
	e := &Feature{Slurm: f, Recorder: f, Journal: NewJournal(), Vetoes: Vetoes{}, Settings: Settings{
		Enabled: true, Policy: preemption.Settings{Policy: preemption.LeastLoss}, MaxGrace: time.Hour, Hold: time.Minute,
	}}
	return f, e, s, p
}

// chooseVictims chooses for TE jobs, with closer looks.
func (e *Feature) chooseVictims(ctx context.Context, s *cluster.Snapshot, p *plan.Plan) (*Choice, error) {
	m := nodemap.New(s)
	choice, _, err := e.choose(ctx, trials, Question{Snapshot: s, Nodes: m, Holders: FindHolders(s, m, e.Journal, &e.Settings), Plan: p, Journal: e.Journal, Settings: &e.Settings})
	return choice, err
}

func (f *fakeSlurm) change(id uint32, by func(*plan.JobStatus)) {
	s := f.jobs[slurmplug.Plain(id)]
	by(&s)
	f.jobs[slurmplug.Plain(id)] = s
}

// A closer look rules out victims that a poll takes for good ones, one after the other, and TE jobs that name their nodes.
func TestVetoes(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*fakeSlurm)
		victims string
	}{
		"none":                 {func(*fakeSlurm) {}, "1"},
		"the first stays":      {func(f *fakeSlurm) { f.change(1, func(s *plan.JobStatus) { s.CanRequeue = false }) }, "2"},
		"the first began anew": {func(f *fakeSlurm) { f.change(1, func(s *plan.JobStatus) { s.Restarts++ }) }, "2"},
		"the first is TE now":  {func(f *fakeSlurm) { f.change(1, func(s *plan.JobStatus) { s.Tag.Type = "te" }) }, "1"}, // its tag at its start counts
		"both stay": {func(f *fakeSlurm) {
			f.change(1, func(s *plan.JobStatus) { s.CanRequeue = false })
			f.change(2, func(s *plan.JobStatus) { s.CanRequeue = false })
		}, ""},
		"the TE job names a node": {func(f *fakeSlurm) { f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "n1" }) }, ""},
		"it refuses the node":     {func(f *fakeSlurm) { f.excluded = "n[1-3]" }, ""},
		"it refuses another":      {func(f *fakeSlurm) { f.excluded = "n[2-3]" }, "1"},
		"its constraint changed":  {func(f *fakeSlurm) { f.change(9, func(s *plan.JobStatus) { s.Features = "h100" }) }, ""},
		"it is gone":              {func(f *fakeSlurm) { f.change(9, func(s *plan.JobStatus) { s.Gone = true }) }, ""},
	} {
		f, e, s, p := newCluster()
		e.Journal.nodes = s.Nodes
		c.change(f)
		choice, err := e.chooseVictims(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, x := range choice.Changes.Evictions {
			got += x.Job.String()
		}
		if got != c.victims {
			t.Errorf("%s: %q leave, want %q", name, got, c.victims)
		}
	}
}

// A closer look rules out what a poll takes to fit, where Slurm says that it has found no place: else the trial would be
// said to start in the next pass, and no job would leave for it (seen on 22.05.8 and 26.05.5 with --exclude).
func TestVetoesOfWhatFits(t *testing.T) {
	for name, c := range map[string]struct {
		reason, excluded string
		bounds           slurmplug.Bounds
		why              preemption.Why
		prefer           string
	}{
		"nothing is known against it":               {"Resources", "", slurmplug.Bounds{}, preemption.Fits, ""},
		"it refuses the node":                       {"Resources", "n1", slurmplug.Bounds{}, Constraint, ""},
		"sockets of a layout":                       {"Resources", "", slurmplug.Bounds{Open: "sockets of each node"}, Uncountable, ""},
		"CPUs of the GPUs' sockets":                 {"Resources", "", slurmplug.Bounds{Binds: true}, Uncountable, ""},
		"memory for each CPU":                       {"Resources", "", slurmplug.Bounds{MemPerCPU: 101}, Uncountable, ""},
		"as much of it as is counted":               {"Resources", "", slurmplug.Bounds{MemPerCPU: 100}, preemption.Fits, ""},
		"memory for each GPU":                       {"Resources", "", slurmplug.Bounds{MemPerGPU: 101}, Uncountable, ""},
		"all memory":                                {"Resources", "", slurmplug.Bounds{AllMem: true}, Uncountable, ""},
		"Slurm has not looked yet":                  {"Priority", "n1", slurmplug.Bounds{}, preemption.Fits, ""},
		"and leaves it so, by what the job prefers": {"Priority", "n1", slurmplug.Bounds{}, Constraint, "fast"},
	} {
		f, e, s, p := newCluster()
		n := &s.Nodes[0]
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB, s.Jobs = 0, 0, 0, s.Jobs[2:]
		s.Jobs[0].Reason, s.Jobs[0].Prefer, f.excluded, f.bounds = c.reason, c.prefer, c.excluded, c.bounds
		n.Features = []string{"fast"}
		p.MakeQueue(s)
		e.Journal.nodes = s.Nodes
		choice, err := e.chooseVictims(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := choice.Claimants[0].Why; got != c.why || len(choice.Changes.Claims) > 0 {
			t.Errorf("%s: %s, want %s; %d claims", name, got, c.why, len(choice.Changes.Claims))
		}
	}
}

// Memory for each CPU counts of the CPUs that a place has, which are more than the job names where it gets some for each
// GPU, or the whole node (seen on 22.05.8 with --cpus-per-gpu, on 26.05.5 with --exclusive).
func TestMemoryForEachCPUOfThePlace(t *testing.T) {
	j := NewJournal()
	j.nodes = []cluster.Node{{Name: "n1", CPUs: 8, Threads: 1, Together: 1}, {Name: "s1", CPUs: 8, Threads: 1, Together: 4}, {Name: "t1", CPUs: 8, Threads: 2, Together: 2}}
	for _, c := range []struct {
		share  ClaimShare
		counts bool
	}{{ClaimShare{Node: "t1", CPUs: 2, MemMB: 15192}, true}, {ClaimShare{Node: "n1", CPUs: 3, MemMB: 15192}, true}, {ClaimShare{Node: "n1", CPUs: 3, MemMB: 5064}, false}, {ClaimShare{Node: "s1", CPUs: 4, MemMB: 64000}, false}} {
		claim := &Claim{Shares: []ClaimShare{c.share}}
		if got := j.counts(claim, slurmplug.Bounds{MemPerCPU: 5064}, &plan.JobStatus{}); got != c.counts {
			t.Errorf("%+v: %v", c.share, got)
		}
		if j.counts(claim, slurmplug.Bounds{MemPerCPU: 1, LosesThread: true}, &plan.JobStatus{}) != (c.share.Node == "n1") {
			t.Errorf("%+v: a thread less", c.share)
		}
		if j.memShared = true; !j.counts(claim, slurmplug.Bounds{MemPerCPU: 5064}, &plan.JobStatus{}) {
			t.Errorf("%+v: memory counts where Slurm hands out none", c.share)
		}
		j.memShared = false
	}
}

// Slurm may give a job only CPUs of the sockets on which its GPUs lie (26.05.5): whole sockets, and for --gpus=2 -n12.
func TestGPUsApartFromCPUs(t *testing.T) {
	j := NewJournal()
	j.nodes = []cluster.Node{{Name: "n1", CPUs: 16, GPUs: 4, Threads: 2, Together: 2}, {Name: "s1", CPUs: 16, GPUs: 4, Threads: 2, Together: 8}}
	for _, c := range []struct {
		share  ClaimShare
		ofJob  bool
		counts bool
	}{
		{ClaimShare{Node: "n1", GPUs: 2, CPUs: 12}, false, true}, {ClaimShare{Node: "n1", GPUs: 2, CPUs: 12}, true, false},
		{ClaimShare{Node: "n1", GPUs: 2, CPUs: 8}, true, true}, {ClaimShare{Node: "n1", GPUs: 4, CPUs: 12}, true, true},
		{ClaimShare{Node: "s1", GPUs: 2, CPUs: 8}, false, true}, {ClaimShare{Node: "s1", GPUs: 3, CPUs: 8}, false, false},
	} {
		if got := j.counts(&Claim{Shares: []ClaimShare{c.share}}, slurmplug.Bounds{OfJob: c.ofJob}, &plan.JobStatus{}); got != c.counts {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// From 24.05 on Slurm gives the first of several nodes to which a job is bound all of its tasks but one for each other, and
// no GPUs may be left for the last one (seen on 24.11.5 and 26.05.5 with --gpus=4 -n4 -N2): that counts where GPUs by node
// do not say, and a part of the nodes' GPUs is asked for.
func TestTasksOverSeveralNodes(t *testing.T) {
	j := NewJournal()
	j.nodes = []cluster.Node{{Name: "n1", CPUs: 16, GPUs: 4}, {Name: "n2", CPUs: 16, GPUs: 4}}
	of := func(gpus int) *Claim {
		return &Claim{Shares: []ClaimShare{{Node: "n1", GPUs: gpus, CPUs: 2}, {Node: "n2", GPUs: gpus, CPUs: 2}}}
	}
	one := &Claim{Shares: of(2).Shares[:1]}
	for _, c := range []struct {
		claim  *Claim
		asks   slurmplug.Bounds
		counts bool
	}{
		{of(2), slurmplug.Bounds{Fills: true, Tasks: 4}, false}, {of(2), slurmplug.Bounds{Tasks: 4}, true}, {of(2), slurmplug.Bounds{Fills: true, Tasks: 2}, true},
		{of(4), slurmplug.Bounds{Fills: true, Tasks: 8}, true}, {one, slurmplug.Bounds{Fills: true, Tasks: 4}, true},
	} {
		if got := j.counts(c.claim, c.asks, &plan.JobStatus{}); got != c.counts {
			t.Errorf("%+v %+v: %v", c.claim.Shares, c.asks, got)
		}
	}
}

// Where Slurm adds up the GPUs that are free on all nodes, a node with a part of them hides one that has all (seen on 26.05.5
// with --gpus=2 -N1): no job leaves for such a trial, and that is looked at anew in each cycle.
func TestGPUsInParts(t *testing.T) {
	for name, c := range map[string]struct {
		adds bool
		free int // of another node
		cpus int // in use there
		most int // MaxCPUsPerNode
		why  preemption.Why
	}{
		"another node has a part": {true, 1, 0, 0, InParts}, "another Slurm": {false, 1, 0, 0, preemption.Fits}, "another node is full": {true, 0, 0, 0, preemption.Fits}, "another node has all": {true, 2, 0, 0, preemption.Fits},
		"another node has all but CPUs": {true, 2, 1000, 0, InParts}, "all but CPUs of its partition": {true, 2, 12, 12, InParts}, "and these": {true, 2, 0, 12, preemption.Fits},
	} {
		f, e, s, p := newCluster()
		n := &s.Nodes[0]
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB, s.Jobs = 0, 0, 0, s.Jobs[2:]
		other := *n
		other.Name, other.GPUsUsed, other.CPUsUsed = "n0", 4-c.free, c.cpus
		s.Nodes = append(s.Nodes, other)
		f.bounds.AddsUp = c.adds
		for i := range s.Partitions {
			s.Partitions[i].NodeCPUs = c.most
		}
		p.MakeQueue(s)
		e.Journal.nodes = s.Nodes
		choice, err := e.chooseVictims(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := choice.Claimants[0].Why; got != c.why || len(e.Vetoes) > 0 {
			t.Errorf("%s: %s, want %s; %v is remembered", name, got, c.why, e.Vetoes)
		}
	}
}

// Of an array no more tasks get a place than may run at a time; those that run and those
// with a claim count. Who comes behind is not kept from its own.
func TestArrayLimit(t *testing.T) {
	for _, told := range []bool{false, true} { // by the poll, or a closer look
		testArrayLimit(t, told)
	}
}

func testArrayLimit(t *testing.T, told bool) {
	for name, c := range map[string]struct {
		atOnce, running, claims int
		want                    string // who gets a place
	}{
		"none":                 {0, 2, 0, "9_1 9_2"},
		"two":                  {2, 0, 0, "9_1 9_2"},
		"one":                  {1, 0, 0, "9_1 10"},
		"one runs":             {1, 1, 0, "10"},
		"one of two runs":      {2, 1, 0, "9_1 10"},
		"one of two has one":   {2, 0, 1, "9_1"},
		"one runs, one has it": {2, 1, 1, "10"},
	} {
		f, e, s, p := newCluster()
		if f.atOnce = c.atOnce; told {
			f.atOnce = 0
		}
		te := s.Jobs[2]
		s.Jobs, p.Decisions = s.Jobs[:2], nil
		add := func(id cluster.JobID, raw uint32, state cluster.State, value int64) {
			j := te
			j.ID, j.RawID, j.State = id, raw, state
			if state == cluster.Running {
				j.NodeList, j.GPUs = "n2", 0
			} else if told && id.ID == 9 {
				j.AtOnce, j.ArrayRuns = c.atOnce, c.running
			}
			s.Jobs, f.jobs[id] = append(s.Jobs, j), plan.JobStatus{Job: j, CanRequeue: true}
			if state != cluster.Pending {
				return
			}
			p.Decisions = append(p.Decisions, plan.Decision{Job: id, Class: cluster.TE, Ranked: true, Value: value})
		}
		for k := range 4 {
			add(cluster.JobID{ID: 9, Task: int32(k + 1)}, uint32(20+k), cluster.Pending, int64(10-k))
		}
		for k := range c.running {
			add(cluster.JobID{ID: 9, Task: int32(k + 5)}, uint32(30+k), cluster.Running, 1)
		}
		add(slurmplug.Plain(10), 10, cluster.Pending, 1)
		for k := range c.claims {
			id := cluster.JobID{ID: 9, Task: int32(k + 7)}
			e.Journal.Claims = append(e.Journal.Claims, Claim{Number: int64(k + 1), Job: id, State: Planned, Shares: []ClaimShare{{Node: "n1", GPUs: 2, CPUs: 2, MemMB: 200}}})
			e.Journal.Evictions = append(e.Journal.Evictions, Eviction{Number: int64(k + 1), Claim: int64(k + 1), Job: slurmplug.Plain(2), State: Signalled})
		}
		p.MakeQueue(s)
		choice, err := e.chooseVictims(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range choice.Changes.Claims {
			got = append(got, x.Job.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, told %v: %q get a place, want %q", name, told, got, c.want)
		}
		limited := len(got) > 0 && got[len(got)-1] == "10"
		for _, x := range choice.Claimants {
			if x.Job.ID == 9 && (x.Why == ArrayLimit) != (limited && !slices.Contains(got, x.Job.String())) {
				t.Errorf("%s: %s %s", name, x.Job, x.Why)
			}
		}
	}
}

// A job that Slurm put into BadConstraints with the nodes that priod wrote is freed
// before anything else of a cycle, also by a priod that was started since.
func TestFreedFirst(t *testing.T) {
	for reason, want := range map[string]int{"BadConstraints": 1, "Resources": 0} {
		f, e, s, _ := newCluster()
		f.change(9, func(x *plan.JobStatus) { x.Reason, x.ReqNodes = reason, "n1" })
		s.Jobs[2].Reason = reason
		e.Journal.Claims = []Claim{{Number: 1, Job: slurmplug.Plain(9), RawID: 9, User: "bob", State: Planned, Pin: "n1"}}
		if err := e.unpinUnsatisfied(t.Context(), s, false); err != nil {
			t.Fatal(err)
		}
		if len(f.log) != want || want == 1 && (f.log[0] != "unpin 9" || e.Journal.Claims[0].State != Released) {
			t.Errorf("%s: %q, %+v", reason, f.log, e.Journal.Claims)
		}
	}
}

// However many jobs a closer look rules out, it does not keep room from others for long: a cycle remembers what the one before it learned.
func TestManyVetoes(t *testing.T) {
	grow := func(s *cluster.Snapshot, f *fakeSlurm, like cluster.JobID, ids ...uint32) {
		for _, id := range ids {
			sight := f.jobs[like]
			sight.ID, sight.RawID = slurmplug.Plain(id), id
			s.Jobs, f.jobs[sight.ID] = append(s.Jobs, sight.Job), sight
		}
	}
	for name, c := range map[string]func(*fakeSlurm, *cluster.Snapshot, *plan.Plan){
		"victims that cannot be requeued": func(f *fakeSlurm, s *cluster.Snapshot, _ *plan.Plan) {
			s.Nodes[0].GPUs, s.Nodes[0].GPUsUsed, s.Nodes[0].CPUs, s.Nodes[0].CPUsUsed, s.Nodes[0].MemMB, s.Nodes[0].MemUsedMB = 20, 20, 20, 20, 2000, 2000
			f.change(1, norequeue)
			grow(s, f, slurmplug.Plain(1), 11, 12, 13, 14, 15, 16, 17, 18) // all cheaper than job 2
		},
		"TE jobs that name a node": func(f *fakeSlurm, s *cluster.Snapshot, p *plan.Plan) {
			for id := range uint32(9) {
				id += 20
				grow(s, f, slurmplug.Plain(9), id)
				f.change(id, func(s *plan.JobStatus) { s.ReqNodes = "n1" })
				p.Decisions = append(p.Decisions, plan.Decision{Job: slurmplug.Plain(id), Class: cluster.TE, Ranked: true, Value: int64(id)})
			}
		},
	} {
		f, e, s, p := newCluster()
		c(f, s, p)
		p.MakeQueue(s)
		e.Settings.Policy.Limits.MaxPerHour = 1
		cycles, victims := 0, 0
		for ; victims == 0 && cycles < 5; cycles++ {
			choice, err := e.chooseVictims(t.Context(), s, p)
			if err != nil {
				t.Fatal(err)
			}
			victims = len(choice.Changes.Evictions)
			s.At = s.At.Add(15 * time.Second)
		}
		if victims != 1 {
			t.Errorf("%s: nobody leaves in %d cycles", name, cycles)
		}
	}
}

// What a closer look found is believed for a while, and then asked again.
func TestVetoesPass(t *testing.T) {
	f, e, s, p := newCluster()
	f.change(1, norequeue)
	leaves := func() string {
		choice, err := e.chooseVictims(t.Context(), s, p)
		if err != nil || len(choice.Changes.Evictions) != 1 {
			t.Fatalf("%+v, %v", choice, err)
		}
		return choice.Changes.Evictions[0].Job.String()
	}
	before := leaves()
	f.change(1, func(s *plan.JobStatus) { s.CanRequeue = true })
	soon := leaves()
	s.At = s.At.Add(time.Hour)
	if later := leaves(); before != "2" || soon != "2" || later != "1" {
		t.Errorf("%s, %s, %s", before, soon, later)
	}
}

// A job that comes back with the place of an earlier claim in its request is not taken
// for one that names its nodes: that is taken out in the same cycle.
func TestVetoesForgetPins(t *testing.T) {
	f, e, s, p := newCluster()
	e.Journal.Claims = []Claim{{Number: 1, Job: slurmplug.Plain(9), RawID: 9, User: "bob", State: Started, Pin: "n1", Ended: start}}
	f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "n1" })
	leaves := func() int {
		choice, err := e.chooseVictims(t.Context(), s, p)
		if err != nil {
			t.Fatal(err)
		}
		return len(choice.Changes.Evictions)
	}
	before := leaves()
	if err := e.Tend(t.Context(), s, p, false); err != nil || len(f.log) == 0 || f.log[0] != "unpin 9" {
		t.Fatalf("%v, %q", err, f.log)
	}
	f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "" })
	s.At = s.At.Add(15 * time.Second)
	if after := leaves(); before != 0 || after != 1 {
		t.Errorf("%d leave while the place is in its request, %d then", before, after)
	}
}

// begun is a scene with its claim recorded.
func begun(t *testing.T) (*fakeSlurm, *Feature, *cluster.Snapshot, *plan.Plan) {
	t.Helper()
	f, e, s, p := newCluster()
	choice, err := e.chooseVictims(t.Context(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	e.Journal.Number(&choice.Changes)
	if err := e.save(t.Context(), &choice.Changes, "none was begun"); err != nil {
		t.Fatal(err)
	}
	return f, e, s, p
}

// The row comes before the command, the place before the signal.
func TestRowBeforeCommand(t *testing.T) {
	f, e, s, p := begun(t)
	if err := e.Tend(t.Context(), s, p, false); err != nil {
		t.Fatal(err)
	}
	want := []string{"save 1 recorded", "pin 9", "save 1 recorded", "signal 1", "save 1 signalled"}
	if len(f.log) != len(want) {
		t.Fatalf("%q", f.log)
	}
	for i := range want {
		if f.log[i] != want[i] {
			t.Fatalf("%q, want %q", f.log, want)
		}
	}
}

// A grace is measured by the monotonic clock, which nobody sets.
func TestGraceIsMonotonic(t *testing.T) {
	_, e, s, p := begun(t)
	if err := e.Tend(t.Context(), s, p, false); err != nil {
		t.Fatal(err)
	}
	if at := e.Journal.Evictions[0].SignalledAt; at == at.Round(0) {
		t.Errorf("%s has no monotonic reading", at)
	}
}

// A node that is silent for a moment, as after a start of slurmctld, costs no claim.
func TestSilentNode(t *testing.T) {
	for _, silent := range []bool{true, false} {
		_, e, s, p := begun(t)
		s.Nodes[0].Usable, s.Nodes[0].Silent = false, silent
		if err := e.Tend(t.Context(), s, p, false); err != nil {
			t.Fatal(err)
		}
		if open := e.Journal.Claims[0].Open(); open != silent {
			t.Errorf("silent %v: %+v", silent, e.Journal.Claims[0])
		}
	}
}

// What cannot be saved is not sent.
func TestNothingWithoutARow(t *testing.T) {
	f, e, s, p := begun(t)
	f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "n1" })
	f.saveErr, f.log = errors.New("disk full"), nil
	if err := e.Tend(t.Context(), s, p, false); !errors.Is(err, f.saveErr) {
		t.Errorf("%v", err)
	}
	for _, line := range f.log {
		if line == "signal 1" {
			t.Errorf("%q", f.log)
		}
	}
}

// A record that cannot be believed holds up no other.
func TestOddRecord(t *testing.T) {
	f, e, s, p := begun(t)
	f.odd[slurmplug.Plain(9)] = true
	e.Journal.Claims[0].Pin = ""
	if err := e.Tend(t.Context(), s, p, false); err == nil {
		t.Error("nobody is told of the odd record")
	}
	if e.Journal.Evictions[0].State != Signalled {
		t.Errorf("%+v", e.Journal.Evictions[0])
	}
}

// Of the jobs that started where they were pinned and have left the queue, a cycle looks at a few: Slurm may remember them for days.
func TestPinsOfEndedJobs(t *testing.T) {
	f, e, s, p := newCluster()
	const ended, back = 200, 100 // jobs from 100 on; one is requeued
	for id := range uint32(ended) {
		id += 100
		job := cluster.Job{ID: slurmplug.Plain(id), RawID: id, User: "bob", State: cluster.Other, NodeList: "n1"}
		f.jobs[job.ID] = plan.JobStatus{Job: job, Final: "FAILED", ReqNodes: "n1"}
		e.Journal.Claims = append(e.Journal.Claims, Claim{Number: int64(id), Job: job.ID, RawID: id, User: "bob", State: Started, Pin: "n1", Ended: start})
	}
	f.change(back, func(x *plan.JobStatus) { x.State, x.Final, x.NodeList = cluster.Pending, "", "" })
	s.Jobs = append(s.Jobs, f.jobs[slurmplug.Plain(back)].Job)
	tend := func() {
		f.looked = 0
		if err := e.Tend(t.Context(), s, p, false); err != nil {
			t.Fatal(err)
		}
	}
	if tend(); len(f.log) == 0 || f.log[0] != "unpin 100" || f.looked > ended/2 {
		t.Errorf("%d looks: %q", f.looked, f.log)
	}
	f.jobs = map[cluster.JobID]plan.JobStatus{}
	for id := range uint32(ended) {
		f.jobs[slurmplug.Plain(id+100)] = plan.JobStatus{Gone: true}
	}
	s.Jobs = s.Jobs[:len(s.Jobs)-1]
	for range 100 {
		tend()
	}
	for _, c := range e.Journal.Claims {
		if c.Pin != "" {
			t.Fatalf("kept although Slurm forgot the job: %+v", c)
		}
	}
}
