package slurmplug

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecordedNodes(t *testing.T) { eachVersion(t, testRecordedNodes) }

func testRecordedNodes(t *testing.T, version string) {
	nodes, err := parseNodes([]byte(recordingOf(t, version, "node.out")))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	if len(nodes) != 6 || len(byName) != 6 {
		t.Fatalf("%d nodes", len(nodes))
	}
	want := Node{
		Name: "mix-1", State: []string{"MIXED"}, Features: []string{"a100", "t4"}, Available: []string{"a100", "t4"}, Partitions: []string{"gpu"},
		CPUs: 8, Threads: 1, SocketCPUs: 4, RealMB: 65536, MemMB: 65536,
		Gres: []Gres{{Name: "gpu", Type: "a100", Count: 2}, {Name: "gpu", Type: "t4", Count: 2}}, Weight: 1,
	}
	got := byName["mix-1"]
	used := got.GresUsed
	if !got.LoadKnown || got.Load < 1 {
		t.Errorf("mix-1 has load %v, known %v", got.Load, got.LoadKnown)
	}
	got.GresUsed, got.CPUsAlloc, got.MemAllocMB, got.Load, got.LoadKnown = nil, 0, 0, 0, false
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(used) != 2 || used[0].Type != "a100" || used[0].Count != 2 {
		t.Errorf("mix-1 uses %+v", used)
	}
	if n := byName["any-1"]; n.Features != nil || n.Gres[0] != (Gres{Name: "gpu", Count: 2}) || n.Partitions[1] != "closed" {
		t.Errorf("%+v", n)
	}
	if n := byName["v100-2"]; n.Gres[0] != (Gres{Name: "gpu", Type: "v100", Count: 4}) {
		t.Errorf("%+v", n)
	}
	drained := byName["v100-1"]
	if diff := cmp.Diff([]string{"MIXED", "DRAIN"}, drained.State); diff != "" || !strings.HasPrefix(drained.Reason, "bad fan [root@") || !strings.Contains(drained.Reason, "NodeName=fake State=IDLE") {
		t.Errorf("%+v", drained)
	}
}

// What each Slurm prints of untyped GPUs with Cores= that are in use (gres.c, _node_gres_used).
func TestUntypedGPUsInUse(t *testing.T) {
	for _, version := range versions {
		for shown, used := range map[string]int64{"gpu:(null):4(IDX:0-3)": 4, "gpu:(null):0(IDX:N/A)": 0, "gpu:4(IDX:0-3)": 4, "gpu:0(IDX:N/A)": 0, "gpu:2(IDX:0,3),shard:0(0/4,-/4)": 2} {
			out := regexp.MustCompile(`GresUsed=\S*`).ReplaceAllLiteralString(recordingOf(t, version, "node.out"), "GresUsed="+shown)
			nodes, err := parseNodes([]byte(out))
			if err != nil {
				t.Errorf("%s: %s: %v", version, shown, err)
				continue
			}
			for _, n := range nodes {
				if g := n.GresUsed[0]; n.Unread != "" || g != (Gres{Name: "gpu", Count: used}) {
					t.Errorf("%s: %s: %s uses %+v", version, shown, n.Name, g)
				}
			}
		}
	}
}

