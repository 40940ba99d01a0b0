package steer_test

import (
	"fmt"
	"time"

	"slurmprio/priod/placement"
	"slurmprio/priod/steer"
)

// Two nodes of one GPU each, an A100 on which another job runs for 10 more minutes, and
// a free V100. The allocation gives all three jobs time on both types. The first two
// are much slower on the V100, and wait; to the third it makes little difference, so it
// takes the V100, which is free from minute 40 on for whoever comes then.
func ExampleDecide() {
	types := []string{"a100", "v100"}
	oneGPU := placement.Amount{GPUs: 1, CPUs: 8, MemMB: 64_000}
	nodes := placement.New(placement.Packed, []placement.Node{{Type: 0, Amount: oneGPU}, {Type: 1, Amount: oneGPU}})
	running := steer.Running{Shares: []placement.Share{{Node: 0, Amount: oneGPU}}, End: 10 * 60}
	nodes.Take(running.Shares)

	job := func(a100, v100 float64) steer.Job {
		return steer.Job{
			Request: placement.Request{Types: 0b11, Amount: placement.Amount{GPUs: 1, CPUs: 4, MemMB: 16_000}},
			Consent: true,
			Run:     []float64{a100 * 60, v100 * 60},
			Time:    []float64{0.5, 0.5},
			Steered: steer.Open,
		}
	}
	snapshot := &steer.Snapshot{
		Nodes: nodes, Types: len(types), Running: []steer.Running{running},
		Jobs: []steer.Job{job(20, 300), job(30, 400), job(25, 40)},
	}
	rule := steer.Defaults
	rule.Wait = 1 // each job takes the type on which it ends first
	for i, v := range steer.Decide(snapshot, rule) {
		fmt.Printf("job %d %s\n", i+1, v.Choice(types, time.Date(2026, 1, 1, 12, 0, 0, 0, time.Local)).Words())
	}
	// Output:
	// job 1 waits for a100, where it ends 5h10m sooner than on v100
	// job 2 waits for a100, where it ends 6h20m sooner than on v100
	// job 3 v100 is allocated to it and free
}
