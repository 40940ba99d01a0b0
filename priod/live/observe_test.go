package live

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

func nodes() []cluster.Node {
	gpus := func(types ...string) (all []slurmplug.Gres) {
		for _, t := range types {
			all = append(all, slurmplug.Gres{Name: "gpu", Type: t, Count: 4})
		}
		return all
	}
	return ConvertNodes([]slurmplug.Node{
		{Name: "a1", State: []string{"IDLE"}, Gres: gpus("a100"), GresUsed: []slurmplug.Gres{{Name: "gpu", Type: "a100", Count: 3}}},
		{Name: "a2", State: []string{"MIXED", "DRAIN"}, Gres: append(gpus("a100"), slurmplug.Gres{Name: "nic", Count: 2})},
		{Name: "v1", State: []string{"ALLOCATED"}, Gres: gpus("v100")},
		{Name: "m1", State: []string{"IDLE"}, Gres: gpus("a100", "v100")},
		{Name: "c1", State: []string{"IDLE"}},
		{Name: "v2", State: []string{"IDLE"}, Gres: append(gpus("v100"), slurmplug.Gres{Name: "gpu", Type: "old"}), Features: []string{"v100"}, Available: []string{"v100", "mode"}},
	})
}

func TestNodes(t *testing.T) {
	n := nodes()
	if n[0].GPUs != 4 || n[0].GPUsUsed != 3 || n[0].GPUType != "a100" || !n[0].Usable {
		t.Errorf("%+v", n[0])
	}
	if n[1].GPUs != 4 || n[1].Usable || n[1].State != "MIXED+DRAIN" {
		t.Errorf("%+v", n[1])
	}
	used := func(form string, count int64) []slurmplug.Gres {
		return []slurmplug.Gres{{Name: "gpu", Type: form, Count: count}}
	}
	two := []slurmplug.Gres{{Name: "gpu", Type: "a100", Count: 4}, {Name: "gpu", Type: "v100", Count: 2}}
	parts := ConvertNodes([]slurmplug.Node{{Name: "a", Gres: two, GresUsed: used("v100", 1)}, {Name: "b", Gres: two, GresUsed: used("", 1)}})
	if want := []cluster.GPUPart{{Type: "a100", Count: 4}, {Type: "v100", Count: 2, Used: 1}}; !slices.Equal(parts[0].Parts, want) || parts[1].Parts != nil {
		t.Errorf("parts %v, want %v; where the used ones have no type %v", parts[0].Parts, want, parts[1].Parts)
	}
	if !n[3].MixedTypes || n[3].GPUs != 8 {
		t.Errorf("%+v", n[3])
	}
	if n[5].MixedTypes || n[5].GPUType != "v100" || len(n[5].Spare) != 1 || n[5].Spare[0] != "mode" {
		t.Errorf("%+v", n[5])
	}
}

func TestUsable(t *testing.T) {
	for state, want := range map[string][2]bool{
		"IDLE": {true, false}, "MIXED+CLOUD": {true, false}, "IDLE+DRAIN": {false, false}, "DOWN+NOT_RESPONDING": {false, false},
		"ALLOCATED+NOT_RESPONDING": {false, true}, "UNKNOWN": {false, true},
	} {
		if usable, silent := usable(strings.Split(state, "+")); usable != want[0] || silent != want[1] {
			t.Errorf("%s: usable %v, silent %v", state, usable, silent)
		}
	}
}

