package slurmplug

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// recordedJobs are the jobs of the recording by their comments, which a test
// cluster has but for array tasks and components once.
func recordedJobs(t testing.TB, version string) map[string][]Job {
	jobs, err := parseJobsInto(nil, []byte(recordingOf(t, version, "squeue.out")), RecordedSeparators, recordedAbilities[version])
	if err != nil {
		t.Fatal(err)
	}
	byComment := map[string][]Job{}
	for _, j := range jobs {
		byComment[j.Comment] = append(byComment[j.Comment], j)
	}
	return byComment
}

func TestRecordedGPUs(t *testing.T) { eachVersion(t, testRecordedGPUs) }

func testRecordedGPUs(t *testing.T, version string) {
	jobs := recordedJobs(t, version)
	for comment, want := range map[string]string{
		"typed": "a100 2", "untyped": " 1", "job": " 2", "job-typed": "v100 3", "task": " 2", "node": " 4",
		"mixed": "a100,t4 2", "cpu": " 0", "requeued": " 1", "waiting": "a100 8", "partitions": " 12", "held": " 4",
		"per-socket": " 4", "per-node-typed": "v100 2", "per-task-typed": "v100 4", "job-and-node": " 8",
		"job-mixed": "a100,t4 2", "none": " 0", "zero": " 0", "large": " 0", "array": " 1", "hostile-gres": " 1",
	} {
		found := jobs[comment]
		if len(found) != 1 {
			t.Errorf("%d jobs %q", len(found), comment)
			continue
		}
		j := &found[0]
		gpuType, n := j.GPUs()
		if got := fmt.Sprintf("%s %d", gpuType, n); got != want {
			t.Errorf("%s: %q, want %q", comment, got, want)
		}
		if _, slurm, ok := j.AllocatedGPUs(); ok && slurm != n || !ok && n != 0 {
			t.Errorf("%s: %d GPUs, Slurm counts %d (%v)", comment, n, slurm, ok)
		}
	}
}

