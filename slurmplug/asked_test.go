package slurmplug

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recordedAsk is what scontrol showed of one job, and the job's record in the queue.
type recordedAsk struct {
	record Job
	out    string
}

// recordedAsked are what a Slurm showed of jobs that ask in each way, by their names. The
// record has the requests by TRES as they stand at the end of what scontrol shows, where
// squeue shows the same (seen on all three).
func recordedAsked(t testing.TB, version string) map[string]recordedAsk {
	all := map[string]recordedAsk{}
	for _, block := range strings.Split("\n"+recordingOf(t, version, "asked.out"), "\n# ")[1:] {
		heading, out, _ := strings.Cut(block, "\n")
		quoted, err := strconv.QuotedPrefix(heading)
		if err != nil {
			t.Fatal(heading, err)
		}
		name, _ := strconv.Unquote(quoted)
		a := recordedAsk{record: Job{Name: name, Account: "physics"}, out: out + "\n"}
		tail, _, _ := strings.Cut(out[strings.LastIndex(out, " StdOut=")+1:], " MailUser=")
		for word := range strings.FieldsSeq(tail) {
			switch key, value, _ := strings.Cut(word, "="); key { // the last counts: others are in a path
			case "TresPerJob":
				a.record.TresPerJob = value
			case "TresPerNode":
				a.record.TresPerNode = value
			case "TresPerTask":
				a.record.TresPerTask = value
			}
		}
		if name == "path" {
			a.record.TresPerJob = ""
		}
		all[name] = a
	}
	return all
}

// confOf is the configuration of a Slurm as the recording was made under it.
func confOf(version string) Config {
	return Config{map[string]string{"SLURM_VERSION": version + ".5", "DefMemPerCPU": "1024"}}
}

