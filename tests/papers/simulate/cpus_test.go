package simulate

import (
	"context"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/preempt"
	"slurmprio/tests/papers/traces"
)

// Whoever has jobs leave, none without GPUs is told to: priod's policies and the papers'.
func TestJobsWithoutGPUsAreNotEvicted(t *testing.T) {
	node := traces.FitGppNode
	node.Count = 8
	jobs, err := traces.GenerateFitGpp(traces.FitGppParams{Seed: 1, Jobs: 900, Mix: "small-be", TEShare: 0.3, Load: 1.3, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if i%3 == 0 {
			jobs[i].GPUs = 0
		}
	}
	for _, policy := range Preemptions.Have[2:] {
		spec := Spec{Preemption: policy, Backfill: "easy", Seed: 1, Eviction: preempt.Settings{Fallback: preempt.FallNode, Settings: preemption.Settings{S: 4, MaxEvictions: 2, Urgency: 10, Rise: 1}}}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), spec, Input{Cluster: trace.Cluster{Nodes: []trace.NodeGroup{node}}, Jobs: trace.Each(jobs), Config: configured(t, "")})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range r.Outcomes {
			if !o.Done || r.Jobs[i].GPUs == 0 && o.Preemptions > 0 {
				t.Fatalf("%s: %+v became %+v", policy, r.Jobs[i], o)
			}
		}
		if r.Figures.Preemptions == 0 || r.Figures.Jobs != 600 || r.Figures.CPUOnly.Jobs != 300 {
			t.Errorf("%s: %+v", policy, r.Figures)
		}
	}
}

// priod ranks jobs without GPUs as it does others, by their class, where it looks at their
// partition.
func TestPriodRanksJobsWithoutGPUs(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{
		{Count: 1, GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 160, Partitions: []string{"gpu"}},
		{Count: 1, CPUs: 4, MemMB: 40, Partitions: []string{"cpu"}},
	}}
	jobs := []trace.Job{
		{ID: "first", Duration: 100, CPUs: 4, Partition: "cpu"},
		{ID: "be", Submit: 1, Duration: 100, CPUs: 4, Partition: "cpu"},
		{ID: "te", Submit: 2, Duration: 100, CPUs: 4, Partition: "cpu", Class: cluster.TE},
	}
	for toml, starts := range map[string][2]float64{
		"":                                  {200, 100}, // of be, te
		"[slurm]\npartitions = [\"gpu\"]\n": {100, 200},
		"[slurm]\npartitions = [\"gpu\", \"cpu\"]\n": {200, 100},
	} {
		spec := Spec{Order: "priod", SlurmOrder: "fifo"}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Config: configured(t, toml)})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]float64{r.Outcomes[1].Start, r.Outcomes[2].Start}; got != starts {
			t.Errorf("%q: BE and TE start at %v, want %v", toml, got, starts)
		}
	}
}

// A run that a node ended is requeued by priod where the job's user agreed, with GPUs or without.
func TestPriodRequeuesJobsWithoutGPUs(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 160}, {Count: 2, CPUs: 4, MemMB: 40}}}
	failed := trace.Ending{State: "NODE_FAIL", ExitCode: 1}
	jobs := []trace.Job{
		{ID: "agreed", Duration: 100, CPUs: 1, Ending: failed, Retry: "infra"},
		{ID: "did not", Submit: 1, Duration: 100, CPUs: 1, Ending: failed},
	}
	spec := Spec{Order: "priod", SlurmOrder: "fifo", Overheads: site.Overheads{Requeue: 121}}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Config: configured(t, "[retry]\nenabled = true\noutput = false\ndrain = false\n")})
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Outcomes[0]; o.Failed || o.Trials != 2 || o.Nodes != "n2" {
		t.Errorf("%+v", o)
	}
	if o := r.Outcomes[1]; !o.Failed || o.Trials != 1 {
		t.Errorf("%+v", o)
	}
}
