package virtual

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/tests/papers/traces"
)

// daemonOf is priod with this priod.toml, which TE submissions wake.
func daemonOf(t testing.TB, text string, table *workload.Table) Daemon {
	t.Helper()
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return Daemon{
		Settings: c.Features(nil, table, cycle.NewState()), Interval: time.Duration(c.Cycle.Interval),
		Watch: c.Constants.Watch, Calls: c.Constants.Polls,
	}
}

const evicting = "[preemption]\nenabled = true\n"

// A TE job comes to a full cluster, and a BE job leaves for it: it is told at once, as
// the submission wakes priod, has its grace, and comes back with what it saved.
func TestDaemonMakesRoom(t *testing.T) {
	c, err := trace.ParseNodes([]string{"1:a100:2"})
	if err != nil {
		t.Fatal(err)
	}
	be := trace.Job{ID: "be", GPUs: 2, Duration: 1000, Grace: 30, User: "ann"}
	te := trace.Job{ID: "te", GPUs: 2, Duration: 60, Submit: 203, User: "bob", Class: cluster.TE}
	for name, w := range map[string]struct {
		toml    string
		change  func(be, te *trace.Job, o *Options)
		starts  float64 // the TE job
		ends    float64 // the BE job
		evicted int32
		wasted  float64 // GPU-seconds of the BE job
	}{
		"it saves all": {evicting, nil, 233, 293 + 797, 1, 60},
		"to a checkpoint": {evicting + "urgency = 0\n", func(be, _ *trace.Job, o *Options) {
			be.Ckpt, o.RestartCost = 100, 20
		}, 233, 293 + 800 + 20, 1, 2 * (30 + 3 + 20)},
		"by the next poll": {evicting + "[wake]\nlisten = []\n", func(_, _ *trace.Job, o *Options) { o.Daemon.Calls = 0 }, 240, 300 + 790, 1, 60},
		"off":              {"", nil, 1000, 1000, 0, 0},
		"a longer grace":   {evicting + "max_grace = \"29s\"\ngrace = \"5s\"\n", nil, 1000, 1000, 0, 0},
		"has just started": {evicting + "min_run = \"10m\"\n", func(be, _ *trace.Job, _ *Options) { be.Duration = 2000 }, 233, 293 + 1797, 1, 60},
		"limit of a day":   {evicting + "gpu_hours_per_day = 0.01\n", nil, 1000, 1000, 0, 0},
		"untagged":         {evicting, func(be, _ *trace.Job, _ *Options) { be.Untagged = true }, 1000, 1000, 0, 0},
		"no tag":           {evicting, func(be, _ *trace.Job, _ *Options) { be.Untagged, be.NoTag = true, true }, 1000, 1000, 0, 0},
		"ends soon":        {evicting, func(be, _ *trace.Job, _ *Options) { be.Duration = 240 }, 240, 240, 0, 0},
		"two nodes": {evicting, func(be, te *trace.Job, _ *Options) {
			be.GPUs, be.Nodes, te.GPUs, te.Nodes = 4, 2, 4, 2
		}, 233, 293 + 797, 1, 120},
	} {
		b, e := be, te
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Daemon: daemonOf(t, w.toml, nil)}
		if w.change != nil {
			w.change(&b, &e, &opt)
		}
		nodes := c
		if b.Nodes == 2 {
			nodes = trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 2}}}
		}
		o := run(t, nodes, []trace.Job{b, e}, opt).Outcomes
		if o[1].Start != w.starts || o[0].End != w.ends || o[0].Preemptions != w.evicted || o[0].Wasted != w.wasted || !o[0].Done || !o[1].Done {
			t.Errorf("%s: %+v and %+v, want the TE job to start at %v, the other to end at %v after %d evictions with %v GPU-seconds lost", name, o[0], o[1], w.starts, w.ends, w.evicted, w.wasted)
		}
	}
}

