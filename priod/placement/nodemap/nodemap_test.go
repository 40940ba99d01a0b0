package nodemap

import (
	"fmt"
	"slices"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

func TestRequest(t *testing.T) {
	node := func(name, gpuType string, gpus int) cluster.Node {
		return cluster.Node{Name: name, GPUType: gpuType, GPUs: gpus, CPUs: 16, MemMB: 1600, Features: []string{gpuType}, Partitions: []string{"gpu"}, Usable: true}
	}
	mixed := node("n4", "t4", 16)
	mixed.MixedTypes, mixed.Features = true, []string{"t4", "mixed"}
	used := node("n5", "v100", 4)
	used.CPUsUsed = 1
	m := New(&cluster.Snapshot{Nodes: []cluster.Node{node("n1", "a100", 8), node("n2", "t4", 4), node("n3", "t4", 4), mixed, used}})
	for _, c := range []struct {
		what     string
		job      cluster.Job
		nodes    int32
		anywhere bool
	}{
		{"fits one node", cluster.Job{Nodes: 1, GPUs: 4}, 1, true},
		{"fits a node of one of its types", cluster.Job{Nodes: 1, GPUs: 8}, 1, true},
		{"larger than a node of its type", cluster.Job{Nodes: 1, GPUs: 8, Features: "t4"}, 0, true},
		{"asks for two nodes", cluster.Job{Nodes: 2, GPUs: 4}, 2, true},
		{"two nodes of a type that has one", cluster.Job{Nodes: 2, GPUs: 4, Features: "a100"}, 2, false},
		{"more CPUs than a node has", cluster.Job{Nodes: 1, GPUs: 4, CPUs: 24, Features: "t4"}, 0, true},
		{"more GPUs of each node than its type has", cluster.Job{Nodes: 1, GPUs: 5, Features: "t4", Node: cluster.Least{GPUs: 5}}, 0, false},
		{"the same, where it may go elsewhere", cluster.Job{Nodes: 1, GPUs: 5, Node: cluster.Least{GPUs: 5}}, 1, true},
		{"more memory of each node than there is", cluster.Job{Nodes: 1, GPUs: 5, Node: cluster.Least{MemMB: 1601}}, 0, false},
		{"a node of several types", cluster.Job{Nodes: 1, GPUs: 1, Features: "mixed"}, 0, false},
		{"larger than all", cluster.Job{Nodes: 1, GPUs: 32}, 0, false},
		{"whole nodes, beside another job", cluster.Job{Nodes: 1, GPUs: 1, Features: "v100", Whole: true}, 1, false},
		{"a part of that node", cluster.Job{Nodes: 1, GPUs: 1, Features: "v100"}, 1, true},
		{"whole nodes, and there are some", cluster.Job{Nodes: 1, GPUs: 1, Whole: true}, 1, true},
	} {
		c.job.Partition = "gpu"
		types, ok := m.Types(&c.job)
		if !ok {
			t.Fatalf("%s: its constraint is not understood", c.what)
		}
		r := m.Request(&c.job, types)
		if _, fits := m.Nodes.Fit(r, nil); r.Nodes != c.nodes || fits != c.anywhere {
			t.Errorf("%s: %d nodes, fits %v; want %d, %v", c.what, r.Nodes, fits, c.nodes, c.anywhere)
		}
	}
}

// A job of several nodes lies on nodes that differ in features and partitions, if they have GPUs of one type and are in
// one partition of the job's.
func TestGangsMixKinds(t *testing.T) {
	node := func(name, gpuType, feature string, partitions ...string) cluster.Node {
		return cluster.Node{Name: name, GPUType: gpuType, GPUs: 4, CPUs: 16, MemMB: 1600, Features: []string{gpuType, feature}, Partitions: partitions, Usable: true}
	}
	m := New(&cluster.Snapshot{Nodes: []cluster.Node{
		node("a1", "a100", "rack1", "p1", "all"), node("a2", "a100", "rack2", "p2", "all"), node("v1", "v100", "rack1", "p1", "all"),
	}})
	for _, c := range []struct {
		partition, features string
		gpus                int
		fits                bool
	}{
		{"all", "", 8, true}, {"all", "a100", 8, true}, {"all", "v100", 8, false}, {"all", "rack1", 8, false}, {"all", "rack1|rack2", 8, true},
		{"p1", "", 8, false}, {"p1,p2", "", 8, false}, {"p1,all", "", 8, true}, {"all", "", 9, false}, {"all", "", 5, true},
	} {
		for _, nodes := range []int{1, 2} {
			j := cluster.Job{Nodes: nodes, GPUs: c.gpus, Partition: c.partition, Features: c.features}
			types, _ := m.Types(&j)
			r := m.Request(&j, types)
			shares, fits := m.Nodes.Fit(r, nil)
			if fits != c.fits || m.Nodes.Watch(r).MayFit() != fits {
				t.Errorf("%+v on %d nodes: fits %v, %v", c, nodes, fits, shares)
			}
		}
	}
	j := cluster.Job{Partition: "p1,p2,all"}
	if types, _ := m.Types(&j); !slices.Equal(m.Together(&j, types), []placement.Types{0b100, 0b011}) {
		t.Errorf("together: %b", m.Together(&j, types))
	}
	if j.Partition = "p1,p2"; !slices.Equal(m.Together(&j, 0b111), []placement.Types{0b001, 0b100, 0b010}) {
		t.Errorf("together: %b", m.Together(&j, 0b111))
	}
}

// Nodes without GPUs may be of more kinds than can be told apart, and stand before
// those with GPUs.
func TestKindsOfGPUsComeFirst(t *testing.T) {
	var s cluster.Snapshot
	for i := range 2 * placement.MaxTypes {
		s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprint("c", i), CPUs: 16, MemMB: 1000, Usable: true, Partitions: []string{"gpu", fmt.Sprint("rack", i)}})
	}
	s.Nodes = append(s.Nodes, cluster.Node{Name: "g1", GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 1000, Usable: true, Partitions: []string{"gpu"}})
	j := cluster.Job{GPUs: 2, CPUs: 2, Nodes: 1, Partition: "gpu"}
	for i := range s.Nodes { // each rack is a kind
		s.Jobs = append(s.Jobs, cluster.Job{Partition: fmt.Sprint("gpu,rack", i)})
	}
	m := New(&s)
	types, _ := m.Types(&j)
	shares, ok := m.Nodes.Fit(m.Request(&j, types), nil)
	if !ok || m.Names[shares[0].Node] != "g1" {
		t.Errorf("%+v %v", shares, ok)
	}
	if len(m.Kinds) != placement.MaxTypes || len(m.Names) != placement.MaxTypes {
		t.Errorf("%d kinds, %d nodes", len(m.Kinds), len(m.Names))
	}
}

