package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// bounded is a job under a limit, or under none.
type bounded struct {
	name, limit string   // the limit as sacctmgr modify takes it: "user name=games account=bigger set MaxTRES=cpu=2"
	without     string   // the limit taken away
	cpus        int      // that it gets: eight are best
	says        string   // explain
	args        []string // of its submission
	id          string
}

// limitedSite is a lab whose slurmdbd holds limits, with two nodes on which each job
// of the cases can have the eight CPUs that it is fast with.
type limitedSite struct {
	*site
	cases []bounded
}

const sizingUnderLimits = "enabled = true\nstart_timeout = \"1m\"\n[cycle]\ninterval = \"2s\"\n"

func newLimitedSite(t *testing.T) *limitedSite {
	if os.Geteuid() != 0 {
		t.Skip("the jobs are another user's, which needs root")
	}
	s := newSiteOn(t, lab.ForTest(t, lab.Options{
		Nodes:       []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 10, CPUs: 80, MemoryMB: 500000}},
		Partitions:  []string{"gpu Nodes=ALL Default=YES State=DOWN", "def Nodes=ALL State=DOWN", "Big Nodes=ALL State=DOWN"},
		PreemptMode: "OFF",
	}), "")
	l := &limitedSite{site: s}
	l.sizing(sizingUnderLimits)
	t.Cleanup(func() { s.slurm("scancel", "--quiet", "--user="+lab.OtherUser) })
	user := func(account string) string { return "user name=" + lab.OtherUser + " account=" + account }
	mem := "--prio-mem=a100:1000x1-30000x4"
	l.cases = []bounded{
		{name: "free", cpus: 8, says: "expected at 4.00 times the speed", args: []string{"-A", "free"}},
		{name: "gpus", cpus: 8, limit: user("gpus") + " set GrpTRES=gres/gpu=1", without: user("gpus") + " set GrpTRES=gres/gpu=-1",
			says: "expected at 4.00 times the speed", args: []string{"-A", "gpus"}},
		{name: "user", cpus: 4, limit: user("user") + " set MaxTRES=cpu=4", without: user("user") + " set MaxTRES=cpu=-1",
			says: "no more because user games has a limit in account user: MaxTRES=cpu=4", args: []string{"-A", "user"}},
		{name: "inherits", cpus: 5, limit: "account name=inherits set MaxTRES=cpu=5", without: "account name=inherits set MaxTRES=cpu=-1",
			says: "user games has a limit in account inherits: MaxTRES=cpu=5", args: []string{"-A", "inherits"}},
		{name: "memory", cpus: 8, limit: user("memory") + " set MaxTRESPerNode=mem=6000", without: user("memory") + " set MaxTRESPerNode=mem=-1",
			says: "gets 8 CPUs and 6000 MB", args: []string{"-A", "memory", mem}},
		{name: "minutes", cpus: 2, limit: "account name=minutes set GrpTRESRunMins=cpu=20", without: "account name=minutes set GrpTRESRunMins=cpu=-1",
			says: "account minutes has a limit: GrpTRESRunMins=cpu=20", args: []string{"-A", "minutes"}},
		{name: "billing", cpus: 2, limit: user("billing") + " set MaxTRES=billing=20", without: user("billing") + " set MaxTRES=billing=-1",
			says: "user games has a limit in account billing: MaxTRES=billing=20", args: []string{"-A", "billing"}},
		{name: "group", cpus: 5, limit: "account name=group set GrpTRES=cpu=7", without: "account name=group set GrpTRES=cpu=-1",
			says: "account group has a limit: GrpTRES=cpu=7", args: []string{"-A", "group"}},
		{name: "group2", cpus: 2, says: "account group has a limit: GrpTRES=cpu=7", args: []string{"-A", "group"}}, // what it needs is left to it
		{name: "child", cpus: 3, limit: "account name=above set GrpTRES=cpu=3", without: "account name=above set GrpTRES=cpu=-1",
			says: "account above has a limit: GrpTRES=cpu=3", args: []string{"-A", "below"}},
		{name: "qosnode", cpus: 4, limit: "qos name=qosnode set MaxTRESPerNode=cpu=4", without: "qos name=qosnode set MaxTRESPerNode=cpu=-1",
			says: "QOS qosnode limits it: MaxTRESPerNode=cpu=4", args: []string{"-A", "free", "--qos=qosnode"}},
		{name: "qosuser", cpus: 5, limit: "qos name=qosuser set MaxTRESPerUser=cpu=5", without: "qos name=qosuser set MaxTRESPerUser=cpu=-1",
			says: "QOS qosuser limits it: MaxTRESPU=cpu=5", args: []string{"-A", "free", "--qos=qosuser"}},
		{name: "qosgroup", cpus: 3, limit: "qos name=qosgroup set GrpTRES=cpu=3", without: "qos name=qosgroup set GrpTRES=cpu=-1",
			says: "QOS qosgroup limits it: GrpTRES=cpu=3", args: []string{"-A", "free", "--qos=qosgroup"}},
		{name: "partqos", cpus: 6, limit: "qos name=partqos set MaxTRESPerJob=cpu=6", without: "qos name=partqos set MaxTRESPerJob=cpu=-1",
			says: "QOS partqos limits it: MaxTRES=cpu=6", args: []string{"-A", "free", "-p", "def"}},
		{name: "big", cpus: 7, limit: user("big") + " partition=Big set MaxTRES=cpu=7", without: user("big") + " partition=Big set MaxTRES=cpu=-1",
			says: "user games has a limit in account big: MaxTRES=cpu=7", args: []string{"-A", "big", "-p", "Big"}}, // a partition that sacctmgr has as "big"
		{name: "above", cpus: 2, limit: user("small") + " set MaxTRES=cpu=1", without: user("small") + " set MaxTRES=cpu=-1",
			says: "unchanged, because it requests more than a limit leaves: user games has a limit in account small: MaxTRES=cpu=1", args: []string{"-A", "small"}},
	}
	all := "qosnode,qosuser,qosgroup,partqos"
	l.sacctmgr(
		"add qos "+all,
		"add account free,gpus,user,inherits,memory,minutes,billing,group,above,small,big cluster=lab",
		"add account below parent=above cluster=lab",
		"add user "+lab.OtherUser+" account=free,gpus,user,inherits,memory,minutes,billing,group,below,small,big",
		"add user "+lab.OtherUser+" account=big partition=Big",
		"modify account name=free set qos+="+all)
	l.limit()
	s.slurm("scontrol", "update", "PartitionName=def", "QoS=partqos")
	return l
}

