package slurmplug_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

func jobID(t testing.TB, s string) slurmplug.JobID {
	t.Helper()
	id, err := slurmplug.ParseJobID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// queue reads the queue by id.
func queue(t testing.TB, c *slurmplug.Client) map[slurmplug.JobID]slurmplug.Job {
	t.Helper()
	jobs, err := c.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byID := map[slurmplug.JobID]slurmplug.Job{}
	for _, j := range jobs {
		byID[j.ID] = j
	}
	return byID
}

// siteFactors reads SiteFactor by raw id.
func siteFactors(t testing.TB, c *slurmplug.Client) map[uint32]int64 {
	t.Helper()
	all, err := c.Factors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byID := map[uint32]int64{}
	for _, f := range all {
		byID[f.RawID] = f.SiteFactor
	}
	return byID
}

// expectSiteFactors reads values back. sprio lists a new job only after
// Slurm's next look at the queue.
func expectSiteFactors(t testing.TB, c *slurmplug.Client, want map[slurmplug.JobID]int64) {
	t.Helper()
	var factors map[uint32]int64
	jobs := queue(t, c)
	for _, j := range slices.Collect(maps.Values(jobs)) { // a record stands for each of its tasks
		if tasks, err := slurmplug.ExpandTasks(j.Tasks); err == nil {
			for _, task := range tasks {
				jobs[slurmplug.JobID{ID: j.ID.ID, Task: task}] = j
			}
		}
	}
	eventually(t, "all jobs in sprio", func() bool {
		factors = siteFactors(t, c)
		for id := range want {
			if _, known := factors[jobs[id].RawID]; !known {
				return false
			}
		}
		return true
	})
	for id, value := range want {
		if got := factors[jobs[id].RawID]; got != value {
			t.Fatalf("%s: SiteFactor %d, want %d", id, got, value)
		}
	}
}

// waiting are arguments of a job that is eligible and cannot start while a node
// is drained: sprio lists it.
var waiting = []string{"--nodes=6", "--exclusive", "--qos=be"}

func drainOne(t testing.TB, l *lab.Lab) {
	run(t, l.Client, "scontrol", "update", "NodeName=any-1", "State=DRAIN", "Reason=test")
	t.Cleanup(func() {
		if _, err := l.Run(context.Background(), "scontrol", "update", "NodeName=any-1", "State=RESUME"); err != nil {
			t.Error(err)
		}
	})
}

func TestLiveReads(t *testing.T) {
	l := lab.Shared(t)
	c := clientOf(l, slurmplug.Options{})
	ctx := t.Context()
	fill(t, l)

	jobs, err := c.Jobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]bool{}
	for id := range strings.Lines(run(t, l.Client, "squeue", "-h", lab.Records(), "-O", "JobID:")) {
		records[id] = true
	}
	if len(records) != len(jobs) {
		t.Errorf("%d jobs, squeue knows %d records", len(jobs), len(records))
	}
	tasks := 0
	held := map[string]int{} // GPUs by node, from the jobs
	for i := range jobs {
		j := &jobs[i]
		tasks += j.TaskCount
		_, n := j.GPUs()
		if _, slurm, ok := j.AllocatedGPUs(); ok && slurm != n {
			t.Errorf("%s: %d GPUs, Slurm counts %d", j.Comment, n, slurm)
		}
		if hosts, err := slurmplug.ExpandHosts(j.NodeList); err != nil {
			t.Error(err)
		} else if j.State == "RUNNING" && len(hosts) != j.Nodes {
			t.Errorf("%s: %d nodes, %q", j.Comment, j.Nodes, hosts)
		} else if len(hosts) == 1 {
			held[hosts[0]] += n
		}
		if j.State != "RUNNING" {
			continue
		}
		parts, err := c.Parts(ctx, j)
		sum := 0
		for _, p := range parts {
			if sum += p.GPUs; !strings.Contains(run(t, l.Client, "scontrol", "show", "hostnames", j.NodeList), p.Node) {
				t.Errorf("%s: a part on %s, it has %s", j.Comment, p.Node, j.NodeList)
			}
		}
		if err != nil || len(parts) != j.Nodes || sum != n {
			t.Errorf("%s: %d GPUs on %d nodes, of which %+v, %v", j.Comment, n, j.Nodes, parts, err)
		}
	}
	if lines := strings.Count(run(t, l.Client, "squeue", "-h", "-r", "-o", "%i"), "\n"); lines != tasks {
		t.Errorf("%d tasks, squeue -r prints %d", tasks, lines)
	}

	nodes, err := c.Nodes(ctx)
	if err != nil || len(nodes) != len(l.Nodes) {
		t.Fatal(len(nodes), err)
	}
	for _, n := range nodes {
		used := 0
		for _, g := range n.GresUsed {
			used += int(g.Count)
		}
		if used < held[n.Name] {
			t.Errorf("%s: %d GPUs in use, its jobs alone hold %d", n.Name, used, held[n.Name])
		}
		if drained := slices.Contains(n.State, "DRAIN"); drained != (n.Name == "v100-1") {
			t.Errorf("%s: %v", n.Name, n.State)
		}
	}

	conf, err := c.Config(ctx)
	if err != nil || conf.ClusterName() != "lab" {
		t.Error(conf.ClusterName(), err)
	}
	if sum, err := conf.WeightSum(); sum != 18601 || err != nil {
		t.Error(sum, err)
	}
	if p, err := c.Partitions(ctx); err != nil || len(p) != 3 {
		t.Error(p, err)
	}
	if q, err := c.QOS(ctx); err != nil || len(q) != 3 {
		t.Error(q, err)
	}
	if d, err := c.Diag(ctx); err != nil || d.DBDAgentQueue > 1000 {
		t.Error(d, err)
	}
	if up, err := c.Ping(ctx); err != nil || len(up) != 1 || !up[0].Up {
		t.Error(up, err)
	}
	if f, err := c.Factors(ctx); err != nil || len(f) == 0 {
		t.Error(f, err)
	}
	runs, err := c.History(ctx, time.Now().Add(-time.Hour), time.Time{})
	if err != nil || !slices.ContainsFunc(runs, func(r slurmplug.Run) bool { return r.Name == "failed" && r.ExitCode == 3 }) {
		t.Error(runs, err)
	}
	requeued := jobs[slices.IndexFunc(jobs, func(j slurmplug.Job) bool { return j.Comment == "requeued" })]
	run(t, l.Client, "scontrol", "update", "JobId="+requeued.ID.String(), "StartTime=now")
	eventually(t, "both runs of a requeued job", func() bool {
		runs, err := c.History(ctx, time.Now().Add(-time.Hour), time.Time{})
		states := map[string]bool{}
		for _, r := range runs {
			if r.ID == requeued.ID {
				states[r.State] = true
			}
		}
		return err == nil && len(states) == 2 && states["REQUEUED"]
	})
	if old, err := c.History(ctx, time.Unix(0, 0), time.Now().Add(-24*time.Hour)); err != nil || len(old) != 0 {
		t.Error(old, err)
	}
	run(t, l.Client, "scontrol", "update", "NodeName=v100-1", "State=RESUME", "Reason=")
	run(t, l.Client, "scancel", "--user="+strconv.Itoa(os.Geteuid()))
	run(t, l.Client, "scancel", "--user="+lab.PlainUser)
}

