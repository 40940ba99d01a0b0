package evict

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var at = epoch

// scene is a cluster of nodes n1, n2, ... with 4 GPUs each, and its queue.
type scene struct {
	cluster.Snapshot
	plan    plan.Plan
	journal *Journal
	set     Settings
	vetoed  map[cluster.JobID]preemption.Why
}

func newScene(nodes int) *scene {
	s := &scene{journal: NewJournal(), set: Settings{
		Enabled: true, Policy: preemption.Settings{Policy: preemption.LeastLoss}, Grace: 30 * time.Second, MaxGrace: 10 * time.Minute,
		Restart: time.Second, Retry: time.Minute,
	}}
	s.At = at
	for i := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{
			Name: fmt.Sprint("n", i+1), Usable: true, State: "IDLE", GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 1600,
			Features: []string{"a100"}, Partitions: []string{"gpu"},
		})
	}
	return s
}

// runs adds a BE job that checkpoints on a signal and takes a share of a node.
func (s *scene) runs(id uint32, node, gpus int, change ...func(*cluster.Job)) {
	j := cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "alice", Partition: "gpu", State: cluster.Running, Nodes: 1,
		GPUs: gpus, CPUs: gpus, MemMB: 100 * int64(gpus), GPUType: "a100", NodeList: fmt.Sprint("n", node),
		TimeLimit: 10 * time.Hour, Start: at.Add(-time.Hour), Eligible: at.Add(-2 * time.Hour),
		Tag: jobtag.Tag{Type: "be", Signal: "USR1", Grace: time.Minute},
	}
	for _, f := range change {
		f(&j)
	}
	n := &s.Nodes[node-1]
	n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed+gpus, n.CPUsUsed+gpus, n.MemUsedMB+100*int64(gpus)
	s.Jobs = append(s.Jobs, j)
}

// waits adds a TE job.
func (s *scene) waits(id uint32, gpus int, change ...func(*cluster.Job)) {
	j := cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "bob", Partition: "gpu", State: cluster.Pending, Reason: "Resources", Priority: 9,
		Nodes: 1, GPUs: gpus, CPUs: gpus, MemMB: 100, TimeLimit: time.Hour, Tag: jobtag.Tag{Type: "te"},
	}
	for _, f := range change {
		f(&j)
	}
	s.Jobs = append(s.Jobs, j)
	s.plan.Decisions = append(s.plan.Decisions, plan.Decision{Job: j.ID, Class: cluster.TE, Ranked: true, Value: 1000 - int64(id)})
}

func (s *scene) choose() *Choice {
	s.plan.MakeQueue(&s.Snapshot)
	return Choose(ForTrial, s.question())
}

func (s *scene) question() Question {
	m := nodemap.New(&s.Snapshot)
	return Question{Snapshot: &s.Snapshot, Nodes: m, Holders: FindHolders(&s.Snapshot, m, s.journal, &s.set), Plan: &s.plan, Journal: s.journal, Settings: &s.set, Vetoed: s.vetoed}
}

func (s *scene) why(id uint32) (preemption.Why, []cluster.JobID) {
	c := s.choose()
	for _, t := range c.Claimants {
		if t.Job.ID == id {
			return t.Why, t.Leaving()
		}
	}
	return "", nil
}

