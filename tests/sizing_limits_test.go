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

const sizingUnderLimits = "enabled = true\nwithin = \"1m\"\n[cycle]\ninterval = \"2s\"\n"

func newLimitedSite(t *testing.T) *limitedSite {
	if os.Geteuid() != 0 {
		t.Skip("the jobs are another user's, which needs root")
	}
	s := newSiteOn(t, lab.ForTest(t, lab.Options{
		Nodes:       []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 10, CPUs: 80, MemoryMB: 500000}},
		Partitions:  []string{"gpu Nodes=ALL Default=YES State=DOWN", "def Nodes=ALL State=DOWN"},
		PreemptMode: "OFF",
	}), "")
	s.sizing(sizingUnderLimits)
	t.Cleanup(func() { s.slurm("scancel", "--quiet", "--user="+lab.OtherUser) })
	l := &limitedSite{site: s}
	user := func(account string) string { return "user name=" + lab.OtherUser + " account=" + account }
	mem := "--prio-mem=a100:1000x1-30000x4"
	l.cases = []bounded{
		{name: "free", says: "expected at 4.00 times the speed", args: []string{"-A", "free"}},
		{name: "gpus", limit: user("gpus") + " set GrpTRES=gres/gpu=1", without: user("gpus") + " set GrpTRES=gres/gpu=-1",
			says: "expected at 4.00 times the speed", args: []string{"-A", "gpus"}},
		{name: "user", limit: user("user") + " set MaxTRES=cpu=2", without: user("user") + " set MaxTRES=cpu=-1",
			says: "user games has a limit in account user: MaxTRES=cpu=2", args: []string{"-A", "user"}},
		{name: "memory", limit: user("memory") + " set MaxTRESPerNode=mem=4000", without: user("memory") + " set MaxTRESPerNode=mem=-1",
			says: "MaxTRESPerNode=mem=4000M", args: []string{"-A", "memory", mem}},
		{name: "minutes", limit: "account name=minutes set GrpTRESRunMins=cpu=20", without: "account name=minutes set GrpTRESRunMins=cpu=-1",
			says: "account minutes has a limit: GrpTRESRunMins=cpu=20", args: []string{"-A", "minutes"}},
		{name: "group", limit: "account name=group set GrpTRES=cpu=3", without: "account name=group set GrpTRES=cpu=-1",
			says: "account group has a limit: GrpTRES=cpu=3", args: []string{"-A", "group"}},
		{name: "group2", says: "account group has a limit: GrpTRES=cpu=3", args: []string{"-A", "group"}},
		{name: "child", limit: "account name=above set GrpTRES=cpu=2", without: "account name=above set GrpTRES=cpu=-1",
			says: "account above has a limit: GrpTRES=cpu=2", args: []string{"-A", "below"}},
		{name: "qosnode", limit: "qos name=qosnode set MaxTRESPerNode=cpu=2", without: "qos name=qosnode set MaxTRESPerNode=cpu=-1",
			says: "QOS qosnode limits it: MaxTRESPerNode=cpu=2", args: []string{"-A", "free", "--qos=qosnode"}},
		{name: "qosuser", limit: "qos name=qosuser set MaxTRESPerUser=cpu=2", without: "qos name=qosuser set MaxTRESPerUser=cpu=-1",
			says: "QOS qosuser limits it: MaxTRESPU=cpu=2", args: []string{"-A", "free", "--qos=qosuser"}},
		{name: "qosgroup", limit: "qos name=qosgroup set GrpTRES=cpu=2", without: "qos name=qosgroup set GrpTRES=cpu=-1",
			says: "QOS qosgroup limits it: GrpTRES=cpu=2", args: []string{"-A", "free", "--qos=qosgroup"}},
		{name: "partqos", limit: "qos name=partqos set MaxTRESPerJob=cpu=2", without: "qos name=partqos set MaxTRESPerJob=cpu=-1",
			says: "QOS partqos limits it: MaxTRES=cpu=2", args: []string{"-A", "free", "-p", "def"}},
	}
	all := "qosnode,qosuser,qosgroup,partqos"
	l.sacctmgr(
		"add qos "+all,
		"add account free,gpus,user,memory,minutes,group,above cluster=lab",
		"add account below parent=above cluster=lab",
		"add user "+lab.OtherUser+" account=free,gpus,user,memory,minutes,group,below",
		"modify account name=free set qos+="+all)
	l.limit()
	s.slurm("scontrol", "update", "PartitionName=def", "QoS=partqos")
	return l
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

