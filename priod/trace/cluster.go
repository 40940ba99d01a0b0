package trace

import "slices"

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	Count      int
	GPUType    string
	GPUs, CPUs int // of one node
	MemMB      int64
	Features   []string
	Switch     string
}

// Cluster is the hardware that a trace runs on.
type Cluster struct {
	Nodes []NodeGroup
}

// Types are the GPU types in the order of their first appearance.
func (c Cluster) Types() []string {
	var types []string
	for _, n := range c.Nodes {
		if n.GPUs > 0 && !slices.Contains(types, n.GPUType) {
			types = append(types, n.GPUType)
		}
	}
	return types
}

// GPUs counts the GPUs of a type.
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