func TestChoosesTheCheapest(t *testing.T) {
	s := newScene(2)
	s.runs(1, 1, 4, func(j *cluster.Job) { j.Tag.Signal = "" }) // loses an hour of work
	s.runs(2, 2, 4)
	s.waits(10, 2)
	c := s.choose()
	if len(c.Changes.Claims) != 1 || len(c.Changes.Evictions) != 1 {
		t.Fatalf("%+v", c.Changes)
	}
	s.journal.Number(&c.Changes)
	c.Changes.Claims[0].Shares[0].Kind = "" // see lessons_test.go
	want := Claim{
		Number: 1, Purpose: ForTrial, Job: slurmplug.Plain(10), RawID: 10, User: "bob", GPUs: 2, Wait: time.Minute, State: Planned, Pin: "n2", At: at, Changed: at,
		Shares: []ClaimShare{{Node: "n2", GPUs: 2, CPUs: 2, MemMB: 100}},
	}
	if !reflect.DeepEqual(c.Changes.Claims[0], want) {
		t.Errorf("%+v", c.Changes.Claims[0])
	}
	wants := Eviction{
		Number: 1, Claim: 1, Job: slurmplug.Plain(2), RawID: 2, User: "alice", Start: at.Add(-time.Hour), GPUs: 4, Signal: "USR1",
		Grace: time.Minute, Eligible: at.Add(-2 * time.Hour), Restart: time.Second, Promised: 4 * 61, State: Recorded, At: at,
	}
	if c.Changes.Evictions[0] != wants {
		t.Errorf("%+v", c.Changes.Evictions[0])
	}
	reasons := map[uint32]preemption.Why{}
	for _, r := range c.Refusals(&c.Claimants[0]) {
		reasons[r.Job.ID] = r.Why
	}
	if reasons[1] != preemption.Dearer || reasons[2] != preemption.Victim {
		t.Errorf("%v", reasons)
	}
	s.journal.Update(&c.Changes)
	if why, victims := s.why(10); why != preemption.Claimed || victims != nil {
		t.Errorf("asked again: %s %v", why, victims)
	}
	s.waits(11, 2) // the other half of the hole
	if why, victims := s.why(11); why != preemption.Fits || victims != nil {
		t.Errorf("beside a claim: %s %v", why, victims)
	}
	s.waits(12, 3)
	if why, victims := s.why(12); why != preemption.Evicts || len(victims) != 1 || victims[0].ID != 1 {
		t.Errorf("behind two others: %s %v", why, victims)
	}
}

// Who must not leave does not, and who cannot be helped gets no room made. Two GPUs on two nodes are no place for a job that asks for two:
// pinned to both it would get two of each.
func TestOneNodeIsOnePlace(t *testing.T) {
	s := newScene(2)
	for node := 1; node <= 2; node++ {
		s.runs(uint32(node), node, 1)
		s.runs(uint32(node+2), node, 3, func(j *cluster.Job) { j.Tag = jobtag.Tag{} })
	}
	s.waits(10, 2)
	if why, victims := s.why(10); victims != nil {
		t.Errorf("%v leave: %s", victims, why)
	}
	s.Jobs[len(s.Jobs)-1].GPUs = 1
	if why, victims := s.why(10); len(victims) != 1 {
		t.Errorf("one GPU: %v leave: %s", victims, why)
	}
}

