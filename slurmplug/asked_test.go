package slurmplug

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recordedAsked are what scontrol showed of jobs that ask in each way.
func recordedAsked(t testing.TB) map[string]string {
	all := map[string]string{}
	name := ""
	for line := range strings.Lines(recording(t, "asked.out")) {
		if text, comment := strings.CutPrefix(line, "# "); comment {
			name, _, _ = strings.Cut(strings.TrimSpace(text), ":")
		} else {
			all[name] += line
		}
	}
	return all
}

// What 22.05 shows of each way to ask, and the update that changes it to 6 CPUs
// and 12000 MB. TestSizesOfEachWay (tests) has the same Slurm start such jobs.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		name, gets string // CPUs, MB, GPUs as it stands
		resized    string // "" for one that is left alone
		fixed      string
	}{
		{"cpus", "8 0 1", "", "no memory"},
		{"mem", "4 20480 1", "CPUsPerTask=6 MinCPUsNode=6 NumCPUs=6 MinMemoryNode=12000 ReqNodeList=n", ""},
		{"mem-odd", "4 20001 1", "CPUsPerTask=6 MinCPUsNode=6 NumCPUs=6 MinMemoryNode=12000 ReqNodeList=n", ""},
		{"mem-per-cpu", "4 6000 1", "CPUsPerTask=6 MinCPUsNode=6 NumCPUs=6 MinMemoryCPU=2000 ReqNodeList=n", ""},
		{"mem-per-gpu", "8 20480 2", "MinCPUsNode=8 NumCPUs=8 MemPerTres=gres:gpu:6000 TresPerNode=gres:gpu:2 ReqNodeList=n", ""},
		{"mem-per-gpu-cpus", "4 20480 2", "CPUsPerTask=6 MinCPUsNode=6 NumCPUs=6 MemPerTres=gres:gpu:6000 TresPerJob=gres:gpu:2 ReqNodeList=n", ""},
		{"mem-all", "4 0 1", "", "all memory"},
		{"tasks-open", "6 0 2", "", "2 tasks without --nodes=1"},
		{"exclusive", "1 0 1", "", "alone"},
		{"nodes", "8 0 1", "", "several nodes"},
		{"per-gpu-tasks", "8 0 2", "", "tasks"},
		{"mincpus", "6 0 1", "", "--mincpus"},
		{"hint", "4 0 1", "", "threads"},
		{"overcommit", "1 0 1", "", "other CPUs"},
		{"none", "4 4096 0", "", "no GPU"},
		{"exclude", "4 0 1", "", "excludes"},
		{"default", "4 8192 1", "MinCPUsNode=6 NumCPUs=6 MemPerTres=gres:gpu:12000 TresPerNode=gres:gpu:1 ReqNodeList=n", ""},
		{"default-cpus", "8 8192 1", "CPUsPerTask=6 MinCPUsNode=6 NumCPUs=6 MemPerTres=gres:gpu:12000 TresPerNode=gres:gpu:1 ReqNodeList=n", ""},
		{"default-mem", "4 20480 1", "MinCPUsNode=6 NumCPUs=6 MinMemoryNode=12000 ReqNodeList=n", ""},
		{"default-mem-per-cpu", "4 12288 1", "", "by CPU where a default"},
		{"default-gpus", "8 16384 2", "MinCPUsNode=8 NumCPUs=8 MemPerTres=gres:gpu:6000 TresPerNode=gres:gpu:a100:2 ReqNodeList=n", ""},
		{"het", "2 0 1", "", "heterogeneous"},
	} {
		out := recordedAsked(t)[c.name]
		a, pending, err := ParseAsked(Config{}, out)
		if err != nil || !pending {
			t.Errorf("%s: pending %v, %v\n%s", c.name, pending, err, out)
			continue
		}
		if gets := fmt.Sprint(a.CPUs, a.MemMB, a.GPUs); gets != c.gets {
			t.Errorf("%s gets %s, want %s", c.name, gets, c.gets)
		}
		if c.resized == "" {
			if !strings.Contains(a.Fixed, c.fixed) || a.Fixed == "" {
				t.Errorf("%s: fixed %q, want %q", c.name, a.Fixed, c.fixed)
			}
			continue
		}
		value, cpus, mem := a.Resize(6, 12000, "n")
		if a.Fixed != "" || value != c.resized || cpus != max(6, a.Least) || mem != 12000 {
			t.Errorf("%s (%s): %d CPUs, %d MB by\n%s, want\n%s", c.name, a.Fixed, cpus, mem, value, c.resized)
		}
		if err := (Update{Job: Plain(1), Lever: Size, Value: value}).Validate(); err != nil {
			t.Error(c.name, err)
		}
		if err := (Update{Job: Plain(1), Lever: Size, Value: a.text()}).Validate(); err != nil {
			t.Error(c.name, err)
		}
	}
}