// Partitions that no job names make no kinds where there are too many, as on a cluster with a partition for each owner; those that a
// job names do, and nothing is placed by one that is not told apart.
func TestPartitionsThatNoJobNames(t *testing.T) {
	var s cluster.Snapshot
	const nodes = 3 * placement.MaxTypes
	for i := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{
			Name: fmt.Sprint("g", i), GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 1000, Usable: true, Partitions: []string{"all", fmt.Sprint("owner", i)},
		})
	}
	s.Jobs = []cluster.Job{{Partition: "all"}, {Partition: "owner9,owner7"}}
	m := New(&s, "owner11")
	if len(m.Kinds) != 4 || len(m.Names) != nodes || len(m.Out) != 0 {
		t.Fatalf("%d kinds, %d nodes, out %v", len(m.Kinds), len(m.Names), m.Out)
	}
	for partitions, want := range map[string]string{"all": "g0", "owner7": "g7", "owner9,owner7": "g7", "owner11": "g11", "owner8": "", "owner8,all": "g0", "none": ""} {
		j := cluster.Job{GPUs: 4, CPUs: 4, Nodes: 1, Partition: partitions}
		types, understood := m.Types(&j)
		got := ""
		if shares, ok := m.Nodes.Fit(m.Request(&j, types), nil); ok {
			got = m.Names[shares[0].Node]
		}
		if got != want || understood == (partitions == "owner8") {
			t.Errorf("%s: on %q, understood %v; want %q", partitions, got, understood, want)
		}
	}
}

// A job finds room on nodes that are kept for TE jobs only where it may start there.
func TestKeptNodesAreForTEJobs(t *testing.T) {
	node := cluster.Node{GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 1000, Usable: true, Partitions: []string{"gpu"}}
	s := cluster.Snapshot{Nodes: []cluster.Node{node, node}}
	s.Nodes[0].Name, s.Nodes[0].State, s.Nodes[1].Name, s.Nodes[1].GPUsUsed = "n0", cluster.StateHeadroom, "n1", 4
	m := New(&s)
	for _, may := range []bool{false, true} {
		j := cluster.Job{GPUs: 2, CPUs: 2, Nodes: 1, Partition: "gpu"}
		if may {
			j.Admitted = true
		}
		types, _ := m.Types(&j)
		if _, fits := m.Nodes.Fit(m.Request(&j, types), nil); fits != may {
			t.Errorf("it may start on kept nodes: %t; finds room: %t", may, fits)
		}
	}
}

