package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// fakeJob is a job of the fake Slurm.
type fakeJob struct {
	cluster.Job
	final    string // "": in the queue
	exit     int
	output   string
	excluded string
	reading  bool // its output is still being read
	requeue  bool
	forgot   bool // MinJobAge has passed
	evicted  time.Time
	sent     int // requeues of priod's
	holds    int
	times    []time.Time
}

// fake is a Slurm of a few jobs and nodes, and the store of a priod.
type fake struct {
	t       testing.TB
	now     time.Time
	jobs    map[cluster.JobID]*fakeJob
	nodes   []cluster.Node
	history *cluster.History
	saved   map[int64]Failure
	drained []Drained
	drains  []string
	status  func(plan.Command) slurmplug.Status // nil: all are applied
	lose    bool                                // the answer is lost, though Slurm did it
	failing bool                                // rows cannot be saved
	blind   bool                                // no record can be read
}

func newFake(t testing.TB, nodes int) *fake {
	f := &fake{t: t, history: cluster.NewHistory(), now: time.Unix(1_700_000_000, 0), jobs: map[cluster.JobID]*fakeJob{}, saved: map[int64]Failure{}}
	for i := range nodes {
		f.nodes = append(f.nodes, cluster.Node{Name: fmt.Sprintf("n%d", i), Usable: true, GPUs: 4, GPUType: "a100", CPUs: 8, MemMB: 1000, Partitions: []string{"p"}})
	}
	return f
}

func (f *fake) AskSwitches(context.Context, []*cluster.Job) error { return nil }

func (f *fake) submit(id uint32, user, retry string) *fakeJob {
	j := &fakeJob{Job: cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: user, Partition: "p", State: cluster.Pending, Nodes: 1, GPUs: 1, MemMB: 100,
		TimeLimit: time.Hour, Submit: f.now, Tag: jobtag.Tag{Retry: retry},
	}, requeue: true}
	f.jobs[j.ID] = j
	return j
}

func (f *fake) start(j *fakeJob, node int) {
	j.State, j.Start, j.NodeList = cluster.Running, f.now, fmt.Sprintf("n%d", node)
}

func (f *fake) end(j *fakeJob, state string, exit int, output string) {
	j.State, j.final, j.exit, j.output = cluster.Other, state, exit, output
}

func (f *fake) snapshot() *cluster.Snapshot {
	s := &cluster.Snapshot{At: f.now, Nodes: slices.Clone(f.nodes)}
	for _, j := range f.jobs {
		if j.final == "" && !j.forgot {
			s.Jobs = append(s.Jobs, j.Job)
		}
	}
	slices.SortFunc(s.Jobs, func(a, b cluster.Job) int { return a.ID.Compare(b.ID) })
	return s
}

func (f *fake) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	out := map[cluster.JobID]plan.JobStatus{}
	for _, t := range targets {
		j := f.jobs[t.Job]
		if f.blind {
			continue
		}
		if j == nil {
			out[t.Job] = plan.JobStatus{Gone: true}
			continue
		}
		s := plan.JobStatus{Job: j.Job, Final: j.final, ExitCode: j.exit, CanRequeue: j.requeue, Gone: j.forgot}
		if j.forgot {
			s.End = f.now
		}
		out[t.Job] = s
	}
	return out, nil
}

func (f *fake) Excluded(_ context.Context, t plan.Target) (string, error) {
	return f.jobs[t.Job].excluded, nil
}

func (f *fake) Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	return nil, nil
}
func (f *fake) AtOnce(context.Context, plan.Target) (int, error) { return 0, nil }
func (f *fake) MostRestarts() int                                { return 0 }

func (f *fake) Ends(_ context.Context, sights map[cluster.JobID]plan.JobStatus, output bool, earlier map[cluster.JobID]plan.Mark) map[cluster.JobID]plan.End {
	ends := map[cluster.JobID]plan.End{}
	for id := range sights {
		if output {
			text := f.jobs[id].output
			mark := plan.Mark{Bytes: int64(len(text)), Sum: text}
			if rest, appended := strings.CutPrefix(text, earlier[id].Sum); appended && rest != "" {
				text = rest
			}
			ends[id] = plan.End{Output: []byte(text), Mark: mark}
			if f.jobs[id].reading {
				ends[id] = plan.End{Pending: true}
			}
		}
	}
	return ends
}

