package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

func TestReadCluster(t *testing.T) {
	c, err := ReadCluster(writeFile(t, `
[[nodes]]
count = 2
gpu_type = "v100"
gpus = 8
cpus = 24
mem_mb = 512000
features = ["v100", "ib"]
switch = "leaf1"
[[nodes]]
count = 4
gpu_type = "k80"
gpus = 1
[[nodes]]
count = 1
gpu_type = "v100"
gpus = 4
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v100", "k80"}, c.Types()); diff != "" {
		t.Error(diff)
	}
	if c.GPUs("v100") != 20 || c.GPUs("k80") != 4 || c.GPUs("p100") != 0 || c.TotalGPUs() != 24 {
		t.Errorf("%d v100, %d k80, %d in all", c.GPUs("v100"), c.GPUs("k80"), c.TotalGPUs())
	}
	if g := c.Nodes[0]; g.Switch != "leaf1" || g.MemMB != 512000 || g.CPUs != 24 || len(g.Features) != 2 {
		t.Errorf("%+v", g)
	}
}

func TestReadClusterErrors(t *testing.T) {
	const good = "[[nodes]]\ncount = 1\ngpu_type = \"a100\"\ngpus = 4\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":       {"", "without nodes"},
		"unknown key": {good + "gpu = 4\n", "unknown key nodes.gpu"},
		"slowdown":    {good + "slowdown = { lm = 0.0 }\n", "slowdown.lm = 0"},
		"no gpus":     {"[[nodes]]\ncount = 1\ngpu_type = \"a100\"\n", "table 1: gpus = 0 and gpu_type = \"a100\""},
		"no cpus":     {"[[nodes]]\ncount = 1\n", "table 1: gpus = 0 and cpus = 0"},
		"partition":   {good + "partitions = [\"a\", \"\\u001b[31m\"]\n", `partitions: "\x1b[31m"`},
		"no nodes":    {good + "[[partitions]]\nname = \"a\"\n", `[[partitions]] table 1: name = "a": no [[nodes]] table has it`},
		"twice":       {good + "partitions = [\"a\"]\n[[partitions]]\nname = \"a\"\n[[partitions]]\nname = \"a\"\n", `table 2: name = "a" stands twice`},
		"state":       {good + "partitions = [\"a\"]\n[[partitions]]\nname = \"a\"\nstate = \"off\"\n", `state = "off": want up, down, drain or inactive`},
		"tier":        {good + "partitions = [\"a\"]\n[[partitions]]\nname = \"a\"\npriority_tier = 65536\n", "at most 65535 of priority_tier"},
		"limit":       {good + "partitions = [\"a\"]\n[[partitions]]\nname = \"a\"\nmax_time = \"-1h\"\n", "want 0 or more of priority_tier"},
		"other key":   {good + "[[partitions]]\nname = \"a\"\nmaxtime = \"1h\"\n", "unknown key partitions.maxtime"},
		"a limit":     {good + "[qos.a]\nuser = \"gres/gpu\"\n", "not NAME=COUNT"},
		"of nodes":    {good + "[qos.a]\nnode = \"gres/gpu=1\"\n", "unknown key qos.a.node"},
		"no account":  {good + "[[associations]]\nuser = \"ann\"\n", "[[associations]] table 1: want an account"},
		"negative":    {good + good[:len(good)-len("gpus = 4\n")] + "gpus = -4\n", "table 2: gpus = -4"},
		"no type":     {"[[nodes]]\ncount = 1\ngpus = 4\n", `gpu_type = ""`},
		"word":        {"[[nodes]]\ncount = \"two\"\n", "count"},
		"huge":        {"[[nodes]]\ncount = 1000000\ngpu_type = \"a\"\ngpus = 1\n[[nodes]]\ncount = 1000000\ngpu_type = \"a\"\ngpus = 1\n", "table 2: more than"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, c.text)
			_, err := ReadCluster(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want the file and %q", err, c.want)
			}
		})
	}
}

func TestReadPartitions(t *testing.T) {
	const nodes = "[[nodes]]\ncount = 1\ngpu_type = \"a100\"\ngpus = 4\npartitions = [\"long\", \"debug\"]\n"
	c, err := ReadCluster(writeFile(t, nodes+"[[partitions]]\nname = \"long\"\n[[partitions]]\nname = \"debug\"\npriority_tier = 10\npriority_job_factor = 5\nmax_time = \"30m\"\nmax_nodes = 2\nqos = \"d\"\nstate = \"down\"\n"))
	want := []Partition{{Name: "long", Tier: 1, JobFactor: 1}, {Name: "debug", Tier: 10, JobFactor: 5, MaxTime: 30 * time.Minute, MaxNodes: 2, QOS: "d", State: "down"}}
	if err != nil || !cmp.Equal(want, c.Partitions) || c.Partition("debug").Closed() != "DOWN" || c.Partition("long").Closed() != "" || c.Partition("x") != nil {
		t.Error(err, cmp.Diff(want, c.Partitions))
	}
	s := cluster.Snapshot{Partitions: []cluster.Partition{
		{Name: "long", Tier: 1, JobFactor: 1, MaxTime: slurmplug.Unlimited}, {Name: "debug", Closed: "DOWN", Tier: 10, JobFactor: 5, MaxTime: 30 * time.Minute, MaxNodes: 2, OwnQOS: "d"}, {Name: "old", Draining: true},
	}}
	read, _ := FromSnapshot(&s)
	want[1].State = "DOWN"
	if want = append(want, Partition{Name: "old", State: "DRAIN"}); !cmp.Equal(want, read.Partitions) {
		t.Error(cmp.Diff(want, read.Partitions))
	}
}

// Limits stand in a description as Slurm has them.
func TestReadLimits(t *testing.T) {
	c, err := ReadCluster(writeFile(t, `
[[nodes]]
count = 1
gpu_type = "a100"
gpus = 4
[qos.""]
user = "gres/gpu=2,jobs=1"
[qos.long]
all = "cpu=8"
max_time = "48h"
flags = ["OverPartQOS"]
[[associations]]
account = "physics"
user = "ann"
parent = "science"
all = "gres/gpu=3"
job = "jobs=5"
`))
	tres := func(name string, n int64) slurmplug.TRES { return slurmplug.TRES{{Name: name, Count: n}} }
	want := Cluster{Nodes: []NodeGroup{{Count: 1, GPUType: "a100", GPUs: 4}}, QOS: map[string]slurmplug.QOSLimits{
		"": {User: append(tres("gres/gpu", 2), tres(slurmplug.Jobs, 1)...)}, "long": {All: tres("cpu", 8), MaxTime: 48 * time.Hour, Flags: []string{"OverPartQOS"}},
	}, Associations: []slurmplug.Association{{Account: "physics", User: "ann", Parent: "science", All: tres("gres/gpu", 3), Job: tres(slurmplug.Jobs, 5)}}}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A cluster is divided where partitions keep some jobs with GPUs off some nodes, or make several queues of them.
func TestDivided(t *testing.T) {
	gpus := func(partitions ...string) NodeGroup { return NodeGroup{Count: 1, GPUs: 1, Partitions: partitions} }
	cpus := NodeGroup{Count: 1, CPUs: 1, Partitions: []string{"cpu"}}
	for _, w := range []struct {
		nodes []NodeGroup
		want  bool
	}{
		{[]NodeGroup{gpus(), gpus()}, false},
		{[]NodeGroup{gpus("a"), gpus("a"), cpus}, false},
		{[]NodeGroup{gpus("a"), gpus("b")}, true},
		{[]NodeGroup{gpus("a", "b"), gpus("a", "b")}, true},
		{[]NodeGroup{gpus("a"), gpus()}, true},
	} {
		if c := (&Cluster{Nodes: w.nodes}); c.Divided() != w.want {
			t.Errorf("%+v: divided is %v", w.nodes, c.Divided())
		}
	}
}

func TestParseNodes(t *testing.T) {
	c, err := ParseNodes([]string{"16:v100:8:24:512000", "4:k80:1"})
	want := Cluster{Nodes: []NodeGroup{
		{Count: 16, GPUType: "v100", GPUs: 8, CPUs: 24, MemMB: 512000},
		{Count: 4, GPUType: "k80", GPUs: 1},
	}}
	if err != nil || !cmp.Equal(want, c) {
		t.Error(err, cmp.Diff(want, c))
	}
	for text, want := range map[string]string{
		"16:v100":                      "want COUNT:TYPE",
		"16:v100:8:24:512000:1":        "want COUNT:TYPE",
		"x:v100:8":                     `COUNT "x"`,
		"1:v100:99999999999999999999":  "GPUS",
		"1:v100:8:4294967297000000000": "cpus =",
		"1:a/b:8":                      `gpu_type = "a/b"`,
		"0:v100:8":                     "count = 0",
		"1:v100:8:-1":                  "cpus = -1",
	} {
		if _, err := ParseNodes([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if _, err := ParseNodes(nil); err == nil {
		t.Error("no nodes are a cluster")
	}
}

func TestFromSnapshot(t *testing.T) {
	node := cluster.Node{Usable: true, GPUType: "a100", GPUs: 4, CPUs: 64, MemMB: 1000, Features: []string{"a100"}}
	untyped, down, cpu := node, node, node
	untyped.GPUType = ""
	down.Usable = false
	cpu.GPUs, cpu.GPUType, cpu.Partitions = 0, "", []string{"cpu"}
	cpuDown, other, front := cpu, node, cpu
	cpuDown.Usable = false
	other.Partitions = []string{"long"}
	front.CPUs = 0
	c, leftOut := FromSnapshot(&cluster.Snapshot{Nodes: []cluster.Node{cpu, node, untyped, down, node, cpu, cpuDown, other, front}})
	want := Cluster{Nodes: []NodeGroup{
		{Count: 2, GPUType: "a100", GPUs: 4, CPUs: 64, MemMB: 1000, Features: []string{"a100"}},
		{Count: 1, GPUType: "a100", GPUs: 4, CPUs: 64, MemMB: 1000, Features: []string{"a100"}, Partitions: []string{"long"}},
		{Count: 1, GPUType: "gpu", GPUs: 4, CPUs: 64, MemMB: 1000, Features: []string{"a100"}},
		{Count: 2, CPUs: 64, MemMB: 1000, Features: []string{"a100"}, Partitions: []string{"cpu"}},
	}}
	if !cmp.Equal(want, c) || leftOut != [2]int{1, 1} {
		t.Error(leftOut, cmp.Diff(want, c))
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
