package slurmplug

import (
	"fmt"
	"math"
	"strings"
)

// AskedBy is how a job asks that says no more than -c, --mem and, unless node is
// "", -w: what a simulated job can say.
func AskedBy(gpus, cpus int, memMB int64, node string) *Asked {
	a := &Asked{
		GPUs: gpus, CPUs: cpus, MemMB: memMB, Least: 1, Nodes: node,
		tasks: 1, perTask: cpus, node: cpus, cpus: cpus, memory: memMB, by: ByNode,
		gpus: fmt.Sprintf("TresPerNode=gres:gpu:%d", gpus), prefix: "gres:",
	}
	a.Text = a.text()
	return a
}

// ParseSize reads a value of Size for a job of AskedBy.
func ParseSize(value string) (cpus int, memMB int64, node string, err error) {
	if err := validateSize(value); err != nil {
		return 0, 0, "", err
	}
	for word := range strings.SplitSeq(value, " ") {
		key, text, _ := strings.Cut(word, "=")
		limit := uint64(math.MaxInt32)
		if key == "MinMemoryNode" {
			limit = math.MaxInt64
		}
		n := uint64(0)
		if key != "ReqNodeList" {
			if n, err = parseUint(text, limit); err != nil {
				return 0, 0, "", fmt.Errorf("%s: %s: %w", Size, key, err)
			}
		}
		switch key {
		case "CPUsPerTask", "MinCPUsNode", "NumCPUs":
			cpus = max(cpus, int(n))
		case "MinMemoryNode":
			memMB = int64(n)
		case "ReqNodeList":
			node = text
		default:
			return 0, 0, "", fmt.Errorf("%s: the job does not ask by %s", Size, key)
		}
	}
	return cpus, memMB, node, nil
}