func (f *fake) Do(_ context.Context, commands []plan.Command) []plan.Result {
	results := make([]plan.Result, len(commands))
	for i, c := range commands {
		r := plan.Result{Command: c, Status: slurmplug.Applied}
		if f.status != nil {
			r.Status = f.status(c)
		}
		if c.Kind == plan.Drain {
			f.drains = append(f.drains, c.Nodes)
		} else if row, ok := f.saved[c.Eviction]; !ok || row.Job != c.Job || row.State != Recorded && row.State != Requeued {
			f.t.Errorf("%s of job %s: its row is %+v", c.Kind, c.Job, row)
		} else if r.Status == slurmplug.Applied {
			if why := f.do(&c); why != "" {
				r.Status, r.Message = slurmplug.Refused, why
			} else if f.lose {
				r.Status = slurmplug.Unknown
			}
		}
		results[i] = r
	}
	return results
}

func (f *fake) do(c *plan.Command) string {
	j := f.jobs[c.Job]
	switch {
	case j.forgot:
		return "Invalid job id specified"
	case c.Kind == plan.Exclude && j.State != cluster.Pending:
		return "Job is no longer pending execution"
	case c.Kind == plan.Exclude:
		j.excluded = c.Value.String()
		return ""
	case j.final == "":
		return "Job is pending execution"
	case f.saved[c.Eviction].Why != Cut && (j.Tag.Retry == "" || j.Tag.Retry == "never") || j.final == "CANCELLED" || j.final == "COMPLETED" || !j.requeue:
		f.t.Errorf("%s of job %s (%q, %s)", c.Kind, c.Job, j.Tag.Retry, j.final)
	}
	if c.Kind == plan.HoldBack {
		j.holds++
		j.Priority, j.Reason = 0, "JobHeldUser"
	}
	j.sent++
	j.times = append(j.times, f.now)
	j.final, j.State, j.Start, j.NodeList = "", cluster.Pending, time.Time{}, ""
	j.Restarts++
	return ""
}

func (f *fake) SaveFailures(_ context.Context, t *Changes) error {
	if f.failing {
		return errors.New("disk full")
	}
	for _, row := range t.Failures {
		f.saved[row.Number] = row
	}
	f.drained = append(f.drained, t.Drained...)
	return nil
}

// restart is the memory of a priod that reads what an earlier one saved.
func (f *fake) restart() *Memory {
	var all Changes
	for _, row := range f.saved {
		all.Failures = append(all.Failures, row)
	}
	slices.SortFunc(all.Failures, func(a, b Failure) int { return int(a.Number - b.Number) })
	m := NewMemory()
	m.Update(&all)
	m.Drained = f.drained
	return m
}

func settings(t testing.TB) Settings {
	return Settings{
		Rules: rules(t), Output: true, PerJob: 3, PerHour: 100, PerUser: 50, PerCycle: 100, Quick: time.Minute,
		Exclude: 3, Users: 3, Within: 24 * time.Hour, MaxDrained: 1,
	}
}

func (f *fake) feature(set Settings) *Feature {
	return &Feature{Settings: set, Slurm: f, Memory: NewMemory(), Recorder: f}
}

// oneJob is a feature on four nodes, and a job whose user agreed to requeues for the machine's failures.
func oneJob(t testing.TB) (*fake, *Feature, *fakeJob) {
	f := newFake(t, 4)
	return f, f.feature(settings(t)), f.submit(17, "ann", "infra")
}

// cycle is one of priod's, some seconds after the last one.
func (f *fake) cycle(x *Feature) {
	f.t.Helper()
	f.now = f.now.Add(10 * time.Second)
	evicted := func(id cluster.JobID, at time.Time) bool {
		return f.jobs[id] != nil && f.jobs[id].evicted.Equal(at) && !at.IsZero()
	}
	if err := x.Act(context.Background(), &plan.Cycle{Snapshot: f.snapshot(), History: f.history, Plan: &plan.Plan{}, Evicted: evicted}); err != nil {
		f.t.Fatal(err)
	}
}

// run has a job start, run and end, with cycles before and after.
func (f *fake) run(x *Feature, j *fakeJob, node int, d time.Duration, state string, exit int, output string) *Failure {
	f.t.Helper()
	f.start(j, node)
	f.cycle(x)
	f.now = f.now.Add(d)
	f.end(j, state, exit, output)
	f.cycle(x)
	return x.last(j.ID)
}

// last is the last row of a job.
func (x *Feature) last(id cluster.JobID) *Failure {
	for i := len(x.Memory.Failures) - 1; i >= 0; i-- {
		if x.Memory.Failures[i].Job == id {
			return &x.Memory.Failures[i]
		}
	}
	return nil
}

