package order

import (
	"cmp"
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

var now = time.Unix(1_800_000_000, 0)

func pending(id uint32, typ string) cluster.Job {
	return cluster.Job{
		ID: slurmplug.Plain(id), TaskCount: 1, User: "ann", Account: "vision", Partition: "gpu",
		State: cluster.Pending, Priority: 100, GPUs: 1, TimeLimit: 10 * time.Minute,
		Eligible: now.Add(-time.Hour), Tag: jobtag.Tag{Type: typ},
	}
}

func rank(t testing.TB, set plan.Classes, jobs ...cluster.Job) ([]Verdict, []int) {
	t.Helper()
	s := &cluster.Snapshot{At: now, Jobs: jobs}
	h := cluster.NewHistory()
	h.Observe(s)
	return Rank(s, h, set)
}

func TestClasses(t *testing.T) {
	set := plan.Classes{Partitions: []string{"gpu", "big"}, TEQOS: []string{"fast"}, BEQOS: []string{"slow"}}
	with := func(change func(*cluster.Job)) cluster.Job {
		j := pending(7, "")
		change(&j)
		return j
	}
	for _, c := range []struct {
		name   string
		job    cluster.Job
		want   plan.Reason
		class  cluster.Class
		ranked bool
	}{
		{"te tag", pending(1, "te"), plan.TETag, cluster.TE, true},
		{"be tag", pending(1, "be"), plan.BETag, cluster.BE, true},
		{"no tag", pending(1, ""), plan.Untagged, cluster.BE, true},
		{"bad tag", with(func(j *cluster.Job) { j.TagErr = "unknown key" }), plan.BadTag, cluster.BE, true},
		{"te by qos", with(func(j *cluster.Job) { j.QOS = "fast" }), plan.TEQOS, cluster.TE, true},
		{"be by qos", with(func(j *cluster.Job) { j.QOS = "slow" }), plan.BEQOS, cluster.BE, true},
		{"one qos of a list is te", with(func(j *cluster.Job) { j.QOS = "normal,fast" }), plan.TEQOS, cluster.TE, true},
		{"te before be in a list", with(func(j *cluster.Job) { j.QOS = "slow,fast" }), plan.TEQOS, cluster.TE, true},
		{"one qos of a list is be", with(func(j *cluster.Job) { j.QOS = "slow,normal" }), plan.Untagged, cluster.BE, true},
		{"the tag speaks before the qos", with(func(j *cluster.Job) { j.QOS = "fast"; j.Tag.Type = "be" }), plan.BETag, cluster.BE, true},
		{"held by priority", with(func(j *cluster.Job) { j.Priority = 0 }), plan.Held, cluster.BE, false},
		{"held by reason", with(func(j *cluster.Job) { j.Reason = "JobHeldAdmin" }), plan.Held, cluster.BE, false},
		{"dependency", with(func(j *cluster.Job) { j.Dependency = true }), plan.Dependency, cluster.BE, false},
		{"reservation", with(func(j *cluster.Job) { j.Reservation = "maint" }), plan.Reserved, cluster.BE, false},
		{"other partition", with(func(j *cluster.Job) { j.Partition = "cpu" }), plan.Foreign, cluster.BE, false},
		{"one other partition", with(func(j *cluster.Job) { j.Partition = "gpu,cpu" }), plan.Foreign, cluster.BE, false},
		{"two ranked partitions", with(func(j *cluster.Job) { j.Partition = "gpu,big" }), plan.Untagged, cluster.BE, true},
		{"het component", with(func(j *cluster.Job) { j.HetLeader = 6; j.HetOffset = 1 }), plan.Component, cluster.BE, false},
		{"begins later", with(func(j *cluster.Job) { j.Eligible = now.Add(time.Hour); j.Tag.Type = "te" }), plan.NotYet, cluster.TE, false},
	} {
		v, te := rank(t, set, c.job)
		if asked := set.Class(c.job.Tag.Type, c.job.QOS); v[0].Ranked && c.job.TagErr == "" && asked != c.class {
			t.Errorf("%s: asks to be %s and counts as %s", c.name, asked, c.class)
		}
		if v[0].Why != c.want || v[0].Class != c.class || v[0].Ranked != c.ranked || (len(te) == 1) != (c.ranked && c.class == cluster.TE) {
			t.Errorf("%s: %+v, te %v", c.name, v[0], te)
		}
	}
}

func TestRunningJobsGetNoVerdict(t *testing.T) {
	j := pending(1, "te")
	j.State = cluster.Running
	if v, te := rank(t, plan.Classes{}, j); len(v)+len(te) != 0 {
		t.Fatal(v, te)
	}
}

// A requeue moves Slurm's submit and eligible times; the first one counts.
func TestRequeuedJobKeepsItsTurn(t *testing.T) {
	a, b := pending(1, "te"), pending(2, "te")
	b.Eligible = b.Eligible.Add(time.Minute)
	h := cluster.NewHistory()
	s := &cluster.Snapshot{At: now, Jobs: []cluster.Job{a, b}}
	h.Observe(s)
	s.Jobs[0].Eligible, s.Jobs[0].Submit, s.Jobs[0].Restarts = now.Add(2*time.Minute), now, 1
	s.At = now.Add(time.Second)
	h.Observe(s)
	if _, te := Rank(s, h, plan.Classes{}); fmt.Sprint(te) != "[0 1]" {
		t.Fatal(te)
	}
}

// The price of a start is how many times the share is used with it, of the dearest share.
func TestPrices(t *testing.T) {
	h := cluster.NewHistory()
	run := pending(50, "te")
	run.State, run.GPUs, run.Start = cluster.Running, 2, now.Add(-3*time.Hour)
	h.Observe(&cluster.Snapshot{At: now.Add(-3 * time.Hour), Jobs: []cluster.Job{run}})
	for _, c := range []struct {
		name   string
		set    plan.Classes
		times  float64
		detail string
	}{
		{"no limit", plan.Classes{}, 0, ""},
		{"within", plan.Classes{User: plan.Budget{GPUs: 3, TimeLimit: 10 * time.Minute, GPUHours: 7}}, 0, ""},
		{"GPUs at once", plan.Classes{User: plan.Budget{GPUs: 2}}, 1.5, ""},
		{"three times", plan.Classes{User: plan.Budget{GPUs: 1}}, 3, "3 times the share of user ann, 1 TE GPUs at a time"},
		{"time limit", plan.Classes{User: plan.Budget{TimeLimit: 8 * time.Minute}}, 1.2, ""},
		{"three times as long", plan.Classes{User: plan.Budget{TimeLimit: 200 * time.Second}}, 3, "3 times the share of user ann, a time limit of 3m20s of TE jobs"},
		{"ten times as long", plan.Classes{User: plan.Budget{TimeLimit: time.Minute}}, 10, "10 times the share of user ann"},
		{"GPU-hours", plan.Classes{User: plan.Budget{GPUHours: 3}}, 2, "2 times the share of user ann, 3.0 TE GPU-hours in a day"},
		{"many GPU-hours", plan.Classes{User: plan.Budget{GPUHours: 1}}, 6, "6 times the share"},
		{"account", plan.Classes{Account: plan.Budget{GPUs: 1}}, 3, "3 times the share of account vision"},
		{"the dearer", plan.Classes{User: plan.Budget{GPUs: 2}, Account: plan.Budget{GPUs: 1}}, 3, "account vision"},
		{"own budget", plan.Classes{User: plan.Budget{GPUs: 1}, Users: map[string]plan.Budget{"ann": {GPUs: 9}}}, 0, ""},
		{"part of the partition", plan.Classes{User: plan.Budget{Share: 0.25}}, 1.5, ""},
		{"a larger part", plan.Classes{User: plan.Budget{Share: 0.5}}, 0, ""},
		{"a number in its place", plan.Classes{User: plan.Budget{Share: 0.5, GPUs: 1}}, 3, "1 TE GPUs"},
		{"part of a day", plan.Classes{User: plan.Budget{HourShare: 0.015625}}, 2, "3.0 TE GPU-hours"},
		{"account's own budget", plan.Classes{Accounts: map[string]plan.Budget{"vision": {GPUHours: 1}}}, 6, "account vision"},
	} {
		s := &cluster.Snapshot{At: now, Jobs: []cluster.Job{run, pending(60, "te")}}
		s.Nodes = []cluster.Node{{Name: "b", GPUs: 64, Partitions: []string{"other"}}}
		for i := range 4 {
			s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprint("a", i), GPUs: 2, Partitions: []string{run.Partition}})
		}
		h.Observe(s)
		v, te := Rank(s, h, c.set)
		last := v[len(v)-1]
		if last.Budget.Factor() != c.times || last.Detail != "" || c.detail != "" && (!(last.Budget.Beyond() || last.Why == plan.OverBudget) || !strings.Contains(last.Budget.Words(), c.detail)) {
			t.Errorf("%s: %+v %+v", c.name, last, last.Budget)
		}
		if is := c.times < plan.Worth; is != (len(te) == 1) || is != (last.Class == cluster.TE) || is == (last.Why == plan.OverBudget) || !last.Ranked {
			t.Errorf("%s: %+v", c.name, last)
		}
	}
}