func TestLiveHostLists(t *testing.T) {
	l := lab.Shared(t)
	for _, list := range []string{"a[1-3,5],b", "n[08-11]", "rack[1-2]n[01-02]", "n[1-2]-ib[0,2]", "a100-[1-2],v100-1", "x[9-10],x[001-003]"} {
		want := strings.Fields(run(t, l.Client, "scontrol", "show", "hostnames", list))
		got, err := slurmplug.ExpandHosts(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; scontrol says %q", list, got, err, want)
		}
		back := strings.Fields(run(t, l.Client, "scontrol", "show", "hostnames", slurmplug.CompactHosts(want)))
		slices.Sort(back)
		slices.Sort(want)
		if !slices.Equal(back, want) {
			t.Errorf("%q compacts to %q, which scontrol reads as %q", want, slurmplug.CompactHosts(want), back)
		}
	}
}

func TestLiveRights(t *testing.T) {
	l := lab.Shared(t)
	c := clientOf(l, slurmplug.Options{})
	conf, err := c.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.OwnRights(t.Context(), conf); err != nil || r.Level != slurmplug.Administrator || r.Why != "SlurmUser" {
		t.Errorf("%+v, %v", r, err)
	}
	for name, want := range map[string]slurmplug.AdminLevel{lab.OperatorUser: slurmplug.Operator, lab.PlainUser: slurmplug.NoAdmin} {
		u, err := user.Lookup(name)
		if err != nil {
			t.Skip(err)
		}
		if strconv.Itoa(os.Geteuid()) == u.Uid {
			continue // it runs this lab
		}
		uid, _ := strconv.Atoi(u.Uid)
		if r, err := slurmplug.RightsOf(t.Context(), c, conf, uid); err != nil || r.Level != want || r.User != name {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// outcome is a result in short.
func outcome(r slurmplug.Result) string {
	return strings.TrimSpace(string(r.Status) + " " + r.Message)
}

func expect(t testing.TB, results []slurmplug.Result, want ...string) {
	t.Helper()
	for i, r := range results {
		if outcome(r) != want[i] {
			t.Errorf("%s %s=%s: %q, want %q", r.Target(), r.Lever, r.Value, outcome(r), want[i])
		}
	}
}

func TestLiveLevers(t *testing.T) {
	l := lab.Shared(t)
	c := clientOf(l, slurmplug.Options{})
	drainOne(t, l)
	plain := jobID(t, submit(t, l.Client, "levers", waiting...))
	other := jobID(t, submit(t, l.Client, "levers", waiting...))
	array := jobID(t, submit(t, l.Client, "levers", append(waiting, "--array=0-9%2")...))
	split := jobID(t, submit(t, l.Client, "levers", append(waiting, "--array=0-9")...))
	run(t, l.Client, "scontrol", "update", fmt.Sprintf("JobId=%d_[2-3]", split.ID), "Nice=0") // makes records of two tasks
	task := slurmplug.JobID{ID: split.ID, Task: 2}
	before := queue(t, c)
	if before[array].Tasks != "0-9" || before[split].Tasks != "0-1,4-9" {
		t.Fatalf("%+v\n%+v", before[array], before[split])
	}

	site := func(id slurmplug.JobID, value int) slurmplug.Update {
		return slurmplug.Update{Job: id, Tasks: before[id].Tasks, Lever: slurmplug.SiteFactor, Value: slurmplug.Number(int64(value))}
	}
	expect(t, c.Update(t.Context(), []slurmplug.Update{site(plain, 100), site(other, -200), site(array, 100), site(task, 300), site(split, 100)}),
		"applied", "applied", "applied", "applied", "applied")
	after := queue(t, c)
	for id := range after {
		if _, known := before[id]; !known {
			t.Errorf("the write split an array: job %s is new", id)
		}
	}
	if after[array].Tasks != "0-9" || after[split].Tasks != "0-1,4-9" {
		t.Errorf("the write split an array: %q, %q", after[array].Tasks, after[split].Tasks)
	}
	third := slurmplug.JobID{ID: split.ID, Task: 3}
	expectSiteFactors(t, c, map[slurmplug.JobID]int64{plain: 100, other: -200, array: 100, task: 300, third: 0, split: 100})
	if after[plain].Priority <= after[other].Priority {
		t.Errorf("priorities %d and %d", after[plain].Priority, after[other].Priority)
	}

	expect(t, c.Update(t.Context(), []slurmplug.Update{
		{Job: plain, Lever: slurmplug.Lever("Nice"), Value: slurmplug.Number(-77)},
		{Job: array, Tasks: "0-9", Lever: "Features", Value: slurmplug.Text("a100|v100")},
	}), "applied", "applied")
	after = queue(t, c)
	if after[plain].Nice != -77 || after[array].Features != "a100|v100" || after[array].Tasks != "0-9" {
		t.Errorf("%+v\n%+v\n%+v", after[plain], after[other], after[array])
	}
	expectSiteFactors(t, c, map[slurmplug.JobID]int64{other: -200})
	run(t, l.Client, "scancel", "--name=levers")
}

// Where jobs have no association, slurmctld from 24.11 on refuses every second write of partitions for an error of its own.
func TestLivePartitionsWithoutAccounting(t *testing.T) {
	l := lab.ForTest(t, lab.Options{
		NoAccounting: true, Nodes: []lab.NodeSpec{{Prefix: "a", Count: 1}, {Prefix: "b", Count: 1}},
		Partitions: []string{"a Nodes=a1 Default=YES State=UP", "b Nodes=b1 State=UP"},
	})
	c := clientOf(l, slurmplug.Options{})
	job, array := jobID(t, submit(t, l.Client, "held", "--hold", "--partition=a,b")), jobID(t, submit(t, l.Client, "held", "--hold", "--partition=a,b", "--array=0-3"))
	for i := range 40 {
		list := []string{"a", "a,b", "b", "a,b"}[i%4]
		to := slurmplug.Text(list)
		expect(t, c.Update(t.Context(), []slurmplug.Update{{Job: job, Lever: slurmplug.PartitionList, Value: to}, {Job: array, Tasks: "0-3", Lever: slurmplug.PartitionList, Value: to}}), "applied", "applied")
		for id, j := range queue(t, c) {
			if j.Partition != list {
				t.Fatalf("%s is in %q after the write of %q", id, j.Partition, list)
			}
		}
	}
}

func TestLiveManyValues(t *testing.T) {
	l := lab.Shared(t)
	c := clientOf(l, slurmplug.Options{})
	drainOne(t, l)
	array := jobID(t, submit(t, l.Client, "many", append(waiting, "--array=0-299")...))
	var updates []slurmplug.Update
	want := map[slurmplug.JobID]int64{}
	for i := range int32(300) {
		id := slurmplug.JobID{ID: array.ID, Task: i}
		want[id] = int64(i%100) - 50
		updates = append(updates, slurmplug.Update{Job: id, Lever: slurmplug.SiteFactor, Value: slurmplug.Number(int64(want[id]))})
	}
	for _, r := range c.Update(t.Context(), updates) {
		if r.Status != slurmplug.Applied {
			t.Fatalf("%s: %s", r.Target(), outcome(r))
		}
	}
	expectSiteFactors(t, c, want)
	run(t, l.Client, "scancel", "--name=many")
}

func TestLiveComponents(t *testing.T) {
	l := lab.Shared(t)
	c := clientOf(l, slurmplug.Options{})
	leader := jobID(t, strings.TrimSpace(run(t, l.Client, "sbatch", "--parsable", "--output=/dev/null", "--begin=now+1day", "--comment=het", "--ntasks=1",
		":", "--ntasks=2", "--comment=het", "--wrap=sleep 600")))
	second := slurmplug.Plain(leader.ID + 1)
	nice := func(j slurmplug.Job, value string) slurmplug.Update {
		return slurmplug.Update{Job: j.ID, HetID: j.HetID, HetOffset: j.HetOffset, Lever: slurmplug.Lever("Nice"), Value: slurmplug.Text(value)}
	}
	jobs := queue(t, c)
	expect(t, c.Update(t.Context(), []slurmplug.Update{nice(jobs[second], "20"), nice(jobs[leader], "10")}), "applied", "applied")
	jobs = queue(t, c)
	if jobs[leader].Nice != 10 || jobs[second].Nice != 20 {
		t.Errorf("%+v\n%+v", jobs[leader], jobs[second])
	}
	gone := nice(jobs[leader], "1")
	gone.HetOffset = 5
	expect(t, c.Update(t.Context(), []slurmplug.Update{gone}), "raced Invalid job id specified")
	run(t, l.Client, "scancel", leader.String())
}

func TestLiveRaces(t *testing.T) {
	l := lab.Shared(t)
	c := clientOf(l, slurmplug.Options{})
	ctx := t.Context()
	running := jobID(t, submit(t, l.Client, "races"))
	finished := jobID(t, submit(t, l.Client, "races", "--wrap=true"))
	held := jobID(t, submit(t, l.Client, "races", "--hold"))
	array := jobID(t, submit(t, l.Client, "races", "--array=0-5%2"))
	for id, state := range map[string]string{running.String(): "RUNNING", finished.String(): "COMPLETED", array.String() + "_1": "RUNNING"} {
		if err := l.WaitJob(ctx, id, state); err != nil {
			t.Fatal(err)
		}
	}
	feature := func(id slurmplug.JobID, tasks string) slurmplug.Update {
		return slurmplug.Update{Job: id, Tasks: tasks, Lever: "Features", Value: slurmplug.Text("a100")}
	}
	expect(t, c.Update(ctx, []slurmplug.Update{
		feature(running, ""), feature(finished, ""), feature(slurmplug.Plain(4_000_000), ""), feature(array, "0-5"),
		{Job: running, Lever: slurmplug.SiteFactor, Value: slurmplug.Number(7)},
		{Job: finished, Lever: slurmplug.SiteFactor, Value: slurmplug.Number(7)},
		{Job: held, Lever: slurmplug.Lever("Priority"), Value: slurmplug.Number(7)},
	}),
		"raced Job is no longer pending execution",
		"raced Job has already finished",
		"raced Invalid job id specified",
		"applied tasks 0-1: Job is no longer pending execution",
		"applied", // a running job takes it; it counts after a requeue
		"raced Job has already finished",
		"raced Job is in held state, pending scheduler release",
	)
	j := queue(t, c)[array]
	if j.Features != "a100" || j.Tasks != "2-5" {
		t.Errorf("%+v", j)
	}
	expect(t, c.Update(ctx, []slurmplug.Update{feature(held, ""), {Job: held, Lever: "Features", Value: slurmplug.Text("nothing")}}),
		"applied", "refused job "+held.String()+": Features is written twice in one call")
	expect(t, c.Update(ctx, []slurmplug.Update{{Job: held, Lever: "Features", Value: slurmplug.Text("nothing")}, {Job: held, Lever: "NoSuchField", Value: slurmplug.Text("1")}}),
		"refused Invalid feature specification", "refused Update of this parameter is not supported: NoSuchField=1; Request aborted")
	run(t, l.Client, "scancel", "--name=races")
}

func TestLivePermissions(t *testing.T) {
	l := lab.Shared(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can act as other users")
	}
	plain := slurmplug.NewClient(asUser{l.As(lab.PlainUser)}, slurmplug.Options{})
	operator := slurmplug.NewClient(asUser{l.As(lab.OperatorUser)}, slurmplug.Options{})
	own := jobID(t, submit(t, l.As(lab.PlainUser), "rights", "--begin=now+1day"))
	foreign := jobID(t, submit(t, l.Client, "rights", "--begin=now+1day"))
	array := jobID(t, submit(t, l.Client, "rights", "--begin=now+1day", "--array=1-5"))
	lever := func(id slurmplug.JobID, lever slurmplug.Lever, value string) slurmplug.Update {
		return slurmplug.Update{Job: id, Lever: lever, Value: lever.Value(value)}
	}
	tasks := lever(array, slurmplug.SiteFactor, "5")
	tasks.Tasks = "1-5"
	expect(t, plain.Update(t.Context(), []slurmplug.Update{
		lever(own, slurmplug.SiteFactor, "5"), lever(foreign, slurmplug.SiteFactor, "5"), tasks,
		lever(own, slurmplug.Lever("Nice"), "-5"), lever(own, "Comment", "mine"), lever(own, slurmplug.Lever("Priority"), "4000000"),
	}),
		"refused Access/permission denied", "refused Invalid user id", "refused Invalid user id",
		"refused Access/permission denied", "applied", "refused Access/permission denied")
	expect(t, plain.Update(t.Context(), []slurmplug.Update{lever(own, slurmplug.Lever("Priority"), "1")}),
		"applied Changes to job priority are not persistent, change nice instead")
	expect(t, operator.Update(t.Context(), []slurmplug.Update{
		lever(own, slurmplug.SiteFactor, "5"), lever(foreign, slurmplug.SiteFactor, "6"), tasks, lever(own, "AdminComment", "x"),
	}), "applied", "applied", "applied", "refused Access/permission denied")
	if _, known := queue(t, operator)[foreign]; !known {
		t.Error("the operator does not see other people's jobs")
	}
	run(t, l.Client, "scancel", "--name=rights")
}

func TestLiveControllerHangs(t *testing.T) {
	l := lab.Shared(t)
	id := jobID(t, submit(t, l.Client, "hang", "--begin=now+1day"))
	c := clientOf(l, slurmplug.Options{ReadTimeout: time.Second, WriteTimeout: time.Second})
	update := []slurmplug.Update{{Job: id, Lever: slurmplug.Lever("Nice"), Value: slurmplug.Number(9)}}
	if err := l.Pause("slurmctld"); err != nil {
		t.Fatal(err)
	}
	defer l.Continue("slurmctld")
	if jobs, err := c.Jobs(t.Context()); jobs != nil || !errors.Is(err, slurmplug.ErrTimeout) {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	expect(t, c.Update(t.Context(), update), "postponed not sent: sdiag: timed out")
	if err := l.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}

	// It stops answering between sdiag and the write.
	exec := slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: l.Conf()})
	c = slurmplug.NewClient(runnerFunc(func(ctx context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
		if cmd.Name == "scontrol" {
			if err := l.Pause("slurmctld"); err != nil {
				t.Error(err)
			}
		}
		return exec.Run(ctx, cmd)
	}), slurmplug.Options{WriteTimeout: 3 * time.Second}) // sdiag answers in time on a busy machine, too
	lines := append(update, slurmplug.Update{Job: id, HetID: 0, Lever: slurmplug.SiteFactor, Value: slurmplug.Number(3)})
	results := c.Update(t.Context(), lines)
	if results[0].Status != slurmplug.Unknown || results[1].Status != slurmplug.Postponed {
		t.Errorf("%s; %s", outcome(results[0]), outcome(results[1]))
	}
	if err := l.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}
	c = clientOf(l, slurmplug.Options{})
	expect(t, c.Update(t.Context(), update), "applied")
	if j := queue(t, c)[id]; j.Nice != 9 {
		t.Errorf("%+v", j)
	}
	run(t, l.Client, "scancel", "--name=hang")
}