func TestLeavesAlone(t *testing.T) {
	victim := func(change func(*cluster.Job)) *scene {
		s := newScene(1)
		s.runs(1, 1, 4, change)
		s.waits(10, 2)
		return s
	}
	trial := func(change func(*cluster.Job)) *scene {
		s := newScene(1)
		s.runs(1, 1, 4)
		s.waits(10, 2, change)
		return s
	}
	with := func(change func(*scene)) *scene {
		s := newScene(1)
		s.runs(1, 1, 4)
		s.waits(10, 2)
		change(s)
		return s
	}
	spent := func(s *scene, user string, when time.Duration) { // two GPU-minutes of a budget of one
		s.set.Policy.Limits.UserGPUMinutesPerDay = 1
		then := at.Add(when)
		s.journal.Claims = []Claim{{Number: 1, User: user, State: Started, Ended: then}}
		s.journal.Evictions = []Eviction{{Number: 1, Claim: 1, State: Done, At: then, SignalledAt: then, Ended: then, Paid: 120}}
	}
	released := func(s *scene, ago time.Duration) {
		s.journal.Claims = append(s.journal.Claims, Claim{Number: int64(len(s.journal.Claims) + 1), Job: slurmplug.Plain(10), State: Released, Ended: at.Add(-ago)})
	}
	hopeless := func(job cluster.JobID, ago time.Duration) *scene { // the job that waits is the second task of array 10
		s := newScene(1)
		s.runs(1, 1, 4)
		s.waits(10, 2, func(j *cluster.Job) { j.ID.Task = 1 })
		s.journal.Claims = []Claim{{Number: 1, Job: job, State: Released, Reason: unsatisfied, Ended: at.Add(-ago)}}
		return s
	}
	for name, c := range map[string]struct {
		s    *scene
		why  preemption.Why
		left preemption.Why // of job 1
	}{
		"nothing special": {with(func(*scene) {}), preemption.Evicts, preemption.Victim},
		"untagged":        {victim(func(j *cluster.Job) { j.Tag = jobtag.Tag{} }), preemption.Impossible, preemption.NoConsent},
		"a bad tag":       {victim(func(j *cluster.Job) { j.Tag, j.TagErr = jobtag.Tag{}, "bad" }), preemption.Impossible, preemption.NoConsent},
		"TE":              {victim(func(j *cluster.Job) { j.Tag.Type = "te" }), preemption.Impossible, preemption.NoConsent},
		"by QOS": {with(func(s *scene) {
			s.Jobs[0].Tag, s.Jobs[0].QOS, s.set.Ranking.BEQOS = jobtag.Tag{}, "be", []string{"be"}
		}), preemption.Evicts, preemption.Victim},
		"by one QOS of two": {with(func(s *scene) {
			s.Jobs[0].Tag, s.Jobs[0].QOS, s.set.Ranking.BEQOS = jobtag.Tag{}, "normal,be", []string{"be"}
		}), preemption.Impossible, preemption.NoConsent},
		"in a reservation": {victim(func(j *cluster.Job) { j.Reservation = "r" }), preemption.Impossible, preemption.NoConsent},
		"another partition": {with(func(s *scene) {
			s.Jobs[0].Partition = "other"
			s.set.Ranking = plan.Classes{Partitions: []string{"gpu"}}
		}), preemption.Impossible, preemption.NoConsent},
		"a component":       {victim(func(j *cluster.Job) { j.HetLeader = 1 }), preemption.Impossible, preemption.NoConsent},
		"ten days of grace": {victim(func(j *cluster.Job) { j.Tag.Grace = 240 * time.Hour }), preemption.Impossible, LongGrace},
		"vetoed":            {with(func(s *scene) { s.vetoed = map[cluster.JobID]preemption.Why{slurmplug.Plain(1): Vetoed} }), preemption.Impossible, Vetoed},
		"evicted often":     {with(func(s *scene) { s.set.Policy.MaxEvictions = 2; s.journal.Times[slurmplug.Plain(1)] = 2 }), preemption.Impossible, preemption.Capped},
		"just started":      {with(func(s *scene) { s.set.Policy.Policy, s.set.Policy.MinRun = preemption.FitGpp, 7200 }), preemption.Impossible, preemption.Young},
		"reserved node":     {with(func(s *scene) { s.Nodes[0].State = "MIXED+RESERVED" }), preemption.Impossible, ""},
		"node down":         {with(func(s *scene) { s.Nodes[0].Usable = false }), preemption.Impossible, ""},
		"waits for a limit": {trial(func(j *cluster.Job) { j.Reason = "QOSMaxGRESPerUser" }), Unhelpful, ""},
		"not looked at yet": {trial(func(j *cluster.Job) { j.Reason, j.Eligible = "None", at.Add(-5*time.Second) }), Unseen, ""},
		"not counted":       {trial(func(j *cluster.Job) { j.Open = "shard" }), Uncountable, ""},
		"without GPUs":      {trial(func(j *cluster.Job) { j.GPUs = 0 }), NoGPUs, ""},
		"other type":        {trial(func(j *cluster.Job) { j.GPUType = "v100" }), preemption.Impossible, preemption.WrongType},
		"other feature":     {trial(func(j *cluster.Job) { j.Features = "v100" }), preemption.Impossible, preemption.WrongType},
		"either feature":    {trial(func(j *cluster.Job) { j.Features = "v100|a100" }), preemption.Evicts, preemption.Victim},
		"both features":     {trial(func(j *cluster.Job) { j.Features = "v100&a100" }), preemption.Impossible, preemption.WrongType},
		"hard constraint":   {trial(func(j *cluster.Job) { j.Features = "[v100|a100]" }), Constraint, ""},
		"soon anyway":       {with(func(s *scene) { s.Jobs[0].TimeLimit = time.Hour + 20*time.Second }), preemption.Anyway, preemption.Late},
		"too many at once": {with(func(s *scene) {
			s.set.Policy.Limits.MaxPerHour = 1
			s.journal.Evictions = []Eviction{{Number: 1, State: Done, At: at, SignalledAt: at, Ended: at}}
		}), preemption.PerHour, ""},
		"user's budget":                {with(func(s *scene) { spent(s, "bob", -time.Hour) }), preemption.PerOwner, ""},
		"another's budget":             {with(func(s *scene) { spent(s, "carol", -time.Hour) }), preemption.Evicts, preemption.Victim},
		"yesterday's":                  {with(func(s *scene) { spent(s, "bob", -25*time.Hour) }), preemption.Evicts, preemption.Victim},
		"dated tomorrow":               {with(func(s *scene) { spent(s, "bob", 25*time.Hour) }), preemption.Evicts, preemption.Victim},
		"took over":                    {with(func(s *scene) { s.set.Since = at.Add(-time.Minute) }), TookOver, ""},
		"graces are over":              {with(func(s *scene) { s.set.Since = at.Add(-62 * time.Second) }), preemption.Evicts, preemption.Victim},
		"began afterwards":             {with(func(s *scene) { s.set.Since = at.Add(-2 * time.Hour) }), preemption.Evicts, preemption.Victim},
		"prefers it":                   {trial(func(j *cluster.Job) { j.Prefer = "v100|a100" }), preemption.Evicts, preemption.Victim},
		"prefers another":              {trial(func(j *cluster.Job) { j.Prefer = "v100" }), preemption.Impossible, preemption.WrongType},
		"asks for it, prefers another": {trial(func(j *cluster.Job) { j.Features, j.Prefer = "a100", "v100" }), preemption.Impossible, preemption.WrongType},
		"a hard preference":            {trial(func(j *cluster.Job) { j.Prefer = "[v100|a100]" }), Constraint, ""},
		"released":                     {with(func(s *scene) { released(s, 30*time.Second) }), TooSoon, ""},
		"long ago":                     {with(func(s *scene) { released(s, 90*time.Second) }), preemption.Evicts, preemption.Victim},
		"released later":               {with(func(s *scene) { released(s, -24*time.Hour) }), preemption.Evicts, preemption.Victim}, // by a clock that was ahead
		"no node for it":               {hopeless(cluster.JobID{ID: 10, Task: 1}, 7*time.Minute), TooSoon, ""},
		"nor for a task of its array":  {hopeless(cluster.JobID{ID: 10, Task: 0}, 7*time.Minute), TooSoon, ""},
		"none, long ago":               {hopeless(cluster.JobID{ID: 10, Task: 0}, 9*time.Minute), preemption.Evicts, preemption.Victim},
		"none for another":             {hopeless(cluster.JobID{ID: 11, Task: 0}, 7*time.Minute), preemption.Evicts, preemption.Victim},
		"released twice":               {with(func(s *scene) { released(s, 10*time.Minute); released(s, 90*time.Second) }), TooSoon, ""},
	} {
		t.Run(name, func(t *testing.T) {
			choice := c.s.choose()
			trial := &choice.Claimants[0]
			if trial.Why != c.why {
				t.Fatalf("%s, want %s", trial.Why, c.why)
			}
			for _, r := range choice.Refusals(trial) {
				if c.left != "" && r.Why != c.left {
					t.Errorf("%s, want %s", r.Why, c.left)
				}
			}
			if (len(choice.Changes.Evictions) > 0) != (c.why == preemption.Evicts) {
				t.Errorf("%+v", choice.Changes)
			}
		})
	}
}

