package trace

import "slices"

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	Count      int
	GPUType    string
	GPUs, CPUs int   // of one node; CPUs 0: not counted
	MemMB      int64 // of one node; 0: not counted
	Features   []string
	Switch     string
}

// Cluster is what a trace runs on.
type Cluster struct {
	Nodes []NodeGroup
}

// Types lists the GPU types in the order of their first appearance.
func (c Cluster) Types() []string {
	var types []string
	for _, n := range c.Nodes {
		if n.GPUs > 0 && !slices.Contains(types, n.GPUType) {
			types = append(types, n.GPUType)
		}
	}
	return types
}

// GPUs counts the GPUs of one type.
func (c Cluster) GPUs(gpuType string) int {
	total := 0
	for _, n := range c.Nodes {
		if n.GPUType == gpuType {
			total += n.Count * n.GPUs
		}
	}
	return total
}

// TotalGPUs counts the GPUs of all types.
func (c Cluster) TotalGPUs() int {
	total := 0
	for _, n := range c.Nodes {
		total += n.Count * n.GPUs
	}
	return total
}
