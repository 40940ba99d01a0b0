package evict

import (
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// entitled adds a waiting BE job within its account's share.
func (s *scene) entitled(id uint32, gpus int) {
	s.waits(id, gpus, func(j *cluster.Job) { j.Right, j.Tag.Type = cluster.Entitled, "be" })
	d := &s.plan.Decisions[len(s.plan.Decisions)-1]
	d.Class, d.Why = cluster.BE, string(plan.InShare)
}

// What keeps trials waiting is no matter of a job within its account's share: what victims lose, and what was lost before. No
// job within its account's share leaves, for a trial either.
func TestEntitledJobsGetRoom(t *testing.T) {
	dear := func(j *cluster.Job) { j.Tag.Signal, j.TimeLimit = "", time.Hour+100*time.Second } // loses an hour of 4 GPUs, and ends soon
	within := func(j *cluster.Job) { j.Right = cluster.Entitled }
	spend := func(s *scene) {
		s.set.Policy.Limits.UserGPUMinutesPerDay, s.set.Policy.Limits.GPUHoursPerDay = 1, 0.01
		s.journal.Claims = []Claim{{Number: 1, User: "bob", State: Started, Ended: at.Add(-time.Hour)}}
		s.journal.Evictions = []Eviction{{Number: 1, Claim: 1, State: Done, At: at.Add(-time.Hour), SignalledAt: at.Add(-time.Hour), Ended: at.Add(-time.Hour), Paid: 120}}
	}
	for name, c := range map[string]struct {
		make func(s *scene)
		want string
	}{
		"a borrower leaves": {func(s *scene) { s.runs(1, 1, 4); s.entitled(10, 2) }, "evicts [1]"},
		"at any loss":       {func(s *scene) { s.set.Policy.Urgency = 0.001; s.runs(1, 1, 4, dear); s.entitled(10, 2) }, "evicts [1]"},
		"not for a trial":   {func(s *scene) { s.set.Policy.Urgency = 0.001; s.runs(1, 1, 4, dear); s.waits(10, 2) }, "starts-anyway []"},
		"whatever was lost": {func(s *scene) { spend(s); s.runs(1, 1, 4); s.entitled(10, 2) }, "evicts [1]"},
		"unlike trials":     {func(s *scene) { spend(s); s.runs(1, 1, 4); s.waits(10, 2) }, "limit-per-owner []"},
		"within its share":  {func(s *scene) { s.runs(1, 1, 4, within); s.entitled(10, 2) }, "no-victims []"},
		"nor for a trial":   {func(s *scene) { s.runs(1, 1, 4, within); s.waits(10, 2) }, "no-victims []"},
		"the other leaves":  {func(s *scene) { s.runs(1, 1, 2, within); s.runs(2, 1, 2, dear); s.entitled(10, 2) }, "evicts [2]"},
		"a gang":            {func(s *scene) { s.runs(1, 1, 4); s.runs(2, 2, 4); s.entitled(10, 8); s.Jobs[2].Nodes = 2 }, "evicts [1 2]"},
	} {
		s := newScene(2)
		if c.make(s); name != "a gang" {
			s.Nodes[1].Usable = false
		}
		if why, leaving := s.why(10); fmt.Sprint(why, " ", leaving) != c.want {
			t.Errorf("%s: %s %v, want %s", name, why, leaving, c.want)
		}
	}
	s := newScene(1)
	s.runs(1, 1, 4, within)
	s.entitled(10, 2)
	c := s.choose()
	if refused := c.Refusals(&c.Claimants[0]); len(refused) != 1 || refused[0].Why != WithinShare || Text(ForTrial, WithinShare) != "uses GPUs that are guaranteed to its account" {
		t.Errorf("%+v", refused)
	}
}

// A job that asks for GPUs in all has room made in parts where each node has a job that stays. One that accepts one node alone has
// not, nor one that asks for GPUs of each node, or is not entitled.
func TestEntitledInParts(t *testing.T) {
	stays := func(j *cluster.Job) { j.Tag.Type = "" }
	for name, c := range map[string]struct {
		change func(*scene, *cluster.Job)
		want   string
	}{
		"in all":       {func(*scene, *cluster.Job) {}, "evicts [2 4]"},
		"of each node": {func(_ *scene, j *cluster.Job) { j.Node.GPUs = 4 }, "no-victims []"},
		"whole nodes":  {func(_ *scene, j *cluster.Job) { j.Whole = true }, "no-victims []"},
		"one node":     {func(s *scene, j *cluster.Job) { s.vetoed = map[cluster.JobID]preemption.Why{j.ID: OneNode} }, "no-victims []"},
		"not entitled": {func(_ *scene, j *cluster.Job) { j.Right = cluster.Borrows }, "no-victims []"},
	} {
		s := newScene(2)
		s.runs(1, 1, 2, stays)
		s.runs(2, 1, 2)
		s.runs(3, 2, 2, stays)
		s.runs(4, 2, 2)
		s.entitled(10, 4)
		c.change(s, &s.Jobs[4])
		if why, leaving := s.why(10); fmt.Sprint(why, " ", leaving) != c.want {
			t.Errorf("%s: %s %v, want %s", name, why, leaving, c.want)
		}
	}
	claim := Claim{Shares: []ClaimShare{{Node: "n1"}, {Node: "n2"}}}
	if why := claim.Vet(plan.JobStatus{Job: cluster.Job{State: cluster.Pending}}, cluster.Place{Bounds: slurmplug.Bounds{Most: 1}}); why != OneNode {
		t.Errorf("--nodes=1: %q", why)
	}
}

// An entitled job that fits and does not start has the place as a claim, for which no job leaves; that it fails keeps it waiting
// for no other one.
func TestEntitledPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		since  time.Duration
		right  cluster.Right
		claims int
	}{"in time": {time.Minute, cluster.Entitled, 0}, "late": {2 * time.Minute, cluster.Entitled, 1}, "borrows": {2 * time.Minute, cluster.Borrows, 0}} {
		s := newScene(1)
		s.entitled(10, 2)
		s.Jobs[0].Right, s.Jobs[0].Reason, s.Jobs[0].EntitledSince = c.right, "Priority", at.Add(-c.since)
		changes := s.choose().Changes
		if len(changes.Claims) != c.claims || len(changes.Evictions) != 0 || c.claims == 1 && (!changes.Claims[0].Free || changes.Claims[0].Resv != "") {
			t.Errorf("%s: %+v", name, changes)
		}
		if c.claims == 1 {
			x := changes.Claims[0]
			x.State, x.Ended = Released, at
			s.journal.Claims = []Claim{x}
			if again := s.choose().Changes; len(again.Claims) != 1 {
				t.Errorf("after it failed: %+v", again)
			}
		}
	}
}