// A TE job that prefers features gets its place on nodes that have them, however dear, and none when it starts elsewhere anyway.
func TestPreferredNodes(t *testing.T) {
	s := newScene(3)
	s.Nodes[1].Features = []string{"a100", "ib"}
	s.runs(1, 1, 4)
	s.runs(2, 2, 4, func(j *cluster.Job) { j.Tag.Signal = "" }) // loses an hour of work
	s.runs(3, 3, 2)
	s.waits(10, 4, func(j *cluster.Job) { j.Prefer = "ib" })
	s.journal.nodes = s.Nodes
	c := s.choose()
	if len(c.Changes.Claims) != 1 || c.Changes.Claims[0].Pin != "n2" {
		t.Fatalf("%+v", c.Changes)
	}
	sight := plan.JobStatus{Job: s.Jobs[3]}
	if claim := &c.Changes.Claims[0]; !s.journal.Allows(claim, &sight) {
		t.Error("the node that it prefers is refused")
	}
	if sight.Prefer = "nvme"; s.journal.Allows(&c.Changes.Claims[0], &sight) {
		t.Error("a node that it does not prefer any more is not refused")
	}
	s.Jobs[3].GPUs = 2
	if why, victims := s.why(10); why != Elsewhere || victims != nil {
		t.Errorf("%s: %v leave, while n3 has room", why, victims)
	}
	s.Nodes[1].GPUsUsed, s.Jobs[1].GPUs = 2, 2
	if why, _ := s.why(10); why != preemption.Fits {
		t.Errorf("%s, while the node that it prefers has room", why)
	}
	s.Nodes[1].GPUsUsed, s.Jobs[1].GPUs = 4, 4
	s.journal.Claims = []Claim{{Number: 1, Job: slurmplug.Plain(11), State: Planned, Shares: []ClaimShare{{Node: "n3", GPUs: 2, CPUs: 2, MemMB: 200}}}}
	if why, _ := s.why(10); why != preemption.Evicts {
		t.Errorf("%s, while the room on n3 is claimed", why)
	}
}

