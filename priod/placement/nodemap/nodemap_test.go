package nodemap

import (
	"testing"

	"slurmprio/priod/cluster"
)

func TestRequest(t *testing.T) {
	node := func(name, gpuType string, gpus int) cluster.Node {
		return cluster.Node{Name: name, GPUType: gpuType, GPUs: gpus, CPUs: 16, MemMB: 1600, Features: []string{gpuType}, Partitions: []string{"gpu"}, Usable: true}
	}
	mixed := node("n4", "t4", 16)
	mixed.MixedTypes, mixed.Features = true, []string{"t4", "mixed"}
	m := New(&cluster.Snapshot{Nodes: []cluster.Node{node("n1", "a100", 8), node("n2", "t4", 4), node("n3", "t4", 4), mixed}})
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
