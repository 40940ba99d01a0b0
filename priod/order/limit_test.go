package order

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Property: under a limit of writes, jobs for which Slurm refuses every write keep no other job from
// its value.
func TestRefusedWritesStarveNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, limit := rapid.IntRange(1, 12).Draw(t, "jobs"), rapid.IntRange(1, 4).Draw(t, "limit")
		set := Settings{Top: 1_000_000, Step: 1000, WritesPerCycle: limit}
		s, h := &cluster.Snapshot{At: time.Unix(1_700_000_000, 0), Multifactor: cluster.Multifactor{Span: 100}}, cluster.NewHistory()
		refuses := map[cluster.JobID]bool{}
		for i := range n {
			j := cluster.Job{
				ID: slurmplug.Plain(uint32(i + 1)), TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, GPUs: 1,
				Submit: s.At, Eligible: s.At.Add(time.Duration(i) * time.Second), SiteFactorKnown: true, Priority: 1,
			}
			j.Tag.Type = "te"
			refuses[j.ID] = rapid.Bool().Draw(t, "refused")
			s.Jobs = append(s.Jobs, j)
		}
		s.At = s.At.Add(time.Minute)
		for range n/limit + n + 2 {
			h.Observe(s)
			c := &plan.Cycle{Snapshot: s, History: h, Plan: &plan.Plan{}}
			f := Feature{Settings: set}
			f.Rank(c, nil)
			if len(c.Plan.Actions) > limit {
				t.Fatalf("%d writes, %d may be", len(c.Plan.Actions), limit)
			}
			for _, a := range c.Plan.Actions {
				o := plan.Outcome{Action: a, Status: slurmplug.Refused}
				if !refuses[a.Job] {
					o.Status = slurmplug.Applied
					s.Jobs[a.Job.ID-1].SiteFactor = a.After.Number()
				}
				c.Outcomes = append(c.Outcomes, o)
			}
			plan.Hear(c)
			s.At = s.At.Add(15 * time.Second)
		}
		for i := range s.Jobs {
			if j := &s.Jobs[i]; !refuses[j.ID] && j.SiteFactor == 0 {
				t.Fatalf("job %s of %d has no value; %v are refused", j.ID, n, refuses)
			}
		}
	})
}

// Of an array with --array=...%N as many tasks count as may run beside those that run; its own running ones count
// toward N, and all of its tasks are TE.
func TestArraysWithALimit(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 8}}
	array := pending(10, "te")
	array.Tasks, array.TaskCount, array.AtOnce = "0-9", 10, 2
	alone := pending(20, "te")
	alone.GPUs = 6
	verdicts, te := rank(t, set, array, alone)
	if len(te) != 2 || verdicts[0].Tasks != 0 || verdicts[0].Detail != "" || verdicts[1].Budget != nil {
		t.Errorf("%+v", verdicts)
	}
	alone.GPUs = 14
	if verdicts, te = rank(t, set, array, alone); len(te) != 2 || verdicts[1].Budget.Factor() != 2 {
		t.Errorf("%+v", verdicts)
	}
	// Both tasks run, and hold the two: the others wait for them, within the same share.
	runs := func(task int32) cluster.Job {
		j := pending(uint32(11+task), "te")
		j.ID, j.State, j.Start = cluster.JobID{ID: 10, Task: task}, cluster.Running, now.Add(-time.Minute)
		return j
	}
	array.Tasks, array.TaskCount, array.ArrayRuns = "2-9", 8, 2
	alone.GPUs = 6
	if verdicts, te = rank(t, set, array, runs(0), runs(1), alone); len(te) != 2 || verdicts[3].Budget != nil {
		t.Errorf("%+v", verdicts)
	}
	// Records that were split off it share its limit.
	split := pending(12, "te")
	split.ID, split.AtOnce, array.ArrayRuns, array.TaskCount = cluster.JobID{ID: 10, Task: 1}, 2, 0, 8
	if verdicts, te = rank(t, set, split, array, alone); len(te) != 3 || verdicts[2].Budget != nil {
		t.Errorf("%+v", verdicts)
	}
}

// A trial that room alone cannot start takes no part of a share, and one for which room is being made does.
func TestWhatCannotStartHoldsNothing(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 3}}
	for reason, holds := range map[string]bool{
		"PartitionNodeLimit": false, "QOSMaxGRESPerUser": false, "BadConstraints": false, "Licenses": false, "ReqNodeNotAvail, May be reserved for other job": false,
		"Resources": true, "Priority": true, "None": true,
		"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": true,
	} {
		first, second := pending(1, "te"), pending(2, "te")
		first.GPUs, first.Reason, second.GPUs, second.Reason = 2, reason, 2, "Priority"
		verdicts, te := rank(t, set, first, second)
		if len(te) != 2 || (verdicts[1].Budget != nil) != holds {
			t.Errorf("%s: %+v", reason, verdicts)
		}
	}
	first, second := pending(1, "te"), pending(2, "te")
	first.GPUs, first.Reason, second.GPUs, second.Reason = 2, "ReqNodeNotAvail, May be reserved for other job", 2, "Priority"
	s, h := &cluster.Snapshot{At: now, Jobs: []cluster.Job{first, second}}, cluster.NewHistory()
	h.Claiming = map[cluster.JobID]bool{first.ID: true}
	h.Observe(s)
	if verdicts, _ := Rank(s, h, set); verdicts[1].Budget == nil {
		t.Errorf("%+v", verdicts)
	}
}

// A trial larger than all that TE jobs may use is told so: no other job has to end for it.
func TestLargerThanItsBudget(t *testing.T) {
	large, small := pending(1, "te"), pending(2, "te")
	large.GPUs = 16
	set := plan.Classes{User: plan.Budget{GPUs: 3}}
	verdicts, _ := rank(t, set, large)
	if v := verdicts[0]; v.Why != plan.OverBudget || !v.Budget.Never() || v.Budget.Words() != "5 times the share of user ann, 3 TE GPUs at a time" {
		t.Errorf("%+v", v)
	}
	many := []cluster.Job{small}
	for id := range uint32(15) {
		j := small
		j.ID = slurmplug.Plain(3 + id)
		many = append(many, j)
	}
	verdicts, _ = rank(t, set, many...)
	if v := verdicts[15]; v.Why != plan.OverBudget || v.Budget.Never() {
		t.Errorf("%+v", v)
	}
}