// What each Slurm shows of each way to ask, and the update that changes it to 6 CPUs
// and 12000 MB on node n. TestSizedJobsRunSteps (tests) has Slurm start such jobs.
func TestAsked(t *testing.T) {
	cs := func(n int) string { return fmt.Sprintf("CPUsPerTask=%d MinCPUsNode=%[1]d NumCPUs=%[1]d ", n) }
	for _, c := range []struct {
		name, gets string // CPUs, MB, GPUs as it stands
		resized    string // with P for "gres:" or "gres/"; "" for one that is left alone
		fixed      string // or what it keeps
	}{
		{"cpus", "8 8192 1", cs(6) + "MinMemoryCPU=2000", ""},
		{"tasks", "6 6144 2", "CPUsPerTask=3 MinCPUsNode=3 NumCPUs=6 MinMemoryCPU=2000", ""},
		{"tasks-per-node", "6 6144 2", "CPUsPerTask=3 MinCPUsNode=6 NumCPUs=6 MinMemoryCPU=2000", ""},
		{"tasks-mem", "6 8192 2", "CPUsPerTask=3 MinCPUsNode=3 NumCPUs=6 MinMemoryNode=12000", ""},
		{"mem", "4 20480 1", cs(6) + "MinMemoryNode=12000", ""},
		{"mem-odd", "4 20001 1", cs(6) + "MinMemoryNode=12000", ""},
		{"mem-per-cpu", "4 6000 1", cs(6) + "MinMemoryCPU=2000", ""},
		{"per-gpu", "8 8192 2", "CPU MinMemoryCPU=1500 GPUS=TresPerJob=Pgpu:2", "--cpus-per-gpu"},
		{"per-gpu-mem", "8 8192 2", "CPU MinMemoryNode=12000 GPUS=TresPerJob=Pgpu:2", "--cpus-per-gpu"},
		{"mem-per-gpu", "8 20480 2", "CPU MemPerTres=Pgpu:10240 TresPerNode=Pgpu:2", "both"},
		{"mem-per-gpu-cpus", "4 20480 2", cs(6) + "MemPerTres=Pgpu:10240 TresPerJob=Pgpu:2", "--mem-per-gpu"},
		{"mem-all", "4 0 1", "", "all memory"},
		{"per-task", "6 6144 2", "CPUsPerTask=3 MinCPUsNode=3 NumCPUs=6 MinMemoryCPU=2000", ""},
		{"per-task-mem", "6 8192 2", "CPUsPerTask=3 MinCPUsNode=3 NumCPUs=6 MinMemoryNode=12000", ""},
		{"gpus-per-node", "3 8192 2", cs(6) + "MinMemoryNode=12000", ""},
		{"tres-per-task", "3 8192 1", cs(3) + "MinMemoryNode=12000", "--tres-per-task"},
		{"tasks-open", "6 6144 2", "", "2 tasks without --nodes=1"},
		{"exclusive", "1 1024 1", "", "alone"},
		{"exclusive-user", "1 1024 1", "", "alone"},
		{"share", "1 1024 1", "", "OverSubscribe=YES"},
		{"alone-partition", "1 1024 1", "", "alone"},
		{"nodes", "8 8192 1", "", "several nodes"},
		{"per-gpu-tasks", "8 8192 2", "", "tasks"},
		{"per-socket", "2 8192 0", "", "socket"},
		{"mincpus", "6 6144 1", "", "--mincpus"},
		{"hint", "4 4096 1", "", "threads"},
		{"overcommit", "1 1024 1", "", "other CPUs"},
		{"none", "4 4096 0", "", "no GPU"},
		{"exclude", "4 4096 1", "", "excludes"},
		{"het", "2 2048 1", "", "heterogeneous"},
		{"hostile NumCPUs=1 UserId=x(5)", "4 4096 1", cs(6) + "MinMemoryNode=12000", ""},
		{"odd\nJobId=7 JobName=x", "4 4096 1", cs(6) + "MinMemoryNode=12000", ""},
		{"comment", "4 4096 1", cs(6) + "MinMemoryNode=12000", ""},
		{"array", "4 4096 1", cs(6) + "MinMemoryCPU=2000", ""},
	} {
		eachVersion(t, func(t *testing.T, version string) {
			ask, recorded := recordedAsked(t, version)[c.name]
			if !recorded && c.name == "tres-per-task" && version == "22.05" {
				return // it has no such option
			}
			checkAsked(t, version, c.name, ask, c.gets, c.resized, c.fixed)
		})
	}
}

// checkAsked checks what is read, and the update that is made from it.
func checkAsked(t *testing.T, version, name string, ask recordedAsk, gets, resized, fixed string) {
	t.Helper()
	prefix, cpu, gpus := "gres/", "CpusPerTres=gres/gpu:4", ""
	if version == "22.05" {
		prefix, cpu = "gres:", "MinCPUsNode=1 NumCPUs=1"
	}
	if before, after, by := strings.Cut(resized, " GPUS="); by { // the GPUs are repeated beside what counts by them
		if resized = before; version != "22.05" {
			gpus = " " + after
		}
	}
	a, err := ParseAsked(confOf(version), &ask.record, ask.out)
	if err != nil || a == nil {
		t.Fatalf("%s: %+v, %v\n%s", name, a, err, ask.out)
	}
	if now := fmt.Sprint(a.CPUs, a.MemMB, a.GPUs); now != gets {
		t.Errorf("%s gets %s, want %s", name, now, gets)
	}
	if resized == "" {
		if !strings.Contains(a.Fixed, fixed) || a.Fixed == "" {
			t.Errorf("%s: fixed %q, want %q", name, a.Fixed, fixed)
		}
		return
	}
	want := strings.ReplaceAll(strings.Replace(resized, "CPU ", cpu+" ", 1)+gpus, "=Pgpu", "="+prefix+"gpu") + " ReqNodeList=n"
	if strings.HasPrefix(resized, "CPUs") {
		want = strings.ReplaceAll(resized+gpus, "=Pgpu", "="+prefix+"gpu") + " ReqNodeList=n"
	}
	value, cpus, mem := a.Resize(6, 12000, "n")
	if a.Fixed != "" || value.String() != want || cpus != max(6, a.Least) && a.KeepsCPUs == "" || mem != 12000 && a.KeepsMemory == "" {
		t.Errorf("%s (%s): %d CPUs, %d MB by\n%s, want\n%s", name, a.Fixed, cpus, mem, value, want)
	}
	if kept := a.KeepsCPUs + a.KeepsMemory; (kept != "") != (fixed != "") || fixed != "both" && !strings.Contains(kept, fixed) ||
		fixed == "both" && (a.KeepsCPUs == "" || a.KeepsMemory == "") {
		t.Errorf("%s keeps %q and %q, want %q", name, a.KeepsCPUs, a.KeepsMemory, fixed)
	}
	for value, want := range map[string][2]int64{value.String(): {int64(cpus), mem}, a.Holds.String(): {int64(a.CPUs), a.MemMB}} {
		if is := a.Of(Size.Value(value)); int64(is.CPUs) != want[0] || is.MemMB != want[1] {
			t.Errorf("%s: %s is %d CPUs, %d MB, want %d", name, value, is.CPUs, is.MemMB, want)
		}
	}
	for _, value := range []string{value.String(), a.Holds.String()} {
		if err := (Update{Job: Plain(1), Lever: Size, Value: Size.Value(value)}).Validate(); err != nil {
			t.Error(name, err)
		}
	}
}

