package virtual

import (
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// Slurm takes BE jobs out of its plan, the youngest first, until the trial has a place: both on the
// second node, and not the one on the first, which alone would do; the youngest of all is of another
// type, and the smallest, on the third node, holds no part of the place.
func TestSlurmQOS(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a", GPUs: 4, CPUs: 16, MemMB: 64000}, {Count: 1, GPUType: "a", GPUs: 3, CPUs: 4, MemMB: 64000}, {Count: 1, GPUType: "b", GPUs: 4, CPUs: 16, MemMB: 64000}}}
	be := func(id string, submit float64, gpus, cpus int, gpuType string) trace.Job {
		return trace.Job{ID: id, Submit: submit, GPUs: gpus, CPUs: cpus, GPUType: gpuType, Duration: 10000, Class: cluster.BE, Grace: 30, Limit: 20000}
	}
	jobs := []trace.Job{
		be("first", 0, 4, 8, "a"), be("second", 1, 2, 8, "a"), be("second too", 2, 2, 8, "a"), be("third", 3, 3, 2, "a"), be("other type", 4, 4, 8, "b"),
		{ID: "trial", Submit: 100, GPUs: 4, GPUType: "a", Nodes: 1, Duration: 60, Class: cluster.TE, Limit: 600},
	}
	r, err := Run(t.Context(), c, trace.Each(jobs), Options{
		Order: FIFO, Backfill: EASY, Placement: placement.Packed, TEFirst: true, RequeueDelay: 121, Evict: SlurmQOS,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int32{"second": 1, "second too": 1}
	for i := range r.Jobs {
		if o := &r.Outcomes[i]; o.Preemptions != want[r.Jobs[i].ID] {
			t.Errorf("%s: evicted %d times", r.Jobs[i].ID, o.Preemptions)
		} else if r.Jobs[i].ID == "trial" && o.Start != 130 {
			t.Errorf("the trial started at %v, want at the end of the grace, 130", o.Start)
		}
	}
}
