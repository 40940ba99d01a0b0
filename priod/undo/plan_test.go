package undo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

var submitted = time.Unix(1_700_000_000, 0)

// told is an undo journal with lines for jobs of ann.
func told(t *testing.T, lines ...*Change) *Journal {
	t.Helper()
	u, err := Open(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range lines {
		c.Time, c.User, c.Submit = submitted, "ann", submitted
	}
	if err := u.Append(lines); err != nil {
		t.Fatal(err)
	}
	return u
}

func sized(id uint32, was, to string) *Change {
	return &Change{Job: slurmplug.Plain(id), Lever: slurmplug.Size, Was: slurmplug.Size.Value(was), From: slurmplug.Size.Value(was), To: slurmplug.Size.Value(to)}
}

// waits is a waiting job that asks for a size; "": nobody could read it.
func waits(id uint32, size string) cluster.Job {
	j := cluster.Job{ID: slurmplug.Plain(id), User: "ann", State: cluster.Pending, Submit: submitted}
	if size != "" {
		j.Asked = &slurmplug.Asked{Holds: slurmplug.Size.Value(size)}
	}
	return j
}

// planOf is what reset does about jobs that the journal knows.
func planOf(u *Journal, doubts error, s cluster.Snapshot) *Plan {
	s.At = submitted.Add(time.Hour)
	survey, seen := NewSurvey(u, &s), Closer{Statuses: map[cluster.JobID]plan.JobStatus{}, NoSize: doubts}
	for _, pinned := range survey.Unseen().Pinned {
		nodes := "n7"
		for i := range s.Jobs {
			if j := &s.Jobs[i]; j.ID == pinned.Job && j.Asked != nil {
				nodes = j.Asked.Holds.Size().Nodes
			}
		}
		seen.Statuses[pinned.Job] = plan.JobStatus{ReqNodes: nodes}
	}
	return survey.Plan(order.Settings{}, seen)
}

func planAll(u *Journal, doubts error, jobs ...cluster.Job) *Plan {
	return planOf(u, doubts, cluster.Snapshot{Jobs: jobs})
}

// A size that cannot be read, because a user named the job so, keeps no other from
// being taken back, and is known to be there still.
func TestResetPastASizeThatCannotBeRead(t *testing.T) {
	u := told(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="), sized(2, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="))
	p := planAll(u, errors.New("NumCPUs= comes twice"), waits(1, ""), waits(2, "NumCPUs=9 ReqNodeList="))
	if len(p.Actions) != 1 || p.Actions[0].Job.ID != 2 || p.Actions[0].After.String() != "NumCPUs=2 ReqNodeList=" {
		t.Errorf("%+v", p)
	}
	if failed, still := failures(p.Blocked); len(p.Blocked) != 1 || failed != 1 || !still[slurmplug.Plain(1)] {
		t.Errorf("%+v, %v", p.Blocked, still)
	}
	if p := planAll(u, nil, waits(1, "")); len(p.Actions)+len(p.Blocked) != 0 || !p.stay[u.Find(slurmplug.Plain(1), slurmplug.Size)] {
		t.Errorf("it started since: %+v", p)
	}
}

// The node that an eviction wrote into a job beside its size is nobody's change.
func TestResetOfASizeOnAClaimedNode(t *testing.T) {
	pin := &Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: slurmplug.Text("n7")}
	u := told(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="), pin)
	p := planAll(u, nil, waits(1, "NumCPUs=9 ReqNodeList=n7"))
	if len(p.Actions) != 2 || p.Actions[0].Lever != slurmplug.ReqNodeList || p.Actions[1].After.String() != "NumCPUs=2 ReqNodeList=" {
		t.Errorf("%+v", p)
	}
	for _, own := range []string{"NumCPUs=9 ReqNodeList=n3", "NumCPUs=5 ReqNodeList="} {
		if p := planAll(u, nil, waits(1, own)); len(p.Actions)+len(p.Blocked) != 0 {
			t.Errorf("its user's own %q is not left alone: %+v", own, p)
		}
	}
}

// Where nobody can tell which nodes a job asks for, the nodes that an eviction named stay.
func TestResetOfNodesThatCannotBeRead(t *testing.T) {
	u := told(t, &Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: slurmplug.Text("n7")})
	s := cluster.Snapshot{At: submitted.Add(time.Hour), Jobs: []cluster.Job{waits(1, "")}}
	p := NewSurvey(u, &s).Plan(order.Settings{}, Closer{NoNode: errors.New("timed out")})
	_, still := failures(p.Blocked)
	if len(p.Actions) != 0 || len(p.Blocked) != 1 || p.Blocked[0].Message != "its nodes cannot be read: timed out" || !p.keep(u.Changes()[0], still) {
		t.Errorf("%+v", p)
	}
}