// Defaults of a partition by GPU are in no environment, so they may change. 22.05 shows
// the user's own memory beside them, later ones do not.
func TestAskedDefaults(t *testing.T) {
	cpu := map[string]string{"22.05": "MinCPUsNode=6 NumCPUs=6 ", "24.11": "CpusPerTres=gres/gpu:6 ", "26.05": "CpusPerTres=gres/gpu:6 "}
	const byTask = "CPUsPerTask=6 MinCPUsNode=6 NumCPUs=6 "
	const hidden = "hides"
	for _, c := range []struct{ version, name, gets, resized, fixed string }{
		{"22.05", "default-mem", "4 20480 1", cpu["22.05"] + "MinMemoryNode=12000", ""},
		{"22.05", "default-both", "4 20480 1", byTask + "MinMemoryNode=12000", ""},
		{"22.05", "default-mem-per-cpu", "4 12288 1", "", "by CPU where a default"},
		{"22.05", "default", "4 4096 1", "", "by CPU where a default"}, // DefMemPerCPU beside DefMemPerGPU
		{"24.11", "default", "4 8192 1", cpu["24.11"] + "MemPerTres=Pgpu:12000 TresPerNode=Pgpu:1", ""},
		{"26.05", "default", "4 8192 1", cpu["26.05"] + "MemPerTres=Pgpu:12000 TresPerNode=Pgpu:1", ""},
		{"24.11", "default-cpus", "8 8192 1", strings.ReplaceAll(byTask, "6", "8") + "MemPerTres=Pgpu:12000 TresPerNode=Pgpu:1", ""},
		{"26.05", "default-cpus", "8 8192 1", strings.ReplaceAll(byTask, "6", "8") + "MemPerTres=Pgpu:12000 TresPerNode=Pgpu:1", ""},
		{"26.05", "default-gpus", "8 16384 2", "CpusPerTres=gres/gpu:4 MemPerTres=Pgpu:6000 TresPerNode=Pgpu:a100:2", ""},
		{"24.11", "default-mem", "4 20480 1", "", hidden},
		{"26.05", "default-mem", "4 20480 1", "", hidden},
		{"24.11", "default-both", "4 20480 1", "", hidden},
		{"26.05", "default-mem-per-cpu", "4 3072 1", "", hidden},
		{"24.11", "default-mem-all", "4 65536 1", "", hidden},
		{"26.05", "default-mem-all", "4 65536 1", "", hidden},
	} {
		t.Run(c.version, func(t *testing.T) {
			checkAsked(t, c.version, c.name, recordedAsked(t, c.version)[c.name], c.gets, strings.ReplaceAll(c.resized, "GPUS=", ""), c.fixed)
		})
	}
	// Without DefMemPerCPU 22.05 shows 0 beside the default by GPU (seen on 22.05.8).
	ask := recordedAsked(t, "22.05")["default"]
	ask.out = strings.Replace(ask.out, "MinMemoryCPU=1G", "MinMemoryCPU=0", 1)
	checkAsked(t, "22.05", "default", ask, "4 8192 1", "MinCPUsNode=6 NumCPUs=6 MemPerTres=Pgpu:12000 TresPerNode=Pgpu:1", "")
	// Without other defaults 24.11 shows all memory of a node.
	ask = recordedAsked(t, "24.11")["default"]
	ask.out = strings.Replace(ask.out, "ReqTRES=cpu=1,mem=1G", "ReqTRES=cpu=1,mem=64G", 1)
	for mb, hides := range map[int64]bool{65536: false, 65535: true} {
		none := Config{map[string]string{"SLURM_VERSION": "24.11.5"}}
		if a, err := ParseAsked(none, &ask.record, ask.out, 1024, mb); err != nil || (a.Fixed != "") != hides || !hides && a.MemMB != 8192 {
			t.Errorf("on nodes of %d MB: %+v, %v", mb, a, err)
		}
	}
	// What looks like the default may be --mem-per-cpu of the same amount: fewer CPUs would have less.
	ask = recordedAsked(t, "26.05")["default-cpus"]
	if a, err := ParseAsked(confOf("26.05"), &ask.record, ask.out); err != nil || a.Least != 8 {
		t.Errorf("may go down to %d CPUs, %v", a.Least, err)
	}
	ask.out = strings.NewReplacer("mem=8G", "mem=8191M", "MemPerTres=gpu:8192", "MemPerTres=gpu:8191").Replace(ask.out)
	if a, err := ParseAsked(confOf("26.05"), &ask.record, ask.out); err != nil || a.Least != 1 || a.Fixed != "" {
		t.Errorf("may go down to %d CPUs, %q, %v", a.Least, a.Fixed, err)
	}
}

