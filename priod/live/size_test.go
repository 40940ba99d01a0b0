package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// limited is a Slurm that enforces limits, whose slurmdbd may be down.
type limited struct {
	t      *testing.T
	down   *bool
	rename *strings.Replacer // of what it says
}

func (l limited) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "slurmplug", "testdata", "22.05", name))
		if err != nil {
			l.t.Fatal(err)
		}
		return string(b)
	}
	out, words := "", strings.Join(c.Args, " ")
	switch {
	case c.Name == "sacctmgr" && *l.down:
		return slurmplug.Output{}, &slurmplug.CommandError{Command: c.Name, Kind: slurmplug.ErrExit, Status: 1, Message: "Connection refused"}
	case c.Name == "sacctmgr" && strings.Contains(words, "show assoc"):
		out = read("limits-assoc.out")
	case c.Name == "sacctmgr":
		out = read("limits-qos.out")
	case strings.Contains(words, "show config"):
		out = read("config.out")
	case strings.Contains(words, "show partition"):
		out = read("partition.out")
	default:
		out = "JobId=17 JobName=x UserId=games(5) JobState=PENDING NumNodes=1-1 NumCPUs=3 NumTasks=1 CPUs/Task=3 MinCPUsNode=3 MinMemoryNode=64000M " +
			"ReqB:S:C:T=0:0:*:* Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* OverSubscribe=OK ReqNodeList=(null) ExcNodeList=(null) Command=x WorkDir=/ StdOut=/dev/null\n"
	}
	return slurmplug.Output{Stdout: []byte(l.rename.Replace(out))}, nil
}

// asking is a Cluster before a limited Slurm, and a job of it.
func asking(t *testing.T, down *bool) (*Cluster, *cluster.Job) {
	c := New(slurmplug.NewClient(limited{t, down, strings.NewReplacer()}, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}}))
	if err := c.refreshConfig(t.Context(), time.Unix(1_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	c.jobs = []slurmplug.Job{{ID: slurmplug.Plain(17), RawID: 17, UID: 5, Name: "x", TresPerNode: "gres:gpu:1"}}
	return c, &cluster.Job{ID: slurmplug.Plain(17), User: "games", Account: "biology", QOS: "normal", Partition: "gpu", State: cluster.Pending}
}

// Without slurmdbd the limits that were read last count for a while; with none read
// no job gets a new size. How jobs ask is read in any case: those with a size of
// priod's have to get theirs back.
func TestAskWithoutAccounting(t *testing.T) {
	for _, c := range []struct {
		name  string
		seen  bool
		age   time.Duration
		fixed bool
	}{
		{"never read", false, 0, true},
		{"read before", true, limitsValid / 2, false},
		{"read long before", true, 2 * limitsValid, true},
	} {
		down := !c.seen
		slurm, job := asking(t, &down)
		if c.seen {
			if err := slurm.Ask(t.Context(), []*cluster.Job{job}); err != nil || job.Asked == nil || job.Asked.Fixed != "" {
				t.Fatalf("%+v, %v", job.Asked, err)
			}
			slurm.sizes.at, slurm.sizes.limitsAt = slurm.sizes.at.Add(-c.age), slurm.sizes.limitsAt.Add(-c.age)
		}
		down = true
		for range 2 { // with the second one what came of the first is remembered
			if err := slurm.Ask(t.Context(), []*cluster.Job{job}); job.Asked == nil || (job.Asked.Fixed != "") != c.fixed {
				t.Errorf("%s: %+v, %v", c.name, job.Asked, err)
			}
		}
	}
}

// A limit that is made while priod runs counts as soon as a poll comes, which is no
// sooner than ten times after what reading them takes.
func TestNewLimitsCount(t *testing.T) {
	down := false
	slurm, job := asking(t, &down)
	if err := slurm.Ask(t.Context(), []*cluster.Job{job}); err != nil || job.Asked.Fixed != "" {
		t.Fatalf("%+v, %v", job.Asked, err)
	}
	slurm.client = slurmplug.NewClient(limited{t, &down, strings.NewReplacer("biology|games||||||||", "biology|games||||||cpu=2||")}, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}})
	for _, c := range []struct {
		took, ago time.Duration
		limited   bool
	}{
		{time.Hour, 9 * time.Hour, false},
		{time.Hour, 10 * time.Hour, true},
	} {
		slurm.sizes.took, slurm.sizes.at = c.took, time.Now().Add(-c.ago)
		if err := slurm.Ask(t.Context(), []*cluster.Job{job}); err != nil || (len(job.Asked.Allowances) > 0) != c.limited {
			t.Errorf("%s after one that took %s: %+v, %v", c.ago, c.took, job.Asked.Allowances, err)
		}
	}
}