// No more victims leave in an hour than priod.toml says.
func TestDaemonKeepsCaps(t *testing.T) {
	var jobs []trace.Job
	for i := range 12 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint("be", i), GPUs: 1, Duration: 20000, Grace: 30, User: "ann"})
	}
	for i := range 6 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint("te", i), GPUs: 1, Duration: 600, Submit: 1003, User: "bob", Class: cluster.TE})
	}
	for toml, starts := range map[string][]float64{
		"":                   {1033, 1033, 1033, 1033, 1033, 1033},
		"max_per_hour = 3\n": {1033, 1033, 1033, 1633, 1633, 1633},
	} {
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Daemon: daemonOf(t, evicting+toml, nil)}
		var got []float64
		for _, o := range run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 3, GPUType: "a100", GPUs: 4}}}, jobs, opt).Outcomes[12:] {
			got = append(got, o.Start)
		}
		if !reflect.DeepEqual(got, starts) {
			t.Errorf("%q: TE jobs start at %v, want %v", toml, got, starts)
		}
	}
}

// What one user's TE jobs may cost in a day is no limit for jobs that name no user.
func TestDaemonKeepsUsersLimit(t *testing.T) {
	for user, evictions := range map[string]int32{"bob": 1, "": 3} {
		var jobs []trace.Job
		for i := range 3 {
			jobs = append(jobs, trace.Job{ID: fmt.Sprint("be", i), GPUs: 1, Duration: 20000, Grace: 30, User: "ann"})
		}
		for i := range 3 {
			jobs = append(jobs, trace.Job{ID: fmt.Sprint("te", i), GPUs: 1, Duration: 600, Submit: 1003 + 100*float64(i), User: user, Class: cluster.TE})
		}
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Daemon: daemonOf(t, evicting+"user_gpu_minutes_per_day = 0.5\n", nil)}
		n := int32(0)
		for _, o := range run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a100", GPUs: 3}}}, jobs, opt).Outcomes {
			n += o.Preemptions
		}
		if n != evictions {
			t.Errorf("TE jobs of user %q: %d evictions, want %d", user, n, evictions)
		}
	}
}

// A place that becomes free in parts is reserved meanwhile: a job that would fit into the
// first part starts only when the TE job has all.
func TestDaemonReserves(t *testing.T) {
	jobs := []trace.Job{
		{ID: "a", GPUs: 1, Duration: 5000, Grace: 30, User: "ann"}, {ID: "b", GPUs: 1, Duration: 5000, Grace: 90, User: "ann"},
		{ID: "te", GPUs: 2, Duration: 100, Submit: 1003, User: "bob", Class: cluster.TE},
		{ID: "short", GPUs: 1, Duration: 20, Limit: 20, Submit: 1004, User: "eve"},
	}
	opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Daemon: daemonOf(t, evicting, nil)}
	o := run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a100", GPUs: 2}}}, jobs, opt).Outcomes
	if o[3].Start < 1093 || o[2].Start < 1093 || o[2].Start > 1095 {
		t.Errorf("the short job starts at %v, the TE job at %v", o[3].Start, o[2].Start)
	}
}

// At the end of a round a BE job that has had its share yields to one that is owed.
func TestDaemonEndsRounds(t *testing.T) {
	table, err := workload.Parse("programs", twoPrograms)
	if err != nil {
		t.Fatal(err)
	}
	c, err := trace.ParseNodes([]string{"1:fast:1", "1:slow:1"})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for i := range 3 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), GPUs: 1, Workload: "picky", Steps: 40000 / float64(i+1), Submit: float64(i), User: fmt.Sprint("u", i), Grace: 20}) // a job yields to less work
	}
	const steering = "[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n[ranking]\norder = \"owed\"\n"
	runs := func(toml string) []metrics.Outcome {
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Daemon: daemonOf(t, toml, table), Speed: func(j *trace.Job, gpuType string) float64 {
			id, _ := table.Lookup(j.Workload)
			s, _ := table.Speed(id, j.GPUs, gpuType)
			return s
		}}
		return run(t, c, jobs, opt).Outcomes
	}
	count := func(all []metrics.Outcome) (n int32) {
		for _, o := range all {
			n += o.Preemptions
		}
		return n
	}
	if n := count(runs(steering)); n != 0 {
		t.Errorf("%d evictions without rounds", n)
	}
	with := runs(steering + "[rounds]\nenabled = true\n")
	if n := count(with); n < 1 || with[2].Start > 2*3600 {
		t.Errorf("%d evictions, and the last job starts at %v: rounds do nothing", n, with[2].Start)
	}
	if again := runs(steering + "[rounds]\nenabled = true\n"); !reflect.DeepEqual(with, again) {
		t.Error("two runs differ")
	}
}

