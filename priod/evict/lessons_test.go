package evict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// vain takes the claim that a scene's trial gets to where its place is free and it does not start: a minute after
// the victim has left. It returns the claim.
func (s *scene) vain(t *testing.T, id uint32, reason string, change func(*scene)) *Claim {
	t.Helper()
	choice := s.choose()
	at := slices.IndexFunc(choice.Changes.Claims, func(c Claim) bool { return c.Job.ID == id })
	if at < 0 {
		t.Fatalf("no claim for %d: %+v", id, choice.Changes)
	}
	claim := choice.Changes.Claims[at]
	claim.State, claim.Room, claim.Resv, claim.Pin = Holding, s.At, "", ""
	t1 := Changes{Claims: []Claim{claim}}
	s.journal.Number(&t1)
	s.journal.Update(&t1)
	claim = t1.Claims[0]
	left := slices.Clone(s.Nodes)
	for i := range left {
		left[i].GPUsUsed, left[i].CPUsUsed, left[i].MemUsedMB = 0, 4, 600
	}
	if change != nil {
		change(&scene{Snapshot: cluster.Snapshot{Nodes: left}})
	}
	s.journal.nodes = left
	status := plan.JobStatus{Job: cluster.Job{ID: claim.Job, User: claim.User, Partition: "gpu,other", State: cluster.Pending, Priority: 9, Reason: reason}}
	turn := Advance(s.journal, Observation{At: s.At.Add(2 * time.Minute), Hold: time.Minute, Statuses: map[cluster.JobID]plan.JobStatus{claim.Job: status}})
	s.journal.Update(&turn)
	s.journal.nodes = nil
	return s.journal.Claim(claim.Number)
}