// A user whom this host does not know (any more) cannot be named to scontrol: such a
// job gets no size, and one that it has is taken back in priod's own name.
func TestSizesOfUnknownUsers(t *testing.T) {
	for _, who := range []uint32{4294900001, 4294967294} {
		for may, fixed := range map[bool]bool{true: true, false: false} {
			down := false
			slurm, job := asking(t, &down)
			slurm.jobs[0].UID = who
			slurm.writtenTo = slurm.recordsOf([]cluster.JobID{job.ID})
			slurm.inNameOf = ownNames{may: may, asOf: slurm.configAt}
			if err := slurm.Ask(t.Context(), []*cluster.Job{job}); err != nil || (job.Asked.Fixed != "") != fixed {
				t.Errorf("%d: who may write in users' names %t: %+v, %v", who, may, job.Asked, err)
			}
			if u := slurm.update(&plan.Action{Job: job.ID, Lever: slurmplug.Size}, slurmplug.Size.Value("x")); u.As != "" {
				t.Errorf("%d is named as %q", who, u.As)
			}
		}
	}
}

// What was known of priod's own rights holds while slurmdbd does not answer: an
// operator's write would lift limits from jobs that were written in their users' names.
func TestOwnRightsThatCannotBeRead(t *testing.T) {
	var n ownNames
	for _, c := range []struct {
		level slurmplug.AdminLevel
		err   error
		may   bool
	}{
		{slurmplug.NoAdmin, slurmplug.ErrExit, false},
		{slurmplug.Administrator, nil, true},
		{slurmplug.NoAdmin, slurmplug.ErrTimeout, true},
		{slurmplug.Operator, nil, false},
	} {
		if n.setRights(slurmplug.Rights{Level: c.level}, c.err); n.may != c.may {
			t.Errorf("after %q, %v: %t", c.level, c.err, n.may)
		}
	}
}

// Sizes are written in the name of the job's user by one who may do that, no other
// lever is.
func TestSizesInTheUsersName(t *testing.T) {
	for may, want := range map[bool]string{true: "5", false: ""} {
		down := false
		slurm, job := asking(t, &down)
		slurm.inNameOf = ownNames{may: may, asOf: slurm.configAt} // as OwnRights said
		if err := slurm.Ask(t.Context(), []*cluster.Job{job}); err != nil {
			t.Fatal(err)
		}
		for lever, want := range map[slurmplug.Lever]string{slurmplug.Size: want, slurmplug.Features: "", slurmplug.SiteFactor: ""} {
			slurm.writtenTo = slurm.recordsOf([]cluster.JobID{job.ID})
			if u := slurm.update(&plan.Action{Job: job.ID, Lever: lever}, lever.Value("x")); u.As != want {
				t.Errorf("who may do it %t writes %s as %q, want %q", may, lever, u.As, want)
			}
		}
	}
}