func TestAskedOdd(t *testing.T) {
	all := recordedAsked(t)
	if _, pending, err := ParseAsked(Config{}, all["running"]); pending || err != nil {
		t.Errorf("a running job is pending: %v, %v", pending, err)
	}
	for _, name := range []string{"hostile NumCPUs=1", "comment"} {
		if _, _, err := ParseAsked(Config{}, all[name]); err == nil || !strings.Contains(err.Error(), "a name or comment of the job") {
			t.Errorf("%s is believed: %v", name, err)
		}
	}
	for _, out := range []string{"", "JobState=PENDING", strings.Replace(all["mem"], "NumCPUs=4", "", 1), strings.Replace(all["mem"], "gres:gpu:1", "gres:gpu:x:y:z", 1)} {
		if a, _, err := ParseAsked(Config{}, out); err == nil {
			t.Errorf("%.60q is believed: %+v", out, a)
		}
	}
	cron := all["mem"] + " CronJob=Yes"
	if a, _, err := ParseAsked(Config{}, cron); err != nil || !strings.Contains(a.Fixed, "scrontab") {
		t.Errorf("a scrontab job: %q, %v", a.Fixed, err)
	}
}

// From 24.05 on NumCPUs follows CpusPerTres; GRES have another prefix from 23.11.
func TestAskedByVersion(t *testing.T) {
	out := strings.ReplaceAll(recordedAsked(t)["mem-per-gpu"], "gres:gpu", "gres/gpu")
	for version, want := range map[string]string{
		"23.11.4": "MinCPUsNode=8 NumCPUs=8 MemPerTres=gres/gpu:6000 TresPerNode=gres/gpu:2 ReqNodeList=",
		"24.05.1": "CpusPerTres=gres/gpu:3 MemPerTres=gres/gpu:6000 TresPerNode=gres/gpu:2 ReqNodeList=",
	} {
		a, _, err := ParseAsked(Config{map[string]string{"SLURM_VERSION": version}}, out)
		if err != nil {
			t.Fatal(err)
		}
		if value, _, _ := a.Resize(6, 12000, ""); value != want {
			t.Errorf("%s: %s, want %s", version, value, want)
		}
	}
}