// What is told of a size that cannot be read is not what stood in another field.
func TestResetTellsNothingOfASizeThatCannotBeRead(t *testing.T) {
	pin := &Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: slurmplug.Text("n7")}
	u := told(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList="), pin)
	p := planAll(u, errors.New("NumCPUs= comes twice"), waits(1, ""))
	if len(p.Actions) != 1 || len(p.Blocked) != 1 || p.Blocked[0].Before != (slurmplug.Value{}) {
		t.Errorf("%+v", p)
	}
}

// A user who changes a size does not see to the node that priod wrote beside it.
func TestResetOfAChangedSizeOnANode(t *testing.T) {
	u := told(t, sized(1, "NumCPUs=2 ReqNodeList=", "NumCPUs=9 ReqNodeList=n1"))
	for now, want := range map[string]string{"NumCPUs=5 ReqNodeList=n1": "NumCPUs=5 ReqNodeList=", "NumCPUs=5 ReqNodeList=n2": "", "NumCPUs=5 ReqNodeList=": ""} {
		got := ""
		for _, a := range planAll(u, nil, waits(1, now)).Actions {
			got += a.After.String()
		}
		if got != want {
			t.Errorf("%q becomes %q, want %q", now, got, want)
		}
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
		failed, still := failures([]plan.Outcome{{Action: plan.Action{Job: task, Lever: slurmplug.Features}, Status: status}})
		if still[array.Jobs()[0]] != want.still || still[task] != want.still || failed != want.failed {
			t.Errorf("%s: %v, %d failed", status, still, failed)
		}
	}
}

// What could not be taken back from what is left of an array stays known when the line
// is that of its tasks. A later array with their ids is another one.
func TestResetKeepsTheTasksLine(t *testing.T) {
	part := sized(5, "", "a100")
	part.Lever, part.Tasks, part.Part = slurmplug.Features, "3-4", true
	u := told(t, part)
	array := cluster.Job{ID: slurmplug.Plain(5), Tasks: "3-4", TaskCount: 2, User: "ann", State: cluster.Pending, Submit: submitted, Features: part.To.String()}
	if p := planAll(u, nil, array); len(p.Actions) != 1 || p.Actions[0].After != part.Was {
		t.Fatalf("%+v", p)
	}
	_, still := failures([]plan.Outcome{{Action: plan.Action{Job: array.ID, Tasks: array.Tasks, Lever: slurmplug.Features}, Status: slurmplug.Refused}})
	for _, id := range part.Jobs() {
		if !still[id] {
			t.Errorf("%v is forgotten of %v", id, still)
		}
	}
	array.User = "bob"
	if p := planAll(u, nil, array); len(p.Actions) != 0 {
		t.Errorf("another one: %+v", p)
	}
}

// Slurm refuses the name of a feature that no node has: what else a user asked for is
// put back, and the rest by a later reset; a constraint that leaves nothing stays as it
// is, and counts as not taken back.
func TestResetWithoutAFeature(t *testing.T) {
	c := sized(4, "a100|v100", "(a100|v100)&v100")
	c.Lever = slurmplug.Features
	u := told(t, c)
	nodes := []cluster.Node{{Name: "a1", Features: []string{"a100"}}}
	job := cluster.Job{ID: slurmplug.Plain(4), User: "ann", State: cluster.Pending, Submit: submitted, Features: c.To.String()}
	for _, step := range []struct {
		after string // "": nothing is written
		gone  bool   // the feature is
		left  bool   // the journal keeps the line
	}{{"a100", true, true}, {"", true, true}, {"a100|v100", false, false}} {
		if !step.gone {
			nodes = append(nodes, cluster.Node{Name: "v1", Features: []string{"v100"}})
		}
		p := planOf(u, nil, cluster.Snapshot{Nodes: nodes, Jobs: []cluster.Job{job}})
		if step.after == "" {
			if len(p.Actions) != 0 || len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0].Message, "no node has the feature v100") {
				t.Fatalf("%+v", p)
			}
		} else if len(p.Actions) != 1 || p.Actions[0].After.String() != step.after || p.Actions[0].Was != c.Was {
			t.Fatalf("%+v", p)
		} else {
			job.Features = step.after
		}
		if err := u.Append(p.rest); err != nil {
			t.Fatal(err)
		}
		_, still := failures(p.Blocked)
		if err := u.TookBack(time.Now(), func(c *Change) bool { return p.keep(c, still) }); err != nil {
			t.Fatal(err)
		}
		if kept := u.Find(job.ID, slurmplug.Features); (kept != nil) != step.left {
			t.Errorf("the journal keeps %+v", kept)
		}
	}
}

