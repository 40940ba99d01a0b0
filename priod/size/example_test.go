package size_test

import (
	"fmt"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
)

// On a node of 4 GPUs and 24 CPUs the share of a GPU is 6 CPUs. Two language models need 2,
// and two image models that could use 12 get what those leave.
func ExamplePacker_Pack() {
	curve := func(demand float64, cpus, speed []float64) *workload.Curve {
		c := &workload.Curve{IterationS: 1, DemandCPUs: demand, DemandMemMB: 32_000, CPUs: cpus, MemMB: []int64{32_000}}
		for _, v := range speed {
			c.Speed = append(c.Speed, []float64{v})
		}
		return c
	}
	language := curve(2, []float64{1, 2}, []float64{0.8, 1})
	image := curve(12, []float64{2, 4, 6, 8, 10, 12}, []float64{0.2, 0.4, 0.6, 0.75, 0.9, 1})
	job := func(c *workload.Curve) size.Job {
		return size.Job{GPUs: 1, On: []size.Sensitivity{{Speed: 1, Curve: c}}}
	}
	jobs := []size.Job{job(language), job(image), job(image), job(language)}
	node := size.Amount{GPUs: 4, CPUs: 24, MemMB: 256_000}
	nodes := []size.Node{{Total: node, Free: node}}

	for _, g := range size.NewPacker(size.Rule{}).Pack(jobs, nodes) {
		fmt.Printf("job %d: %.0f CPUs, speed %.2f\n", g.Job, g.Parts[0].CPUs, g.Speed)
	}
	// Output:
	// job 0: 2 CPUs, speed 1.00
	// job 1: 10 CPUs, speed 0.90
	// job 2: 10 CPUs, speed 0.90
	// job 3: 2 CPUs, speed 1.00
}
