package undo

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// A task that left its array keeps what was written into it, whatever was written into the array later: while it runs
// nothing shows which of two values it holds, and a reset takes it back.
func TestTaskWhoseArrayIsWrittenLater(t *testing.T) {
	u, err := Open(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	at, n := epoch, slurmplug.Number
	job := func(id cluster.JobID, tasks string) *cluster.Job {
		return &cluster.Job{ID: id, RawID: id.ID, Tasks: tasks, TaskCount: 1, User: "ann", State: cluster.Pending, Submit: epoch, SiteFactorKnown: true}
	}
	wrote := func(j *cluster.Job, tasks string, part bool, before, after int64) {
		at = at.Add(time.Second)
		line := u.Line(plan.Action{Job: j.ID, Tasks: tasks, Part: part, Lever: slurmplug.SiteFactor, Before: n(before), After: n(after), UserNice: n(0)}, j, at)
		line.User, line.Submit = j.User, j.Submit
		if err := u.Append([]*Change{line}); err != nil {
			t.Fatal(err)
		}
	}
	task := cluster.JobID{ID: 4, Task: 0}
	wrote(job(slurmplug.Plain(4), "0-2"), "0", true, 0, 1000)
	wrote(job(task, ""), "", false, 1000, 2000) // priod may have died before it
	wrote(job(slurmplug.Plain(4), "1-2"), "1-2", false, 0, 3000)
	wrote(job(slurmplug.Plain(4), "1-2"), "1-2", false, 3000, 0)
	runs := job(task, "")
	runs.State, runs.SiteFactorKnown = cluster.Running, false
	s := &cluster.Snapshot{At: at.Add(time.Second), Jobs: []cluster.Job{*job(slurmplug.Plain(4), "1-2"), *runs}}
	p := NewSurvey(u, s).Plan(order.Settings{}, Closer{})
	if len(p.Actions) != 1 || p.Actions[0].Job != task || p.Actions[0].Before != n(2000) || p.Actions[0].After != n(0) {
		t.Errorf("%+v", p.Actions)
	}
}