func TestEachClassGetsItsVerdict(t *testing.T) {
	for _, x := range []struct {
		retry, state string
		exit         int
		output       string
		class        string
		do           Do
		why          Why
		sent, holds  int
	}{
		{"infra", "NODE_FAIL", 0, "", "node", Elsewhere, ByClass, 1, 0},
		{"always", "NODE_FAIL", 0, "", "node", Elsewhere, ByClass, 1, 0},
		{"never", "NODE_FAIL", 0, "", "node", Nothing, NotAsked, 0, 0},
		{"", "NODE_FAIL", 0, "", "node", Nothing, NotAsked, 0, 0},
		{"infra", "FAILED", 1, "ncclSystemError: System call failed", "network", Elsewhere, ByClass, 1, 0},
		{"infra", "FAILED", 1, "OSError: [Errno 116] Stale file handle", "storage", Later, ByClass, 1, 0},
		{"infra", "FAILED", 1, "OSError: [Errno 28] No space left on device", "full", Hold, ByClass, 1, 1},
		{"infra", "FAILED", 1, "RuntimeError: CUDA error: unspecified launch failure", "gpu", Elsewhere, ByClass, 1, 0},
		{"infra", "FAILED", 1, "", "unknown", Nothing, NotMachine, 0, 0},
		{"always", "FAILED", 1, "", "unknown", Later, ByClass, 1, 0},
		{"always", "FAILED", 139, "", "crash", Elsewhere, ByClass, 1, 0},
		{"always", "FAILED", 1, "CUDA out of memory", "gpu-memory", Nothing, ByClass, 0, 0},
		{"always", "OUT_OF_MEMORY", 0, "", "memory", Nothing, ByClass, 0, 0},
		{"always", "FAILED", 1, "FileNotFoundError: x", "input", Nothing, ByClass, 0, 0},
		{"always", "FAILED", 1, "ModuleNotFoundError: No module named 'x'", "environment", Nothing, ByClass, 0, 0},
		{"always", "FAILED", 1, "SyntaxError: x", "program", Nothing, ByClass, 0, 0},
		{"always", "TIMEOUT", 0, "", "time", Nothing, Unsaved, 0, 0},
		{"always", "PREEMPTED", 0, "", "preempted", Later, ByClass, 1, 0},
	} {
		f := newFake(t, 4)
		feature := f.feature(settings(t))
		j := f.submit(17, "ann", x.retry)
		row := f.run(feature, j, 0, 10*time.Minute, x.state, x.exit, x.output)
		if row == nil || row.Class != x.class || row.Do != x.do || row.Why != x.why || j.sent != x.sent || j.holds != x.holds {
			t.Errorf("%s %s %q: %+v, %d sent", x.retry, x.state, x.output, row, j.sent)
		}
		if want := x.do == Elsewhere && x.class != "network"; row != nil && (j.excluded == "n0") != want && x.class != "network" {
			t.Errorf("%s %s %q: refuses %q", x.retry, x.state, x.output, j.excluded)
		}
	}
}