func TestGPUsWithoutAccounting(t *testing.T) {
	j := Job{Nodes: 3, NumTasks: 6, Sockets: 2, TRES: "cpu=1,mem=100M,node=1,billing=1"}
	for _, c := range []struct {
		job, node, task, socket, want string
	}{
		{"gres:gpu:a100:5", "gres:gpu:1", "", "", "a100 5"},
		{"gres:licence:2", "gres/gpu:a100:2", "", "", "a100 6"},
		{"", "gres:gpu:a100:1,gres:gpu:t4:1", "", "", "a100,t4 6"},
		{"", "", "gres:gpu:2", "", " 12"},
		{"", "", "", "gres:gpu:1", " 6"},
		{"", "gres:mps:50", "", "", " 0"},
		{"", "", "", "", " 0"},
	} {
		j.TresPerJob, j.TresPerNode, j.TresPerTask, j.TresPerSock = c.job, c.node, c.task, c.socket
		gpuType, n := j.GPUs()
		if got := fmt.Sprintf("%s %d", gpuType, n); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// A job that was requeued shows the nodes of its last run, and an estimate where one
// node is too small: scontrol update of ReqNodeList and a requeue on 22.05.8.
func TestNodeCount(t *testing.T) {
	for _, c := range []struct {
		state, tres string
		nodes, want int
	}{
		{"PENDING", "cpu=1,mem=1G,node=1,billing=1,gres/gpu=2", 2, 1},
		{"PENDING", "cpu=2,mem=2G,node=2,billing=2", 2, 2},
		{"RUNNING", "cpu=2,mem=2G,node=2,billing=2,gres/gpu=4", 2, 2},
		{"PENDING", "", 3, 3},
		{"PENDING", "cpu=1,mem=1G,node=0", 3, 3},
		{"PENDING", "nonsense", 3, 3},
	} {
		j := Job{State: c.state, TRES: c.tres, Nodes: c.nodes, TresPerNode: "gres:gpu:2"}
		if got := j.NodeCount(); got != c.want {
			t.Errorf("%+v: %d nodes", c, got)
		}
		if _, gpus := j.GPUs(); gpus != 2*c.want {
			t.Errorf("%+v: %d GPUs", c, gpus)
		}
	}
}

func TestRecordedIdentities(t *testing.T) { eachVersion(t, testRecordedIdentities) }

func testRecordedIdentities(t *testing.T, version string) {
	jobs := recordedJobs(t, version)
	for comment, want := range map[string][]Job{
		"typed":         {{ID: JobID{Task: NoTask}, TaskCount: 1}},
		"array":         {{ID: JobID{Task: NoTask}, Tasks: "1-9", TaskCount: 9}},
		"array-steps":   {{ID: JobID{Task: NoTask}, Tasks: "1,3,5,10,15,20", TaskCount: 6}},
		"array-one":     {{ID: JobID{Task: 7}, TaskCount: 1}},
		"array-running": {{ID: JobID{Task: NoTask}, Tasks: "1-3", TaskCount: 3}, {ID: JobID{Task: 0}, TaskCount: 1}},
		"array-split": {
			{ID: JobID{Task: NoTask}, Tasks: "0,3-5", TaskCount: 4}, {ID: JobID{Task: 1}, TaskCount: 1}, {ID: JobID{Task: 2}, TaskCount: 1},
		},
		"het": {{ID: JobID{Task: NoTask}, TaskCount: 1}, {ID: JobID{Task: NoTask}, TaskCount: 1, HetOffset: 1}},
	} {
		found := jobs[comment]
		slices.SortFunc(found, func(a, b Job) int { return a.ID.Compare(b.ID) })
		if len(found) != len(want) {
			t.Errorf("%s: %d records, want %d", comment, len(found), len(want))
			continue
		}
		first := found[0]
		atOnce := map[string]int{"array": 3, "array-running": 1}[comment] // of arrays that are one line
		if got := first.AtOnce; version == "22.05" && got != atOnce || version != "22.05" && got != 0 {
			t.Errorf("%s: %d tasks at once", comment, got)
		}
		for i, j := range found {
			het := uint32(0) // ids move with the recording, not their relations
			switch {
			case comment == "het":
				if het = first.RawID; j.ID.ID != j.RawID || j.RawID != first.RawID+uint32(i) {
					t.Errorf("%s: %+v", comment, j)
				}
			case j.ID.ID != first.ID.ID, j.ID.Task == NoTask && j.RawID != j.ID.ID:
				t.Errorf("%s: %+v", comment, j)
			}
			got := Job{ID: JobID{Task: j.ID.Task}, Tasks: j.Tasks, TaskCount: j.TaskCount, HetOffset: j.HetOffset}
			if diff := cmp.Diff(want[i], got); diff != "" || j.HetID != het {
				t.Errorf("%s: %s %+v", comment, diff, j)
			}
		}
	}
	if n := jobs["array-long"][0].TaskCount; n != 60 {
		t.Errorf("array-long: %d tasks", n)
	}
}

func TestRecordedFields(t *testing.T) { eachVersion(t, testRecordedFields) }

func testRecordedFields(t *testing.T, version string) {
	jobs := recordedJobs(t, version)
	one := func(comment string) Job {
		if len(jobs[comment]) != 1 {
			t.Fatalf("%d jobs %q", len(jobs[comment]), comment)
		}
		return jobs[comment][0]
	}
	limit := one("limit")
	if limit.TimeLimit != 51*time.Hour+5*time.Minute || limit.Features != "a100|v100" || limit.Prefer != "a100" || limit.Reason != "BeginTime" {
		t.Errorf("limit: %+v", limit)
	}
	if d := limit.Eligible.Sub(limit.Submit); d != 5*day {
		t.Errorf("limit: eligible %v after submission", d)
	}
	if j := one("quality"); j.QOS != "te" || j.Nice != 17 || j.State != "PENDING" || j.Priority == 0 {
		t.Errorf("quality: %+v", j)
	}
	if j := one("held"); j.Priority != 0 || j.Reason != "JobHeldUser" || !j.Eligible.IsZero() || j.Dependency != "" || j.Reservation != "" {
		t.Errorf("held: %+v", j)
	}
	if j := one("dependency"); !strings.HasPrefix(j.Dependency, "afterok:") {
		t.Errorf("dependency: %+v", j)
	}
	if j := one("reservation"); j.Reservation != "later" || j.TimeLimit != 10*time.Minute {
		t.Errorf("reservation: %+v", j)
	}
	if one("held").SLUID != "" != (version == "26.05") {
		t.Errorf("SLUID %q", one("held").SLUID)
	}
	if j := one("requeued"); j.Restarts != 1 || j.State != "PENDING" {
		t.Errorf("requeued: %+v", j)
	}
	if j := one("large"); j.CPUs != 2048 || j.NumTasks != 2048 || j.MemMB() != 2048*3072 || j.Nodes != 256 {
		t.Errorf("large: %+v", j)
	}
	if j := one("node"); j.State != "RUNNING" || j.NodeList != "v100-[1-2]" || j.Start.IsZero() || j.Nodes != 2 || j.TimeLimit != 365*day {
		t.Errorf("node: %+v", j)
	}
	if j := one("partitions"); !strings.Contains(j.Partition, ",") || j.Account != "physics" {
		t.Errorf("partitions: %+v", j)
	}
	if j := one("other user"); j.User != "man" || j.UID != 6 || j.Account != "biology" {
		t.Errorf("other user: %+v", j)
	}
	for _, comment := range []string{
		"first\n99999\x1f99999 second line", "\x1b[2J\x1b[31mred\x07", "not \xff\xfe UTF-8 \xc3",
		"prio:type=te&v=1 \x1eforged\n", "'quotes' \"and\" `more` $(x) ; | && %s \\",
	} {
		if j := one(comment); j.User != "man" {
			t.Errorf("%q: %+v", comment, j)
		}
	}
}

// Jobs that get whole nodes are those, no others: not what shares its nodes with its own user's.
func TestRecordedWhole(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		for comment, jobs := range recordedJobs(t, version) {
			for i := range jobs {
				if jobs[i].Whole != (comment == "whole") {
					t.Errorf("%q: whole nodes: %v", comment, jobs[i].Whole)
				}
			}
		}
		if jobs := recordedJobs(t, version); len(jobs["whole"]) != 1 || len(jobs["whole-user"]) != 1 {
			t.Error("not recorded")
		}
	})
}