// A trial costs of the GPUs held at a time what it holds for five minutes: 128 GPUs for 17 seconds are little.
func TestShortTrialsAreCheap(t *testing.T) {
	set := plan.Classes{User: plan.Budget{GPUs: 71, GPUHours: 340, TimeLimit: time.Hour}}
	wide := pending(1, "te")
	wide.GPUs, wide.TimeLimit = 128, 17*time.Second
	long := wide
	long.ID, long.TimeLimit, long.User = slurmplug.Plain(2), time.Hour, "bob"
	v, te := rank(t, set, wide, long)
	if len(te) != 2 || v[0].Budget != nil || v[1].Budget.Factor() != 1.8 {
		t.Errorf("%+v %+v", v[0].Budget, v[1].Budget)
	}
}

func TestUnlimitedTimeIsOverAnyTimeBudget(t *testing.T) {
	j := pending(1, "te")
	j.TimeLimit = slurmplug.Unlimited
	if v, te := rank(t, plan.Classes{User: plan.Budget{TimeLimit: time.Hour}}, j); len(te) != 0 || !v[0].Budget.Never() {
		t.Fatal(v)
	}
}

func TestArrayIsAdmittedInPart(t *testing.T) {
	j := pending(1, "te")
	j.Tasks, j.TaskCount, j.GPUs = "0-99", 100, 2
	v, te := rank(t, plan.Classes{User: plan.Budget{GPUs: 7}}, j)
	if len(te) != 1 || v[0].Tasks != 6 {
		t.Fatalf("%+v", v[0])
	}
}