// A claim whose place was free and whose job did not start teaches: no job leaves again for such a job of its user on
// such nodes, nor for another user's once two have taught it, until the request, the nodes or the configuration change.
func TestLessons(t *testing.T) {
	s := newScene(1)
	s.Config = "a"
	s.runs(1, 1, 4)
	s.waits(10, 2)
	c := s.vain(t, 10, "Resources", nil)
	if c.Reason != notStarted || c.Shares[0].FreeGPUs != 4 || c.Shares[0].FreeCPUs != 12 || c.Shares[0].FreeMemMB != 1000 {
		t.Fatalf("%+v", c)
	}
	s.At = s.At.Add(3 * time.Hour)
	why := func(id uint32, change ...func(*cluster.Job)) preemption.Why {
		defer func(jobs []cluster.Job, decisions []plan.Decision) { s.Jobs, s.plan.Decisions = jobs, decisions }(s.Jobs, s.plan.Decisions)
		if id != 10 {
			s.waits(id, 2, change...)
		}
		got, _ := s.why(id)
		return got
	}
	carol := func(j *cluster.Job) { j.User = "carol" }
	for name, c := range map[string]struct{ got, want preemption.Why }{
		"the same job":         {why(10), InVain},
		"another of that kind": {why(11), InVain},
		"another user's":       {why(11, carol), preemption.Evicts},
		"a smaller one":        {why(11, func(j *cluster.Job) { j.MemMB = 50 }), preemption.Evicts},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
	choice := s.choose()
	p := &plan.Plan{Decisions: s.plan.Decisions}
	said := choice.explain()
	said.annotate(p, trials.classes)
	if words := Words(p.Decisions[0].Choices.Eviction, s.At); !strings.Contains(words, "in vain") || !strings.Contains(words, "2 GPUs, 2 CPUs, 100 MB of n1, where 4 GPUs, 12 CPUs, 1000 MB were free") {
		t.Errorf("explain says %q", words)
	}
	s.journal.noteLessons(p, s.At)
	if len(p.Notes) != 1 || p.Notes[0].Kind != plan.EvictedInVain || p.Notes[0].Of != 1 || !strings.Contains(p.Notes[0].Text, "where 4 GPUs") {
		t.Errorf("%+v", p.Notes)
	}
	s.Config = "b"
	if got := why(10); got != preemption.Evicts {
		t.Errorf("with another slurm.conf: %s", got)
	}
	s.Config, s.Nodes[0].MemMB = "a", 2000
	if got := why(10); got != preemption.Evicts {
		t.Errorf("with other nodes: %s", got)
	}
	s.Nodes[0].MemMB = 1600
	s.waits(12, 2, carol)
	s.vain(t, 12, "Resources", nil)
	if got := why(13, func(j *cluster.Job) { j.User = "dave" }); got != InVain {
		t.Errorf("a third user's job: %s", got)
	}
}

// No lesson is learned where the reason is known: another job took the place, or the job waits for something else.
// One that Slurm only started late is forgotten, one that it started with more room is not.
func TestNoLesson(t *testing.T) {
	full := func(s *scene) { s.Nodes[0].GPUsUsed = 3 }
	for name, c := range map[string]struct {
		reason string
		change func(*scene)
		vain   bool
	}{"free": {"Resources", nil, true}, "kept by others": {"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", nil, true}, "taken": {"Resources", full, false}, "a licence": {"Licenses", nil, false}, "other partitions": {"BadConstraints", nil, true}} {
		s := newScene(1)
		s.runs(1, 1, 4)
		s.waits(10, 2)
		if claim := s.vain(t, 10, c.reason, c.change); claim.teaches() != c.vain || claim.State != Released {
			t.Errorf("%s: %+v", name, claim)
		}
	}
	for free, forgotten := range map[int]bool{0: true, 400: false} {
		s := newScene(1)
		s.runs(1, 1, 4)
		s.waits(10, 2)
		s.vain(t, 10, "Resources", nil)
		j := cluster.Job{ID: slurmplug.Plain(10), User: "bob", State: cluster.Running, Start: s.At.Add(3 * time.Minute), NodeList: "n1", GPUs: 2, CPUs: 2, MemMB: 100}
		s.Jobs = []cluster.Job{j}
		s.Nodes[0].GPUsUsed, s.Nodes[0].CPUsUsed, s.Nodes[0].MemUsedMB = 2, 6, 700-int64(free)
		s.journal.nodes = s.Nodes
		turn := s.journal.refuted(&s.Snapshot)
		s.journal.nodes = nil
		s.journal.Update(&turn)
		if taught := len(s.journal.lessons()) > 0; taught == forgotten {
			t.Errorf("%d MB more: taught %t", free, taught)
		}
	}
}

// A user who gives trials up once jobs were evicted for them costs fewer evictions each time: whatever he submits, one
// at a time after the first, eight on the first day and three a day from then on.
func TestTrialsGivenUp(t *testing.T) {
	s := newScene(1)
	s.set.Retry = 10 * time.Minute
	s.runs(1, 1, 4, func(j *cluster.Job) { j.TimeLimit = 1000 * time.Hour })
	for id := range uint32(8) {
		s.waits(10+id, 1)
	}
	var days [4]int
	start := s.At
	for minute := range len(days) * 24 * 60 {
		s.At = start.Add(time.Duration(minute) * time.Minute)
		choice := s.choose()
		if minute > 0 && len(choice.Changes.Claims) > 1 {
			t.Fatalf("minute %d: %d claims at a time", minute, len(choice.Changes.Claims))
		}
		if len(choice.Changes.Claims) == 0 {
			if why := choice.Claimants[0].Why; why != Cancelled || !choice.Claimants[0].Opens.After(s.At) {
				t.Fatalf("minute %d: %s until %v", minute, why, choice.Claimants[0].Opens)
			}
			continue
		}
		s.journal.Number(&choice.Changes)
		for i := range choice.Changes.Claims { // cancelled at once
			c := &choice.Changes.Claims[i]
			c.State, c.Reason, c.Ended, c.Job.ID = Released, leftQueue, s.At, uint32(1000+c.Number)
		}
		for i := range choice.Changes.Evictions {
			e := &choice.Changes.Evictions[i]
			e.State, e.SignalledAt, e.Ended, e.Job.ID = Done, s.At, s.At, uint32(5000+e.Number)
			days[minute/(24*60)]++
		}
		s.journal.Update(&choice.Changes)
	}
	if days[0] > 8 || slices.Max(days[1:]) > 3 || slices.Min(days[:]) == 0 {
		t.Errorf("%v evictions a day", days)
	}
	s.waits(30, 1, func(j *cluster.Job) { j.User = "carol" })
	if why, _ := s.why(30); why != preemption.Evicts {
		t.Errorf("another user's trial: %s", why)
	}
}

// What room in vain teaches holds for the same partitions in another order, as after a requeue, and for no others.
func TestLessonHoldsForPartitionsInAnyOrder(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []cluster.Node{{Name: "n", GPUType: "a100", GPUs: 4, Partitions: []string{"a", "b"}, Usable: true}}}
	m := nodemap.New(s)
	key := func(partitions string) string {
		return lessonKey(s, m, &cluster.Job{Partition: partitions, GPUs: 2}, 0)
	}
	if key("a,b") != key("b,a") || key("a,b") == key("a") {
		t.Error(key("a,b"), key("b,a"), key("a"))
	}
}
