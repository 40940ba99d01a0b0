package locality

import (
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// A job delays those that wait for the GPUs that it reaches, not the queue of another partition.
func TestDelayedAreThoseThatReachTheSame(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []cluster.Node{{GPUs: 8, Usable: true, Partitions: []string{"a"}}, {GPUs: 8, Partitions: []string{"a"}}, {GPUs: 4, Usable: true, Partitions: []string{"b"}}}}
	p := &plan.Plan{}
	for i := range 30 {
		s.Jobs = append(s.Jobs, cluster.Job{GPUs: 4, Partition: "b"})
		if i < 5 {
			s.Jobs[i].Partition = "a"
		}
		p.Queue = append(p.Queue, plan.Queued{Job: i})
	}
	w := &work{c: &plan.Cycle{Snapshot: s, Plan: p}}
	if got, want := w.delayed(&s.Jobs[0]), 4.*4/8; got != want { // four others, and half of the usable GPUs
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := w.delayed(&s.Jobs[9]), 24.*4/4; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