func TestSqueueCutOffAnywhere(t *testing.T) {
	out := []byte(recording(t, "squeue.out"))
	whole, err := parseJobs(out, RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	lengths := map[int]bool{} // at which a record ends: indistinguishable from a shorter queue
	for n := range len(out) {
		jobs, err := parseJobs(out[:n], RecordedSeparators)
		if err == nil {
			lengths[n] = true
			if len(jobs) >= len(whole) {
				t.Fatalf("%d jobs of %d bytes", len(jobs), n)
			}
		} else if jobs != nil || !errors.Is(err, ErrDoubtful) {
			t.Fatalf("cut at %d: %d jobs, %v", n, len(jobs), err)
		}
	}
	if len(lengths) != len(whole) {
		t.Errorf("believed at %d lengths, want one for each of %d records", len(lengths), len(whole))
	}
}

func TestDoubtfulQueue(t *testing.T) {
	good := recording(t, "squeue.out")
	first, rest, _ := strings.Cut(good, RecordedSeparators.end+"\n")
	first += RecordedSeparators.end + "\n"
	field := func(record string, col int, value string) string {
		f := strings.Split(record, RecordedSeparators.field)
		f[col] = value
		return strings.Join(f, RecordedSeparators.field)
	}
	for name, out := range map[string]string{
		"the same record twice":    first + first,
		"another record's id":      field(first, colJobID, "12") + rest,
		"a field too many":         strings.Replace(first, "PENDING", "PENDING"+RecordedSeparators.field, 1),
		"a field too few":          strings.Replace(first, "PENDING"+RecordedSeparators.field, "PENDING", 1),
		"text behind the end":      strings.TrimSuffix(first, "\n") + "x",
		"a task twice":             field(field(field(first, colTasks, "4"), colArrayID, "7"), colJobID, "8") + field(field(field(first, colTasks, "4"), colArrayID, "7"), colJobID, "9"),
		"no newline":               strings.TrimSuffix(first, "\n"),
		"other separators":         strings.ReplaceAll(good, "AbCdEf", "XXXXXX"),
		"id 0":                     field(first, colJobID, "0"),
		"id with a letter":         field(first, colJobID, "1x"),
		"id too large":             field(first, colJobID, "4294967296"),
		"priority below 0":         field(first, colPriority, "-1"),
		"nice out of range":        field(first, colNice, "99999999999"),
		"no state":                 field(first, colState, ""),
		"a time that is no number": field(first, colSubmit, "2026-11-21T01:02:03"),
		"nodes that are no number": field(first, colNodes, "two"),
		"CPUs out of range":        field(first, colCPUs, "99G"),
		"a task list that is none": field(first, colTasks, "1-3..."),
		"tasks beyond bounds":      field(first, colTasks, "0-4294967290"),
		"a limit that is none":     field(first, colLimit, "soon"),
		"an error in its place":    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
	} {
		jobs, err := parseJobs([]byte(out), RecordedSeparators)
		if err == nil || jobs != nil || !errors.Is(err, ErrDoubtful) {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
		}
	}
}

func TestForgedRecord(t *testing.T) {
	// A user who knows one poll's separators cannot forge a record of the next.
	good := recording(t, "squeue.out")
	first, _, _ := strings.Cut(good, RecordedSeparators.end+"\n")
	old := strings.NewReplacer("AbCdEf", "BcDeFg", "0123456789AbCdEfGhIjKl", "1234567890AbCdEfGhIjKl")
	forged := "hello" + old.Replace(RecordedSeparators.end+"\n"+first)
	out := strings.Replace(good, RecordedSeparators.field+"typed"+RecordedSeparators.end, RecordedSeparators.field+forged+RecordedSeparators.end, 1)
	jobs, err := parseJobs([]byte(out), RecordedSeparators)
	want, _ := parseJobs([]byte(good), RecordedSeparators)
	if err != nil || len(jobs) != len(want) {
		t.Fatalf("%d jobs, %v; want %d", len(jobs), err, len(want))
	}
	found := false
	for _, j := range jobs {
		found = found || j.Comment == forged
	}
	if !found {
		t.Error("the forged text is not the comment")
	}
}

func TestSeparatorsAreNew(t *testing.T) {
	a, b := newSeparators(), newSeparators()
	if a == b || len(a.field) != 7 || len(a.end) != 23 || strings.ContainsAny(a.field+a.end, ",:. ") {
		t.Errorf("%q, %q", a, b)
	}
}

func TestReadRefused(t *testing.T) {
	good := recording(t, "squeue.out")
	exit := &CommandError{Command: "squeue", Kind: ErrExit, Status: 1, Message: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}
	for name, c := range map[string]struct {
		client *Client
		want   error
	}{
		"exit status":      {answering(good, "", exit), ErrExit},
		"no controller":    {answering("", exit.Message, exit), ErrController},
		"error on stderr":  {answering(good, "squeue: error: Invalid job format specification: Prefer\n", nil), ErrDoubtful},
		"fatal on stderr":  {answering(good, "squeue: fatal: x\n", nil), ErrDoubtful},
		"program missing":  {answering("", "", &CommandError{Command: "squeue", Kind: ErrNotFound}), ErrNotFound},
		"cut off":          {answering(good[:len(good)-9], "", nil), ErrDoubtful},
		"answer of others": {answering("1|2\n", "", nil), ErrDoubtful},
	} {
		jobs, err := c.client.Jobs(t.Context())
		if jobs != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), err)
		}
	}
	if _, err := answering(good, "squeue: warning: slow\n", nil).Jobs(t.Context()); err != nil {
		t.Errorf("a warning: %v", err)
	}
}

