package simulate

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/store"
	"slurmprio/priod/trace"
)

// By hand: a guest holds both nodes. The owner's job of one node is entitled in the first
// cycle after it came, the guest leaves with 8 GPUs for 4, and the job starts after the guest's grace.
func TestReturns(t *testing.T) {
	c, err := config.Load("/dev/null", "profile=balanced", "locality.enabled=false", "sizing.enabled=false", "steering.enabled=false", "preemption.headroom=false")
	if err != nil {
		t.Fatal(err)
	}
	c.Shares = []config.Share{{Account: "owner", GPUs: 8}}
	in := Input{
		Cluster: trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a", GPUs: 4, CPUs: 8, MemMB: 8000}}}, Config: c,
		Jobs: trace.Each([]trace.Job{
			{ID: "guest", Account: "guest", GPUs: 8, Duration: 3600, Limit: 7200, Class: cluster.BE, Grace: 30},
			{ID: "own", Account: "owner", Submit: 1000, GPUs: 4, Duration: 600, Limit: 1200, Class: cluster.BE, Untagged: true},
		}),
	}
	spec := Spec{Order: "priod", Backfill: "easy"}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	in.Record = &Recording{Dir: t.TempDir()}
	r, err := Run(t.Context(), spec, in)
	if err != nil {
		t.Fatal(err)
	}
	f := r.Figures.Returns
	if f == nil || f.Jobs != 1 || f.AskedGPUs != 4 || f.EvictedGPUs != 8 || f.Worst < 30 || f.Worst > 60 || len(r.Entitled) != 1 {
		t.Errorf("%+v, entitled %v, outcomes %+v", f, r.Entitled, r.Outcomes)
	}
	reader, err := store.OpenReader(t.Context(), in.Record.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if hours, err := reader.ShareHours(t.Context(), time.Time{}); err != nil || len(hours) == 0 || hours[0].Account != "owner" || hours[0].GPUs != 8 {
		t.Errorf("a walk through it shows %+v, %v", hours, err)
	}
}