func TestAskedOdd(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		all, conf := recordedAsked(t, version), confOf(version)
		ask := all["running"]
		if a, err := ParseAsked(conf, &ask.record, ask.out); a != nil || err != nil {
			t.Errorf("a running job is pending: %v, %v", a, err)
		}
		ask = all["path"] // a path with blanks may say what looks like a default
		if a, err := ParseAsked(conf, &ask.record, ask.out); err != nil || a.GPUs != 1 || a.CPUs != 4 {
			t.Errorf("a path is believed: %+v, %v", a, err)
		}
		ask = all["mem"]
		for _, odd := range []struct{ old, new, says string }{
			{"NumCPUs=4 ", "", "NumCPUs= is missing"},
			{"NumCPUs=4", "NumCPUs=many", "NumCPUs="},
			{"NumNodes=1", "NumNodes=one", "NumNodes="},
			{"MinMemoryNode=20G", "MinMemorySocket=20G", "MinMemorySocket="},
			{"MinMemoryNode=20G", "MinMemoryNode=20Q", "MinMemoryNode"},
			{"MinMemoryNode=20G", "MinMemoryNode=20G MinMemoryCPU=1G", "both"},
			{"MinMemoryNode=20G ", "", "all missing"},
			{"MinMemoryNode=20G", "MinMemoryTRES=20G", "MemPerTres"},
			{" OverSubscribe=", " OverSubscribe=PERHAPS Old=", "OverSubscribe="},
			{" OverSubscribe=", " Exclusive=RACK OverSubscribe=", "Exclusive="},
			{"JobName=mem ", "JobName=other ", "JobName="},
			{"JobName=mem ", "JobName=mem NumTasks=4 ", "JobName=|NumTasks="},
			{" AllocNode:Sid=", " AllocNode:Sid=x NumCPUs=64 MinMemoryNode=1M ", "comes twice"}, // a client of its own may name any host
			{" Licenses=", " Licenses=x:1 NumCPUs=64 Had=", "comes twice"},
			{" Network=", " LicensesAlloc=x:1 MinMemoryNode=1M Network=", "comes twice"},
			{"StdOut=/dev/null", "StdOut=/dev/null MemPerTres=gres/nic:5", "MemPerTres"},
			{"StdOut=/dev/null", "StdOut=/dev/null CpusPerTres=gres/gpu:x:y:z", "CpusPerTres"},
		} {
			out := strings.Replace(ask.out, odd.old, odd.new, 1)
			_, err := ParseAsked(conf, &ask.record, out)
			says, or, _ := strings.Cut(odd.says, "|")
			if out == ask.out || err == nil || !strings.Contains(err.Error(), says) && (or == "" || !strings.Contains(err.Error(), or)) {
				if odd.old == " OverSubscribe=" && strings.Contains(odd.new, "Exclusive=RACK") && err != nil && strings.Contains(err.Error(), "Exclusive=") {
					continue // 26.05 has one already
				}
				t.Errorf("%s for %s: %v, want %s", odd.new, odd.old, err, odd.says)
			}
		}
		for _, out := range []string{"", "JobState=PENDING", "JobId=1 JobName=mem "} {
			if a, err := ParseAsked(conf, &ask.record, out); err == nil {
				t.Errorf("%.60q is believed: %+v", out, a)
			}
		}
		record := ask.record
		record.TresPerNode = "gres:gpu:x:y:z"
		if _, err := ParseAsked(conf, &record, ask.out); err == nil || !strings.Contains(err.Error(), "TresPerNode") {
			t.Errorf("GPUs that are none: %v", err)
		}
		cron := strings.Replace(ask.out, " WorkDir=", " CronJob=Yes WorkDir=", 1)
		if a, err := ParseAsked(conf, &ask.record, cron); err != nil || !strings.Contains(a.Fixed, "scrontab") {
			t.Errorf("a scrontab job: %q, %v", a.Fixed, err)
		}
	})
}

