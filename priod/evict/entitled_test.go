package evict

import (
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
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
