package order

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// A TE job that runs longer than TE jobs may is BE: it holds no TE GPUs, uses up
// no TE GPU-hours any more, and comes back into the queue as BE.
func TestTrialThatOverruns(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 2, TimeLimit: time.Hour, GPUHours: 2.1}}
	run, next := pending(1, "te"), pending(2, "te")
	run.State, run.GPUs, run.Start, run.TimeLimit = cluster.Running, 2, now, 5*time.Hour // raised by an operator
	h := cluster.NewHistory()
	see := func(after time.Duration) ([]Verdict, []int) {
		s := &cluster.Snapshot{At: now.Add(after), Jobs: []cluster.Job{run, next}}
		h.Observe(s)
		return Rank(s, h, set)
	}
	if v, te := see(time.Hour + plan.EndSlack); len(v) != 1 || len(te) != 0 || v[0].Why != plan.OverBudget {
		t.Fatalf("in its time: %+v", v)
	}
	v, te := see(time.Hour + plan.EndSlack + time.Second)
	if len(v) != 2 || v[0].Why != plan.Overrun || v[0].Class != cluster.BE || v[0].Ranked || !strings.Contains(v[0].Detail, "1h0m0s that TE jobs of user ann") {
		t.Fatalf("%+v", v)
	}
	if len(te) != 1 || v[te[0]].Job != 1 {
		t.Errorf("its GPUs are not free in the budget: %+v", v)
	}
	if _, te := see(4 * time.Hour); len(te) != 1 {
		t.Error("what it runs as BE uses up the TE GPU-hours")
	}
	run.State, run.Restarts, run.Start = cluster.Pending, 1, time.Time{}
	v, te = see(4*time.Hour + time.Minute)
	if len(te) != 1 || v[0].Why != plan.Overrun || v[0].Class != cluster.BE || !v[0].Ranked || !strings.Contains(v[0].Detail, "has run for 4h") {
		t.Errorf("back in the queue: %+v", v)
	}
}

// A TE job that puts itself back into the queue stays TE for as long as one run of
// it was to take, with a budget and without one.
func TestTrialThatRequeuesItself(t *testing.T) {
	for _, set := range []plan.Classes{{}, {User: plan.Budget{TimeLimit: 10 * time.Hour}}} {
		h := cluster.NewHistory()
		j := pending(1, "te") // says ten minutes
		for run, want := range []plan.Reason{plan.TETag, plan.TETag, plan.Overrun} {
			s := &cluster.Snapshot{At: now.Add(time.Duration(run) * 10 * time.Minute), Jobs: []cluster.Job{j}}
			h.Observe(s)
			v, _ := Rank(s, h, set)
			if v[0].Why != want {
				t.Errorf("after %d runs: %+v", run, v[0])
			}
			j.State, j.Start = cluster.Running, s.At
			for _, after := range []time.Duration{0, 7 * time.Minute} {
				h.Observe(&cluster.Snapshot{At: j.Start.Add(after), Jobs: []cluster.Job{j}})
			}
			j.State, j.Start, j.Restarts = cluster.Pending, time.Time{}, run+1
		}
	}
}

// One user's flood of trials holds up nobody else's: beyond the budget it stands
// behind them.
func TestFloodStandsBehind(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 4}}
	var jobs []cluster.Job
	for id := range uint32(500) {
		jobs = append(jobs, pending(id+1, "te"))
	}
	late := pending(900, "te")
	late.User, late.Eligible = "bob", now.Add(-time.Second)
	v, te := rank(t, set, append(jobs, late)...)
	if len(te) != 5 || v[te[4]].Job != 500 {
		t.Errorf("%d count as TE, and the other user's is number %d", len(te), v[te[len(te)-1]].Job)
	}
}