func TestAllocatedType(t *testing.T) {
	types := gpuTypes(nodes())
	for list, want := range map[string]string{"a1": "a100", "a[1-2]": "a100", "a1,v1": "", "m1": "", "c1": "", "gone[1-3]": "", "a[": ""} {
		if got := allocatedType(list, types); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}

func TestJob(t *testing.T) {
	var tags tagCache
	tags.begin()
	v := conversion{limits: timeLimits{"gpu": time.Hour, "long": slurmplug.Unlimited}, types: gpuTypes(nodes()), tags: &tags}
	convert := func(j slurmplug.Job) cluster.Job {
		var o cluster.Job
		v.job(&o, &j)
		return o
	}
	j := convert(slurmplug.Job{ID: slurmplug.Plain(3), State: "PENDING", Partition: "gpu", TresPerNode: "gres:gpu:2", Nodes: 2,
		Comment: "prio:type=te&grace=60&v=1 my words", Dependency: "afterok:1"})
	if j.State != cluster.Pending || j.GPUs != 4 || j.GPUType != "" || j.TimeLimit != time.Hour || j.Tag.Type != "te" || j.Tag.Grace != time.Minute || !j.Dependency || j.TaskCount != 1 {
		t.Errorf("%+v", j)
	}
	j = convert(slurmplug.Job{State: "RUNNING", Partition: "gpu,long", TresPerNode: "gres:gpu:2", Nodes: 1, NodeList: "v1", Comment: "prio:type=te&v=7"})
	if j.State != cluster.Running || j.GPUType != "v100" || j.TimeLimit != slurmplug.Unlimited || j.Tag.Type != "" || !strings.Contains(j.TagErr, "version") {
		t.Errorf("%+v", j)
	}
	v.wholeNodes = wholeNodes{"gpu": true}
	for partition, want := range map[string]bool{"gpu": true, "long": false, "gpu,long": false} {
		if j := convert(slurmplug.Job{State: "PENDING", Partition: partition}); j.Whole != want {
			t.Errorf("a job of %s gets whole nodes: %v", partition, j.Whole)
		}
	}
	if j = convert(slurmplug.Job{State: "PENDING", Partition: "long", Whole: true}); !j.Whole {
		t.Errorf("%+v", j)
	}
	if j = convert(slurmplug.Job{Comment: "no tag: prio:type=te&v=1"}); j.Tag.Type != "" || j.TagErr != "" {
		t.Errorf("a tag that is not the first word counts: %+v", j)
	}
}

func TestFactors(t *testing.T) {
	jobs := []cluster.Job{{RawID: 1}, {RawID: 2}, {RawID: 3}}
	factors := []slurmplug.Factors{{RawID: 1, SiteFactor: 500, Age: 10, QOS: 5}, {RawID: 3, Age: 900}}
	if span := addFactors(jobs, factors, 100).Span; span != 885 {
		t.Errorf("span %d: what the poll saw is more than the weights", span)
	}
	if span := addFactors(jobs, factors, 1000).Span; span != 1000 {
		t.Errorf("span %d", span)
	}
	if !jobs[0].SiteFactorKnown || jobs[0].SiteFactor != 500 || jobs[1].SiteFactorKnown || !jobs[2].SiteFactorKnown {
		t.Errorf("%+v", jobs)
	}
}

func TestTagCacheForgetsWhatIsGone(t *testing.T) {
	var c tagCache
	for _, comments := range [][]string{{"prio:type=te&v=1 a", "prio:type=te&v=1 b", "prio:bad"}, {"prio:type=be&v=1"}} {
		c.begin()
		for _, x := range comments {
			c.read(x)
		}
		c.end()
	}
	if len(c.last) != 1 {
		t.Errorf("%d tags are remembered", len(c.last))
	}
}

// A job that appears twice among the actions is written in two waves, in order; within a wave ranks come first.
func TestWaves(t *testing.T) {
	a := actions("1 2 1 3 1")
	if got, want := fmt.Sprint(waves(a)), "[[0 1 3] [2] [4]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range a {
		a[i].Lever = slurmplug.SiteFactor
	}
	a[0].Lever, a[1].Lever = slurmplug.Features, slurmplug.Features // of job 2, which is not ranked; job 1 is both
	if got, want := fmt.Sprint(waves(a)), "[[3 0 1] [2] [4]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What cannot be read is named, and stands in the snapshot for nothing else.
func TestUnreadRecords(t *testing.T) {
	c := New(nil)
	c.setLimits([]slurmplug.Partition{{Name: "gpu", MaxTime: time.Hour}, {Name: "odd", MaxTime: slurmplug.Unlimited, Unread: `MaxTime: "soon"`}})
	jobs := []slurmplug.Job{
		{ID: slurmplug.Plain(1), RawID: 1, State: "RUNNING", User: "ann", NodeList: "a1", TresPerNode: "gres:gpu:2", Nodes: 1},
		{ID: slurmplug.Plain(2), RawID: 2, State: "RUNNING", User: "bob", NodeList: "a1", TresPerNode: "gres:gpu:2", Nodes: 1, Unread: `NumCPUs: "?" is no number`},
	}
	s := c.snapshot(time.Unix(1, 0), jobs, []slurmplug.Node{
		{Name: "a1", State: []string{"MIXED"}, Gres: []slurmplug.Gres{{Name: "gpu", Count: 8}}, GresUsed: []slurmplug.Gres{{Name: "gpu", Count: 4}}},
		{Name: "a2", Unread: `Gres: GRES "gpu:("`},
	})
	if len(s.Nodes) != 1 || s.Nodes[0].Name != "a1" || s.Nodes[0].GPUsUsed != 4 { // the unread job's, too
		t.Errorf("%+v", s.Nodes)
	}
	if want := (cluster.Job{ID: slurmplug.Plain(2), RawID: 2, TaskCount: 1, State: cluster.Unread}); !reflect.DeepEqual(s.Jobs[1], want) || s.Jobs[0].GPUs != 2 {
		t.Errorf("%+v", s.Jobs)
	}
	want := []cluster.UnreadRecord{{Kind: cluster.UnreadNode, Name: "a2", Why: `Gres: GRES "gpu:("`}, {Kind: cluster.UnreadPartition, Name: "odd", Why: `MaxTime: "soon"`}, {Kind: cluster.UnreadJob, Name: "2", Why: `NumCPUs: "?" is no number`}}
	if !slices.Equal(s.Unread, want) || s.SeesNodes() {
		t.Errorf("%+v", s.Unread)
	}
	span := addFactors(s.Jobs, []slurmplug.Factors{{RawID: 9, Unread: "x"}, {RawID: 1, Age: 5, SiteFactor: 3}, {RawID: 7, Age: 9}}, 0)
	if span.Span != 4 || s.Jobs[0].SiteFactor != 3 {
		t.Errorf("span %+v, %+v", span, s.Jobs[0])
	}

	f := facts(t)
	f.Unread = s.Unread
	named := 0
	for _, x := range f.Findings(settings()) {
		if x.Name == "records" && x.Level == Warn {
			named++
		}
	}
	if named != 3 {
		t.Errorf("check names %d records", named)
	}
}

// What a pending job is charged and placed with is what Slurm will allocate (research on 22.05.8, 24.11.5 and 26.05.5:
// whole nodes with all of their GPUs, as many nodes as the CPUs need, the CPUs of --cpus-per-gpu).
func TestWhatSlurmWillAllocate(t *testing.T) {
	sizes := nodeSizes{"gpu": {{"a100", 4, 16, 1, 1, 0}}, "mixed": {{"a100", 8, 16, 1, 1, 0}, {"v100", 4, 16, 1, 1, 0}, {"", 0, 16, 1, 1, 0}}, "threads": {{"a100", 4, 16, 2, 2, 0}}}
	for name, c := range map[string]struct {
		job                    slurmplug.Job
		gpus, nodes, cpus, one int
	}{
		"exclusive, one GPU asked for":     {slurmplug.Job{Partition: "gpu", Nodes: 2, TRES: "cpu=2,node=2,gres/gpu=2", TresPerNode: "gres:gpu:1", CPUs: 2, NumTasks: 2, Whole: true}, 8, 2, 2, 1},
		"exclusive without GPUs":           {slurmplug.Job{Partition: "gpu", TRES: "cpu=1,node=1", CPUs: 1, NumTasks: 1, Whole: true}, 4, 1, 1, 1},
		"exclusive, nodes without GPUs":    {slurmplug.Job{Partition: "mixed", TRES: "cpu=1,node=1", CPUs: 1, NumTasks: 1, Whole: true}, 0, 1, 1, 1},
		"exclusive, the smallest that has": {slurmplug.Job{Partition: "mixed", TRES: "cpu=1,node=1", TresPerNode: "gres:gpu:1", CPUs: 1, NumTasks: 1, Whole: true}, 4, 1, 1, 1},
		"tasks for each GPU":               {slurmplug.Job{Partition: "gpu", TRES: "cpu=4,node=1,gres/gpu=2", CPUs: 4, NumTasks: 4}, 2, 1, 4, 1},
		"more CPUs than a node has":        {slurmplug.Job{Partition: "gpu", TRES: "cpu=48,node=1,gres/gpu=4", TresPerNode: "gres:gpu:4", CPUs: 48, NumTasks: 48}, 12, 3, 48, 1},
		"one thread of each core":          {slurmplug.Job{Partition: "threads", TRES: "cpu=16,node=1,gres/gpu=4", TresPerNode: "gres:gpu:4", CPUs: 16, NumTasks: 16, Threads: 1}, 8, 2, 16, 1},
		"CPUs for each GPU":                {slurmplug.Job{Partition: "gpu", TRES: "cpu=1,node=1,gres/gpu=2", TresPerJob: "gres:gpu:2", CPUsPerTRES: "gres:gpu:3", CPUs: 1, NumTasks: 1}, 2, 1, 6, 0},
		"CPUs for each task":               {slurmplug.Job{Partition: "gpu", TRES: "cpu=6,node=1,gres/gpu=3", TresPerTask: "gres:gpu:1", CPUs: 6, NumTasks: 3}, 3, 1, 6, 2},
	} {
		c.job.State = "PENDING"
		var cache demandCache
		d := cache.of(&c.job, c.job.Whole, &conversion{sizes: sizes, defMemPerCPU: 1024})
		if d.gpus != c.gpus || max(d.nodes, 1) != c.nodes || d.cpus != c.cpus || d.taskCPUs != c.one {
			t.Errorf("%s: %+v", name, d)
		}
	}
	runs := slurmplug.Job{State: "RUNNING", Partition: "gpu", TRES: "cpu=16,node=1,gres/gpu=4", TresPerNode: "gres:gpu:1", Nodes: 1, CPUs: 16, Whole: true}
	if _, gpus := runs.GPUs(); gpus != 4 {
		t.Errorf("a running job on a whole node holds %d GPUs", gpus)
	}
}

// 24.11.5 starts no job with GPUs by task, several tasks and one thread of each core where cores have several; 22.05.8 holds one
// that wants more of these cores for each GPU than the sockets of its GPUs may have.
func TestTasksWithOneThread(t *testing.T) {
	sizes := nodeSizes{"gpu": {{"a100", 4, 16, 1, 1, 0}}, "threads": {{"a100", 4, 16, 2, 2, 0}}}
	job := slurmplug.Job{State: "PENDING", Partition: "threads", TRES: "cpu=4,node=1,gres/gpu=2", TresPerTask: "cpu=2,gres/gpu=1", CPUs: 4, NumTasks: 2, Threads: 1}
	for name, c := range map[string]struct {
		change  func(*slurmplug.Job)
		never   bool // starts on this Slurm
		counted bool
	}{
		"seen on 24.11.5":       {func(*slurmplug.Job) {}, true, false},
		"another Slurm":         {func(*slurmplug.Job) {}, false, true},
		"one task":              {func(j *slurmplug.Job) { j.NumTasks = 1 }, true, true},
		"all threads":           {func(j *slurmplug.Job) { j.Threads = 0 }, true, true},
		"cores with one thread": {func(j *slurmplug.Job) { j.Partition = "gpu" }, true, true},
		"GPUs by node":          {func(j *slurmplug.Job) { j.TresPerNode, j.TresPerTask = "gres/gpu:2", "cpu=2" }, true, true},
		"CPUs beyond its GPUs' part of the cores, seen on 22.05.8": {func(j *slurmplug.Job) { j.NumTasks, j.CPUsPerTRES = 1, "gres:gpu:3" }, false, false},
		"CPUs within it":      {func(j *slurmplug.Job) { j.NumTasks, j.CPUsPerTRES = 1, "gres:gpu:2" }, false, true},
		"all threads of them": {func(j *slurmplug.Job) { j.NumTasks, j.Threads, j.CPUsPerTRES = 1, 0, "gres:gpu:3" }, false, true},
	} {
		j, cache := job, demandCache{}
		c.change(&j)
		if d := cache.of(&j, false, &conversion{sizes: sizes, noThreads: c.never}); (d.open == "") != c.counted {
			t.Errorf("%s: %q", name, d.open)
		}
	}
}

// What each GPU needs of one socket, where GPUs belong to sockets: CPUs by GPU of the whole job's GPUs on each release, those of tasks
// on 24.11.5 and 26.05.5.
func TestCPUsOfGPUsOnOneSocket(t *testing.T) {
	sizes := nodeSizes{"gpu": {{"a100", 4, 16, 1, 1, 8}}, "one": {{"a100", 4, 16, 1, 1, 0}}}
	for name, c := range map[string]struct {
		job            slurmplug.Job
		before, since  int // CPUs, on 22.05.8 and on 24.11.5
		counted, until bool
	}{
		"CPUs by GPU":                  {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUsPerTRES: "gres:gpu:3", CPUs: 6, NumTasks: 1}, 3, 3, true, true},
		"of a node's GPUs":             {slurmplug.Job{TresPerNode: "gres:gpu:2", CPUsPerTRES: "gres:gpu:3", CPUs: 6, NumTasks: 1}, 0, 0, true, true},
		"of one GPU":                   {slurmplug.Job{TresPerJob: "gres:gpu:1", CPUsPerTRES: "gres:gpu:3", CPUs: 3, NumTasks: 1}, 0, 0, true, true},
		"one task":                     {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUs: 6, NumTasks: 1}, 0, 0, true, true},
		"a task of each GPU":           {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUs: 6, NumTasks: 2}, 0, 3, true, true},
		"several tasks of each GPU":    {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUs: 4, NumTasks: 4}, 0, 2, true, true},
		"GPUs by task":                 {slurmplug.Job{TresPerTask: "gres:gpu:1", CPUs: 4, NumTasks: 2}, 0, 2, true, true},
		"tasks of a node's GPUs":       {slurmplug.Job{TresPerNode: "gres:gpu:2", CPUs: 4, NumTasks: 2}, 0, 0, true, true},
		"more CPUs of each node":       {slurmplug.Job{TresPerNode: "gres:gpu:2", CPUs: 1, MinCPUs: 7, NumTasks: 1}, 0, 0, false, true},
		"CPUs of one task":             {slurmplug.Job{TresPerNode: "gres:gpu:2", CPUs: 7, MinCPUs: 7, NumTasks: 1}, 0, 0, true, true},
		"tasks that do not divide":     {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUs: 5, NumTasks: 5}, 0, 0, false, true},
		"the same, of no sockets":      {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUs: 5, NumTasks: 5, Partition: "one"}, 0, 0, true, true},
		"CPUs by GPU, and no sockets":  {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUsPerTRES: "gres:gpu:3", CPUs: 6, Partition: "one"}, 0, 0, true, true},
		"several tasks of CPUs by GPU": {slurmplug.Job{TresPerJob: "gres:gpu:2", CPUsPerTRES: "gres:gpu:3", CPUs: 6, NumTasks: 3}, 3, 3, true, true},
	} {
		for _, since := range []bool{false, true} {
			j, want, counted := c.job, c.before, c.until
			if since {
				want, counted = c.since, c.counted
			}
			j.State, j.Partition = "PENDING", cmp.Or(j.Partition, "gpu")
			cache := demandCache{}
			d := cache.of(&j, false, &conversion{sizes: sizes, bySocket: since})
			if d.gpuCPUs != want || d.bySocket != (since && want > 0) || (d.open == "") != counted {
				t.Errorf("%s, by socket %v: %d CPUs of one socket, %v, %q", name, since, d.gpuCPUs, d.bySocket, d.open)
			}
		}
	}
}