// sizing and open are for the third partition, too.
func (l *limitedSite) sizing(settings string) {
	l.site.sizing(settings)
	text, err := os.ReadFile(l.config)
	if err == nil {
		err = os.WriteFile(l.config, []byte(strings.Replace(string(text), `"def"]`, `"def", "Big"]`, 1)), 0o644)
	}
	if err != nil {
		l.Fatal(err)
	}
}

func (l *limitedSite) open(yes bool) {
	l.site.open(yes)
	l.slurm("scontrol", "update", "PartitionName=Big", "State="+map[bool]string{true: "UP", false: "DOWN"}[yes])
}

// sacctmgr carries out lines in one session: each command pays for its connection.
func (l *limitedSite) sacctmgr(lines ...string) {
	l.Helper()
	cmd := l.lab.Command(context.Background(), "sacctmgr", "-i", "-Q")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "rror") || strings.Contains(string(out), "Nothing") {
		l.Fatalf("sacctmgr: %v\n%s", err, out)
	}
}

// limit makes the limits of all cases, or takes them away.
func (l *limitedSite) limit() { l.each(func(c *bounded) string { return c.limit }) }
func (l *limitedSite) free()  { l.each(func(c *bounded) string { return c.without }) }

func (l *limitedSite) each(of func(*bounded) string) {
	l.Helper()
	var lines []string
	for i := range l.cases {
		if line := of(&l.cases[i]); line != "" {
			lines = append(lines, "modify "+line)
		}
	}
	l.sacctmgr(lines...)
}

