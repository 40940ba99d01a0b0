package simulate

import (
	"context"
	"reflect"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/preempt"
	"slurmprio/tests/papers/traces"
)

// preempted runs FitGpp's small jobs on a small cluster; what is priod's, with this
// priod.toml over the shipped one.
func preempted(t *testing.T, policy string, costs site.Overheads, toml string) Result {
	t.Helper()
	node := traces.FitGppNode
	node.Count = 8
	jobs, err := traces.GenerateFitGpp(traces.FitGppParams{Seed: 1, Jobs: 1500, Mix: "small-be", TEShare: 0.3, Load: 0.95, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Preemption: policy, Backfill: "easy", Seed: 1, Overheads: costs, Eviction: preempt.Settings{Fallback: preempt.FallNode, Settings: preemption.Settings{S: 4, MaxEvictions: 2, Urgency: 10, Rise: 1, MinRun: 60}}}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), spec, Input{Cluster: trace.Cluster{Nodes: []trace.NodeGroup{node}}, Jobs: trace.Each(jobs), Config: configured(t, toml)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TE jobs are never evicted, no BE job more often than allowed, all are done,
// and the same run comes out the same.
func TestEvictionsOfEachPolicy(t *testing.T) {
	for _, costs := range []site.Overheads{{}, {Grace: 30, Requeue: 121, Epilog: 5, Checkpoint: 600, Restart: 60}} {
		for _, policy := range Preemptions.Have[2:] {
			r := preempted(t, policy, costs, "preemption.max_evictions = 2")
			evictions := 0
			for i, o := range r.Outcomes {
				evictions += int(o.Preemptions)
				if !o.Done || r.Jobs[i].Class == cluster.TE && o.Preemptions > 0 || o.Preemptions > 2 && policy != site.SlurmQOS { // Slurm has no such limit
					t.Fatalf("%s: job %+v became %+v", policy, r.Jobs[i], o)
				}
			}
			if evictions == 0 {
				t.Errorf("%s evicted nobody", policy)
			}
			if costs == (site.Overheads{}) || policy != "least-loss" {
				continue // priod's own is repeated
			}
			if again := preempted(t, policy, costs, "preemption.max_evictions = 2"); !reflect.DeepEqual(r, again) {
				t.Errorf("%s: two runs with one seed differ", policy)
			}
		}
	}
}

// The claim of least-loss as it is shipped, in small and without nodes kept for TE jobs: TE waits far less than with order alone, BE
// hardly notices, and fewer have to leave than under FitGpp.
func TestLeastLossAgainstOrderAlone(t *testing.T) {
	first, ours, paper := preempted(t, "te-first", site.Overheads{}, "").Figures, preempted(t, "least-loss", site.Overheads{}, "preemption.headroom = false").Figures, preempted(t, "fitgpp", site.Overheads{}, "").Figures
	for _, c := range []struct {
		name      string
		got, most float64
	}{
		{"TE wait p99", *ours.TEWaitP99, 0.5 * *first.TEWaitP99},
		{"TE slowdown p95", *ours.TESlowdownP95, *first.TESlowdownP95},
		{"BE slowdown p50", *ours.BESlowdownP50, 1.1 * *first.BESlowdownP50},
		{"BE slowdown p95", *ours.BESlowdownP95, 1.15 * *first.BESlowdownP95},
		{"evictions", float64(ours.Preemptions), float64(paper.Preemptions)},
	} {
		if c.got > c.most {
			t.Errorf("%s is %.2f, want at most %.2f", c.name, c.got, c.most)
		}
	}
}

// Arrivals that a FIFO run at load 2 recorded keep the simulator's own FIFO at
// that load to the end: its queue neither dries up nor grows.
func TestHeldLoadIsHeldHere(t *testing.T) {
	node := traces.FitGppNode
	node.Count = 8
	jobs, err := traces.GenerateFitGpp(traces.FitGppParams{Seed: 1, Jobs: 8000, Mix: "small-be", TEShare: 0.3, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), spec, Input{Cluster: trace.Cluster{Nodes: []trace.NodeGroup{node}}, Jobs: trace.Each(jobs)})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(from, to int) (sum float64) {
		for i := from; i < to; i++ {
			sum += r.Outcomes[i].Start - r.Jobs[i].Submit
		}
		return sum
	}
	if early, late := wait(1000, 4000), wait(5000, 8000); late < early/2 || late > early*2 {
		t.Errorf("3,000 jobs wait %.0f s, and 3,000 later ones %.0f s", early, late)
	}
}