// Everybody says TE, and one user floods the queue: within one cycle, too, no
// more is evicted for him than his budget, and the others come to theirs.
func TestFloodOfTrials(t *testing.T) {
	s := newScene(8)
	for n := range 8 {
		s.runs(uint32(n+1), n+1, 4) // each costs 244 GPU-seconds
	}
	s.set.Policy.Limits.UserGPUMinutesPerDay = 500.0 / 60
	for id := range uint32(2 * maxTrials) {
		s.waits(100+id, 4)
	}
	s.waits(900, 4, func(j *cluster.Job) { j.User = "carol" })
	room := map[string]int{}
	for range 2 {
		c := s.choose()
		s.journal.Number(&c.Changes)
		s.journal.Update(&c.Changes)
		for _, c := range c.Changes.Claims {
			room[c.User]++
		}
	}
	if room["bob"] != 3 || room["carol"] != 1 {
		t.Errorf("%v", room)
	}
}

// A place that counts on what a victim for another claim leaves is not there before that has left, and is given up where that stays.
func TestPlaceAwaitsOthersVictims(t *testing.T) {
	s := newScene(1)
	s.runs(1, 1, 3, func(j *cluster.Job) { j.Tag.Grace = 3 * time.Minute })
	s.runs(2, 1, 1, func(j *cluster.Job) { j.Tag.Signal = "" })
	s.waits(10, 1)
	first := s.choose()
	if len(first.Changes.Evictions) != 1 || first.Changes.Evictions[0].Job.ID != 1 {
		t.Fatalf("%+v", first.Changes)
	}
	s.journal.Number(&first.Changes)
	s.journal.Update(&first.Changes)
	s.waits(11, 3) // two GPUs of what job 1 leaves, and one of job 2
	second := s.choose()
	s.journal.Number(&second.Changes)
	if len(second.Changes.Claims) != 1 || !slices.Equal(second.Changes.Claims[0].Awaits, []int64{1}) || second.Changes.Claims[0].Resv == "" {
		t.Fatalf("%+v", second.Changes)
	}
	s.journal.Update(&second.Changes)
	claim := s.journal.Claim(second.Changes.Claims[0].Number)
	for _, x := range []struct {
		first, own State
		complete   bool
		why        string
	}{{Signalled, Left, false, ""}, {Left, Signalled, false, ""}, {Left, Left, true, ""}, {CalledOff, Left, false, "job 1 stays: priod is paused"}} {
		s.journal.Evictions[0].State, s.journal.Evictions[0].Reason, s.journal.Evictions[1].State = x.first, "priod is paused", x.own
		n := transition{j: s.journal, Observation: Observation{At: at}}
		if why, complete := n.whetherFree(claim); why != x.why || complete != x.complete {
			t.Errorf("%s, %s: %q, %v", x.first, x.own, why, complete)
		}
	}
}