// What limits leave: of one for several jobs what those of them do not hold that have
// nodes, to all together, and only where Slurm still holds them to it afterwards.
func TestAllowances(t *testing.T) {
	down := false
	for may, want := range map[bool]string{
		true:  "account biology has a limit: GrpTRES=cpu=10,mem=100G: 4 CPUs, 80G",
		false: "is under a limit of several jobs together, which a size that is not written in its user's name would lift: account biology has a limit: GrpTRES=cpu=10,mem=100G",
	} {
		slurm, job := asking(t, &down)
		slurm.client = slurmplug.NewClient(limited{t, &down, strings.NewReplacer("biology|||root||||||", "biology|||root|cpu=10,mem=100G|||||",
			"biology|games||||||||", "biology|games||||||cpu=4||")}, slurmplug.Options{})
		slurm.inNameOf = ownNames{may: may, asOf: slurm.configAt}
		slurm.jobs = []slurmplug.Job{
			{ID: slurmplug.Plain(17), Name: "x", TresPerNode: "gres:gpu:1", State: "PENDING"},
			{ID: slurmplug.Plain(18), Name: "x", TresPerNode: "gres:gpu:1", State: "PENDING"},
			{User: "games", Account: "biology", Partition: "gpu", QOS: "normal", State: "RUNNING", CPUs: 3, TRES: "cpu=3,mem=10G"},
			{User: "root", Account: "biology", Partition: "gpu", QOS: "be", State: "COMPLETING", CPUs: 1, TRES: "cpu=1,mem=6G"},
			{User: "4294900001", Account: "biology", Partition: "gpu", QOS: "gone", State: "SIGNALING", NodeList: "a1", CPUs: 1, TRES: "cpu=1,mem=2G"}, // without a name here
			{User: "games", Account: "biology", Partition: "gpu", QOS: "normal", State: "REQUEUE_HOLD", CPUs: 5, TRES: "cpu=5,mem=2G"},
			{User: "games", Account: "biology", Partition: "gpu", QOS: "normal", State: "SUSPENDED", CPUs: 1, TRES: "cpu=1,mem=2G"},
			{User: "games", Account: "biology", Partition: "gpu", QOS: "normal", State: "PENDING", CPUs: 5, TRES: "cpu=5,mem=2G"},
			{User: "games", Account: "physics", Partition: "gpu", QOS: "normal", State: "RUNNING", CPUs: 7, TRES: "cpu=7,mem=2G"},
		}
		other := *job
		other.ID.ID++
		if err := slurm.Ask(t.Context(), []*cluster.Job{job, &other}); err != nil {
			t.Fatal(err)
		}
		if !may {
			if job.Asked.Fixed != want {
				t.Errorf("an operator: %q, want %q", job.Asked.Fixed, want)
			}
			continue
		}
		if job.Asked.Fixed != "" || len(job.Asked.Allowances) != 2 || other.Asked.Allowances[1] != job.Asked.Allowances[1] || !job.Asked.Allowances[0].Each || job.Asked.Allowances[0].CPUs != 4 {
			t.Fatalf("%+v, %+v", job.Asked, other.Asked.Allowances)
		}
		l := job.Asked.Allowances[1]
		if got := fmt.Sprintf("%s: %d CPUs, %dG", l.Limit, l.CPUs, l.MemMB/1024); got != want || l.Each {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A job in partitions whose defaults by GPU differ keeps its size: Slurm shows it now with the one and now with the other.
func TestDefaultsOfPartitionsDiffer(t *testing.T) {
	r := sizeRules{partitions: map[string]slurmplug.Partition{"a": {}, "b": {Defaults: "DefCpuPerGPU=2"}, "c": {Defaults: "DefCpuPerGPU=2"}, "d": {}}}
	for partition, fixed := range map[string]bool{"a": false, "b": false, "a,d": false, "b,c": false, "a,b": true, "c,b,d": true} {
		if why := r.fixed(&cluster.Job{Partition: partition}); (why != "") != fixed {
			t.Errorf("%s: %q", partition, why)
		}
	}
}