func FuzzAsked(f *testing.F) {
	for _, out := range recordedAsked(f) {
		f.Add(out, 6, int64(12000))
	}
	f.Fuzz(func(t *testing.T, out string, cpus int, memMB int64) {
		a, pending, err := ParseAsked(Config{}, out)
		if err != nil && (pending || a.Text != "") {
			t.Fatal("a job beside an error")
		}
		if err != nil || !pending || a.Fixed != "" || cpus < 1 || cpus > 1<<20 || memMB < 1 || memMB > 1<<40 || strings.ContainsAny(a.Nodes, "[,") {
			return
		}
		for _, node := range []string{"", "n-1"} {
			value, gets, getsMB := a.Resize(cpus, memMB, node)
			if gets < 1 || getsMB < 1 || gets > max(cpus, a.Least) {
				t.Fatalf("%d CPUs, %d MB of %d and %d", gets, getsMB, cpus, memMB)
			}
			if err := (Update{Job: Plain(1), Lever: Size, Value: value}).Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Whose a job is decides in whose name it is changed: a job's name or comment that
// says it too is not believed, and what is no uid names nobody.
func TestAskedUser(t *testing.T) {
	out := recordedAsked(t)["mem"]
	for user, want := range map[string]string{"root(0)": "0", "games(5)": "5", "we(ird)(7)": "7", "5)": "", "games(5": "", "nobody": "", "x(-2)": "", "x(4294967294)": "", "x(y)": "", "(null)": ""} {
		a, _, err := ParseAsked(Config{}, strings.Replace(out, "UserId=root(0)", "UserId="+user, 1))
		if err != nil || a.UID != want {
			t.Errorf("%s: %q, %v", user, a.UID, err)
		}
	}
	if a, _, err := ParseAsked(Config{}, strings.Replace(out, "JobName=", "JobName=UserId=x(5) UserId=root(0) ", 1)); err == nil {
		t.Errorf("a name that says UserId= is believed: %q", a.UID)
	}
}

func TestValidateSize(t *testing.T) {
	for _, value := range []string{
		"", "NumCPUs=1 NumCPUs=2", "NumCPUs=-1", "NumCPUs=1  MinCPUsNode=1", "Priority=5", "NumCPUs=1 JobId=7", "ReqNodeList=a[1-2]",
		"TresPerNode=", "MemPerTres=gres:cpu:1", "NumCPUs=1\nNumCPUs=1",
	} {
		if err := (Update{Job: Plain(1), Lever: Size, Value: value}).Validate(); err == nil {
			t.Errorf("%q would be sent", value)
		}
	}
}

func TestLimits(t *testing.T) {
	assoc := recording(t, "limits-assoc.out") + "chemistry|||root|cpu=8,mem=1G|||cpu=3||\nchemistry|games|||cpu=6|||cpu=4|mem=500M|\n"
	assoc += "Biology|Games|large|||||cpu=5||\n" // of a partition "Large": sacctmgr takes it in small letters
	qos := recording(t, "limits-qos.out") + "many|cpu=9||||||cpu=7|mem=2G|||||\nfactor||||||||||||2.000000|\n" +
		"half|||||cpu=50||||||||DenyOnLimit,Relative\nwhole|||||||||||||Relative\n"
	l, err := parseLimits(assoc, qos)
	if err != nil {
		t.Fatal(err)
	}
	const none = Endless
	chemistry := []Limit{
		{"user games has a limit in account chemistry: GrpTRES=cpu=6", 6, none, "user games chemistry "},
		{"user games has a limit in account chemistry: MaxTRES=cpu=4", 4, none, ""},
		{"user games has a limit in account chemistry: MaxTRESPerNode=mem=500M", none, 500, ""},
		{"account chemistry has a limit: GrpTRES=cpu=8,mem=1G", 8, 1024, "account chemistry"}, // its MaxTRES is for users without their own
	}
	for _, c := range []struct {
		user, account, partition string
		qos                      []string
		limits                   []Limit
		fixed                    string
	}{
		{"games", "biology", "gpu", []string{"normal"}, nil, ""},
		{"root", "biology", "gpu", []string{"normal"}, []Limit{
			{"user root has a limit in account biology: GrpTRES=cpu=100", 100, none, "user root biology "},
			{"user root has a limit in account biology: MaxTRESPerNode=cpu=10", 10, none, ""},
		}, ""},
		{"games", "physics", "gpu", []string{"normal"}, nil, "account physics has a limit: GrpTRESRunMins=mem=10000M"},
		{"games", "biology", "gpu", []string{"normal", "te"}, nil, "QOS te limits it: MaxTRESMins=cpu=5"},
		{"games", "biology", "gpu", []string{"normal,te", ""}, nil, "QOS te limits it: MaxTRESMins=cpu=5"}, // several, which newer Slurm allows
		{"games", "biology", "gpu", []string{"normal", "many"}, []Limit{
			{"QOS many limits it: GrpTRES=cpu=9", 9, none, "QOS many"},
			{"QOS many limits it: MaxTRESPU=cpu=7", 7, none, "QOS many, user games"},
			{"QOS many limits it: MaxTRESPA=mem=2G", none, 2048, "QOS many, account biology"},
		}, ""},
		{"games", "chemistry", "gpu", []string{"normal"}, chemistry, ""},
		{"games", "chemistry", "gpu", []string{"factor"}, nil, "its QOS multiplies by LimitFactor: " + chemistry[0].What},
		{"games", "biology", "gpu", []string{"factor"}, nil, ""},
		{"games", "biology", "Large", []string{"normal"}, []Limit{{"user games has a limit in account biology: MaxTRES=cpu=5", 5, none, ""}}, ""},
		{"games", "biology", "gpu", []string{"normal", "Many"}, []Limit{ // as slurm.conf may name a partition's
			{"QOS many limits it: GrpTRES=cpu=9", 9, none, "QOS many"},
			{"QOS many limits it: MaxTRESPU=cpu=7", 7, none, "QOS many, user games"},
			{"QOS many limits it: MaxTRESPA=mem=2G", none, 2048, "QOS many, account biology"},
		}, ""},
		{"games", "biology", "gpu", []string{"half"}, nil, "QOS half limits it: MaxTRESPerNode=cpu=50 per cent (Relative)"},
		{"games", "biology", "gpu", []string{"whole"}, nil, ""},
		{"games", "nowhere", "gpu", nil, nil, "user games in account nowhere is not known"},
		{"games", "biology", "gpu", []string{"new"}, nil, "QOS new is not known"},
		{"newcomer", "biology", "gpu", []string{"normal"}, nil, "user newcomer in account biology is not known"},
		{"Games", "biology", "gpu", []string{"normal"}, nil, ""}, // slurmdbd keeps it in small letters
		{"GAMES", "physics", "gpu", []string{"normal"}, nil, "account physics has a limit: GrpTRESRunMins=mem=10000M"},
	} {
		got, fixed := l.Of(c.user, c.account, c.partition, c.qos...)
		if fixed != c.fixed || fixed == "" && !slices.Equal(got, c.limits) {
			t.Errorf("%s %s %s: %q\n%+v, want\n%+v", c.user, c.account, c.qos, fixed, got, c.limits)
		}
	}
	for _, bad := range []string{"a|b\n", strings.Repeat("|", 9) + "\n", "a|" + strings.Repeat("|", 7) + "cpu=x\n"} {
		if _, err := parseLimits(bad, ""); err == nil {
			t.Errorf("%q is believed", bad)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add(recording(f, "limits-assoc.out"), recording(f, "limits-qos.out"))
	f.Fuzz(func(t *testing.T, assoc, qos string) {
		l, err := parseLimits(assoc, qos)
		if (err != nil) != (l == nil) {
			t.Fatalf("%v, %v", l, err)
		}
		if l != nil {
			for a := range l.assoc {
				l.Of(a.user, a.account, a.partition, "normal") // ends
			}
		}
	})
}