func TestNoWrongRequeue(t *testing.T) {
	for name, change := range map[string]func(*fake, *fakeJob, *Feature){
		"cancelled":              func(_ *fake, j *fakeJob, _ *Feature) { j.final = "CANCELLED" },
		"completed":              func(_ *fake, j *fakeJob, _ *Feature) { j.final = "COMPLETED" },
		"no requeue":             func(_ *fake, j *fakeJob, _ *Feature) { j.requeue = false },
		"evicted":                func(_ *fake, j *fakeJob, _ *Feature) { j.evicted = j.Start },
		"forgotten by slurmctld": func(_ *fake, j *fakeJob, _ *Feature) { j.forgot = true },
		"another user's by now":  func(_ *fake, j *fakeJob, _ *Feature) { j.User = "eve" },
	} {
		f := newFake(t, 4)
		x := f.feature(settings(t))
		j := f.submit(17, "ann", "always")
		f.start(j, 0)
		f.cycle(x)
		f.now = f.now.Add(time.Hour)
		f.end(j, "NODE_FAIL", 1, "")
		change(f, j, x)
		f.cycle(x)
		f.cycle(x)
		if j.sent != 0 {
			t.Errorf("%s: requeued", name)
		}
		if row := x.last(j.ID); name == "forgotten by slurmctld" && (row == nil || row.Why != TooLate) {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

// Where runs append to one file, what the run before wrote says nothing of this one.
func TestOutputOfTheRunBefore(t *testing.T) {
	f, x, j := oneJob(t)
	first := "ncclSystemError: rank 3\n"
	f.run(x, j, 0, time.Hour, "FAILED", 1, first)
	row := f.run(x, j, 1, time.Hour, "FAILED", 1, first+"OSError: [Errno 116] Stale file handle\n")
	if row.Class != "storage" || row.Do != Later || row.Output.Bytes <= int64(len(first)) {
		t.Errorf("%+v", row)
	}
}

func TestTheSameAgainStops(t *testing.T) {
	f, x, j := oneJob(t)
	f.run(x, j, 0, time.Hour, "FAILED", 1, "ncclSystemError: rank 3")
	row := f.run(x, j, 1, time.Hour, "FAILED", 1, "ncclSystemError: rank 5")
	if row.Do != Hold || row.Why != Repeated || j.sent != 2 || j.holds != 1 {
		t.Errorf("%+v, %d sent, %d held", row, j.sent, j.holds)
	}
	// Another node that fails is another failure.
	k := f.submit(18, "bob", "infra")
	f.run(x, k, 0, time.Hour, "NODE_FAIL", 1, "")
	row = f.run(x, k, 1, time.Hour, "NODE_FAIL", 1, "")
	if row.Do != Elsewhere || k.sent != 2 || k.excluded != "n[0-1]" || row.Own != "" {
		t.Errorf("%+v, %d sent, refuses %s", row, k.sent, k.excluded)
	}
}

func TestAJobThatFailsAtOnceTwiceStops(t *testing.T) {
	f, x, j := oneJob(t)
	f.cycle(x)
	for node := range 4 { // faster than the cycle: never seen running
		if j.final != "" || j.State != cluster.Pending || j.Reason == "JobHeldUser" {
			break
		}
		f.start(j, node)
		f.now = f.now.Add(time.Second)
		f.end(j, "NODE_FAIL", 1, "")
		f.cycle(x)
	}
	if row := x.last(j.ID); j.sent != 2 || row.Why != Quick || j.holds != 1 {
		t.Errorf("%d sent, %d held, %+v", j.sent, j.holds, row)
	}
}

// One whose record cannot be read is looked at again.
func TestAJobThatCannotBeReadIsLookedAtAgain(t *testing.T) {
	f, x, j := oneJob(t)
	f.start(j, 0)
	f.cycle(x)
	f.now = f.now.Add(time.Hour)
	f.end(j, "NODE_FAIL", 1, "")
	f.blind = true
	f.cycle(x)
	f.cycle(x)
	f.blind = false
	if f.cycle(x); j.sent != 1 {
		t.Errorf("%d sent", j.sent)
	}
}

// A cycle does not wait for output that takes long to read: others get their verdict, and the job when it was read.
func TestOutputThatTakesLong(t *testing.T) {
	f := newFake(t, 4)
	x := f.feature(settings(t))
	slow, quick := f.submit(17, "eve", "infra"), f.submit(18, "ann", "infra")
	slow.reading = true
	for node, j := range []*fakeJob{slow, quick} {
		f.start(j, node)
	}
	f.cycle(x)
	f.now = f.now.Add(time.Hour)
	for _, j := range []*fakeJob{slow, quick} {
		f.end(j, "FAILED", 1, "ncclSystemError: rank 3\n")
	}
	f.cycle(x)
	if x.last(slow.ID) != nil || x.last(quick.ID) == nil || !x.Memory.Busy() || !x.Memory.Attends(slow.ID) {
		t.Fatalf("%+v, %+v", x.last(slow.ID), x.last(quick.ID))
	}
	slow.reading = false
	f.cycle(x)
	if row := x.last(slow.ID); row == nil || row.Class != "network" || slow.sent != 1 || quick.sent != 1 {
		t.Errorf("%+v", row)
	}
}

func TestCapsDelay(t *testing.T) {
	f := newFake(t, 4)
	set := settings(t)
	set.PerHour = 2
	x := f.feature(set)
	var jobs []*fakeJob
	for i := range uint32(5) {
		j := f.submit(17+i, fmt.Sprintf("u%d", i), "infra")
		f.start(j, 0)
		jobs = append(jobs, j)
	}
	f.cycle(x)
	f.now = f.now.Add(time.Hour)
	for _, j := range jobs {
		f.end(j, "NODE_FAIL", 1, "")
	}
	sent := func() (n int) {
		for _, j := range jobs {
			n += j.sent
		}
		return n
	}
	f.cycle(x)
	f.cycle(x)
	if sent() != 2 || x.last(jobs[4].ID).State != Delayed {
		t.Fatalf("%d sent", sent())
	}
	f.now = f.now.Add(time.Hour)
	f.cycle(x)
	if sent() != 4 {
		t.Fatalf("%d sent an hour later", sent())
	}
	jobs[4].forgot = true
	f.cycle(x)
	if row := x.last(jobs[4].ID); row.State != Noted || row.Why != TooLate {
		t.Errorf("%+v", row)
	}
}

func TestExclusionIsTakenBackWhenNothingIsLeft(t *testing.T) {
	f, x, j := oneJob(t)
	j.excluded = "n3"
	row := f.run(x, j, 0, time.Hour, "NODE_FAIL", 1, "")
	if j.excluded != "n[0,3]" || row.Own != "n3" || !row.Told {
		t.Fatalf("refuses %s: %+v", j.excluded, row)
	}
	j.Reason = "BadConstraints"
	f.cycle(x)
	if j.excluded != "n3" || x.last(j.ID).Exclude != "" {
		t.Errorf("refuses %s", j.excluded)
	}
	f.cycle(x)
	if j.excluded != "n3" {
		t.Errorf("refuses %s", j.excluded)
	}
}

// Slow nodes that priod had the job refuse are not its user's: what it refuses after a
// failure takes their place, and its user's own is nothing.
func TestExclusionTakesOverFromSlowNodes(t *testing.T) {
	f, x, j := oneJob(t)
	j.excluded = "n3"
	f.history.Asked(j.ID, slurmplug.ExcNodeList, slurmplug.Text(""), slurmplug.Text("n3"), true, f.now)
	if row := f.run(x, j, 0, time.Hour, "NODE_FAIL", 1, ""); j.excluded != "n0" || row.Own != "" {
		t.Fatalf("refuses %s: %+v", j.excluded, row)
	}
}

func TestNoExclusionWhereTooFewNodesAreLeft(t *testing.T) {
	f := newFake(t, 1)
	x := f.feature(settings(t))
	j := f.submit(17, "ann", "infra")
	f.run(x, j, 0, time.Hour, "NODE_FAIL", 1, "")
	if j.sent != 1 || j.excluded != "" {
		t.Errorf("%d sent, refuses %q", j.sent, j.excluded)
	}
}

func TestSlurmsOwnRequeueAfterANodeFailureLeavesTheNode(t *testing.T) {
	f, x, j := oneJob(t)
	f.start(j, 2)
	f.cycle(x)
	f.nodes[2].Usable = false
	j.State, j.NodeList = cluster.Completing, ""
	j.Restarts++
	f.cycle(x)
	j.State, j.Start = cluster.Pending, time.Time{}
	f.cycle(x)
	if row := x.last(j.ID); row == nil || row.Why != BySlurm || j.excluded != "n2" || j.sent != 0 {
		t.Errorf("refuses %q, %d sent: %+v", j.excluded, j.sent, row)
	}
}

// Jobs and nodes are read side by side: where a node dies in between, the job is in the queue again on nodes that look well.
func TestNodeFailsWhileItIsRead(t *testing.T) {
	f, x, j := oneJob(t)
	f.start(j, 2)
	f.cycle(x)
	j.State, j.Start, j.NodeList = cluster.Pending, time.Time{}, ""
	j.Restarts++
	j.Submit = f.now.Add(10 * time.Second)
	f.cycle(x)
	f.nodes[2].Usable = false
	f.cycle(x)
	if row := x.last(j.ID); row == nil || row.Why != BySlurm || j.excluded != "n2" || j.sent != 0 {
		t.Errorf("refuses %q, %d sent: %+v", j.excluded, j.sent, row)
	}
	if f.cycle(x); x.Memory.Busy() {
		t.Error("it is looked at for ever")
	}
}

func TestSuspectNodes(t *testing.T) {
	f := newFake(t, 8)
	set := settings(t)
	set.Drain = true
	x := f.feature(set)
	for i := range uint32(3) {
		j := f.submit(17+i, fmt.Sprintf("u%d", i), "")
		f.run(x, j, 5, time.Hour, "FAILED", 1, "CUDA error: unspecified launch failure")
	}
	if len(x.Suspects) != 1 || x.Suspects[0].Node != "n5" || x.Suspects[0].Class != "gpu" || !slices.Equal(f.drains, []string{"n5"}) {
		t.Fatalf("%+v, drained %v", x.Suspects, f.drains)
	}
	// A node that comes back is not drained for what it was drained for, and one that
	// flaps not twice a day.
	f.cycle(x)
	if len(f.drains) != 1 || len(x.Suspects) != 0 {
		t.Errorf("drained %v", f.drains)
	}
	for i := range uint32(3) {
		j := f.submit(27+i, fmt.Sprintf("u%d", i), "")
		f.run(x, j, 6, time.Hour, "FAILED", 1, "CUDA error: unspecified launch failure")
	}
	if len(f.drains) != 1 || len(x.Suspects) != 1 {
		t.Errorf("drained %v beside max_drained = 1; suspects %+v", f.drains, x.Suspects)
	}
	// What happens everywhere is no node's fault.
	f = newFake(t, 4)
	x = f.feature(settings(t))
	for i := range uint32(16) {
		j := f.submit(17+i, fmt.Sprintf("u%d", i), "")
		f.run(x, j, int(i)%4, time.Hour, "FAILED", 1, "ModuleNotFoundError: No module named 'torch'")
	}
	if len(x.Suspects) != 0 {
		t.Errorf("%+v", x.Suspects)
	}
}

// A node on which jobs of two users failed soon after their start is taken out of use before it takes a third.
func TestNodeThatFailsJobsAtOnce(t *testing.T) {
	for ran, drained := range map[time.Duration]int{5 * time.Minute: 1, 20 * time.Minute: 0} {
		f := newFake(t, 8)
		set := settings(t)
		set.Drain, set.QuickUsers, set.Early = true, 2, 10*time.Minute
		x := f.feature(set)
		for i := range uint32(2) {
			f.run(x, f.submit(17+i, fmt.Sprintf("u%d", i), ""), 5, ran, "FAILED", 1, "CUDA error: unspecified launch failure")
		}
		if len(f.drains) != drained || len(x.Suspects) != drained {
			t.Errorf("after runs of %s: drained %v, suspects %+v", ran, f.drains, x.Suspects)
		}
	}
}

// Quick failures count in a row, over jobs that a user submits again; a run that lasts ends the row, whether it failed or not.
func TestQuickFailuresInARow(t *testing.T) {
	f := newFake(t, 8)
	set := settings(t)
	set.Early = 10 * time.Minute
	x := f.feature(set)
	id := uint32(17)
	failed := func(user string, ran time.Duration) *fakeJob {
		j := f.submit(id, user, "")
		id++
		f.run(x, j, 5, ran, "FAILED", 1, "NCCL error")
		return j
	}
	next := f.submit(1000, "ann", "").Job
	quick := func(want int, what string) {
		t.Helper()
		if n := x.Memory.Quick(&set, f.history, &next, f.now); n != want {
			t.Errorf("%s: %d failures in a row, want %d", what, n, want)
		}
	}
	quick(0, "none")
	failed("ann", 2*time.Minute)
	failed("ben", 2*time.Minute)
	failed("ann", 9*time.Minute)
	quick(2, "two of hers, one of another's")
	failed("ann", 30*time.Minute)
	quick(0, "one that lasted")
	failed("ann", time.Minute)
	quick(1, "one after it")
	next.GPUs = 8
	quick(0, "on more GPUs")
	next.GPUs = 1
	f.history.Restore(cluster.Stay{Job: slurmplug.Plain(900), User: "ann", GPUs: 1, Start: f.now.Add(time.Minute), End: f.now.Add(30 * time.Minute), Closed: true})
	f.now = f.now.Add(31 * time.Minute)
	quick(0, "a run that lasted and did not fail")
}

func TestNothingIsSentThatIsNotSaved(t *testing.T) {
	f, x, j := oneJob(t)
	f.start(j, 0)
	f.cycle(x)
	f.end(j, "NODE_FAIL", 1, "")
	f.failing = true
	f.now = f.now.Add(time.Hour)
	err := x.Act(context.Background(), &plan.Cycle{Snapshot: f.snapshot(), History: f.history, Plan: &plan.Plan{}})
	if err == nil || !strings.Contains(err.Error(), "no command was sent") || j.sent != 0 {
		t.Fatalf("%v, %d sent", err, j.sent)
	}
	f.failing = false
	if f.cycle(x); j.sent != 1 {
		t.Errorf("%d sent once rows can be saved", j.sent)
	}
}

func TestAPausedPriodSendsNothing(t *testing.T) {
	f, x, j := oneJob(t)
	f.start(j, 0)
	f.cycle(x)
	f.end(j, "NODE_FAIL", 1, "")
	f.now = f.now.Add(time.Hour)
	if err := x.Act(context.Background(), &plan.Cycle{Snapshot: f.snapshot(), History: f.history, Plan: &plan.Plan{}, Paused: "paused"}); err != nil || j.sent != 0 || x.last(j.ID).Why != Paused {
		t.Errorf("%v, %d sent", err, j.sent)
	}
}

// Tasks of an array that fail before they have been seen by themselves.
func TestTasksOfAnArrayAreLookedAt(t *testing.T) {
	f := newFake(t, 4)
	x := f.feature(settings(t))
	a := f.submit(17, "ann", "infra")
	a.Tasks, a.TaskCount = "1-5", 5
	f.cycle(x)
	a.Tasks, a.TaskCount = "3-5", 3
	for task := range int32(2) {
		j := f.submit(17, "ann", "infra")
		j.ID, j.RawID = cluster.JobID{ID: 17, Task: task + 1}, 18+uint32(task)
		f.jobs[a.ID], f.jobs[j.ID] = a, j
		f.start(j, 0)
		f.now = f.now.Add(2 * time.Minute)
		f.end(j, "NODE_FAIL", 1, "")
	}
	f.cycle(x)
	for task := range int32(2) {
		if j := f.jobs[cluster.JobID{ID: 17, Task: task + 1}]; j.sent != 1 {
			t.Errorf("task %d: %d sent", task+1, j.sent)
		}
	}
}

// Whatever happens, in whatever order, with a priod that dies at any time: nobody is
// requeued who did not ask, nobody too often, and the caps hold.
func TestRetriesAreBounded(t *testing.T) {
	shared := rules(t)
	rapid.Check(t, func(rt *rapid.T) {
		f := newFake(t, 5)
		set := settings(t)
		set.Rules = shared
		set.PerJob, set.PerHour, set.PerUser = rapid.IntRange(1, 4).Draw(rt, "per job"), rapid.IntRange(1, 6).Draw(rt, "per hour"), rapid.IntRange(1, 4).Draw(rt, "per user")
		x := f.feature(set)
		ends := []struct {
			state  string
			exit   int
			output string
		}{
			{"NODE_FAIL", 0, ""}, {"FAILED", 1, "ncclSystemError"}, {"FAILED", 1, "Stale file handle"}, {"FAILED", 139, ""}, {"FAILED", 1, ""},
			{"FAILED", 1, "No space left on device"}, {"OUT_OF_MEMORY", 0, ""}, {"CANCELLED", 0, ""}, {"COMPLETED", 0, ""}, {"FAILED", 1, "CUDA out of memory"},
			{"FAILED", 1, "CUDA error: unspecified launch failure"}, {"PREEMPTED", 0, ""}, {"TIMEOUT", 0, ""},
		}
		var jobs []*fakeJob
		for i := range uint32(4) {
			j := f.submit(17+i, fmt.Sprintf("u%d", i%2), rapid.SampledFrom([]string{"", "never", "infra", "always"}).Draw(rt, "retry"))
			j.requeue = rapid.IntRange(0, 5).Draw(rt, "requeue") > 0
			jobs = append(jobs, j)
		}
		free := map[cluster.JobID]int{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			j := rapid.SampledFrom(jobs).Draw(rt, "job")
			switch rapid.IntRange(0, 7).Draw(rt, "what") {
			case 0, 1: // its user may release it
				if j.State == cluster.Pending && j.final == "" {
					j.Reason = ""
					f.start(j, rapid.IntRange(0, 4).Draw(rt, "node"))
				}
			case 2, 3:
				if j.State == cluster.Running {
					e := rapid.SampledFrom(ends).Draw(rt, "end")
					f.end(j, e.state, e.exit, e.output)
					if e.state == "PREEMPTED" {
						free[j.ID]++
					}
				}
			case 4:
				f.cycle(x)
			case 5: // dies and starts again
				queue := x.Memory.queue
				x = f.feature(set)
				x.Memory = f.restart()
				x.Memory.queue = queue
			case 6:
				f.lose = !f.lose
			case 7:
				f.now = f.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "s")) * time.Second)
			}
		}
		var all []time.Time
		byUser := map[string][]time.Time{}
		for _, j := range jobs {
			if most := set.PerJob + free[j.ID] + 1; j.sent > most { // one more for the hold
				rt.Errorf("job %s: %d requeues, %d of them held; at most %d", j.ID, j.sent, j.holds, most)
			}
			all, byUser[j.User] = append(all, j.times...), append(byUser[j.User], j.times...)
		}
		within(rt, "all", all, set.PerHour)
		for u, times := range byUser {
			within(rt, u, times, set.PerUser)
		}
	})
}