// theirs submits a job of another user's that asks for two CPUs and is four times as
// fast with eight.
func (l *limitedSite) theirs(name string, args ...string) string {
	l.Helper()
	args = append([]string{"--parsable", "--output=/dev/null", "--chdir=/", "--job-name=" + name, "--time=10", "--gres=gpu:1", "-c", "2", "--mem=4000M",
		"--prio-cpu=a100:2x1-8x4", "--wrap", "sleep 600"}, args...)
	out, err := l.lab.As(lab.OtherUser).Run(context.Background(), filepath.Join(bin, "sbatchwrap"), args...)
	if err != nil {
		l.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// cpus is how many CPUs a job asks for, or has.
func (l *limitedSite) cpus(job string) int {
	l.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(l.slurm("squeue", "--noheader", "--jobs="+job, "--Format=NumCPUs")))
	if err != nil {
		l.Fatal(err)
	}
	return n
}

// stands is a job's state and reason.
func (l *limitedSite) stands(job string) string {
	l.Helper()
	return strings.TrimSpace(l.slurm("squeue", "--noheader", "--jobs="+job, "--format=%T %r"))
}

// Users' limits stay in force on the real Slurm: a job under one of them is raised to
// what it leaves, and no other job of the same account or QOS is held for that; where
// nobody can say what is left it keeps its size. A limit made after a size was written
// binds that job, too, and Slurm takes the size back that it had of its own.
func TestSizesUnderLimits(t *testing.T) {
	longOnly(t)
	t.Parallel()
	l := newLimitedSite(t)
	named := map[string]*bounded{}
	for i := range l.cases {
		c := &l.cases[i]
		c.id, named[c.name] = l.theirs(c.name, c.args...), c
	}
	l.eligible(len(l.cases))
	l.must("run", "--once")
	for i := range l.cases {
		c := &l.cases[i]
		if told := l.must("explain", c.id); !strings.Contains(told, c.says) {
			t.Errorf("%s: explain lacks %q:\n%s", c.name, c.says, told)
		}
		if n := l.cpus(c.id); n != c.cpus {
			t.Errorf("%s asks for %d CPUs, want %d", c.name, n, c.cpus)
		}
	}

	// A limit below the new size of those that have it already, and below what one of
	// them asks for of its own; a QOS with DenyOnLimit would not let that in anew. The
	// daemon is not there to take the sizes back: it is Slurm that holds the jobs.
	late, wide := l.theirs("late", "-A", "free"), l.theirs("wide", "-A", "free", "-c", "16")
	l.eligible(len(l.cases) + 2)
	l.must("run", "--once")
	for _, id := range []string{late, wide} {
		if n := l.cpus(id); n != 8 {
			t.Errorf("job %s asks for %d CPUs", id, n)
		}
	}
	l.sacctmgr("modify user name="+lab.OtherUser+" account=free set MaxTRES=cpu=4", "modify qos name=normal set flags=DenyOnLimit")
	l.open(true)
	const tooLarge = "PENDING AssocMaxCpuPerJobLimit"
	held := map[string]string{late: tooLarge, wide: tooLarge, named["free"].id: tooLarge, named["qosuser"].id: tooLarge, named["above"].id: tooLarge}
	for i := range l.cases {
		c := &l.cases[i]
		if held[c.id] == "" {
			held[c.id] = "RUNNING None"
		}
		l.wait(c.name+": "+held[c.id], func() bool { return l.stands(c.id) == held[c.id] })
		if got := l.cpus(c.id); got != c.cpus {
			t.Errorf("%s has %d CPUs, want %d", c.name, got, c.cpus)
		}
	}
	gpus := l.theirs("gpus2", "-A", "gpus") // one GPU of one is in use
	for id, want := range map[string]string{late: held[late], wide: held[wide], gpus: "PENDING AssocGrpGRES"} {
		l.wait("job "+id+" "+want, func() bool { return l.stands(id) == want })
	}

	// priod comes back, and goes on. What Slurm holds it does not let go: it has its own
	// size again, and starts if that is within the limit.
	d := l.daemon()
	for _, id := range []string{late, named["free"].id, named["qosuser"].id} {
		l.wait("its start within the limit", func() bool { return strings.HasPrefix(l.stands(id), "RUNNING") })
		if n := l.cpus(id); n != 2 && n != 4 {
			t.Errorf("job %s runs with %d CPUs under a limit of 4", id, n)
		}
	}
	l.wait("its own 16 CPUs again", func() bool { return l.cpus(wide) == 16 && l.stands(wide) == held[wide] })

	// What runs counts for what a limit leaves.
	l.open(false)
	group3 := l.theirs("group3", "-A", "group")
	l.wait("a full account", func() bool {
		told, _, _ := l.priod("explain", group3)
		return strings.Contains(told, "it requests more than a limit leaves: account group has a limit: GrpTRES=cpu=7")
	})
	l.slurm("scancel", named["group"].id)
	l.wait("what a job left", func() bool { return l.cpus(group3) == 5 })

	// Without the limits the same jobs are raised, by the daemon that runs.
	l.open(false)
	l.slurm("scancel", "--user="+lab.OtherUser)
	l.free()
	l.sacctmgr("modify user name="+lab.OtherUser+" account=free set MaxTRES=cpu=-1", "modify qos name=normal set flags=-1")
	l.wait("limits that are read anew", func() bool { // they are read seldom, and a size that a job has stays
		probe := l.theirs("probe", "-A", "free")
		defer l.slurm("scancel", probe)
		for deadline := time.Now().Add(10 * time.Second); l.cpus(probe) == 2 && time.Now().Before(deadline); {
			time.Sleep(200 * time.Millisecond)
		}
		return l.cpus(probe) == 8
	})
	for i := range l.cases {
		c := &l.cases[i]
		c.id = l.theirs(c.name, c.args...)
	}
	for i := range l.cases {
		c := &l.cases[i]
		l.wait(c.name+" raised without its limit", func() bool { return l.cpus(c.id) == 8 })
	}

	// slurmdbd goes. What was read shortly before counts; a new priod has nothing to go
	// by, raises nobody, and says why.
	if err := l.lab.Stop(l.Context(), "slurmdbd"); err != nil {
		t.Fatal(err)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("the daemon ends with %d", status)
	}
	away := l.theirs("away", "-A", "free")
	l.eligible(len(l.cases) + 1)
	out, errs, _ := l.priod("run", "--once")
	if n := l.cpus(away); n != 2 {
		t.Errorf("without slurmdbd a job was raised to %d CPUs\n%s%s", n, out, errs)
	}
	if told := l.must("explain", away); !strings.Contains(told, "may be under a limit: association and QOS limits cannot be read") {
		t.Errorf("explain does not say why:\n%s", told)
	}
}

// An operator's write lifts limits that are made later: a job that waits gets its own
// size back, whoever wrote, and its user's own change of its CPUs binds it again.
func TestSizesOfAnOperator(t *testing.T) {
	longOnly(t)
	t.Parallel()
	l := newLimitedSite(t)
	l.become(lab.OperatorUser, "")
	l.sizing(sizingUnderLimits)
	small, large := l.theirs("small", "-A", "free"), l.theirs("large", "-A", "free", "-c", "16")
	under, group := l.theirs("under", "-A", "user"), l.theirs("group", "-A", "group")
	l.eligible(4)
	l.must("run", "--once")
	for id, want := range map[string]int{small: 8, large: 8, under: 4, group: 2} {
		if n := l.cpus(id); n != want {
			t.Fatalf("job %s asks for %d CPUs, want %d\n%s", id, n, want, l.must("explain", id))
		}
	}
	const lifts = "it is under a limit of several jobs together, which a size that is not written in its user's name would lift: account group has a limit: GrpTRES=cpu=7"
	if told := l.must("explain", group); !strings.Contains(told, lifts) {
		t.Errorf("explain lacks %q:\n%s", lifts, told)
	}
	limit := "modify user name=" + lab.OtherUser + " account=free set MaxTRES=cpu=4"
	l.sacctmgr(limit)
	l.must("run", "--once")
	if told := l.must("explain", small); l.cpus(small) != 2 || l.cpus(large) != 16 || !strings.Contains(told, "its own request restored, because a limit leaves less than it has now: user games has a limit in account free: MaxTRES=cpu=4") {
		t.Errorf("the limit was made after the sizes, which are %d and %d CPUs now\n%s", l.cpus(small), l.cpus(large), told)
	}
	if _, err := l.lab.As(lab.OtherUser).Run(context.Background(), "scontrol", "update", "JobId="+large, "CPUsPerTask=15", "MinCPUsNode=15", "NumCPUs=15"); err != nil {
		t.Fatal(err)
	}
	l.open(true)
	l.wait("small running", func() bool { return strings.HasPrefix(l.stands(small), "RUNNING") })
	l.wait("large held", func() bool { return l.stands(large) == "PENDING AssocMaxCpuPerJobLimit" })
}

// A user whom priod's host does not know, or not just now: the job gets no size, one
// that it has is given back, by a cycle and by reset, and all else goes on.
func TestSizesOfAUserWithoutAName(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("another /etc/passwd needs root and a mount namespace")
	}
	l := &limitedSite{site: newOwnSite(t, "[sizing]\nenabled = true\n")}
	t.Cleanup(func() { l.slurm("scancel", "--quiet", "--user="+lab.OtherUser) })
	l.slurm("scontrol", "update", "PartitionName=gpu", "State=DOWN")
	t.Cleanup(func() { l.slurm("scontrol", "update", "PartitionName=gpu", "State=UP") })
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	without := filepath.Join(t.TempDir(), "passwd")
	users = regexp.MustCompile("(?m)^"+lab.OtherUser+":.*\n").ReplaceAll(users, nil)
	if err := os.WriteFile(without, users, 0o644); err != nil {
		t.Fatal(err)
	}
	unnamed := func(verb ...string) {
		t.Helper()
		words := append([]string{"--mount", "sh", "-c", `mount --bind "$0" /etc/passwd && exec "$@"`, without, filepath.Join(bin, "priod")}, verb...)
		cmd := l.lab.Command(context.Background(), "unshare", words...)
		cmd.Env = append(cmd.Env, "PRIOD_CONFIG="+l.config)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", verb, err, out)
		}
	}
	id := l.theirs("theirs", "--gres=gpu:a100:1", "--prio-cpu=a100:2x1-4x2")
	l.eligible(1)
	for _, c := range []struct {
		what string
		does func()
		cpus int
	}{
		{"a cycle that finds no name", func() { unnamed("run", "--once") }, 2},
		{"a cycle that finds it", func() { l.must("run", "--once") }, 4},
		{"one that finds none again", func() { unnamed("run", "--once") }, 2},
		{"one that finds it again", func() { l.must("run", "--once") }, 4},
		{"reset, finding none", func() { unnamed("reset") }, 2},
	} {
		if c.does(); l.cpus(id) != c.cpus {
			t.Fatalf("after %s it asks for %d CPUs, want %d\n%s", c.what, l.cpus(id), c.cpus, l.must("explain", id))
		}
	}
	l.must("resume")
}