// A job that started on the nodes that an eviction named may be requeued: it still asks
// for them then.
func TestResetKeepsTheNodesOfARunningJob(t *testing.T) {
	u := told(t, &Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: slurmplug.Text("n7")})
	j := waits(1, "")
	j.State = cluster.Running
	if p := planAll(u, nil, j); len(p.Actions) != 0 || !p.keep(u.Changes()[0], nil) {
		t.Errorf("%+v", p)
	}
}

func steered(id cluster.JobID, to string) *Change {
	return &Change{Job: id, Lever: slurmplug.Features, To: slurmplug.Text(to)}
}

// What was written into an array that none of its tasks had left reached a task that an
// earlier line is about, if that write did not arrive.
func TestResetOfATaskThatItsArrayReached(t *testing.T) {
	task := cluster.JobID{ID: 5}
	u := told(t, steered(task, "a100"), steered(slurmplug.Plain(5), "v100"))
	for _, now := range []string{"a100", "v100"} {
		j := cluster.Job{ID: task, User: "ann", State: cluster.Pending, Submit: submitted, Features: now}
		if p := planAll(u, nil, j); len(p.Actions) != 1 || p.Actions[0].After != (slurmplug.Value{}) {
			t.Errorf("%s: %+v", now, p)
		}
	}
	u = told(t, &Change{Job: task, Lever: slurmplug.SiteFactor, Was: slurmplug.Number(0), From: slurmplug.Number(0), To: slurmplug.Number(-5)}, &Change{Job: slurmplug.Plain(5), Lever: slurmplug.SiteFactor, Was: slurmplug.Number(0), From: slurmplug.Number(0), To: slurmplug.Number(-9)})
	if w := u.Written()[task]; !w.Sent(-5) || !w.Sent(-9) {
		t.Errorf("%+v", w)
	}
}

// A task that has left its array keeps what was written before another value came, and
// was taken back, too.
func TestLinesKeepWhatWasSent(t *testing.T) {
	u := told(t, steered(slurmplug.Plain(5), "a100"))
	j := cluster.Job{ID: slurmplug.Plain(5), Tasks: "1-2", User: "ann", Submit: submitted}
	next := u.Line(plan.Action{Job: j.ID, Tasks: j.Tasks, Lever: slurmplug.Features, After: slurmplug.Text("v100")}, &j, submitted)
	if r := next.requested(); !r.Ours(slurmplug.Text("a100")) || !r.Ours(slurmplug.Text("v100")) || r.Ours(slurmplug.Value{}) {
		t.Errorf("%+v", next)
	}
}

// A task's line of an earlier array with the id does not stand before that of its own.
func TestResetPastAnEarlierArrayWithTheId(t *testing.T) {
	task := cluster.JobID{ID: 5}
	old, own := steered(task, "a100"), steered(slurmplug.Plain(5), "v100")
	u := told(t, old, own)
	old.User = "bob"
	j := cluster.Job{ID: task, User: "ann", State: cluster.Pending, Submit: submitted, Features: "v100"}
	if p := planAll(u, nil, j); len(p.Actions) != 1 || p.Actions[0].Before.String() != "v100" {
		t.Errorf("%+v", p)
	}
	if j.Features = "a100"; len(planAll(u, nil, j).Actions) != 0 {
		t.Error("what was another's is taken for priod's")
	}
}

// Where a write to a task did not arrive, one to its array came after it.
func TestValuesOfATaskThatStayedInItsArray(t *testing.T) {
	task := cluster.JobID{ID: 5, Task: 0}
	u := told(t,
		&Change{Job: slurmplug.Plain(5), Tasks: "0", Part: true, Lever: slurmplug.SiteFactor, Was: slurmplug.Number(50), From: slurmplug.Number(50), To: slurmplug.Number(-1000)},
		&Change{Job: slurmplug.Plain(5), Tasks: "0-2", Lever: slurmplug.SiteFactor, Was: slurmplug.Number(50), From: slurmplug.Number(50), To: slurmplug.Number(-2000)})
	if w := u.Written()[task]; w.Value != 50 || w.Tried != -2000 || !w.Sent(-1000) {
		t.Errorf("%+v", w)
	}
}

