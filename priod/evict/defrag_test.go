package evict

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// gang adds a waiting BE job that wants whole nodes of four GPUs.
func (s *scene) gang(id uint32, nodes int) {
	s.waits(id, 4*nodes, func(j *cluster.Job) { j.Nodes, j.Tag.Type = nodes, "be" })
	s.plan.Decisions[len(s.plan.Decisions)-1].Class = cluster.BE
}

func (s *scene) defragment() []Fragmented {
	s.plan.MakeQueue(&s.Snapshot)
	return Defragment(&s.Snapshot, &s.plan, s.journal, &s.set)
}

// The small jobs leave whose leaving loses least; those that do not agree, hold whole nodes
// or have just started stay.
func TestDefragment(t *testing.T) {
	s := newScene(5)
	s.runs(1, 1, 1)
	s.runs(2, 2, 1, func(j *cluster.Job) { j.Tag.Grace = 9 * time.Minute })
	s.runs(3, 3, 1, func(j *cluster.Job) { j.Tag.Type = "" })
	s.runs(4, 4, 2)
	s.runs(5, 5, 4) // holds a whole node, and would lose less for each GPU
	s.gang(10, 2)
	got := s.defragment()
	if len(got) != 1 || got[0].Why != preemption.Evicts || got[0].Free != 11 || len(got[0].Victims) != 2 || len(got[0].Nodes) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []Leaver{{Node: "n1", GPUs: 1}, {Node: "n4", GPUs: 2}} {
		if v := got[0].Victims[i]; v.Node != want.Node || v.GPUs != want.GPUs || v.Cost <= 0 {
			t.Errorf("%+v", v)
		}
	}
	s.gang(11, 4) // too few are free
	s.Jobs[4].Tag.Type = "te"
	if got := s.defragment(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	s.set.Policy.MinRun = 7200
	if got := s.defragment(); len(got) != 1 || got[0].Why != preemption.Impossible && got[0].Why != preemption.Anyway || len(got[0].Victims) != 0 {
		t.Errorf("all have just started: %+v", got)
	}
}

// Nobody leaves for a job that fits, waits for something else, or is not ranked.
func TestNothingToDefragment(t *testing.T) {
	s := newScene(3)
	s.runs(1, 1, 1)
	s.runs(2, 2, 1)
	s.gang(10, 1)
	if got := s.defragment(); len(got) != 0 {
		t.Errorf("it fits on n3: %+v", got)
	}
	for what, change := range map[string]func(*cluster.Job, *plan.Decision){
		"held":         func(j *cluster.Job, _ *plan.Decision) { j.Reason = "JobHeldUser" },
		"not ranked":   func(_ *cluster.Job, d *plan.Decision) { d.Ranked = false },
		"without GPUs": func(j *cluster.Job, _ *plan.Decision) { j.GPUs = 0 },
	} {
		s := newScene(2)
		s.runs(1, 1, 1)
		s.runs(2, 2, 1)
		s.gang(10, 1)
		if got := s.defragment(); len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		change(&s.Jobs[2], &s.plan.Decisions[0])
		if got := s.defragment(); len(got) != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