// The next claim of an entitled job comes a minute after one that failed.
func TestEntitledRetry(t *testing.T) {
	s := newScene(1)
	s.set.Retry = 10 * time.Minute
	s.runs(1, 1, 4)
	s.entitled(10, 2)
	for ago, want := range map[time.Duration]preemption.Why{30 * time.Second: TooSoon, 90 * time.Second: preemption.Evicts} {
		s.journal.Claims = []Claim{{Number: 1, Job: slurmplug.Plain(10), State: Released, Ended: at.Add(-ago)}}
		if why, _ := s.why(10); why != want {
			t.Errorf("%s after: %s", ago, why)
		}
	}
}

// An entitled job waits for ends that come before the victims' grace and little more. A job beyond its limit for minutes has time
// from OverTimeLimit; what was to end and did not, as a job whose epilog hangs, counts no longer.
func TestEndsThatDoNotCome(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Job)
		waited time.Duration
		want   preemption.Why
	}{
		"its limit comes":    {func(j *cluster.Job) { j.TimeLimit = time.Hour + 10*time.Second }, 0, preemption.Anyway},
		"it just came":       {func(j *cluster.Job) { j.TimeLimit = time.Hour - 10*time.Second }, 0, preemption.Anyway},
		"it is long past":    {func(j *cluster.Job) { j.TimeLimit = time.Hour - 10*time.Minute }, 0, preemption.Evicts},
		"its epilog runs":    {func(j *cluster.Job) { j.State = cluster.Completing }, 0, preemption.Anyway},
		"its epilog hangs":   {func(j *cluster.Job) { j.State = cluster.Completing }, 5 * time.Minute, preemption.Evicts},
		"others took it all": {func(j *cluster.Job) { j.TimeLimit = time.Hour + 10*time.Second }, 5 * time.Minute, preemption.Evicts},
	} {
		s := newScene(1)
		s.runs(1, 1, 2, c.change)
		s.runs(2, 1, 2)
		s.entitled(10, 2)
		s.Jobs[2].EntitledSince = at.Add(-c.waited)
		if why, _ := s.why(10); why != c.want {
			t.Errorf("%s: %s, want %s", name, why, c.want)
		}
	}
}