// The nodes that a job refuses because it failed there are taken back, unless somebody has
// named others since.
func TestResetOfRefusedNodes(t *testing.T) {
	line := func() *Change {
		return &Change{Job: slurmplug.Plain(1), Lever: slurmplug.ExcNodeList, Was: slurmplug.Text("n9"), From: slurmplug.Text("n9"), To: slurmplug.Text("n[1,9]")}
	}
	for _, x := range []struct {
		now     string
		read    bool
		actions int
		blocked int
	}{{"n[1,9]", true, 1, 0}, {"n9,n1", true, 1, 0}, {"n2", true, 0, 0}, {"", false, 0, 1}} {
		u := told(t, line())
		s := cluster.Snapshot{At: submitted.Add(time.Hour), Jobs: []cluster.Job{waits(1, "")}}
		survey, seen := NewSurvey(u, &s), Closer{Refused: map[cluster.JobID]string{}}
		if kept := survey.Unseen().Kept; len(kept) != 1 {
			t.Fatalf("%+v", kept)
		}
		if x.read {
			seen.Refused[slurmplug.Plain(1)] = x.now
		}
		p := survey.Plan(order.Settings{}, seen)
		if len(p.Actions) != x.actions || len(p.Blocked) != x.blocked || x.actions > 0 && p.Actions[0].After.String() != "n9" {
			t.Errorf("%+v: %+v, %+v", x, p.Actions, p.Blocked)
		}
	}
	back := line()
	back.From, back.To = slurmplug.Text("n[1,9]"), slurmplug.Text("n9")
	s := cluster.Snapshot{At: submitted.Add(time.Hour), Jobs: []cluster.Job{waits(1, "")}}
	if kept := NewSurvey(told(t, line(), back), &s).Unseen().Kept; len(kept) != 0 {
		t.Errorf("taken back already, and still %+v", kept)
	}
}

// A job gets its own number of nodes back, also where Slurm does not show how many it accepts
// now; one whose user has changed it since keeps that.
func TestResetOfNodeCounts(t *testing.T) {
	for shown, want := range map[string]string{"1-1": "1-4", slurmplug.HiddenNodes: "1-4", "1-3": ""} {
		u := told(t, &Change{Job: slurmplug.Plain(1), Lever: slurmplug.NumNodes, Was: slurmplug.Text("1-4"), To: slurmplug.Text("1-1")})
		j := waits(1, "")
		j.NodeCount = shown
		got := ""
		for _, a := range planAll(u, nil, j).Actions {
			if a.Lever == slurmplug.NumNodes {
				got = a.After.String()
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", shown, got, want)
		}
	}
}

// A job beyond its account's share may start at once again; one whose user has set a begin time since keeps that.
func TestResetOfBeginTimes(t *testing.T) {
	first, last := slurmplug.BeginAt(submitted.Add(time.Hour)), slurmplug.BeginAt(submitted.Add(2*time.Hour))
	for name, c := range map[string]struct {
		shown time.Time
		want  string
	}{
		"priod's":                          {submitted.Add(2 * time.Hour), "now"},
		"an earlier one, if Slurm died":    {submitted.Add(time.Hour), "now"},
		"its user's":                       {submitted.Add(3 * time.Hour), ""},
		"taken back, or it began long ago": {submitted, ""},
	} {
		u := told(t, &Change{Job: slurmplug.Plain(1), Lever: slurmplug.StartTime, Was: slurmplug.AtOnce, From: first, To: last})
		j := waits(1, "")
		j.Eligible = c.shown
		got := ""
		for _, a := range planAll(u, nil, j).Actions {
			if a.Lever == slurmplug.StartTime {
				got = a.After.String()
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A job whose record cannot be read keeps its lines, and reset says what is still there. What
// ranks it is written all the same.
func TestResetOfAnUnreadJob(t *testing.T) {
	constraint := &Change{Job: slurmplug.Plain(1), Lever: slurmplug.Features, To: slurmplug.Text("a100")}
	rank := &Change{Job: slurmplug.Plain(1), Lever: slurmplug.SiteFactor, To: slurmplug.Number(900)}
	pin := &Change{Job: slurmplug.Plain(1), Lever: slurmplug.ReqNodeList, To: slurmplug.Text("n1")}
	u := told(t, constraint, rank, pin)
	p := planOf(u, nil, cluster.Snapshot{Jobs: []cluster.Job{{ID: slurmplug.Plain(1), RawID: 1, TaskCount: 1, State: cluster.Unread}}})
	if len(p.Actions) != 1 || p.Actions[0].Lever != slurmplug.SiteFactor || p.Actions[0].After != slurmplug.Number(0) {
		t.Errorf("%+v", p.Actions)
	}
	if len(p.Blocked) != 1 || p.Blocked[0].Lever != slurmplug.Features || p.Gone != 0 {
		t.Errorf("%+v, %d gone", p.Blocked, p.Gone)
	}
	failed, still := failures(p.Blocked)
	for _, c := range u.Changes() {
		if !p.keep(c, still) && !c.Lever.Ranks() || failed != 1 {
			t.Errorf("the line of %s is dropped", c.Lever)
		}
	}
}
