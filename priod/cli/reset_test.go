package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

var submitted = time.Unix(1_700_000_000, 0)

// journal is an undo journal with lines for jobs of ann.
func journal(t *testing.T, lines ...*store.Change) *store.Undo {
	t.Helper()
	undo, err := store.OpenUndo(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range lines {
		c.Time, c.User, c.Submit = submitted, "ann", submitted
	}
	if err := undo.Append(lines); err != nil {
		t.Fatal(err)
	}
	return undo
}

func sized(id uint32, was, to string) *store.Change {
	return &store.Change{Job: slurmplug.Plain(id), Lever: slurmplug.Size, Was: was, From: was, To: to}
}

// waits is a waiting job that asks for a size; "": nobody could read it.
func waits(id uint32, size string) cluster.Job {
	j := cluster.Job{ID: slurmplug.Plain(id), User: "ann", State: cluster.Pending, Submit: submitted}
	if size != "" {
		j.Asked = &slurmplug.Asked{Text: size}
	}
	return j
}

// unaskAll is what reset does about the requests of jobs that the journal knows.
func unaskAll(undo *store.Undo, doubts error, jobs ...cluster.Job) *unasked {
	h := cluster.NewHistory()
	h.Requests = undo.Requests()
	s := cluster.Snapshot{At: submitted.Add(time.Hour), Jobs: jobs}
	h.Observe(&s)
	return unask(&s, undo, h, doubts)
}

// A size that cannot be read, because a user named the job so, keeps no other from
// being taken back, and is known to be there still.
func TestResetPastASizeThatCannotBeRead(t *testing.T) {
	undo := journal(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="), sized(2, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="))
	u := unaskAll(undo, errors.New("NumCPUs= comes twice"), waits(1, ""), waits(2, "NumCPUs=9 ReqNodeList="))
	if len(u.actions) != 1 || u.actions[0].Job.ID != 2 || u.actions[0].After != "NumCPUs=2 ReqNodeList=" {
		t.Errorf("%+v", u)
	}
	v := resetView{Writes: u.unread}
	if still := v.failures(); len(u.unread) != 1 || v.Failed != 1 || !still[slurmplug.Plain(1)] {
		t.Errorf("%+v, %v", u.unread, still)
	}
	if u := unaskAll(undo, nil, waits(1, "")); len(u.actions)+len(u.unread) != 0 || !u.stay[undo.Find(slurmplug.Plain(1), slurmplug.Size)] {
		t.Errorf("it started since: %+v", u)
	}
}

// The node that an eviction wrote into a job beside its size is nobody's change.
func TestResetOfASizeOnAClaimedNode(t *testing.T) {
	pin := &store.Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: "n7"}
	undo := journal(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="), pin)
	u := unaskAll(undo, nil, waits(1, "NumCPUs=9 ReqNodeList=n7"))
	if len(u.actions) != 2 || u.actions[0].Lever != slurmplug.ReqNodeList || u.actions[1].After != "NumCPUs=2 ReqNodeList=" {
		t.Errorf("%+v", u)
	}
	if u := unaskAll(undo, nil, waits(1, "NumCPUs=9 ReqNodeList=n3")); len(u.actions) != 1 {
		t.Errorf("its user names a node: %+v", u)
	}
}

// What is told of a size that cannot be read is not what stood in another field.
func TestResetTellsNothingOfASizeThatCannotBeRead(t *testing.T) {
	pin := &store.Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: "n7"}
	undo := journal(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="), pin)
	u := unaskAll(undo, errors.New("NumCPUs= comes twice"), waits(1, ""))
	if len(u.actions) != 1 || len(u.unread) != 1 || u.unread[0].Before != "" {
		t.Errorf("%+v", u)
	}
}