func TestNodes(t *testing.T) {
	const good = "NodeName=n1 Arch=x CPUAlloc=1 CPUTot=8 ActiveFeatures=a Gres=gpu:4 OS=Linux 6 State=DOWN #1  RealMemory=10 AllocMem=2 State=IDLE*+DRAIN Partitions=p\n"
	nodes, err := parseNodes([]byte(strings.Replace(good, "State=DOWN ", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"IDLE", "DRAIN", "NOT_RESPONDING"}, nodes[0].State); diff != "" || nodes[0].CPUs != 8 || nodes[0].GresUsed != nil {
		t.Errorf("%s %+v", diff, nodes[0])
	}
	cores := strings.Replace(strings.Replace(good, "State=DOWN ", "", 1), "OS=Linux", "RestrictedCoresPerGPU=2(gpu/a100:0-7) OS=Linux", 1)
	if nodes, err = parseNodes([]byte(cores)); err != nil || nodes[0].GPUCores != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
	reason := strings.TrimSuffix(good, "\n") + " Reason=x\nState=IDLE Gres=gpu:9 [root@1]\n"
	if nodes, err = parseNodes([]byte(reason + strings.Replace(good, "n1", "n2", 1))); err != nil || len(nodes) != 2 {
		t.Errorf("a reason of two lines: %d nodes, %v", len(nodes), err)
	}
	for name, out := range map[string]string{
		"nothing":         "",
		"an error":        "slurm_load_node error: Unable to contact slurm controller (connect failure)\n",
		"twice the same":  good + good,
		"no state":        strings.ReplaceAll(good, "State=", "Stat="),
		"no memory":       strings.Replace(good, "RealMemory", "Memory", 1),
		"cut off":         "NodeName=n1 Arch=x CPUTot=8\n",
		"CPUs not number": strings.Replace(good, "CPUTot=8", "CPUTot=eight", 1),
		"bad GRES":        strings.Replace(good, "gpu:4", "gpu:4(", 1),
	} {
		if nodes, err := parseNodes([]byte(out)); err == nil || nodes != nil || !errors.Is(err, ErrDoubtful) {
			t.Errorf("%s: %+v, %v", name, nodes, err)
		}
	}
}

func TestRecordedPartitions(t *testing.T) { eachVersion(t, testRecordedPartitions) }

func testRecordedPartitions(t *testing.T, version string) {
	got, err := parsePartitions(recordingOf(t, version, "partition.out"), new(table))
	want := []Partition{
		{Name: "gpu", State: "UP", Nodes: "a100-[1-2],any-1,mix-1,v100-[1-2]", Default: true, PriorityTier: 1, JobFactor: 1, PreemptMode: "REQUEUE", MaxTime: Unlimited},
		{Name: "interactive", State: "UP", Nodes: "a100-[1-2],v100-1", PriorityTier: 10, JobFactor: 10, PreemptMode: "REQUEUE", Accounts: []string{"physics", "biology"}, AllowsQOS: []string{"te", "normal"}, MaxTime: day, DefaultTime: time.Hour},
		{Name: "closed", State: "DOWN", Nodes: "any-1", PriorityTier: 1, JobFactor: 1, PreemptMode: "REQUEUE", MaxTime: Unlimited},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// Partitions whose jobs get the least loaded nodes say so.
func TestLeastLoadedPartitions(t *testing.T) {
	recorded := recordingOf(t, "24.11", "partition.out")
	for shown, want := range map[string]bool{"LLN=NO": false, "LLN=YES": true} {
		p, err := parsePartitions(strings.Replace(string(recorded), "LLN=NO", shown, 1), new(table))
		if err != nil || p[0].LeastLoaded != want || p[1].LeastLoaded {
			t.Errorf("%s: %+v, %v", shown, p, err)
		}
	}
}

// What each Slurm shows of partitions whose jobs get whole nodes.
func TestExclusivePartitions(t *testing.T) {
	for shown, want := range map[string]string{
		"OverSubscribe=EXCLUSIVE":                                   "OverSubscribe=EXCLUSIVE", // 22.05.8
		"ExclusiveUser=NO ExclusiveTopo=NO OverSubscribe=EXCLUSIVE": "OverSubscribe=EXCLUSIVE", // 24.11.5
		"ExclusiveUser=NO ExclusiveTopo=YES OverSubscribe=NO":       "ExclusiveTopo=YES",
		"ExclusiveUser=YES ExclusiveTopo=NO OverSubscribe=NO":       "",
		"Exclusive=NODE OverSubscribe=NO":                           "Exclusive=NODE", // 26.05.5
		"Exclusive=TOPO OverSubscribe=NO":                           "Exclusive=TOPO",
		"Exclusive=USER OverSubscribe=NO":                           "",
		"Exclusive=NO OverSubscribe=NO":                             "",
	} {
		p, err := parsePartitions("PartitionName=p State=UP MaxTime=UNLIMITED DefaultTime=NONE PriorityTier=1 "+shown+"\n", new(table))
		if err != nil || p[0].WholeNodes != want || p[0].SizeLimit != want {
			t.Errorf("%s: %+v, %v", shown, p, err)
		}
	}
}

func TestRecordedQOS(t *testing.T) { eachVersion(t, testRecordedQOS) }

func testRecordedQOS(t *testing.T, version string) {
	got, err := parseQOS(recordingOf(t, version, "qos.out"), new(table))
	if diff := cmp.Diff([]string{"normal", "be", "te"}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, out := range []string{"te|100\n", "\n"} {
		if got, err := parseQOS(out, new(table)); err == nil || got != nil {
			t.Errorf("%q: %+v", out, got)
		}
	}
}

func TestRecordedConfig(t *testing.T) { eachVersion(t, testRecordedConfig) }

func testRecordedConfig(t *testing.T, version string) {
	out := recordingOf(t, version, "config.out")
	c, err := parseConfig(out)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := c.Weights()
	want := map[string]int64{
		"Age": 1000, "FairShare": 10000, "JobSize": 1000, "Partition": 1000, "QOS": 5000,
		"TRES/CPU": 100, "TRES/Mem": 200, "TRES/GRES/gpu": 301,
	}
	if diff := cmp.Diff(want, weights); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if sum, err := c.WeightSum(); sum != 18601 || err != nil {
		t.Errorf("sum of weights %d, %v", sum, err)
	}
	name, uid, ok := c.SlurmUser()
	for what, pair := range map[string][2]any{
		"version":         {strings.HasPrefix(c.Version(), version+"."), true},
		"22.05":           {c.AtLeast(22, 5), true},
		"23.02":           {c.AtLeast(23, 2), version != "22.05"},
		"21.08":           {c.AtLeast(21, 8), true},
		"cluster":         {c.ClusterName(), "lab"},
		"priority type":   {c.PriorityType(), "priority/multifactor"},
		"priority flags":  {len(c.List("PriorityFlags")), 0},
		"site factor":     {c.SiteFactorPlugin(), ""},
		"preempt type":    {c.Get("PreemptType"), "preempt/qos"},
		"preempt mode":    {c.Get("PreemptMode"), "REQUEUE"},
		"TRES":            {strings.Contains(strings.Join(c.List("AccountingStorageTRES"), " "), "gres/gpu gres/gpu:a100"), true},
		"store flags":     {strings.Join(c.List("AccountingStoreFlags"), " "), "job_comment"},
		"storage":         {c.AccountingStorageType(), "accounting_storage/slurmdbd"},
		"rate limit":      {c.RateLimited(), false},
		"min job age":     {c.MinJobAge(), 300 * time.Second},
		"SlurmUser":       {fmt.Sprint(name, uid, ok), "root0 true"},
		"any other value": {c.Get("MaxArraySize"), "20001"},
		"unset value":     {c.Get("Prolog"), ""},
		"all values":      {len(c.values) > 100, true},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	if c, err := parseConfig(out[:len(out)*9/10]); !errors.Is(err, ErrDoubtful) {
		t.Errorf("cut off: %v, %v", c.Version(), err)
	}
	c, err = parseConfig("ClusterName = x\nSLURM_VERSION = 23.02.8\nSlurmctldParameters = a=1,RL_enable\nPriorityWeightTRES = CPU=x\nSlurmctld(primary) at head is UP\n")
	if err != nil || !c.RateLimited() || !c.AtLeast(23, 2) || c.MinJobAge() != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := c.WeightSum(); err == nil {
		t.Error("a weight that is no number")
	}
}

func TestRecordedHistory(t *testing.T) { eachVersion(t, testRecordedHistory) }

func testRecordedHistory(t *testing.T, version string) {
	out := recordingOf(t, version, "sacct.out")
	runs, err := parseRuns([]byte(out), RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string][]Run{}
	for _, r := range runs {
		byName[r.Name] = append(byName[r.Name], r)
		if r.Submit.IsZero() || r.User != "root" || r.Account == "" || r.State == "COMPLETED" && r.Name != r.Comment {
			t.Errorf("%+v", r)
		}
	}
	check := func(name string, i int, ok func(Run) bool) {
		t.Helper()
		if len(byName[name]) <= i || !ok(byName[name][i]) {
			t.Errorf("%s: %+v", name, byName[name])
		}
	}
	check("typed", 0, func(r Run) bool {
		return r.State == "RUNNING" && r.End.IsZero() && !r.Start.IsZero() && strings.Contains(r.AllocTRES, "gres/gpu:a100=2") && r.NodeList != "" && r.ID == Plain(r.RawID)
	})
	check("failed", 0, func(r Run) bool { return r.State == "FAILED" && r.ExitCode == 3 && r.Signal == 0 && !r.End.IsZero() })
	check("signal", 0, func(r Run) bool { return r.State == "FAILED" && r.ExitCode == 0 && r.Signal == 9 })
	check("done", 0, func(r Run) bool { return r.State == "COMPLETED" })
	check("cancelled", 0, func(r Run) bool { return r.State == "CANCELLED" })
	check("requeued", 0, func(r Run) bool { return r.State == "REQUEUED" && !r.End.IsZero() })
	check("array-running", 0, func(r Run) bool { return r.ID.Task == 0 && r.ID.ID != r.RawID && r.State == "RUNNING" })
	check("waiting", 0, func(r Run) bool { return r.TimeLimit == 30*time.Minute })
	check("job-typed", 0, func(r Run) bool { _, n, _ := tresOf(t, r.AllocTRES).GPUs(); return n == 3 })
	check("quality", 0, func(r Run) bool { return r.State == "PENDING" && r.Start.IsZero() && r.NodeList == "" && r.QOS == "te" })

	believed := 0
	for n := range len(out) {
		got, err := parseRuns([]byte(out[:n]), RecordedSeparators)
		if err == nil {
			believed++
		} else if got != nil || !errors.Is(err, ErrDoubtful) {
			t.Fatalf("cut at %d: %d runs, %v", n, len(got), err)
		}
	}
	if believed != len(runs) {
		t.Errorf("believed at %d lengths of %d records", believed, len(runs))
	}
}

func tresOf(t *testing.T, list string) TRES {
	tres, err := ParseTRES(list)
	if err != nil {
		t.Fatal(err)
	}
	return tres
}

func TestHistoryRows(t *testing.T) {
	row := func(changes map[int]string) []byte {
		f := []string{"17", "17", "ann", "lab", "gpu", "be", "CANCELLED by 1001", "0:15", "100", "100", "Unknown", "Unknown", "UNLIMITED", "", "None assigned", "a\nb", "", "c"}
		for i, v := range changes {
			f[i] = v
		}
		return []byte(strings.Join(f, RecordedSeparators.end) + RecordedSeparators.end + "\n")
	}
	runs, err := parseRuns(row(nil), RecordedSeparators)
	if err != nil || runs[0].State != "CANCELLED" || runs[0].Signal != 15 || runs[0].Name != "a\nb" || runs[0].NodeList != "" || runs[0].TimeLimit != Unlimited || !runs[0].Start.IsZero() {
		t.Errorf("%+v, %v", runs, err)
	}
	for text, want := range map[string]JobID{"17_4": {17, 4}, "17_[1-9%3]": Plain(17), "17+1": Plain(18), "17": Plain(17)} {
		runs, err := parseRuns(row(map[int]string{0: text, 1: "18"}), RecordedSeparators)
		if err != nil || runs[0].ID != want || runs[0].RawID != 18 {
			t.Errorf("%s: %+v, %v", text, runs, err)
		}
	}
	for i, v := range map[int]string{0: "x", 1: "", 6: "", 7: "0", 8: "now", 12: "soon"} {
		if runs, err := parseRuns(row(map[int]string{i: v}), RecordedSeparators); err == nil || runs != nil {
			t.Errorf("%s=%q: %+v", runColumns[i], v, runs)
		}
		// Among others it costs itself alone.
		all, err := parseRuns(slices.Concat(row(nil), row(map[int]string{i: v}), row(map[int]string{0: "18", 1: "18"})), RecordedSeparators)
		if err != nil || len(all) != 3 || all[0].Unread+all[2].Unread != "" || all[1].Unread == "" || all[1].User != "" || all[2].RawID != 18 || all[0].User != "ann" {
			t.Errorf("%s=%q among others: %+v, %v", runColumns[i], v, all, err)
		}
	}
}

func TestRecordedFactors(t *testing.T) { eachVersion(t, testRecordedFactors) }

func testRecordedFactors(t *testing.T, version string) {
	all, err := parseFactors(recordingOf(t, version, "sprio.out"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	jobs := map[uint32]Job{}
	for _, found := range recordedJobs(t, version) {
		for _, j := range found {
			jobs[j.RawID] = j
		}
	}
	for _, f := range all {
		j, known := jobs[f.RawID]
		if !known || j.Nice != f.Nice || f.FairShare == 0 {
			t.Errorf("%+v of job %+v", f, j)
		}
		// each term is rounded by itself
		sum := f.SiteFactor - f.Nice + f.Age + f.Assoc + f.FairShare + f.JobSize + f.Partition + f.QOS + f.TRES
		if diff := sum - f.Priority; diff < -9 || diff > 9 {
			t.Errorf("%+v adds up to %d", f, sum)
		}
	}
	got, err := parseFactors("5|1|-7|3|0|0|0|0|1|0|cpu=2,mem=0,gres/gpu=14\n5|9|-7|3|0|0|0|0|9|0|\n6|1|0|0|0|0|0|0|0|0|\n")
	want := []Factors{{RawID: 5, Priority: 9, SiteFactor: -7, Nice: 3, Partition: 9}, {RawID: 6, Priority: 1}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, out := range []string{"Unable to find jobs matching user/id(s) specified\n", "5|1\n", "5|1|x|3|0|0|0|0|1|0|\n", "0|1|0|0|0|0|0|0|0|0|\n", "5|1|0|3|0|0|0|0|1|0|cpu\n", "\n"} {
		if got, err := parseFactors(out); !errors.Is(err, ErrDoubtful) || got != nil {
			t.Errorf("%q: %+v, %v", out, got, err)
		}
	}
}

func TestRecordedDiag(t *testing.T) { eachVersion(t, testRecordedDiag) }

func testRecordedDiag(t *testing.T, version string) {
	out := recordingOf(t, version, "sdiag.out")
	d, err := parseDiag(out)
	if err != nil || d != (Diag{}) {
		t.Errorf("%+v, %v", d, err)
	}
	busy := strings.NewReplacer("DBD Agent queue size: 0", "DBD Agent queue size: 8999", "Agent queue size:     0", "Agent queue size:     7").Replace(out)
	if d, err := parseDiag(busy); err != nil || d.DBDAgentQueue != 8999 || d.AgentQueue != 7 {
		t.Errorf("%+v, %v", d, err)
	}
	for name, out := range map[string]string{
		"nothing":   "",
		"cut off":   out[:strings.Index(out, "Remote Procedure Call statistics by user")],
		"no queue":  strings.Replace(out, "DBD Agent queue size", "DBD Agent queue", 1),
		"no number": strings.Replace(out, "Agent queue size:     0", "Agent queue size:     x", 1),
	} {
		if d, err := parseDiag(out); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestPing(t *testing.T) { eachVersion(t, testPing) }

func testPing(t *testing.T, version string) {
	up, err := parsePing(recordingOf(t, version, "ping.out"))
	if diff := cmp.Diff([]Controller{{"primary", "head", true}}, up); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	down, err := answering(recordingOf(t, version, "ping-down.out"), "", &CommandError{Kind: ErrExit, Status: 1}).Ping(t.Context())
	if diff := cmp.Diff([]Controller{{"primary", "head", false}}, down); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	two, err := parsePing("Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n")
	if diff := cmp.Diff([]Controller{{"primary", "a", false}, {"backup", "b", true}}, two); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, out := range []string{"", "hello\n", "Slurmctld(primary) at a is SLEEPY\n"} {
		if got, err := parsePing(out); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%q: %+v, %v", out, got, err)
		}
	}
}

func TestAdminLevel(t *testing.T) { eachVersion(t, testAdminLevel) }

func testAdminLevel(t *testing.T, version string) {
	out := recordingOf(t, version, "users.out")
	for name, want := range map[string]AdminLevel{"daemon": Operator, "nobody": NoAdmin, "root": Administrator, "stranger": NoAdmin} {
		if got, err := parseAdminLevel(out, name); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, out := range []string{"ann\n", "ann|King\n"} {
		if got, err := parseAdminLevel(out, "ann"); err == nil || got != NoAdmin {
			t.Errorf("%q: %s, %v", out, got, err)
		}
	}
}

func TestLinesCutOff(t *testing.T) { eachVersion(t, testLinesCutOff) }

func testLinesCutOff(t *testing.T, version string) {
	for name, read := range map[string]func(*Client) error{
		"node.out":      func(c *Client) error { _, err := c.Nodes(t.Context()); return err },
		"partition.out": func(c *Client) error { _, err := c.Partitions(t.Context()); return err },
		"qos.out":       func(c *Client) error { _, err := c.QOS(t.Context()); return err },
		"config.out":    func(c *Client) error { _, err := c.Config(t.Context()); return err },
		"sprio.out":     func(c *Client) error { _, err := c.Factors(t.Context()); return err },
		"sdiag.out":     func(c *Client) error { _, err := c.Diag(t.Context()); return err },
	} {
		out := recordingOf(t, version, name)
		if err := read(answering(out, "", nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := read(answering(strings.TrimRight(out, "\n")[:len(out)-2], "", nil)); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%s, cut off: %v", name, err)
		}
		if err := read(answering(out, "", &CommandError{Kind: ErrExit, Status: 1})); !errors.Is(err, ErrExit) {
			t.Errorf("%s, exit status 1: %v", name, err)
		}
	}
}