// queueOf is squeue's output for n plain jobs.
func queueOf(n int, s separators) []byte {
	var b bytes.Buffer
	users := []string{"ann", "bob", "carol", "dave"}
	for i := range n {
		f := []string{
			colJobID: fmt.Sprint(i + 1), colArrayID: fmt.Sprint(i + 1), colTasks: "N/A", colHetID: "N/A", colHetOffset: "N/A",
			colSLUID: fmt.Sprint(i + 1), colUID: "1000", colUser: users[i%len(users)], colAccount: "physics", colPartition: "gpu", colQOS: "normal", colReservation: "(null)",
			colState: "PENDING", colReason: "Priority", colDependency: "(null)", colPriority: fmt.Sprint(10000 + i%977), colNice: "0",
			colRestarts: "0", colNodes: "1", colCPUs: "8", colNumTasks: "1", colLayout: "*:*:*", colMinMemory: "1G", colMinCPUs: "1", colCPUsPerTRES: "N/A",
			colTRES:   fmt.Sprintf("cpu=8,mem=64G,node=1,billing=8,gres/gpu=%d,gres/gpu:a100=%d", i%8+1, i%8+1),
			colPerJob: "N/A", colPerNode: fmt.Sprintf("gres:gpu:a100:%d", i%8+1), colPerSocket: "N/A", colPerTask: "N/A",
			colFeatures: "(null)", colPrefer: "(null)", colWhole: "OK", colNodeList: "", colLimit: "1-00:00:00",
			colSubmit: fmt.Sprint(1795229000 + i), colEligible: fmt.Sprint(1795229000 + i), colStart: "N/A",
			colComment: fmt.Sprintf("prio:type=te&v=1&steps=%d", i%100),
		}
		b.WriteString(strings.Join(f, s.field) + s.end + "\n")
	}
	return b.Bytes()
}