// A user who changes a size does not see to the node that priod wrote beside it.
func TestResetOfAChangedSizeOnANode(t *testing.T) {
	undo := journal(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList=n1"))
	for now, want := range map[string]string{"NumCPUs=5 ReqNodeList=n1": "NumCPUs=5 ReqNodeList=", "NumCPUs=5 ReqNodeList=n2": "", "NumCPUs=5 ReqNodeList=": ""} {
		got := ""
		for _, a := range unaskAll(undo, nil, waits(1, now)).actions {
			got += a.After
		}
		if got != want {
			t.Errorf("%q becomes %q, want %q", now, got, want)
		}
	}
}

// What only the database knows of a job that runs gets its line: reset empties the
// journal, and the job may be requeued.
func TestResetOfWhatTheJournalLost(t *testing.T) {
	undo, h := journal(t), cluster.NewHistory()
	j := cluster.Job{ID: slurmplug.Plain(4), User: "ann", State: cluster.Running, Submit: submitted, Features: "a100"}
	h.Asked(j.ID, slurmplug.Features, "ssd", "a100", true, submitted)
	u := unask(&cluster.Snapshot{Jobs: []cluster.Job{j}}, undo, h, nil)
	if err := undo.Append(u.lost); err != nil {
		t.Fatal(err)
	}
	if err := undo.TakenBack(submitted, func(c *store.Change) bool { return u.stay[c] }); err != nil {
		t.Fatal(err)
	}
	if r := undo.Of(j.ID, "ann")[slurmplug.Features]; r.Was != "ssd" || !r.Ours("a100") {
		t.Errorf("%+v", r)
	}
}

// What could not be taken back from a task stays known when the line is its array's.
func TestResetKeepsTheArraysLine(t *testing.T) {
	array := sized(5, "", "a100")
	array.Lever, array.Tasks = slurmplug.Features, "0-9"
	task := cluster.JobID{ID: 5, Task: 3}
	for status, want := range map[slurmplug.Status]struct {
		failed int
		still  bool
	}{slurmplug.Applied: {0, false}, slurmplug.Refused: {1, true}, slurmplug.Raced: {0, true}} { // it started, and may be requeued
		v := resetView{Writes: []plan.Outcome{{Action: plan.Action{Job: task, Lever: slurmplug.Features}, Status: status}}}
		if still := v.failures(); still[array.Jobs()[0]] != want.still || still[task] != want.still || v.Failed != want.failed {
			t.Errorf("%s: %v, %d failed", status, still, v.Failed)
		}
	}
}

// What could not be taken back from what is left of an array stays known when the line
// is that of its tasks. A later array with their ids is another one.
func TestResetKeepsTheTasksLine(t *testing.T) {
	part := sized(5, "", "a100")
	part.Lever, part.Tasks, part.Part = slurmplug.Features, "3-4", true
	undo := journal(t, part)
	array := cluster.Job{ID: slurmplug.Plain(5), Tasks: "3-4", TaskCount: 2, User: "ann", State: cluster.Pending, Submit: submitted, Features: part.To}
	if u := unaskAll(undo, nil, array); len(u.actions) != 1 || u.actions[0].After != part.Was {
		t.Fatalf("%+v", u)
	}
	v := resetView{Writes: []plan.Outcome{{Action: plan.Action{Job: array.ID, Tasks: array.Tasks, Lever: slurmplug.Features}, Status: slurmplug.Refused}}}
	for still, jobs := v.failures(), part.Jobs(); len(jobs) > 0; jobs = jobs[1:] {
		if !still[jobs[0]] {
			t.Errorf("%v is forgotten of %v", jobs[0], still)
		}
	}
	array.User = "bob"
	if u := unaskAll(undo, nil, array); len(u.actions) != 0 {
		t.Errorf("another one: %+v", u)
	}
}

// Slurm refuses the name of a feature that no node has: what else a user asked for is
// put back, and the rest by a later reset; a constraint that leaves nothing stays as it
// is, and counts as not taken back.
func TestResetWithoutAFeature(t *testing.T) {
	c := sized(4, "a100|v100", "(a100|v100)&v100")
	c.Lever = slurmplug.Features
	undo := journal(t, c)
	nodes := []cluster.Node{{Name: "a1", Features: []string{"a100"}}}
	job := cluster.Job{ID: slurmplug.Plain(4), User: "ann", State: cluster.Pending, Submit: submitted, Features: c.To}
	for _, step := range []struct {
		after string // "": nothing is written
		gone  bool   // the feature is
		left  bool   // the journal keeps the line
	}{{"a100", true, true}, {"", true, true}, {"a100|v100", false, false}} {
		if !step.gone {
			nodes = append(nodes, cluster.Node{Name: "v1", Features: []string{"v100"}})
		}
		h := cluster.NewHistory()
		h.Requests = undo.Requests()
		u := unask(&cluster.Snapshot{Nodes: nodes, Jobs: []cluster.Job{job}}, undo, h, nil)
		if step.after == "" {
			if len(u.actions) != 0 || len(u.unread) != 1 || !strings.Contains(u.unread[0].Message, "no node has the feature v100") {
				t.Fatalf("%+v", u)
			}
		} else if len(u.actions) != 1 || u.actions[0].After != step.after || u.actions[0].Was != c.Was {
			t.Fatalf("%+v", u)
		} else {
			job.Features = step.after
		}
		if err := undo.Append(u.lost); err != nil {
			t.Fatal(err)
		}
		v := resetView{Writes: u.unread}
		still := v.failures()
		if err := undo.TakenBack(time.Now(), func(c *store.Change) bool { return u.stay[c] || still[c.Job] }); err != nil {
			t.Fatal(err)
		}
		if kept := undo.Find(job.ID, slurmplug.Features); (kept != nil) != step.left {
			t.Errorf("the journal keeps %+v", kept)
		}
	}
}

// A reset that fails after it has paused priod says so.
func TestResetThatFailsSaysThatPriodIsPaused(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	text := fmt.Sprintf("[slurm]\nbin_dir = %q\n[state]\ndir = %q\n", bin, dir)
	fake := "#!/bin/sh\nprintf 'ClusterName = lab\\nSlurmctldHost[0] = here\\nSLURM_VERSION = 22.05.8\\nSlurmctld(primary) at here is UP\\n'\n" // and no squeue beside it
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := Main("", []string{"priod", "--config", path, "reset"}, &out, &errs)
	p, err := store.Paused(dir)
	if err != nil || status != exitProblem || p == nil || !strings.Contains(errs.String(), "priod stays paused") {
		t.Errorf("%d, %q; paused: %v, %v", status, errs.String(), p, err)
	}
}
