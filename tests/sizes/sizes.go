// Package sizes draws clusters and jobs for the tests of what hands out CPUs and memory: package size, and the papers'
// mechanisms and bounds. sizes.go makes them, check.go has what holds of any way to pack.
package sizes

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
)

// Server is Synergy's: 8 GPUs, 24 CPUs, 500 GB.
var Server = size.Amount{GPUs: 8, CPUs: 24, MemMB: 512000}

// Servers are n of them, free.
func Servers(n int) []size.Node {
	nodes := make([]size.Node, n)
	for i := range nodes {
		nodes[i] = size.Node{Total: Server, Free: Server}
	}
	return nodes
}

// Curves are those of the published models, as workloads.toml ships them.
func Curves(t testing.TB) func(model string) *workload.Curve {
	table, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*workload.Curve{}
	return func(model string) *workload.Curve {
		if all[model] == nil {
			id, ok := table.Lookup(model)
			if !ok {
				t.Fatalf("no workload %s", model)
			}
			c := table.Get(id).Curves["v100"]
			all[model] = &c
		}
		return all[model]
	}
}

// Models are ten of the published ones.
var Models = []string{"alexnet", "gnmt", "res18", "lstm", "m5", "transformer", "shufflenet", "res50", "deepspeech", "mobilenet"}

// Job is one for a cluster of one GPU type.
func Job(c *workload.Curve, gpus int) size.Job {
	return size.Job{GPUs: gpus, On: []size.Sensitivity{{Speed: 1, Curve: c}}}
}

// Words are CPUs and relative speed of each job, "-" for those not granted.
func Words(jobs int, grants []size.Grant) []string {
	words := make([]string, jobs)
	for i := range words {
		words[i] = "-"
	}
	for _, g := range grants {
		cpus := 0.0
		for _, p := range g.Parts {
			cpus += p.CPUs
		}
		words[g.Job] = fmt.Sprintf("%gx%g", cpus, g.Speed)
	}
	return words
}

// Unmeetable are curves that begin beyond what a server has, or fall, or say two things.
var Unmeetable = map[string]*workload.Curve{
	"begins above the node":        {IterationS: 1, DemandCPUs: 128, DemandMemMB: 1 << 40, CPUs: []float64{64, 128}, MemMB: []int64{1 << 39, 1 << 40}, Speed: [][]float64{{1, 2}, {2, 3}}},
	"falls with CPUs":              {IterationS: 1, DemandCPUs: 6, DemandMemMB: 64000, CPUs: []float64{1, 3, 6}, MemMB: []int64{64000}, Speed: [][]float64{{2}, {1}, {0.5}}},
	"falls with memory":            {IterationS: 1, DemandCPUs: 6, DemandMemMB: 96000, CPUs: []float64{6}, MemMB: []int64{64000, 96000}, Speed: [][]float64{{2, 1}}},
	"demands what makes it slower": {IterationS: 1, DemandCPUs: 12, DemandMemMB: 64000, CPUs: []float64{3, 6, 12}, MemMB: []int64{64000}, Speed: [][]float64{{1}, {3}, {0.1}}},
}

// Situation is a cluster of at most two GPU types and kinds of nodes, and jobs.
type Situation struct {
	Jobs  []size.Job
	Nodes []size.Node
}

// Draw makes any; busy: other jobs hold GPUs with their share.
func Draw(r *rapid.T, busy bool) Situation {
	types := rapid.IntRange(1, 2).Draw(r, "types")
	var s Situation
	for range rapid.IntRange(1, 6).Draw(r, "nodes") {
		gpus := rapid.IntRange(1, 8).Draw(r, "gpus")
		total := size.Amount{
			GPUs: gpus, CPUs: float64(gpus * rapid.IntRange(1, 8).Draw(r, "cpus for each GPU")), MemMB: float64(gpus) * float64(rapid.IntRange(1, 8).Draw(r, "mem for each GPU")) * 16000,
		}
		free := total
		if busy {
			free.GPUs = rapid.IntRange(0, gpus).Draw(r, "free")
			free.CPUs *= float64(free.GPUs) / float64(gpus)
			free.MemMB *= float64(free.GPUs) / float64(gpus)
		}
		s.Nodes = append(s.Nodes, size.Node{Type: rapid.IntRange(0, types-1).Draw(r, "type"), Total: total, Free: free})
	}
	var curves []*workload.Curve
	for range 4 {
		curves = append(curves, DrawCurve(r))
	}
	for range rapid.IntRange(0, 40).Draw(r, "jobs") {
		j := size.Job{GPUs: rapid.SampledFrom([]int{1, 1, 1, 1, 2, 4, 8, 16}).Draw(r, "job's gpus")}
		for range types {
			on := size.Sensitivity{Speed: rapid.SampledFrom([]float64{0, 1, 2}).Draw(r, "speed")}
			if rapid.IntRange(0, 9).Draw(r, "known") > 0 {
				on.Curve = rapid.SampledFrom(curves).Draw(r, "curve")
			}
			j.On = append(j.On, on)
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// DrawCurve makes any curve that workloads.toml takes, falling ones too.
func DrawCurve(r *rapid.T) *workload.Curve {
	c := &workload.Curve{IterationS: 1, CPUs: []float64{1, 2, 3, 6, 12}, MemMB: []int64{8000, 32000, 64000}}
	for range c.CPUs {
		c.Speed = append(c.Speed, rapid.SliceOfN(rapid.Float64Range(0.1, 4), len(c.MemMB), len(c.MemMB)).Draw(r, "row"))
	}
	if rapid.IntRange(0, 3).Draw(r, "rises") > 0 {
		for i := range c.Speed {
			slices.Sort(c.Speed[i])
			for k := range c.Speed[i] {
				if i > 0 {
					c.Speed[i][k] = max(c.Speed[i][k], c.Speed[i-1][k])
				}
			}
		}
	}
	c.DemandCPUs = rapid.Float64Range(0.5, 16).Draw(r, "demand")
	c.DemandMemMB = rapid.Int64Range(1000, 100000).Draw(r, "demand of memory")
	return c
}