// The tasks that stand first stay first when Slurm has split them
// off, and the rest of the array, which costs more, does not take their place.
func TestSplitTasksKeepTheirTurn(t *testing.T) {
	rest := pending(1, "te")
	rest.Tasks, rest.TaskCount = "3-9", 7
	jobs := []cluster.Job{rest}
	for task := range int32(3) {
		j := pending(1, "te")
		j.ID.Task = task
		jobs = append(jobs, j)
	}
	other := pending(2, "te")
	other.User = "bob"
	v, te := rank(t, plan.Classes{User: plan.Budget{GPUs: 2}}, append(jobs, other)...)
	if len(te) != 5 || v[te[0]].Job != 1 || v[te[1]].Job != 2 || v[te[2]].Job != 3 || v[te[3]].Job != 4 || v[te[4]].Job != 0 || v[0].Tasks != 4 {
		t.Fatalf("%v %+v", te, v)
	}
}

// Of a BE array the task that has a place goes first, and the others do not.
func TestArrayWithAPlace(t *testing.T) {
	array := pending(1, "be")
	array.Tasks, array.TaskCount = "4-9", 6
	h := cluster.NewHistory()
	h.Claiming = map[cluster.JobID]bool{{ID: 1, Task: 4}: true}
	s := &cluster.Snapshot{At: now, Jobs: []cluster.Job{array}}
	h.Observe(s)
	if v, _ := Rank(s, h, plan.Classes{}); v[0].Why != plan.Round || v[0].Tasks != 1 {
		t.Errorf("%+v", v[0])
	}
	s.Jobs[0].Tasks, s.Jobs[0].TaskCount = "5-9", 5
	if v, _ := Rank(s, h, plan.Classes{}); v[0].Why != plan.BETag || v[0].Tasks != 0 {
		t.Errorf("%+v", v[0])
	}
}

