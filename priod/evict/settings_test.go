package evict

import (
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// The same parts on a lab of 32 GPUs and on 80,000; a number takes the place of a part.
func TestLimitsAsParts(t *testing.T) {
	on := func(nodes, gpus int, numbers preemption.Limits) preemption.Limits {
		s := &cluster.Snapshot{}
		for range nodes {
			s.Nodes = append(s.Nodes, cluster.Node{GPUs: gpus})
		}
		s.Nodes = append(s.Nodes, cluster.Node{GPUs: 16, Partitions: []string{"other"}}) // no ranked job can run there
		for i := range nodes {
			s.Nodes[i].Partitions = []string{"gpu"}
		}
		set := Settings{Ranking: plan.Classes{Partitions: []string{"gpu"}}, Policy: preemption.Settings{Limits: numbers}, GraceShare: 0.1, LossShare: 0.5, UserLossShare: 0.25}
		return set.limits(s)
	}
	for name, c := range map[string]struct{ got, want preemption.Limits }{
		"a lab: one node":       {on(4, 8, preemption.Limits{}), preemption.Limits{GraceGPUs: 8, GPUHoursPerDay: 384, UserGPUMinutesPerDay: 11520}},
		"a large cluster":       {on(10000, 8, preemption.Limits{}), preemption.Limits{GraceGPUs: 8000, GPUHoursPerDay: 960000, UserGPUMinutesPerDay: 28800000}},
		"numbers that are less": {on(4, 8, preemption.Limits{MaxPerHour: 3, GPUHoursPerDay: 100, UserGPUMinutesPerDay: 60}), preemption.Limits{MaxPerHour: 3, GraceGPUs: 8, GPUHoursPerDay: 100, UserGPUMinutesPerDay: 60}},
		"numbers that are more": {on(4, 8, preemption.Limits{GPUHoursPerDay: 1e4, UserGPUMinutesPerDay: 1e6}), preemption.Limits{GraceGPUs: 8, GPUHoursPerDay: 1e4, UserGPUMinutesPerDay: 1e6}},
		"no GPUs":               {on(2, 0, preemption.Limits{}), preemption.Limits{}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
}