// Users' limits stay in force on the real Slurm: a job under one of them keeps its
// size, is held by Slurm when its turn would exceed the limit, and gets another size
// when the limit is gone. A limit made after a size was written binds that job, too.
func TestSizesUnderLimits(t *testing.T) {
	t.Parallel()
	l := newLimitedSite(t)
	for i := range l.cases {
		c := &l.cases[i]
		c.id = l.theirs(c.name, c.args...)
	}
	l.eligible(len(l.cases))
	l.must("run", "--once")
	limited := func(c *bounded) bool { return strings.Contains(c.says, "limit") || strings.Contains(c.says, "MaxTRES") }
	for i := range l.cases {
		c := &l.cases[i]
		if told := l.must("explain", c.id); !strings.Contains(told, c.says) {
			t.Errorf("%s: explain lacks %q:\n%s", c.name, c.says, told)
		}
		if n := l.cpus(c.id); (n == 2) != limited(c) {
			t.Errorf("%s asks for %d CPUs", c.name, n)
		}
	}

	// A limit below the new size of one that has it already. The daemon is not there
	// to take the size back: it is Slurm that holds the job.
	late := l.theirs("late", "-A", "free")
	l.eligible(len(l.cases) + 1)
	l.must("run", "--once")
	if n := l.cpus(late); n != 8 {
		t.Errorf("late asks for %d CPUs", n)
	}
	l.sacctmgr("modify user name=" + lab.OtherUser + " account=free set MaxTRES=cpu=4")
	l.open(true)
	running := map[string]string{"gpus": "8"}
	for i := range l.cases {
		if c := &l.cases[i]; limited(c) && c.name != "group2" {
			running[c.name] = "2"
		}
	}
	for i := range l.cases {
		c := &l.cases[i]
		if want, starts := running[c.name]; starts {
			l.wait(c.name+" running", func() bool { return strings.HasPrefix(l.stands(c.id), "RUNNING") })
			if got := l.cpus(c.id); strconv.Itoa(got) != want {
				t.Errorf("%s runs with %d CPUs, want %s", c.name, got, want)
			}
		}
	}
	gpus := l.theirs("gpus2", "-A", "gpus") // one GPU of one is in use
	held := map[string]string{late: "PENDING AssocMaxCpuPerJobLimit", gpus: "PENDING AssocGrpGRES"}
	for i := range l.cases {
		switch c := &l.cases[i]; c.name {
		case "free":
			held[c.id] = "PENDING AssocMaxCpuPerJobLimit"
		case "group2": // two CPUs of three are in use
			held[c.id] = "PENDING AssocGrpCpuLimit"
		}
	}
	for id, want := range held {
		l.wait("job "+id+" "+want, func() bool { return l.stands(id) == want })
	}

	// priod comes back, and goes on. What Slurm holds it does not let go.
	d := l.daemon()
	for _, id := range []string{late, l.cases[0].id} {
		l.wait("its own two CPUs again", func() bool { return l.cpus(id) == 2 })
		l.wait("its start with them", func() bool { return strings.HasPrefix(l.stands(id), "RUNNING") })
	}
	if now := l.stands(l.cases[6].id); now != "PENDING AssocGrpCpuLimit" || l.cpus(l.cases[6].id) != 2 {
		t.Errorf("two jobs of an account with three CPUs: the second is %s with %d CPUs", now, l.cpus(l.cases[6].id))
	}

	// Without the limits the same jobs are raised, by the daemon that runs.
	l.open(false)
	l.slurm("scancel", "--user="+lab.OtherUser)
	l.free()
	l.sacctmgr("modify user name=" + lab.OtherUser + " account=free set MaxTRES=cpu=-1")
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
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := l.lab.Stop(ctx, "slurmdbd"); err != nil {
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
	if told := l.must("explain", away); !strings.Contains(told, "may be under a limit: those of associations and QOS cannot be read") {
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
	under := l.theirs("under", "-A", "user")
	l.eligible(3)
	l.must("run", "--once")
	for id, want := range map[string]int{small: 8, large: 8, under: 2} {
		if n := l.cpus(id); n != want {
			t.Fatalf("job %s asks for %d CPUs, want %d\n%s", id, n, want, l.must("explain", id))
		}
	}
	limit := "modify user name=" + lab.OtherUser + " account=free set MaxTRES=cpu=4"
	l.sacctmgr(limit)
	l.must("run", "--once")
	if told := l.must("explain", small); l.cpus(small) != 2 || l.cpus(large) != 16 || !strings.Contains(told, "its own request again, because it now is or may be under a limit") {
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