// An account may hold any words where nobody keeps accounts (seen on all three).
func TestAskedAccount(t *testing.T) {
	ask := recordedAsked(t, "26.05")["mem"]
	ask.record.Account = "x QOS=normal JobState=RUNNING NumCPUs=1"
	ask.out = strings.Replace(ask.out, "Account=physics", "Account="+ask.record.Account, 1)
	if a, err := ParseAsked(confOf("26.05"), &ask.record, ask.out); err != nil || a == nil || a.CPUs != 4 {
		t.Errorf("%+v, %v", a, err)
	}
}

func FuzzAsked(f *testing.F) {
	for _, version := range versions {
		for _, ask := range recordedAsked(f, version) {
			f.Add(ask.out, ask.record.Name, ask.record.TresPerNode, ask.record.TresPerTask, 6, int64(12000))
		}
	}
	f.Fuzz(func(t *testing.T, out, name, perNode, perTask string, cpus int, memMB int64) {
		for _, version := range versions {
			a, err := ParseAsked(confOf(version), &Job{Name: name, Account: "physics", TresPerNode: perNode, TresPerTask: perTask}, out)
			if err != nil && a != nil {
				t.Fatal("a job beside an error")
			}
			if err != nil || a == nil || a.Fixed != "" || cpus < 1 || cpus > 1<<20 || memMB < 1 || memMB > 1<<40 || strings.ContainsAny(a.Nodes, "[,") {
				continue
			}
			for _, node := range []string{"", "n-1"} {
				value, gets, getsMB := a.Resize(cpus, memMB, node)
				if gets < 1 || getsMB < 1 || gets > max(cpus, a.Least) && a.KeepsCPUs == "" {
					t.Fatalf("%d CPUs, %d MB of %d and %d", gets, getsMB, cpus, memMB)
				}
				if a.KeepsCPUs != "" && gets != a.CPUs || a.KeepsMemory != "" && getsMB != a.MemMB {
					t.Fatalf("what it keeps changes to %d and %d of %d and %d", gets, getsMB, a.CPUs, a.MemMB)
				}
				if err := (Update{Job: Plain(1), Lever: Size, Value: value}).Validate(); err != nil {
					t.Fatal(err)
				}
				if is := a.Of(value); is.CPUs != gets || is.MemMB != getsMB {
					t.Fatalf("%s is %d CPUs and %d MB, not %d and %d", value, is.CPUs, is.MemMB, gets, getsMB)
				}
			}
		}
	})
}

