package evict

import (
	"errors"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// blocked is a gang of a whole node, with one small job on each of two nodes, and a cycle.
func blocked() (*fakeSlurm, *Feature, *plan.Cycle) {
	s := newScene(2)
	s.set.Defrag, s.set.Enabled, s.set.Hold = true, false, time.Minute
	s.runs(1, 1, 1)
	s.runs(2, 2, 2)
	s.gang(10, 1)
	s.plan.MakeQueue(&s.Snapshot)
	f := &fakeSlurm{jobs: map[cluster.JobID]plan.JobStatus{}, switches: slurmplug.NoSwitches}
	for _, j := range s.Jobs {
		f.jobs[j.ID] = plan.JobStatus{Job: j, CanRequeue: true}
	}
	e := &Feature{Slurm: f, Recorder: f, Journal: s.journal, Vetoes: Vetoes{}, Settings: s.set, Now: func() time.Time { return s.At }}
	return f, e, &plan.Cycle{Snapshot: &s.Snapshot, History: cluster.NewHistory(), Plan: &s.plan, Fragmented: after(time.Hour)}
}

func cycle(t *testing.T, e *Feature, c *plan.Cycle) error {
	t.Helper()
	err := error(nil)
	parts := []plan.Feature{e, e.For(ForTrial, ForGang), e.For(ForRound)}
	for _, f := range parts {
		err = errors.Join(err, f.Plan(t.Context(), c))
	}
	for _, f := range parts {
		err = errors.Join(err, f.Act(t.Context(), c))
	}
	return err
}

// A cycle carries the plan out: rows are saved, the gang is bound to its node, and the cheapest job gets its signal; explain says so.
func TestCycleMovesForAGang(t *testing.T) {
	f, e, c := blocked()
	if err := cycle(t, e, c); err != nil {
		t.Fatal(err)
	}
	if log, want := strings.Join(f.log, ", "), "save 1 recorded, pin 10, reserve 10, save 1 recorded, signal 1, save 1 signalled"; log != want {
		t.Errorf("%s, want %s", log, want)
	}
	if claim := e.Journal.Claim(1); claim == nil || claim.Purpose != ForGang || claim.Pin != "n1" || !c.History.Claiming[slurmplug.Plain(10)] {
		t.Errorf("%+v", claim)
	}
	if words := Words(c.Plan.Decisions[0].Choices.Eviction, c.Snapshot.At); words != "nodes for gangs: other jobs move for it" {
		t.Errorf("%q", words)
	}
	n := len(f.log) // the next cycle begins nothing more
	if err := cycle(t, e, c); err != nil || strings.Contains(strings.Join(f.log[n:], ", "), "recorded") {
		t.Errorf("%v, %v", f.log[n:], err)
	}
}

// A closer look rules out who names or excludes nodes, and gangs that ask for few switches;
// nobody moves when it is switched off, paused, not known to have waited, or not saved.
func TestNoJobMoves(t *testing.T) {
	for what, x := range map[string]struct {
		change func(*fakeSlurm, *Feature, *plan.Cycle)
		moved  string
		fails  bool
	}{
		"it is off":        {func(_ *fakeSlurm, e *Feature, _ *plan.Cycle) { e.Settings.Defrag = false }, "", false},
		"priod is paused":  {func(_ *fakeSlurm, _ *Feature, c *plan.Cycle) { c.Paused = "by root" }, "", false},
		"a dry run":        {func(_ *fakeSlurm, _ *Feature, c *plan.Cycle) { c.Fragmented = nil }, "", false},
		"it has just come": {func(_ *fakeSlurm, _ *Feature, c *plan.Cycle) { c.Fragmented = after(time.Second) }, "", false},
		"the first names one": {func(f *fakeSlurm, _ *Feature, _ *plan.Cycle) {
			f.change(1, func(s *plan.JobStatus) { s.ReqNodes = "n1" })
		}, "2", false},
		"all exclude one":  {func(f *fakeSlurm, _ *Feature, _ *plan.Cycle) { f.excluded = "n9" }, "", false},
		"few switches":     {func(f *fakeSlurm, _ *Feature, _ *plan.Cycle) { f.switches = "1@60" }, "", false},
		"switches unread":  {func(f *fakeSlurm, _ *Feature, _ *plan.Cycle) { f.unread = errors.New("no answer") }, "", true},
		"the disk is full": {func(f *fakeSlurm, _ *Feature, _ *plan.Cycle) { f.saveErr = errors.New("full") }, "", true},
	} {
		f, e, c := blocked()
		x.change(f, e, c)
		err := cycle(t, e, c)
		moved := ""
		for _, line := range f.log {
			if id, signalled := strings.CutPrefix(line, "signal "); signalled {
				moved += id
			}
		}
		if begun := strings.Contains(strings.Join(f.log, ", "), "recorded"); moved != x.moved || (err != nil) != x.fails || begun && x.moved == "" && !x.fails {
			t.Errorf("%s: %q moved, want %q; %v (%v)", what, moved, x.moved, err, f.log)
		}
	}
}