func TestShrinkingQueue(t *testing.T) {
	for _, c := range []struct {
		reads []int // what squeue shows, read after read
		want  []int // what Jobs returns, -1 for a refusal
	}{
		{[]int{100, 60, 30}, []int{100, 60, 30}},
		{[]int{100, 40, 41}, []int{100, 41}},          // confirmed
		{[]int{100, 0, 0}, []int{100, 0}},             // confirmed
		{[]int{100, 40, 100}, []int{100, -1}},         // the first read was wrong
		{[]int{100, 40, 3}, []int{100, -1}},           // nobody knows
		{[]int{100, 3, 40}, []int{100, -1}},           //
		{[]int{100, 40, 100, 90}, []int{100, -1, 90}}, // and afterwards all is well
		{[]int{0, 0, 100}, []int{0, 0, 100}},
	} {
		reads := c.reads
		client := NewClient(runnerFunc(func(Command) (Output, error) {
			n := reads[0]
			reads = reads[1:]
			return Output{Stdout: queueOf(n, RecordedSeparators)}, nil
		}), Options{Abilities: &Abilities{}})
		UseRecordedSeparators(client)
		for i, want := range c.want {
			jobs, err := client.Jobs(t.Context())
			if want >= 0 && (err != nil || len(jobs) != want) || want < 0 && !errors.Is(err, ErrDoubtful) {
				t.Errorf("%v, call %d: %d jobs, %v; want %d", c.reads, i, len(jobs), err, want)
			}
		}
		if len(reads) != 0 {
			t.Errorf("%v: %d reads not made", c.reads, len(reads))
		}
	}
}

