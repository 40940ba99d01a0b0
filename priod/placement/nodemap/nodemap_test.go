package nodemap

import (
	"fmt"
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

// Nodes without GPUs may be of more kinds than can be told apart, and stand before
// those with GPUs.
func TestKindsOfGPUsComeFirst(t *testing.T) {
	var s cluster.Snapshot
	for i := range 2 * placement.MaxTypes {
		s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprint("c", i), CPUs: 16, MemMB: 1000, Usable: true, Partitions: []string{"gpu", fmt.Sprint("rack", i)}})
	}
	s.Nodes = append(s.Nodes, cluster.Node{Name: "g1", GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 1000, Usable: true, Partitions: []string{"gpu"}})
	m := New(&s)
	j := cluster.Job{GPUs: 2, CPUs: 2, Nodes: 1, Partition: "gpu"}
	types, _ := m.Types(&j)
	shares, ok := m.Nodes.Fit(m.Request(&j, types), nil)
	if !ok || m.Names[shares[0].Node] != "g1" {
		t.Errorf("%+v %v", shares, ok)
	}
	if len(m.Kinds) != placement.MaxTypes || len(m.Names) != placement.MaxTypes {
		t.Errorf("%d kinds, %d nodes", len(m.Kinds), len(m.Names))
	}
}

// Features that no job names make no kinds where there are too many; those that a job
// names do, and nothing is placed by one that is not told apart.
func TestFeaturesThatNobodyNames(t *testing.T) {
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