type runnerFunc func(context.Context, slurmplug.Command) (slurmplug.Output, error)

func (f runnerFunc) Run(ctx context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	return f(ctx, cmd)
}

func TestLiveControllerDown(t *testing.T) {
	l := lab.Shared(t)
	id := jobID(t, submit(t, l.Client, "down", "--begin=now+1day"))
	c := clientOf(l, slurmplug.Options{})
	queue(t, c)
	if err := l.Stop(t.Context(), "slurmctld"); err != nil { // killed, it could forget the job
		t.Fatal(err)
	}
	if up, err := c.Ping(t.Context()); err != nil || up[0].Up {
		t.Errorf("%+v, %v", up, err)
	}
	if jobs, err := c.Jobs(t.Context()); jobs != nil || !errors.Is(err, slurmplug.ErrController) {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	result := c.Update(t.Context(), []slurmplug.Update{{Job: id, Lever: slurmplug.Lever("Nice"), Value: slurmplug.Number(9)}})[0]
	if result.Status != slurmplug.Postponed || !strings.Contains(result.Message, "Unable to contact slurm controller") {
		t.Error(outcome(result))
	}
	if err := l.StartDaemon(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	if j, known := queue(t, c)[id]; !known || j.Nice != 0 {
		t.Errorf("%+v", j)
	}
	run(t, l.Client, "scancel", "--name=down")
}

// Where slurmctld serves its metrics, no sdiag is run.
func TestLiveMetrics(t *testing.T) {
	if !lab.AtLeast(25, 11) {
		t.Skipf("Slurm %s serves no metrics", lab.Version())
	}
	o := labOptions("metrics")
	o.ExtraConf = append(o.ExtraConf, "MetricsType=metrics/openmetrics")
	l := lab.ForTest(t, o)
	real := slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: l.Conf()})
	c := slurmplug.NewClient(runnerFunc(func(ctx context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
		if cmd.Name == "sdiag" {
			t.Error("sdiag was run")
		}
		return real.Run(ctx, cmd)
	}), slurmplug.Options{})
	conf, err := c.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.UseMetrics(conf)
	if d, err := c.Diag(t.Context()); err != nil || d.AgentQueue > 100 {
		t.Errorf("%+v, %v", d, err)
	}
}
