package nodemap

import (
	"testing"

	"slurmprio/priod/cluster"
)

func TestRequest(t *testing.T) {
	node := func(name, gpuType string, gpus int) cluster.Node {
		return cluster.Node{Name: name, GPUType: gpuType, GPUs: gpus, CPUs: 16, MemMB: 1600, Features: []string{gpuType}, Partitions: []string{"gpu"}, Usable: true}
	}
	m := New(&cluster.Snapshot{Nodes: []cluster.Node{node("n1", "a100", 8), node("n2", "t4", 4), node("n3", "t4", 4)}})
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