func within(rt *rapid.T, who string, times []time.Time, most int) {
	slices.SortFunc(times, time.Time.Compare)
	for i := range times {
		n := 0
		for _, t := range times[i:] {
			if t.Sub(times[i]) < time.Hour {
				n++
			}
		}
		if n > most {
			rt.Errorf("%s: %d requeues within an hour; at most %d", who, n, most)
		}
	}
}

// What was held is not held again.
func TestAReleasedJobIsNotHeldAgain(t *testing.T) {
	f, x, j := oneJob(t)
	f.run(x, j, 0, time.Hour, "FAILED", 1, "No space left on device")
	row := f.run(x, j, 0, time.Hour, "FAILED", 1, "No space left on device")
	if j.sent != 1 || row.Why != Released {
		t.Errorf("%d sent: %+v", j.sent, row)
	}
}

// A priod that has lost all that it knew is still bounded, by what Slurm counts.
func TestALostMemoryIsBoundedByRestarts(t *testing.T) {
	f := newFake(t, 5)
	set := settings(t)
	j := f.submit(17, "ann", "always")
	for n := range 100 {
		if j.State != cluster.Pending || j.Reason == "JobHeldUser" {
			break
		}
		x := f.feature(set)
		f.saved = map[int64]Failure{}
		f.run(x, j, n%5, time.Hour, "NODE_FAIL", 1, "")
	}
	if j.sent > set.PerJob+maxTimes+1 {
		t.Errorf("%d requeues", j.sent)
	}
}