func TestSqueueArguments(t *testing.T) {
	for _, able := range []Abilities{{ArrayUnique: true}, {}, {SLUID: true, Exclusive: true}} {
		var got Command
		c := NewClient(runnerFunc(func(cmd Command) (Output, error) { got = cmd; return Output{}, nil }), Options{Abilities: &able})
		if _, err := c.Jobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		for flag, want := range map[string]bool{"--all": true, "--local": true, "--noheader": true, "--array-unique": able.ArrayUnique, "--array": !able.ArrayUnique} {
			if slices.Contains(got.Args, flag) != want {
				t.Errorf("%+v: %s in %q", able, flag, got.Args)
			}
		}
		format := got.Args[slices.Index(got.Args, "-O")+1]
		if n := strings.Count(format, "\x1f"); n != len(jobColumns)-1 || strings.Contains(format, "SLUID") != able.SLUID ||
			strings.Contains(format, "Exclusive") != able.Exclusive || strings.Contains(format, "OverSubscribe") == able.Exclusive {
			t.Errorf("%+v: %d separators for %d columns in %q", able, n, len(jobColumns), format)
		}
	}
}

var recordedAbilities = map[string]Abilities{
	"22.05": {Release: "22.05.8", ArrayUnique: true},
	"24.11": {Release: "24.11.5"},
	"26.05": {Release: "26.05.5", SLUID: true, Exclusive: true},
}

// What the commands of each Slurm can do, by what they printed.
func TestRecordedAbilities(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
			return Output{Stdout: []byte(recordingOf(t, version, "squeue"+cmd.Args[0]+".out"))}, nil
		}), Options{})
		if got, err := c.Abilities(t.Context()); err != nil || got != recordedAbilities[version] {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// The commands are replaced while a client is in use, and a site puts a program of its own before them.
func TestReplacedCommands(t *testing.T) {
	version := "22.05"
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		switch {
		case len(cmd.Args) == 1:
			return Output{Stdout: []byte(recordingOf(t, version, "squeue"+cmd.Args[0]+".out"))}, nil
		case version != "22.05" && slices.Contains(cmd.Args, "--array-unique"):
			return Output{}, &CommandError{Command: "squeue", Kind: ErrExit, Status: 1, Message: "squeue: unrecognized option '--array-unique'"}
		}
		return Output{Stdout: []byte(recordingOf(t, version, "squeue.out"))}, nil
	}), Options{})
	UseRecordedSeparators(c)
	for _, step := range []struct {
		version string
		fails   bool
	}{{"22.05", false}, {"26.05", true}, {"26.05", false}} {
		version = step.version
		if _, err := c.Jobs(t.Context()); (err != nil) != step.fails {
			t.Errorf("%s: %v", version, err)
		}
	}
	if a, err := c.Abilities(t.Context()); err != nil || !a.SLUID {
		t.Errorf("%+v, %v", a, err)
	}
	wrapper := NewClient(runnerFunc(func(Command) (Output, error) { return Output{Stdout: []byte("Welcome to the cluster!\n")}, nil }), Options{})
	if _, err := wrapper.Jobs(t.Context()); !errors.Is(err, ErrDoubtful) || !strings.Contains(err.Error(), "wrapper") {
		t.Errorf("%v", err)
	}
}