// Whatever the queue, the TE jobs of no user use more than plan.Worth times the share, trials stand in the order of the doublings
// of their price, and within one in that of the times when they could first have run.
func TestPricesOfAnyQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const share = 4
		set := plan.Classes{User: plan.Budget{GPUs: share}, Account: plan.Budget{GPUs: 2 * share}}
		s := &cluster.Snapshot{At: now}
		for i := range rapid.IntRange(1, 40).Draw(t, "n") {
			j := pending(uint32(i+1), "te")
			j.User = rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "user")
			j.GPUs = rapid.IntRange(0, plan.Worth*share+2).Draw(t, "gpus")
			j.Eligible = now.Add(-time.Duration(rapid.IntRange(0, 50).Draw(t, "age")) * time.Second)
			if rapid.Bool().Draw(t, "running") {
				j.State, j.Start = cluster.Running, now.Add(-time.Minute)
			}
			s.Jobs = append(s.Jobs, j)
		}
		h := cluster.NewHistory()
		h.Observe(s)
		v, te := Rank(s, h, set)
		held := map[string]int{}
		for i := range v {
			if j := &s.Jobs[v[i].Job]; v[i].Class == cluster.TE {
				held[j.User] += j.GPUs
			} else if v[i].Why == plan.OverBudget && v[i].Budget.Times < plan.Worth {
				t.Fatalf("%+v: %+v", v[i], v[i].Budget)
			}
		}
		for user, gpus := range held {
			if gpus > plan.Worth*share {
				t.Fatalf("%s gets %d TE GPUs", user, gpus)
			}
		}
		if !slices.IsSortedFunc(te, func(a, b int) int {
			return cmp.Or(cmp.Compare(level(v[a].Budget.Factor()), level(v[b].Budget.Factor())), v[a].Since.Compare(v[b].Since))
		}) {
			t.Fatal("not in the order of prices and first eligible times")
		}
	})
}

// A Slurm without accounting gives no accounts, a trace often no users.
func TestJobsWithoutAUserShareNoBudget(t *testing.T) {
	set := plan.Classes{Account: plan.Budget{GPUs: 1, TimeLimit: time.Hour}, User: plan.Budget{GPUs: 1}}
	nobody := func(id uint32, limit time.Duration) cluster.Job {
		j := pending(id, "te")
		j.User, j.Account, j.TimeLimit = "", "", limit
		return j
	}
	verdicts, _ := rank(t, set, nobody(1, time.Minute), nobody(2, time.Minute), nobody(3, 6*time.Hour))
	for i, want := range []cluster.Class{cluster.TE, cluster.TE, cluster.BE} {
		if verdicts[i].Class != want {
			t.Errorf("job %d is %s, want %s", i+1, verdicts[i].Class, want)
		}
	}
}

// A heterogeneous job is charged all of its components, not the leader alone.
func TestHeterogeneousJobsAreChargedWhole(t *testing.T) {
	component := func(id uint32, offset, gpus int) cluster.Job {
		j := pending(id, "te")
		j.HetLeader, j.HetOffset, j.GPUs = 1, offset, gpus
		return j
	}
	jobs := []cluster.Job{component(1, 0, 1), component(2, 1, 4), component(3, 2, 4)}
	v, te := rank(t, plan.Classes{User: plan.Budget{GPUs: 3}}, append(jobs, pending(4, "te"))...)
	if len(te) != 2 || v[0].Budget.Factor() != 3 || v[1].Why != plan.Component || v[3].Budget.Factor() != 3 {
		t.Errorf("%+v", v)
	}
}

// Rank returns a verdict for each pending job, each running TE job that overran and each that started before a cycle
// saw it, in the order of the snapshot, and the indices of the verdicts of TE jobs, first to last.
func Rank(s *cluster.Snapshot, h *cluster.History, set plan.Classes) (verdicts []Verdict, te []int) {
	r := newRanker(s, h, set)
	verdicts, te = r.all()
	return verdicts, r.admit(verdicts, te)
}
