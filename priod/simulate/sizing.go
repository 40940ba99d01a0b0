package simulate

import (
	"slices"

	"slurmprio/priod/trace"
)

// sized tells whether it is known how CPUs and memory make jobs faster, and how
// much of them nodes have.
func (in *Input) sized() bool {
	lacks := func(g trace.NodeGroup) bool { return g.GPUs > 0 && (g.CPUs <= 0 || g.MemMB <= 0) }
	return in.Curve != nil && !slices.ContainsFunc(in.Cluster.Nodes, lacks)
}

// speedup is how many times as fast a job is as with the share of its GPUs.
func (in *Input) speedup(job *trace.Job, gpuType string, cpus, memMB float64) float64 {
	if c := in.Curve(job, gpuType); c != nil {
		return c.Relative(cpus, memMB)
	}
	return 1
}