// A line for each task, as squeue --array prints them, is read as the record that it is of, in whatever order.
func TestTaskLinesAreJoined(t *testing.T) {
	line := func(raw, array, task string) string {
		f := strings.Split(strings.TrimSuffix(string(queueOf(1, RecordedSeparators)), RecordedSeparators.end+"\n"), RecordedSeparators.field)
		f[colJobID], f[colArrayID], f[colTasks] = raw, array, task
		return strings.Join(f, RecordedSeparators.field) + RecordedSeparators.end + "\n"
	}
	for name, c := range map[string]struct{ out, want string }{
		"one after the other":  {line("7", "7", "1") + line("7", "7", "2") + line("7", "7", "5") + line("8", "7", "0") + line("9", "9", "N/A"), "7[1-2,5] 7_0[] 9[]"},
		"mixed":                {line("7", "7", "1") + line("9", "9", "3") + line("7", "7", "0") + line("9", "9", "4"), "7[0-1] 9[3-4]"},
		"one is left":          {line("7", "7", "3"), "7_3[]"},
		"records of their own": {line("7", "7", "3") + line("8", "7", "4"), "7_3[] 7_4[]"},
		"a task twice":         {line("7", "7", "3") + line("7", "7", "3"), ""},
		"of two arrays":        {line("7", "7", "3") + line("7", "6", "4"), ""},
		"a job that is none":   {line("7", "7", "3") + line("7", "7", "N/A"), ""},
	} {
		jobs, err := parseJobs([]byte(c.out), RecordedSeparators)
		var got []string
		for _, j := range jobs {
			got = append(got, fmt.Sprintf("%s[%s]", j.ID, j.Tasks))
		}
		if strings.Join(got, " ") != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzJobs(f *testing.F) {
	for _, version := range versions {
		f.Add([]byte(recordingOf(f, version, "squeue.out")))
	}
	f.Add(queueOf(2, RecordedSeparators))
	f.Fuzz(func(t *testing.T, out []byte) {
		jobs, err := parseJobs(out, RecordedSeparators)
		if err != nil && jobs != nil {
			t.Fatal("jobs beside an error")
		}
		seen := map[JobID]bool{}
		for i := range jobs {
			j := &jobs[i]
			if seen[j.ID] || j.RawID == 0 || j.TaskCount < 1 || (j.Tasks != "") != (j.TaskCount > 1 && j.ID.Task == NoTask) && j.TaskCount != 1 {
				t.Fatalf("%+v", j)
			}
			seen[j.ID] = true
			if _, n := j.GPUs(); n < 0 || j.MemMB() < 0 {
				t.Fatalf("%+v: %d GPUs", j, n)
			}
		}
	})
}

func TestJobsShareStrings(t *testing.T) {
	jobs, err := parseJobs(queueOf(100, RecordedSeparators), RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jobs[0].TRES, jobs[8].TRES); diff != "" {
		t.Error(diff)
	}
	out := queueOf(1000, RecordedSeparators)
	perJob := testing.AllocsPerRun(3, func() { _, _ = parseJobs(out, RecordedSeparators) }) / 1000
	if perJob > 3 {
		t.Errorf("%.1f allocations for each job", perJob)
	}
}

// The output of squeue means the same in however many parts it is read at once, as do its faults.
func TestJobsInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		text := queueOf(40, RecordedSeparators)
		for line := range strings.SplitAfterSeq(string(text), RecordedSeparators.end+"\n") {
			lines = append(lines, line)
		}
		raw := 1000
		var out strings.Builder
		for range rapid.IntRange(0, 30).Draw(t, "records") {
			f := strings.Split(lines[rapid.IntRange(0, 39).Draw(t, "like")], RecordedSeparators.field)
			raw++
			f[colJobID], f[colArrayID], f[colTasks] = fmt.Sprint(raw), fmt.Sprint(raw), "N/A"
			for _, task := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 6, rapid.ID[int]).Draw(t, "tasks") {
				f[colTasks] = fmt.Sprint(task)
				out.WriteString(strings.Join(f, RecordedSeparators.field))
			}
			if f[colTasks] == "N/A" {
				out.WriteString(strings.Join(f, RecordedSeparators.field))
			}
		}
		cut := []byte(out.String())
		if rapid.IntRange(0, 3).Draw(t, "whole") == 0 {
			cut = cut[:rapid.IntRange(0, len(cut)).Draw(t, "bytes")]
		}
		want, failed := parseJobsInParts(nil, cut, RecordedSeparators, Abilities{}, 1)
		got, err := parseJobsInParts(want[:0:0], cut, RecordedSeparators, Abilities{}, rapid.IntRange(2, 7).Draw(t, "parts"))
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(failed) != fmt.Sprint(err) {
			t.Fatal(failed, err, diff)
		}
	})
}

// A poll into the memory of the last one holds nothing of it.
func TestJobsIntoUsedMemory(t *testing.T) {
	used, err := parseJobs(queueOf(100, RecordedSeparators), RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	out := []byte(recording(t, "squeue.out"))
	want, err := parseJobs(out, RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseJobsInto(used, out, RecordedSeparators, Abilities{})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
