package virtual

import (
	"fmt"
	"testing"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// A job takes as long as on the slowest of its nodes, and the queue knows it.
func TestSlowNodes(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{
		{Count: 1, GPUType: "gpu", GPUs: 2, Slowdown: map[string]float64{trace.AnyWorkload: 1.5, "bert": 3}},
		{Count: 2, GPUType: "gpu", GPUs: 2},
	}}
	jobs := []trace.Job{
		{GPUs: 6, Duration: 100, Workload: "bert"}, // 0 to 300
		{GPUs: 6, Duration: 100, Workload: "lm"},   // to 450
		{GPUs: 2, Duration: 100},                   // one on each node
		{GPUs: 2, Duration: 100},
		{GPUs: 2, Duration: 100},
	}
	for i := range jobs {
		jobs[i].ID, jobs[i].User = fmt.Sprint(i), "ann"
	}
	for _, order := range []Order{FIFO, Priod} {
		opt := Options{Order: order, Placement: placement.Packed, Backfill: EASY}
		if order == Priod {
			opt.Daemon, opt.Multifactor = daemonOf(t, "", nil), FIFOWeights
		}
		r := run(t, c, jobs, opt)
		ran := map[string]float64{}
		for _, o := range r.Outcomes {
			ran[o.Nodes] += o.Ran
		}
		want := map[string]float64{"n0,n1,n2": 450, "n0": 150, "n1": 100, "n2": 100}
		if len(ran) != len(want) {
			t.Errorf("%s: %v", order, ran)
		}
		for nodes, s := range want {
			if ran[nodes] != s {
				t.Errorf("%s: on %s %v s, want %v", order, nodes, ran[nodes], s)
			}
		}
	}
}
