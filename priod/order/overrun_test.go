package order

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// A TE job that runs longer than TE jobs may is BE: it holds no TE GPUs, uses up
// no TE GPU-hours any more, and comes back into the queue as BE.
func TestTrialThatOverruns(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 1, TimeLimit: time.Hour, GPUHours: 10}}
	run, next := pending(1, "te"), pending(2, "te")
	run.State, run.GPUs, run.Start, run.TimeLimit = cluster.Running, 2, now, 25*time.Hour // raised by an operator
	h := cluster.NewHistory()
	h.Counted.Set(run.ID, cluster.TE) // it was ranked
	see := func(after time.Duration) ([]Verdict, []int) {
		s := &cluster.Snapshot{At: now.Add(after), Jobs: []cluster.Job{run, next}}
		h.Observe(s)
		return Rank(s, h, set)
	}
	if v, _ := see(plan.Worth*time.Hour + plan.EndSlack); len(v) != 1 || v[0].Budget.Factor() != 3 {
		t.Fatalf("in its time: %+v", v)
	}
	v, te := see(plan.Worth*time.Hour + plan.EndSlack + time.Second)
	if len(v) != 2 || v[0].Why != plan.Overrun || v[0].Class != cluster.BE || v[0].Ranked || !strings.Contains(v[0].Detail, "more than 5h0m0s") {
		t.Fatalf("%+v", v)
	}
	if len(te) != 1 || v[te[0]].Job != 1 || v[te[0]].Budget.Factor() > 1.1 {
		t.Errorf("its GPUs are not free in the budget: %+v", v)
	}
	if v, te := see(9 * time.Hour); len(te) != 1 || v[te[0]].Budget.Factor() > 1.1 {
		t.Error("what it runs as BE uses up the TE GPU-hours")
	}
	run.State, run.Restarts, run.Start = cluster.Pending, 1, time.Time{}
	v, te = see(9*time.Hour + time.Minute)
	if len(te) != 1 || v[0].Why != plan.Overrun || v[0].Class != cluster.BE || !v[0].Ranked || !strings.Contains(v[0].Detail, "has run for 9h") {
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

// The trial of another user stands before the part of a flood that costs more than it does.
func TestFloodStandsBehind(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 4}}
	var jobs []cluster.Job
	for id := range uint32(500) {
		jobs = append(jobs, pending(id+1, "te"))
	}
	late := pending(900, "te")
	late.User, late.Eligible = "bob", now.Add(-time.Second)
	v, te := rank(t, set, append(jobs, late)...)
	if len(te) != 4*plan.Worth+1 || v[te[7]].Job != 500 {
		t.Errorf("%d count as TE, and the other user's is not the eighth: %v", len(te), te)
	}
}

// TE jobs that started before a cycle saw them wait count as if they had waited: in the order of their starts, as TE within
// the budget and as BE beyond it, and so they stay.
func TestStartedUnseen(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 1, TimeLimit: time.Hour}}
	var jobs []cluster.Job
	for id := range uint32(4) {
		j := pending(id+1, "te")
		j.State, j.GPUs, j.Start = cluster.Running, 2, now.Add(-time.Duration(id)*time.Second)
		jobs = append(jobs, j)
	}
	jobs[3].TimeLimit = 6 * time.Hour // the first that started
	waits := pending(9, "te")
	waits.GPUs = 1
	small := pending(10, "te") // room for it is left by jobs beyond the budget alone
	small.User, small.GPUs = "eve", 2
	eve := jobs[0]
	eve.ID, eve.User, eve.TimeLimit = slurmplug.Plain(8), "eve", 6*time.Hour
	eve.GPUs = 4
	jobs = append(jobs, eve)
	bob := jobs[0]
	bob.ID, bob.User = slurmplug.Plain(7), "bob"
	jobs = append(jobs, waits, bob, small)
	h := cluster.NewHistory()
	for round := range 3 {
		s := &cluster.Snapshot{At: now.Add(time.Duration(round) * time.Minute), Jobs: jobs}
		changed := h.Observe(s)
		d := newDecider(s, h, Settings{Top: 1_000_000, Step: 1000, Ranking: set})
		first := d.decide(nil)
		if diff := cmp.Diff(first.Decisions, d.again().Decisions); diff != "" {
			t.Errorf("round %d: made again, the order differs: %s", round, diff)
		}
		verdicts, te := Rank(s, h, set)
		got := map[uint32]Verdict{}
		for _, v := range verdicts {
			j := &jobs[v.Job]
			got[j.ID.ID] = v
			if v.Ranked || v.Why.Started() {
				h.Counted.Set(j.ID, v.Class)
			}
		}
		if v := got[9]; len(te) != 2 || jobs[verdicts[te[0]].Job].ID.ID != 10 || v.Class != cluster.TE || v.Budget.Factor() != 5 {
			t.Errorf("round %d: the waiting job: %+v", round, v)
		}
		if round > 0 {
			if len(got) != 2 {
				t.Errorf("round %d: decided again: %+v", round, verdicts)
			}
			if want := map[int]int{1: 3, 2: 0}[round]; len(changed) != want {
				t.Errorf("round %d: %d stays change their class, want %d", round, len(changed), want)
			}
			continue
		}
		for id, want := range map[uint32]struct {
			why   plan.Reason
			words string
		}{
			4: {plan.OverBudget, "6 times the share of user ann, a time limit of 1h0m0s"}, 3: {plan.TETag, ""}, 2: {plan.TETag, "4 times"},
			1: {plan.OverBudget, "6 times the share of user ann, 1 TE GPUs"}, 7: {plan.TETag, ""},
		} {
			if v := got[id]; v.Why != want.why || v.Ranked || (v.Class == cluster.TE) != (v.Why == plan.TETag) || want.words != "" && !strings.Contains(v.Budget.Words(), want.words) {
				t.Errorf("job %d: %+v, want %s", id, v, want.why)
			}
		}
	}
	if users, _, _ := h.TEUse(now.Add(time.Hour), set.RunLimit); users["ann"].GPUs > 4 || users["bob"].GPUs > 2 {
		t.Errorf("%+v", users)
	}
}
