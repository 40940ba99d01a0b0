package nodemap

import (
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

// A job that names no type may get GPUs of several types of one node, which is not counted (22.05.8).
func TestGPUsOfSeveralTypes(t *testing.T) {
	m := New(&cluster.Snapshot{Nodes: []cluster.Node{
		{Name: "m1", Usable: true, MixedTypes: true, GPUs: 4, CPUs: 16, MemMB: 64000, Partitions: []string{"gpu"}, Parts: []cluster.GPUPart{{Type: "a100", Count: 2}, {Type: "v100", Count: 2}}},
		{Name: "a1", Usable: true, GPUType: "a100", GPUs: 8, CPUs: 16, MemMB: 64000, Partitions: []string{"pure"}},
	}})
	for _, c := range []struct {
		job  cluster.Job
		open bool
	}{
		{cluster.Job{Partition: "gpu", GPUs: 3}, true},
		{cluster.Job{Partition: "gpu", GPUs: 3, Node: cluster.Least{GPUs: 3}}, true},
		{cluster.Job{Partition: "gpu", GPUs: 2, Node: cluster.Least{GPUs: 2}}, false},
		{cluster.Job{Partition: "gpu", GPUs: 3, GPUType: "a100"}, false},
		{cluster.Job{Partition: "gpu", GPUs: 4, Nodes: 2, Node: cluster.Least{GPUs: 2}}, false},
		{cluster.Job{Partition: "gpu", GPUs: 6, Node: cluster.Least{GPUs: 6}}, false}, // no node has them
		{cluster.Job{Partition: "pure", GPUs: 6}, false},
	} {
		if open := m.Open(&c.job); (open != "") != c.open {
			t.Errorf("%+v: %q", c.job, open)
		}
	}
}

// On a node with several GPU types it is not known which ones a job has that names none; its CPUs count all the same within
// the limit of the partition (seen on 24.11.5).
func TestPartitionCPUsOnSeveralTypes(t *testing.T) {
	waits := cluster.Job{State: cluster.Pending, Partition: "gpu", Nodes: 1, GPUs: 1, GPUType: "v100", CPUs: 2, MemMB: 100}
	for limit, want := range map[int]bool{8: false, 10: true} {
		m := New(&cluster.Snapshot{
			Nodes: []cluster.Node{{
				Name: "m1", Usable: true, MixedTypes: true, GPUs: 4, GPUsUsed: 2, CPUs: 16, CPUsUsed: 8, MemMB: 64000, Partitions: []string{"gpu"},
				Parts: []cluster.GPUPart{{Type: "a100", Count: 2, Used: 2}, {Type: "v100", Count: 2}},
			}},
			Jobs:       []cluster.Job{{State: cluster.Running, Partition: "gpu", NodeList: "m1", Nodes: 1, GPUs: 2, CPUs: 8, MemMB: 100}, waits},
			Partitions: []cluster.Partition{{Name: "gpu", NodeCPUs: limit}},
		})
		types, _ := m.Types(&waits)
		if _, fits := m.Nodes.Fit(m.Request(&waits, types), nil); fits != want {
			t.Errorf("limit %d: %v", limit, fits)
		}
	}
}

// A job with one task of each core holds more CPUs than it says: what no job is known to hold counts within the limit of the
// partition, but for what jobs of other partitions hold (seen on 22.05.8 and 26.05.5).
func TestPartitionCPUsInUse(t *testing.T) {
	waits := cluster.Job{State: cluster.Pending, Partition: "gpu", Nodes: 1, GPUs: 1, CPUs: 1, MemMB: 100}
	for other, want := range map[int]bool{0: false, 1: true, 4: true} {
		m := New(&cluster.Snapshot{
			Nodes: []cluster.Node{{
				Name: "n1", Usable: true, GPUs: 4, GPUsUsed: 1, CPUs: 16, CPUsUsed: 8, MemMB: 64000, Partitions: []string{"gpu", "cpu"},
			}},
			Jobs: []cluster.Job{
				{State: cluster.Running, Partition: "gpu", NodeList: "n1", Nodes: 1, GPUs: 1, CPUs: 4, MemMB: 100},
				{State: cluster.Running, Partition: "cpu", NodeList: "n1", Nodes: 1, CPUs: other, MemMB: 100},
				waits,
			},
			Partitions: []cluster.Partition{{Name: "gpu", NodeCPUs: 8}},
		})
		types, _ := m.Types(&waits)
		if _, fits := m.Nodes.Fit(m.Request(&waits, types), nil); fits != want {
			t.Errorf("%d CPUs of another partition: %v", other, fits)
		}
	}
}

// A job that needs two nodes does not start in a partition of MaxNodes=1, whatever is free; where one of its partitions lets it, or
// its QOS, it does (seen on 22.05.8, 24.11.5 and 26.05.5).
func TestMostNodesOfPartitions(t *testing.T) {
	for _, c := range []struct {
		list  string
		lifts bool
		want  bool
	}{{"one", false, false}, {"one", true, true}, {"two", false, true}, {"one,two", false, true}, {"any", false, true}} {
		waits := cluster.Job{State: cluster.Pending, Partition: c.list, Nodes: 1, GPUs: 4, CPUs: 4, Lifts: cluster.Lifts{MaxNodes: c.lifts}}
		node := cluster.Node{Usable: true, GPUs: 2, CPUs: 16, MemMB: 64000, Partitions: []string{"any", "one", "two"}}
		s := &cluster.Snapshot{Jobs: []cluster.Job{waits}, Partitions: []cluster.Partition{{Name: "any"}, {Name: "one", MaxNodes: 1}, {Name: "two", MaxNodes: 2}}}
		for _, name := range []string{"n1", "n2", "n3"} {
			node.Name = name
			s.Nodes = append(s.Nodes, node)
		}
		m := New(s)
		types, _ := m.Types(&waits)
		if _, fits := m.Nodes.Fit(m.Request(&waits, types), nil); fits != c.want {
			t.Errorf("%+v: %v", c, fits)
		}
	}
}

// With 49,536 MB and what a job holds that stays, a node has room for what Slurm counts and no more:
// local disk, CPUs within the limit of a partition, whole cores.
func TestOthersCount(t *testing.T) {
	node := cluster.Node{
		Name: "n1", Usable: true, Partitions: []string{"gpu"}, GPUType: "a100", GPUs: 4, GPUsUsed: 2, CPUs: 16, CPUsUsed: 4, Threads: 2, Together: 2,
		MemMB: 49_536, MemUsedMB: 20_000, Gres: []cluster.GresCount{{Name: "lscratch", Count: 100, Used: 60}},
	}
	runs := cluster.Job{State: cluster.Running, Partition: "gpu", NodeList: "n1", GPUs: 2, CPUs: 4, MemMB: 20_000, Nodes: 1, Gres: "lscratch:60"}
	waits := cluster.Job{State: cluster.Pending, Partition: "gpu", GPUs: 2, CPUs: 4, MemMB: 20_000, Nodes: 1}
	for name, c := range map[string]struct {
		change func(s *cluster.Snapshot, j *cluster.Job)
		fits   bool
	}{
		"as it is":                {func(*cluster.Snapshot, *cluster.Job) {}, true},
		"memory":                  {func(_ *cluster.Snapshot, j *cluster.Job) { j.MemMB = 40_000 }, false},
		"disk that is there":      {func(_ *cluster.Snapshot, j *cluster.Job) { j.Gres = "lscratch:40" }, true},
		"disk that is not":        {func(_ *cluster.Snapshot, j *cluster.Job) { j.Gres = "lscratch:60" }, false},
		"a GRES that no node has": {func(_ *cluster.Snapshot, j *cluster.Job) { j.Gres = "nic:1" }, false},
		"within the partition's CPUs": {func(s *cluster.Snapshot, _ *cluster.Job) {
			s.Partitions = []cluster.Partition{{Name: "gpu", NodeCPUs: 8}}
		}, true},
		"beyond the partition's CPUs": {func(s *cluster.Snapshot, j *cluster.Job) {
			s.Partitions = []cluster.Partition{{Name: "gpu", NodeCPUs: 8}}
			j.CPUs = 6
		}, false},
		"another partition's limit": {func(s *cluster.Snapshot, j *cluster.Job) {
			s.Partitions = []cluster.Partition{{Name: "cpu", NodeCPUs: 8}}
			j.CPUs = 6
		}, true},
		"one thread of each core":      {func(_ *cluster.Snapshot, j *cluster.Job) { j.CPUs, j.OneThread = 6, true }, true},
		"one thread, too many":         {func(_ *cluster.Snapshot, j *cluster.Job) { j.CPUs, j.OneThread = 7, true }, false},
		"CPUs of each node at least":   {func(_ *cluster.Snapshot, j *cluster.Job) { j.Node.CPUs = 13 }, false},
		"an odd CPU with its core":     {func(_ *cluster.Snapshot, j *cluster.Job) { j.CPUs, j.MemMB, j.MemByCPU = 1, 16_000, true }, false},
		"an odd CPU, memory by node":   {func(_ *cluster.Snapshot, j *cluster.Job) { j.CPUs, j.MemMB = 1, 16_000 }, true},
		"a node that others may start": {func(s *cluster.Snapshot, _ *cluster.Job) { s.Nodes[0].Owned = true }, false},
	} {
		s := &cluster.Snapshot{Nodes: []cluster.Node{node}, Jobs: []cluster.Job{runs, waits}}
		j := &s.Jobs[1]
		c.change(s, j)
		m := New(s)
		types, _ := m.Types(j)
		if _, fits := m.Nodes.Fit(m.Request(j, types), nil); fits != c.fits || m.Open(j) != "" {
			t.Errorf("%s: fits: %v, not counted: %q", name, fits, m.Open(j))
		}
	}
}

// What a running job gives back when it leaves is all that it holds.
func TestOthersOfVictims(t *testing.T) {
	s := &cluster.Snapshot{
		Nodes: []cluster.Node{{Name: "n1", Usable: true, Partitions: []string{"gpu"}, GPUs: 4, GPUsUsed: 4, CPUs: 16, CPUsUsed: 16,
			Gres: []cluster.GresCount{{Name: "lscratch", Count: 100, Used: 60}}}},
		Jobs: []cluster.Job{
			{State: cluster.Running, Partition: "gpu", NodeList: "n1", GPUs: 2, CPUs: 8, Nodes: 1, Gres: "lscratch:60"},
			{State: cluster.Running, Partition: "gpu", NodeList: "n1", GPUs: 2, CPUs: 8, Nodes: 1},
		},
		Partitions: []cluster.Partition{{Name: "gpu", NodeCPUs: 16}},
	}
	m := New(s)
	free := m.Nodes.Clone()
	for i := range s.Jobs {
		free.Release(m.Shares(&s.Jobs[i]))
	}
	if free.FreeOn(0) != free.Size(0) || m.Nodes.FreeOn(0).Others != (placement.Others{40}) {
		t.Errorf("%+v of %+v, before %+v", free.FreeOn(0), free.Size(0), m.Nodes.FreeOn(0))
	}
	named := m.Named(m.Shares(&s.Jobs[0])[0].Others)
	if named["lscratch"] != 60 || named["CPUs of partition gpu"] != 8 || m.Unnamed(named) != m.Shares(&s.Jobs[0])[0].Others {
		t.Errorf("%v", named)
	}
}

// A request for what is not counted is named.
func TestOpenRequests(t *testing.T) {
	s := &cluster.Snapshot{
		Nodes:      []cluster.Node{{Name: "n1", Usable: true, Partitions: []string{"gpu"}, GPUs: 4, Gres: []cluster.GresCount{{Name: "fpga", Count: 1}, {Name: "fpga", Count: 1}}}},
		Jobs:       []cluster.Job{{Partition: "gpu", Gres: "fpga:1"}, {Partition: "gpu,by-socket"}, {Partition: "gpu", Open: "shard"}, {Partition: "gpu"}},
		Partitions: []cluster.Partition{{Name: "by-socket", Open: "MaxCPUsPerSocket"}},
	}
	m := New(s)
	for i, want := range []string{"fpga: a GRES of several types", "MaxCPUsPerSocket of partition by-socket", "shard", ""} {
		if got := m.Open(&s.Jobs[i]); got != want {
			t.Errorf("job %d: %q, want %q", i, got, want)
		}
	}
}

// Of CPUs for each GPU those of a socket count that are enough for one more, and on 24.11.5 and 26.05.5 GPUs only beside free CPUs.
// Which are in use is not known: of four free of two sockets three may be on one. Beside jobs that hold no more than the part of
// their GPUs, each free GPU has its part.
func TestCPUsOfGPUsOnSockets(t *testing.T) {
	for _, c := range []struct {
		held     [][2]int // GPUs and CPUs of each running job
		gpus     int      // of a node with 16 CPUs
		socket   int
		asks     int
		each     int // CPUs
		bySocket bool
		want     bool
	}{
		{[][2]int{{1, 4}, {1, 8}}, 8, 8, 2, 2, false, false}, {[][2]int{{1, 4}, {1, 8}}, 8, 0, 2, 2, false, true}, {[][2]int{{1, 4}, {1, 7}}, 8, 8, 2, 2, false, true},
		{[][2]int{{6, 12}}, 8, 8, 2, 2, false, true}, {[][2]int{{3, 6}, {3, 5}}, 8, 8, 2, 2, true, true}, {[][2]int{{6, 12}, {0, 1}}, 8, 8, 1, 2, false, true},
		{[][2]int{{0, 2}}, 8, 8, 7, 2, false, false}, {[][2]int{{0, 1}}, 8, 8, 7, 2, false, true},
		{nil, 4, 8, 2, 5, false, true}, {nil, 4, 8, 3, 5, false, false}, {nil, 4, 8, 4, 4, true, true}, {[][2]int{{1, 1}}, 4, 8, 2, 5, false, true}, {[][2]int{{1, 3}}, 4, 8, 2, 5, false, false},
		{[][2]int{{1, 8}}, 4, 8, 3, 1, true, false}, {[][2]int{{1, 8}}, 4, 8, 3, 1, false, true}, {[][2]int{{1, 7}}, 4, 8, 3, 1, true, true}, {[][2]int{{2, 8}}, 4, 8, 2, 4, true, true},
	} {
		waits := cluster.Job{State: cluster.Pending, Partition: "gpu", Nodes: 1, GPUs: c.asks, CPUs: c.asks * c.each, MemMB: 100, Node: cluster.Least{GPUCPUs: c.each, BySocket: c.bySocket}}
		node := cluster.Node{Name: "n1", Usable: true, GPUs: c.gpus, CPUs: 16, Socket: c.socket, MemMB: 64000, Partitions: []string{"gpu"}}
		s := &cluster.Snapshot{Jobs: []cluster.Job{waits}}
		for _, h := range c.held {
			s.Jobs = append(s.Jobs, cluster.Job{State: cluster.Running, Partition: "gpu", Nodes: 1, NodeList: "n1", GPUs: h[0], CPUs: h[1]})
			node.GPUsUsed, node.CPUsUsed = node.GPUsUsed+h[0], node.CPUsUsed+h[1]
		}
		s.Nodes = []cluster.Node{node}
		m := New(s)
		types, _ := m.Types(&waits)
		if _, fits := m.Nodes.Fit(m.Request(&waits, types), nil); fits != c.want {
			t.Errorf("%+v: %v", c, fits)
		}
	}
}