// A running job whose record cannot be read did not end, for as many polls as that may be.
func TestUnreadJobDidNotEnd(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		m := &Memory{}
		see := func(jobs ...cluster.Job) { m.Observe(&cluster.Snapshot{Jobs: jobs, Fresh: fresh}) }
		runs := cluster.Job{ID: slurmplug.Plain(1), State: cluster.Running, User: "ann", GPUs: 4, TaskCount: 1}
		other := cluster.Job{ID: slurmplug.Plain(2), State: cluster.Running, User: "bob", TaskCount: 1}
		unread := cluster.Job{ID: slurmplug.Plain(1), State: cluster.Unread, TaskCount: 1}
		see(runs, other)
		for range 3 {
			see(other, unread)
		}
		if len(m.Waiting()) != 0 {
			t.Errorf("%+v ended", m.Waiting())
		}
		see(other)
		if ended := m.Waiting(); len(ended) != 1 || ended[0].User != "ann" || ended[0].GPUs != 4 {
			t.Errorf("%+v ended", ended)
		}
	}
}

// A job that started by a time limit of priod's after the last cycle of a process, and ended by it while none ran, is put back
// whatever its user asked for in case of failures; not so one that ended by its own limit, or by one beyond that.
func TestCutByALimitOfPriods(t *testing.T) {
	for name, c := range map[string]struct {
		limit, own time.Duration
		want       Why
	}{
		"cut":        {5 * time.Minute, time.Hour, Cut},
		"no limit":   {5 * time.Minute, slurmplug.Unlimited, Cut},
		"its own":    {time.Hour, time.Hour, NotAsked},
		"beyond it":  {61 * time.Minute, time.Hour, NotAsked},
		"its user's": {9 * time.Minute, time.Hour, NotAsked},
	} {
		f := newFake(t, 1)
		j := f.submit(17, "ann", "")
		x := f.feature(settings(t))
		written := c.limit
		if name == "its user's" {
			written = 5 * time.Minute
		}
		x.Memory.Recall([]cluster.Job{j.Job}, map[cluster.JobID]cluster.Requested{j.ID: {Was: slurmplug.LimitOf(c.own), Value: slurmplug.LimitOf(written), Sure: true}})
		f.start(j, 0)
		j.TimeLimit = c.limit
		f.end(j, "TIMEOUT", 0, "")
		f.now = f.now.Add(c.limit)
		f.cycle(x)
		if len(f.saved) != 1 || f.saved[1].Why != c.want || (j.sent == 1) != (c.want == Cut) {
			t.Errorf("%s: %d sent, %+v", name, j.sent, f.saved)
		}
	}
}