// All memory of each node is what --mem=0 asks for: Slurm shows it as that of one of the nodes (22.05.8, 26.05.5).
func TestAllMemory(t *testing.T) {
	for name, c := range map[string]struct {
		job  slurmplug.Job
		want bool
	}{
		"--mem=0":       {slurmplug.Job{TRES: "cpu=9,mem=16000M,node=1,gres/gpu=1", TresPerJob: "gres:gpu:1"}, true},
		"on two nodes":  {slurmplug.Job{TRES: "cpu=9,mem=32000M,node=2,gres/gpu=2", TresPerNode: "gres:gpu:1"}, true},
		"--mem":         {slurmplug.Job{TRES: "cpu=9,mem=16000M,node=1,gres/gpu=1", TresPerJob: "gres:gpu:1", MinMemMB: 16000}, false},
		"--mem-per-gpu": {slurmplug.Job{TRES: "cpu=9,mem=7444M,node=1,gres/gpu=2", TresPerJob: "gres:gpu:2"}, false},
	} {
		c.job.State = "PENDING"
		var cache demandCache
		if d := cache.of(&c.job, false, &conversion{nodeMB: []int64{16000, 64000}}); d.allMem != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A job that runs holds the GPUs that Slurm lists: with --gpus-per-socket 22.05.8 may start it without any.
func TestGPUsThatSlurmLists(t *testing.T) {
	job := slurmplug.Job{State: "RUNNING", Nodes: 1, CPUs: 18, TRES: "cpu=18,mem=50472M,node=1,billing=18", TresPerSock: "gres:gpu:1", Sockets: 2}
	for lists, want := range map[bool]int{true: 0, false: 2} {
		var cache demandCache
		if d := cache.of(&job, false, &conversion{listsGPUs: lists}); d.gpus != want {
			t.Errorf("GPUs listed %v: it holds %d, want %d", lists, d.gpus, want)
		}
	}
}

// On 24.11.5 no other job starts beside one of --oversubscribe, whatever is free of its nodes.
func TestNodesOfSharingJobs(t *testing.T) {
	nodes := []cluster.Node{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}, {Name: "n4", Owned: true}}
	keepOthers(nodes, []slurmplug.Job{{State: "RUNNING", Shares: true, NodeList: "n[1-2]"}, {State: "RUNNING", NodeList: "n3"}, {State: "PENDING", Shares: true, NodeList: "n3"}})
	for i, want := range []bool{true, true, false, true} {
		if nodes[i].Owned != want {
			t.Errorf("%+v", nodes[i])
		}
	}
}

// Memory by node is of each, also where the CPUs need more nodes than the job names (24.11.5).
func TestMemoryOfMoreNodes(t *testing.T) {
	job := slurmplug.Job{State: "PENDING", Partition: "gpu", TRES: "cpu=12,mem=57421M,node=1,gres/gpu=2", TresPerTask: "gres/gpu=1", CPUs: 12, NumTasks: 2, MinMemMB: 57421}
	var cache demandCache
	if d := cache.of(&job, false, &conversion{sizes: nodeSizes{"gpu": {{"a100", 4, 8, 2, 2, 0}}}}); d.nodes != 2 || d.memMB != 2*57421 || d.nodeMB != 57421 {
		t.Errorf("%+v", d)
	}
}

// Where memory is not handed out a job may ask for all of a node's, MemSpecLimit or not (22.05.8, 26.05.5).
func TestMemoryThatIsNotHandedOut(t *testing.T) {
	c, nodes := New(nil), []slurmplug.Node{{Name: "n", State: []string{"IDLE"}, RealMB: 64000, MemMB: 48000, MemAllocMB: 100}}
	if n := c.snapshot(time.Unix(1, 0), nil, nodes).Nodes[0]; n.MemMB != 64000 || n.MemUsedMB != 0 {
		t.Errorf("%+v", n)
	}
}

// GPUs on which shards lie are not free (seen on 22.05.8 and later in these forms).
func TestGPUsInUseThroughShards(t *testing.T) {
	for shown, want := range map[string]int{
		"gpu:a100:3(IDX:1-3),shard:a100:1(IDX:0)": 4, "gpu:a100:0(IDX:N/A),shard:a100:5(2/4,3/4,0/4,0/4)": 2,
		"gpu:a100:2(IDX:2-3),shard:a100:5(2/4,3/4,-/4,-/4)": 4, "gpu:a100:1(IDX:0),shard:a100:0(IDX:N/A)": 1, "gpu:a100:4(IDX:0-3),shard:a100:0(0/4,0/4,0/4,0/4)": 4,
	} {
		used, err := slurmplug.ParseGres(shown)
		if err != nil {
			t.Fatal(err)
		}
		n := slurmplug.Node{Name: "n", State: []string{"MIXED"}, Gres: []slurmplug.Gres{{Name: "gpu", Type: "a100", Count: 4}, {Name: "shard", Count: 16}}, GresUsed: used}
		if got := ConvertNodes([]slurmplug.Node{n})[0]; got.GPUsUsed != want || len(got.Gres) != 0 {
			t.Errorf("%s: %d GPUs in use, want %d; others %v", shown, got.GPUsUsed, want, got.Gres)
		}
	}
}

// A single job is read by the same rules of the site as the whole queue.
func TestLookIsAsThePoll(t *testing.T) {
	c := New(nil)
	c.setLimits([]slurmplug.Partition{{Name: "v100", QOS: "small", DefaultTime: time.Hour, WholeNodes: "EXCLUSIVE"}})
	c.qosLimits, c.nodeSizes = map[string]slurmplug.QOSLimits{"small": {Node: slurmplug.TRES{{Name: "gres/gpu", Count: 2}}}}, nodeSizes{"v100": {{gpuType: "v100", gpus: 4, cpus: 16}}}
	job := slurmplug.Job{
		ID: slurmplug.Plain(7), RawID: 7, State: "PENDING", Partition: "v100,a100", QOS: "normal", Nodes: 1, CPUs: 4, TaskCount: 1, Reason: "Priority", TresPerNode: "gres/gpu:3",
	}
	polled := c.snapshot(time.Unix(0, 0), []slurmplug.Job{job}, nil).Jobs[0]
	c.nodeSizes = nodeSizes{} // of no nodes, as in that snapshot
	seen, err := c.sight(job.ID, []slurmplug.Sight{{Job: job}})
	if err != nil || polled.Beyond != "v100" || polled.Open != "" || polled.GPUs != 3 {
		t.Fatal(err, polled)
	}
	if !reflect.DeepEqual(seen.Job, polled) {
		t.Errorf("%+v,\nwant %+v", seen.Job, polled)
	}
}

// A job in several partitions is beyond the limits of some: those of the partition's QOS go before the same ones of its own, unless
// that has OverPartQOS. Where all of its own are left out it is not known where it fits.
func TestLimitsOfPartitionQOS(t *testing.T) {
	gpus := func(n int64) slurmplug.TRES { return slurmplug.TRES{{Name: "gres/gpu", Count: n}} }
	v := &conversion{
		qosLimits: map[string]slurmplug.QOSLimits{
			"small": {Job: gpus(2)}, "large": {Job: gpus(8)}, "full": {All: gpus(6)}, "short": {MaxTime: time.Hour}, "over": {Job: gpus(8), MaxTime: 4 * time.Hour, Flags: []string{"DenyOnLimit", "OverPartQOS"}},
			"node": {Node: gpus(2)},
		},
		partitionQOS: map[string]string{"v100": "small", "a100": "large", "t4": "full", "p100": "short", "k80": "node"}, withQOS: []string{"v100", "a100", "t4", "p100", "k80"},
		qosHeld: qosHeld{scope{qos: "full"}: {gpus: map[string]int64{"": 3}}},
	}
	for _, c := range []struct{ qos, partitions, beyond, open string }{
		{"normal", "a100,cpu", "v100,t4,p100,k80", ""},
		{"normal", "v100,a100", "v100,t4,p100,k80", ""},
		{"normal", "p100,t4", "p100,t4,v100,k80", "a longer time limit than QOS short allows"},
		{"small", "cpu,a100", "cpu,v100,t4,p100,k80", ""},
		{"small", "cpu", "cpu,v100,t4,p100,k80", "more gres/gpu than QOS small allows of a job"},
		{"over", "v100,p100", "t4,k80", ""},
		{"short", "cpu", "cpu,v100,a100,t4,p100,k80", "a longer time limit than QOS short allows"},
	} {
		j := &cluster.Job{State: cluster.Pending, Partition: c.partitions, QOS: c.qos, GPUs: 4, Nodes: 1, TimeLimit: 2 * time.Hour}
		if open := v.beyond(j, held{nodes: 1, gpus: map[string]int64{"": 4}}); open != c.open || j.Beyond != c.beyond {
			t.Errorf("QOS %s, %s: beyond %q, open %q; want %q, %q", c.qos, c.partitions, j.Beyond, open, c.beyond, c.open)
		}
	}
}

// Slurm compares what it would allocate with the limits of the QOS, once it has found a place: whole cores and nodes, and
// the CPUs of --cpus-per-gpu, beside what runs (QOSMaxCpuPerUserLimit of 22.05.8).
func TestLimitsOnWhatIsAllocated(t *testing.T) {
	tres := func(name string, count int64) slurmplug.TRES { return slurmplug.TRES{{Name: name, Count: count}} }
	sizes := nodeSizes{"gpu": {{"a100", 4, 16, 2, 2, 0}}}
	asks := slurmplug.Job{ID: slurmplug.Plain(1), State: "PENDING", Partition: "gpu", QOS: "q", User: "ann", Account: "phys", Nodes: 1, TRES: "cpu=1,mem=4000M,node=1,gres/gpu=2",
		TresPerNode: "gres:gpu:2", CPUsPerTRES: "gres:gpu:4", CPUs: 1, NumTasks: 1, MinMemMB: 4000}
	odd, whole, least := asks, asks, asks
	least.CPUsPerTRES, least.MinCPUs = "", 15
	odd.CPUsPerTRES, odd.CPUs, odd.TRES = "", 7, "cpu=7,mem=4000M,node=1,gres/gpu=2"
	whole.Whole = true
	running := []slurmplug.Job{{State: "RUNNING", Partition: "gpu", QOS: "q", User: "bob", Account: "phys", Nodes: 1, CPUs: 4, TRES: "cpu=4,mem=1000M,node=1,gres/gpu=1"}}
	for name, c := range map[string]struct {
		job    slurmplug.Job
		limits slurmplug.QOSLimits
		beyond bool
	}{
		"CPUs by GPU":           {asks, slurmplug.QOSLimits{User: tres("cpu", 7)}, true},
		"as many CPUs":          {asks, slurmplug.QOSLimits{User: tres("cpu", 8)}, false},
		"whole cores":           {odd, slurmplug.QOSLimits{Job: tres("cpu", 7)}, true},
		"CPUs of each node":     {least, slurmplug.QOSLimits{Job: tres("cpu", 14)}, true},
		"as many of each node":  {least, slurmplug.QOSLimits{Job: tres("cpu", 16)}, false},
		"whole node":            {whole, slurmplug.QOSLimits{Job: tres("gres/gpu", 3)}, true},
		"beside the account's":  {asks, slurmplug.QOSLimits{Account: tres("cpu", 11)}, true},
		"beside all jobs'":      {asks, slurmplug.QOSLimits{All: tres("gres/gpu", 2)}, true},
		"another user's":        {asks, slurmplug.QOSLimits{User: tres("gres/gpu", 2)}, false},
		"what is not asked for": {asks, slurmplug.QOSLimits{User: tres("gres/lscratch", 1)}, false},
	} {
		var tags tagCache
		tags.begin()
		limits := map[string]slurmplug.QOSLimits{"q": c.limits}
		v := conversion{sizes: sizes, qosLimits: limits, qosHeld: heldUnder(limits, nil, running), tags: &tags}
		var o cluster.Job
		if v.job(&o, &c.job); (o.Open != "") != c.beyond {
			t.Errorf("%s: %q", name, o.Open)
		}
	}
}

// From 24.11 on a partition that admits an account admits those below it.
func TestSubAccounts(t *testing.T) {
	tree := []slurmplug.Account{{Name: "root"}, {Name: "plasma", Parent: "physics"}, {Name: "physics", Parent: "root"}, {Name: "biology", Parent: "root"}}
	for _, c := range []struct{ some, want []string }{
		{nil, nil}, {[]string{}, []string{}}, {[]string{"biology"}, []string{"biology"}}, {[]string{"physics"}, []string{"physics", "plasma"}},
		{[]string{"root"}, []string{"root", "physics", "biology", "plasma"}}, {[]string{"gone"}, []string{"gone"}},
	} {
		if got := withSubAccounts(tree, c.some); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v: %v, want %v", c.some, got, c.want)
		}
	}
}