// Features that no job names make no kinds where there are too many; those that a job
// names do, and nothing is placed by one that is not told apart.
func TestFeaturesThatNoJobNames(t *testing.T) {
	var s cluster.Snapshot
	const nodes = 3 * placement.MaxTypes
	for i := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{
			Name: fmt.Sprint("g", i), GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 1000, Usable: true,
			Features: []string{"a100", fmt.Sprint("rack", i), []string{"ib", "eth"}[i%2]}, Partitions: []string{"gpu"},
		})
	}
	s.Jobs = []cluster.Job{{Features: "(ib|rack7)&a100"}, {Prefer: "rack9"}}
	m := New(&s, "rack11")
	if len(m.Kinds) != 5 || len(m.Names) != nodes || len(m.Out) != 0 { // ib, eth, and three racks
		t.Fatalf("%d kinds, %d nodes, out %v", len(m.Kinds), len(m.Names), m.Out)
	}
	for constraint, want := range map[string]string{"ib": "g0", "rack7": "g7", "rack9": "g9", "rack11": "g11", "eth": "", "ib|rack8": "", "none": ""} {
		j := cluster.Job{GPUs: 4, CPUs: 4, Nodes: 1, Partition: "gpu", Features: constraint}
		types, understood := m.Types(&j)
		got := ""
		if shares, ok := m.Nodes.Fit(m.Request(&j, types), nil); ok {
			got = m.Names[shares[0].Node]
		}
		if got != want || understood == (constraint == "eth" || constraint == "ib|rack8") {
			t.Errorf("%s: on %q, understood %v; want %q", constraint, got, understood, want)
		}
	}
	for i := range s.Nodes {
		s.Jobs = append(s.Jobs, cluster.Job{Features: fmt.Sprint("rack", i)})
	}
	if m := New(&s); len(m.Kinds) != placement.MaxTypes || len(m.Out) != nodes-placement.MaxTypes || m.Out[0] != fmt.Sprint("g", placement.MaxTypes) {
		t.Errorf("%d kinds, out %v", len(m.Kinds), m.Out)
	}
}

// A node with two GPU types is a place for jobs of each; they share its CPUs and memory.
func TestTwoTypesOnANode(t *testing.T) {
	node := func(name string, used ...int) cluster.Node {
		return cluster.Node{
			Name: name, MixedTypes: true, GPUType: "v100", GPUs: 8, GPUsUsed: used[0] + used[1], CPUs: 16, CPUsUsed: used[2], MemMB: 1600, Partitions: []string{"gpu"}, Usable: true,
			Parts: []cluster.GPUPart{{Type: "a100", Count: 4, Used: used[0]}, {Type: "v100", Count: 4, Used: used[1]}},
		}
	}
	unread := node("n3", 0, 0, 0)
	unread.Parts = nil
	m := New(&cluster.Snapshot{Nodes: []cluster.Node{node("n1", 4, 1, 10), node("n2", 2, 4, 14), unread}})
	fit := func(nodes *placement.Nodes, gpuType string, gpus, cpus int) string {
		j := cluster.Job{Nodes: 1, GPUType: gpuType, GPUs: gpus, CPUs: cpus, MemMB: 100, Partition: "gpu"}
		types, _ := m.Types(&j)
		shares, ok := nodes.Fit(m.Request(&j, types), nil)
		if !ok {
			return ""
		}
		return m.Names[shares[0].Node] + " " + m.PartOf(shares[0].Node)
	}
	now := func(gpuType string, gpus, cpus int) string { return fit(m.Nodes, gpuType, gpus, cpus) }
	if got := []string{now("a100", 2, 2), now("a100", 3, 2), now("v100", 3, 6), now("v100", 1, 7), now("", 2, 1), now("", 8, 8)}; !slices.Equal(got, []string{"n2 a100", "", "n1 v100", "", "n2 a100", ""}) {
		t.Errorf("now: %q", got)
	}
	later := m.Nodes.Clone()
	leaves := cluster.Job{NodeList: "n1", GPUType: "a100", GPUs: 4, CPUs: 8, MemMB: 100}
	shares := m.Shares(&leaves)
	later.Release(shares)
	if got := []string{fit(later, "a100", 4, 14), fit(later, "v100", 3, 14), fit(later, "v100", 4, 1)}; !slices.Equal(got, []string{"n1 a100", "n1 v100", ""}) {
		t.Errorf("after the job on A100s: %q", got)
	}
	later.Take(shares)
	for at := range int32(later.Len()) {
		if was, is := m.Nodes.FreeOn(at), later.FreeOn(at); was != is {
			t.Errorf("a job that left and came back: free on %s %v, before %v", m.Names[at], is, was)
		}
	}
	noGPUs := m.Shares(&cluster.Job{NodeList: "n1", CPUs: 2, MemMB: 10})
	later.Release(noGPUs)
	if got := []string{fit(later, "v100", 3, 8), fit(later, "v100", 3, 9)}; len(noGPUs) != 1 || !slices.Equal(got, []string{"n1 v100", ""}) {
		t.Errorf("after a job without GPUs, %v: %q", noGPUs, got)
	}
	if at, known := m.At("n2", "v100"); !known || m.Names[at] != "n2" || m.PartOf(at) != "v100" {
		t.Errorf("n2's V100s are at %d, %v", at, known)
	}
	for _, gpuType := range []string{"", "k80"} {
		if unknown := m.Shares(&cluster.Job{NodeList: "n1", GPUType: gpuType, GPUs: 1}); unknown != nil {
			t.Errorf("a job on %q GPUs of n1 takes %v", gpuType, unknown)
		}
	}
	if types := m.OneType(); types.Has(0) || types.Has(1) {
		t.Errorf("kinds with one type: %b", types)
	}
}