// FuzzAskedForged: whatever a job's name, comment, path, network and address for mail say, what it
// asks for is read as if they said nothing; only defaults by GPU can be feigned, by a path.
func FuzzAskedForged(f *testing.F) {
	f.Add("x NumCPUs=1 UserId=root(7)", "MinMemoryNode=9 Command=x", "CpusPerTres=gpu:9")
	f.Add("x\nJobId=7 JobName=y UserId=a(1) Command= WorkDir=/", "ReqNodeList=n JobState=RUNNING", "TresPerNode=gres/gpu:8")
	f.Add("x", "y", "Network=x NumCPUs=1 JobState=RUNNING Command=y")
	f.Fuzz(func(t *testing.T, name, comment, mail string) {
		for _, word := range []string{" WorkDir=", " StdOut=", " CronJob="} {
			if strings.Contains(" "+comment+" "+mail, word) {
				return
			}
		}
		if name == "" || name == "N/A" || name == "(null)" {
			return
		}
		for _, version := range versions {
			ask := recordedAsked(t, version)["mem"]
			want, err := ParseAsked(confOf(version), &ask.record, ask.out)
			if err != nil {
				t.Fatal(err)
			}
			out := strings.Replace(ask.out, " WorkDir=", " Comment="+comment+" WorkDir=", 1)
			out = strings.TrimSuffix(out, "\n") + " MailUser=" + mail + " MailType=END\n"
			out = strings.Replace(out, " Network=(null)", " Network="+mail, 1)
			out = strings.Replace(out, "JobName=mem ", "JobName="+name+" ", 1)
			ask.record.Name = name
			got, err := ParseAsked(confOf(version), &ask.record, out)
			if err != nil || got == nil || got.Holds != want.Holds || got.Fixed != want.Fixed {
				t.Fatalf("%+v, %v, want %+v\n%s", got, err, want, out)
			}
		}
	})
}

func TestValidateSize(t *testing.T) {
	for _, value := range []string{
		"", "NumCPUs=1 NumCPUs=2", "NumCPUs=-1", "NumCPUs=1  MinCPUsNode=1", "Priority=5", "NumCPUs=1 JobId=7", "ReqNodeList=a[1-2]",
		"TresPerNode=", "MemPerTres=gres:cpu:1", "NumCPUs=1\nNumCPUs=1",
	} {
		if err := (Update{Job: Plain(1), Lever: Size, Value: Size.Value(value)}).Validate(); err == nil {
			t.Errorf("%q would be sent", value)
		}
	}
}

func TestLimits(t *testing.T) {
	assoc := recording(t, "limits-assoc.out") + "chemistry|||root|cpu=8,mem=1G|||cpu=3||\nchemistry|games|||cpu=6|||cpu=4|mem=500M|\n"
	assoc += "Biology|Games|large|||||cpu=5||\n" // of a partition "Large": sacctmgr takes it in small letters
	qos := recording(t, "limits-qos.out") + "many|cpu=9||||||cpu=7|mem=2G|||||\nfactor||||||||||||2.000000|\n" +
		"half|||||cpu=50||||||||DenyOnLimit,Relative\nwhole|||||||||||||Relative\n"
	l, err := parseLimits(assoc, qos, new([2]table))
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
		if _, err := parseLimits(bad, "", new([2]table)); err == nil {
			t.Errorf("%q is believed", bad)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add(recording(f, "limits-assoc.out"), recording(f, "limits-qos.out"))
	f.Fuzz(func(t *testing.T, assoc, qos string) {
		l, err := parseLimits(assoc, qos, new([2]table))
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