// Commands that Slurm refuses are refused.
func TestCommandsRefused(t *testing.T) {
	opt := Options{Order: Priod, Placement: placement.Packed, Daemon: daemonOf(t, evicting, nil)}
	e := newEngine(t.Context(), trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUs: 1}}}, opt)
	j, _, err := e.admit(trace.Job{ID: "1", GPUs: 1, Duration: 10})
	if err != nil {
		t.Fatal(err)
	}
	e.inSystem++
	e.wait(j)
	id := number(j.index)
	for _, c := range []plan.Command{
		{Kind: plan.Signal, Job: id}, {Kind: plan.Requeue, Job: id}, {Kind: plan.Pin, Job: id, Value: slurmplug.Text("n7")},
		{Kind: plan.Signal, Job: number(7)}, {Kind: plan.Reserve, Nodes: "n7"}, {Kind: "dance", Job: id},
	} {
		if r := e.slurm.Do(t.Context(), []plan.Command{c}); r[0].Message == "" {
			t.Errorf("%+v was taken", c)
		}
	}
}

// A job that sbatchwrap holds back is in the queue from its submission on, with the time
// that it may take, and starts later; a TE job is not held back.
func TestHeldBack(t *testing.T) {
	jobs := []trace.Job{{ID: "1", GPUs: 1, Duration: 100, Workload: "x"}, {ID: "2", GPUs: 1, Duration: 100, Workload: "x", Class: cluster.TE}, {ID: "3", GPUs: 1, Duration: 100}}
	opt := Options{Order: Priod, Placement: placement.Packed, Hold: 20, Daemon: daemonOf(t, "", nil)}
	nodes := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUs: 4}}}
	var starts []float64
	for _, o := range run(t, nodes, jobs, opt).Outcomes {
		starts = append(starts, o.Start)
	}
	if !reflect.DeepEqual(starts, []float64{20, 0, 0}) {
		t.Errorf("jobs start at %v", starts)
	}
	e := newEngine(t.Context(), nodes, opt)
	j, _, err := e.admit(jobs[0])
	if err == nil {
		err = e.handle(event{kind: arrived, job: j})
	}
	if row := e.slurm.snapshot.Jobs[0]; err != nil || row.TimeLimit != 100*time.Second || !row.Begins(e.instant(0)) {
		t.Errorf("%+v, %v", row, err)
	}
}

// With evictions, too, the cycles that are left out change nothing.
func TestSkippedCyclesAndEvictions(t *testing.T) {
	node := traces.FitGppNode
	node.Count = 2
	jobs, err := traces.GenerateFitGpp(traces.FitGppParams{Seed: 3, Jobs: 250, Mix: "small-be", TEShare: 0.3, Load: 0.8, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"", "headroom = true\n"} {
		skippedCycles(t, node, jobs, evicting+more)
	}
}

func skippedCycles(t *testing.T, node trace.NodeGroup, jobs []trace.Job, settings string) {
	t.Helper()
	outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
	for _, every := range []bool{true, false} {
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Daemon: daemonOf(t, settings, nil)}
		opt.Daemon.Every = every
		opt.Daemon.Settings.Stage = func(stage string) {
			if stage == "observe" {
				cycles[every]++
			}
		}
		outcomes[every] = run(t, trace.Cluster{Nodes: []trace.NodeGroup{node}}, jobs, opt).Outcomes
	}
	evictions := int32(0)
	for _, o := range outcomes[true] {
		evictions += o.Preemptions
	}
	if evictions == 0 || cycles[false] >= cycles[true] || !reflect.DeepEqual(outcomes[true], outcomes[false]) {
		t.Errorf("%d evictions; %d cycles of %d, with the same outcomes: %t", evictions, cycles[false], cycles[true], reflect.DeepEqual(outcomes[true], outcomes[false]))
	}
	t.Logf("%d evictions, %d cycles of %d", evictions, cycles[false], cycles[true])
}
