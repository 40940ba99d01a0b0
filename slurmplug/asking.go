package slurmplug

import "fmt"

// AskedBy is how a job asks that says no more than -c, --mem and, unless node is
// "", -w: what a simulated job can say.
func AskedBy(gpus, cpus int, memMB int64, node string) *Asked {
	a := &Asked{
		GPUs: gpus, CPUs: cpus, MemMB: memMB, Least: 1, Nodes: node,
		tasks: 1, perTask: cpus, node: cpus, cpus: cpus, memory: memMB, by: ByNode,
		gpus: fmt.Sprintf("TresPerNode=gres:gpu:%d", gpus), prefix: "gres:",
	}
	a.Holds = a.size().Value()
	return a
}