// Where the trial's speed is known, room is made on a type on which it is done sooner, though another
// is free; not where its user did not agree to a type of priod's choice.
func TestRoomOnAFasterType(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*cluster.Job)
		slow   float64
		why    preemption.Why
	}{
		"ten times": {func(j *cluster.Job) { j.Tag.Workload = "w" }, 3000, preemption.Evicts}, "as fast": {func(j *cluster.Job) { j.Tag.Workload = "w" }, 300, preemption.Fits},
		"not agreed": {func(*cluster.Job) {}, 3000, preemption.Fits},
	} {
		s := newScene(2)
		s.set.Policy.Urgency, s.set.Policy.RunCost = 5, 1
		s.Nodes[1].GPUType, s.Nodes[1].Features = "k80", []string{"k80"}
		s.runs(1, 1, 4)
		s.waits(10, 2, x.change)
		s.plan.Shares = &plan.Shares{Types: []string{"a100", "k80"}}
		s.plan.Shares.Jobs.Set(slurmplug.Plain(10), &plan.Share{Run: []float64{300, x.slow}})
		if why, _ := s.why(10); why != x.why {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// Victims of one cycle for two claims on one node: the numbers come later.
func TestPlacesOfOneCycle(t *testing.T) {
	s := newScene(1)
	s.runs(1, 1, 3)
	s.runs(2, 1, 1, func(j *cluster.Job) { j.Tag.Signal = "" })
	s.waits(10, 1)
	s.waits(11, 3)
	c := s.choose()
	s.journal.Number(&c.Changes)
	if len(c.Changes.Claims) != 2 || !slices.Equal(c.Changes.Claims[1].Awaits, []int64{c.Changes.Evictions[0].Number}) {
		t.Errorf("%+v", c.Changes)
	}
}

// A place that becomes free in parts is reserved, one that a single job leaves is not.
func TestReservesParts(t *testing.T) {
	for name, c := range map[string]struct {
		gpus []int
		want int
		resv bool
	}{
		"one victim":            {[]int{4}, 2, false},
		"all of one victim":     {[]int{2, 2}, 2, false},
		"two victims":           {[]int{2, 2}, 4, true},
		"a victim and free GPU": {[]int{2, 1}, 3, true},
	} {
		s := newScene(1)
		for i, g := range c.gpus {
			s.runs(uint32(i+1), 1, g)
		}
		s.waits(10, c.want)
		choice := s.choose()
		if len(choice.Changes.Claims) != 1 || (choice.Changes.Claims[0].Resv != "") != c.resv {
			t.Errorf("%s: %+v", name, choice.Changes.Claims)
		}
	}
}

// An array of TE jobs gets room one task after the other.
func TestArrayTaskByTask(t *testing.T) {
	s := newScene(2)
	s.runs(1, 1, 4)
	s.runs(2, 2, 4)
	s.waits(10, 3, func(j *cluster.Job) { j.Tasks, j.TaskCount = "4-9", 6 })
	c := s.choose()
	if len(c.Changes.Claims) != 1 || c.Changes.Claims[0].Job != (cluster.JobID{ID: 10, Task: 4}) || len(c.Changes.Evictions) != 1 {
		t.Errorf("%+v", c.Changes)
	}
}

// Three evictions of a user's jobs say more than what they declare.
func TestLearnsHowJobsLeave(t *testing.T) {
	j := NewJournal()
	job := &cluster.Job{User: "alice", Tag: jobtag.Tag{Type: "be", Signal: "USR1", Grace: time.Minute, Ckpt: 10 * time.Minute}}
	set := &Settings{Grace: 30 * time.Second}
	expect := func(grace, unsaved float64) {
		t.Helper()
		if g, u := j.leavingByUser().expect(job, set, 3900); g != grace || u != unsaved {
			t.Errorf("grace %g, unsaved %g; want %g, %g", g, u, grace, unsaved)
		}
	}
	expect(60, 0)
	leaves := func(how How, took time.Duration) {
		j.Evictions = append(j.Evictions, Eviction{User: "alice", How: how, SignalledAt: at, LeftAt: at.Add(took), State: Done})
	}
	leaves(Exited, 4*time.Second)
	leaves(Exited, 2*time.Second)
	expect(60, 0)
	leaves(Exited, 7*time.Second)
	expect(7, 0)
	for range 4 {
		leaves(Forced, time.Minute)
	}
	expect(60, 300) // they do not keep the promise: what counts is the last checkpoint
}

// For a TE job that takes whole nodes all BE jobs of one node leave, the others' stay; a node with a job that did not agree is none for
// it, and nor is one with a job without GPUs.
func TestWholeNodes(t *testing.T) {
	whole := func(j *cluster.Job) { j.Whole = true }
	s := newScene(2)
	for node := 1; node <= 2; node++ {
		s.runs(uint32(10*node), node, 1)
		s.runs(uint32(10*node+1), node, node)
	}
	s.waits(50, 1, whole)
	if why, victims := s.why(50); why != preemption.Evicts || fmt.Sprint(victims) != "[10 11]" {
		t.Errorf("%s %v", why, victims)
	}
	c := s.choose()
	c.Changes.Claims[0].Shares[0].Kind = ""
	if !reflect.DeepEqual(c.Changes.Claims[0].Shares, []ClaimShare{{Node: "n1", GPUs: 4, CPUs: 16, MemMB: 100}}) {
		t.Errorf("%+v", c.Changes.Claims[0])
	}
	s.Jobs[0].Tag = jobtag.Tag{}
	if why, victims := s.why(50); why != preemption.Evicts || fmt.Sprint(victims) != "[20 21]" {
		t.Errorf("where one of the first node did not agree: %s %v", why, victims)
	}
	s.Nodes[1].CPUsUsed++
	if why, victims := s.why(50); why != preemption.Impossible || victims != nil {
		t.Errorf("where one of each node stays: %s %v", why, victims)
	}
	s.Jobs[len(s.Jobs)-1].Whole = false
	if why, _ := s.why(50); why != preemption.Fits {
		t.Errorf("beside others: %s", why)
	}
}

// A gang gets nodes of one GPU type: free nodes of two types together are no place for it.
func TestGangStaysOnOneGPUType(t *testing.T) {
	mixed := func(s *scene) {
		for i := range s.Nodes {
			s.Nodes[i].GPUs = 2
		}
		s.Nodes[2].GPUType, s.Nodes[2].Features = "k80", []string{"k80"}
	}
	gang := func(j *cluster.Job) { j.Nodes = 2 }
	s := newScene(3) // n1 a100 in use, n2 a100 and n3 k80 free
	mixed(s)
	s.runs(1, 1, 2)
	s.waits(10, 4, gang)
	if why, victims := s.why(10); why != preemption.Evicts || len(victims) != 1 || victims[0] != slurmplug.Plain(1) {
		t.Errorf("%s %v, want job 1 to leave", why, victims)
	}
	s = newScene(3)
	mixed(s)
	s.runs(1, 1, 2, func(j *cluster.Job) { j.Tag.Type = "" })
	s.waits(10, 4, gang)
	if why, _ := s.why(10); why != preemption.Impossible {
		t.Errorf("%s, though it fits on no two nodes of one type", why)
	}
	s = newScene(3)
	mixed(s)
	s.Nodes[1].Features = []string{"a100", "ib"} // another kind of node of the same type
	s.waits(10, 4, gang)
	if why, _ := s.why(10); why != preemption.Fits {
		t.Errorf("%s, though two nodes of one type are free", why)
	}
}

// The amounts that Slurm counts beside GPUs, CPUs and memory decide who leaves, and stand in the claim: the place is
// free for its job in the next cycle, and for no other.
func TestClaimsCountOtherResources(t *testing.T) {
	s := newScene(1)
	s.Nodes[0].Gres = []cluster.GresCount{{Name: "lscratch", Count: 100, Used: 70}}
	s.runs(1, 1, 2, func(j *cluster.Job) { j.Gres = "lscratch:60"; j.Tag = jobtag.Tag{} }) // stays
	s.runs(2, 1, 2, func(j *cluster.Job) { j.Gres = "lscratch:10" })
	s.waits(10, 1, func(j *cluster.Job) { j.Gres = "lscratch:60" })
	if why, victims := s.why(10); why != preemption.Impossible || len(victims) > 0 {
		t.Errorf("%s, %v: 40 of 100 are left of the disk", why, victims)
	}
	s.Jobs[2].Gres = "lscratch:40"
	c := s.choose()
	if len(c.Changes.Claims) != 1 || c.Changes.Claims[0].Shares[0].Others["lscratch"] != 40 {
		t.Fatalf("%+v", c.Changes)
	}
	m := nodemap.New(&s.Snapshot)
	if places := c.Changes.Claims[0].places(m); places[0].Others != m.Unnamed(map[string]int64{"lscratch": 40}) {
		t.Errorf("%+v", places)
	}
}

// A place of which a part lies on nodes that are kept for TE jobs has a reservation of its own: else BE jobs take the other
// parts as they become free.
func TestPlacesOnKeptNodesAreReserved(t *testing.T) {
	s := newScene(2)
	s.Nodes[0].State += cluster.StateHeadroom
	s.runs(1, 2, 4)
	s.waits(10, 8, func(j *cluster.Job) { j.Nodes, j.Admitted = 2, true })
	claims := s.choose().Changes.Claims
	if len(claims) != 1 || claims[0].Resv == "" || !slices.Equal(claims[0].Nodes(), []string{"n1", "n2"}) {
		t.Fatalf("%+v", claims)
	}
	// From then on that reservation keeps the node, and priod_headroom gives it up.
	claims[0].Number, claims[0].State = 1, Planned
	s.journal.Update(&Changes{Claims: claims})
	e := Feature{Journal: s.journal}
	if kept, own := e.Claimed("n1"); !kept || own {
		t.Errorf("before it is made: %v, %v", kept, own)
	}
	claims[0].ResvAt = at
	s.journal.Update(&Changes{Claims: claims})
	if kept, own := e.Claimed("n1"); !kept || !own {
		t.Errorf("once it is made: %v, %v", kept, own)
	}
}

// So it is for gangs and at the end of a round.
func TestOtherPlacesAwaitVictims(t *testing.T) {
	for _, purpose := range []Purpose{ForGang, ForRound} {
		b := newBout(4)
		b.Nodes[3].Features = append(b.Nodes[3].Features, "new")
		b.runs(1, 1, 3, func(j *cluster.Job) { j.Features = "new" }) // it starts again on n4
		b.runs(5, 4, 1, func(j *cluster.Job) { j.Tag.Type = "" })
		b.has(2, 1, 1, -9)
		b.runs(3, 2, 3, func(j *cluster.Job) { j.Tag.Type = "" })
		b.runs(4, 3, 2, func(j *cluster.Job) { j.Tag.Type = "" })
		b.gang(10, 1)
		b.owing.Waiting = []plan.Owed{{Job: slurmplug.Plain(10), Owed: 9 * hour, Start: 8 * hour, Run: hour}}
		b.journal.Claims = []Claim{{Number: 1, Purpose: ForTrial, Job: slurmplug.Plain(11), State: Planned, Shares: []ClaimShare{{Node: "n2", GPUs: 1, CPUs: 1, MemMB: 100}}}}
		b.journal.Evictions = []Eviction{{Number: 1, Claim: 1, Job: slurmplug.Plain(1), State: Signalled, SignalledAt: at, Grace: time.Minute, GPUs: 3}}
		b.plan.MakeQueue(&b.Snapshot)
		q := b.question()
		q.Owing, q.Fragmented = &b.owing, after(time.Hour)
		c := Choose(purpose, q)
		if len(c.Changes.Claims) != 1 || !slices.Equal(c.Changes.Claims[0].Awaits, []int64{1}) || c.Changes.Claims[0].Pin != "n1" || c.Changes.Claims[0].Resv == "" {
			t.Errorf("%s: %+v, %+v", purpose, c.Claimants, c.Changes.Claims)
		}
	}
}
