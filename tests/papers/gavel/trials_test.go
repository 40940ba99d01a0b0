package gavel_test

import (
	"context"
	"testing"

	"slurmprio/priod/trace"
	"slurmprio/tests/papers/gavel"
	"slurmprio/tests/papers/simulate"
)

// packed runs jobs of these workloads, 7,200 steps each, on so many GPUs of one
// type, where each does a step a second alone.
func packed(t *testing.T, gpus int, workloads []string, spec simulate.Spec, references []string, pairs gavel.Pairs) simulate.Result {
	t.Helper()
	var jobs []trace.Job
	for i, w := range workloads {
		jobs = append(jobs, trace.Job{ID: string(rune('1' + i)), Workload: w, GPUs: 1, Steps: 7200})
	}
	spec.Engine, spec.Allocation = "rounds", "max-min:packed"
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := simulate.Run(context.Background(), spec, simulate.Input{
		Cluster: trace.Cluster{Nodes: []trace.NodeGroup{{Count: gpus, GPUType: "v100", GPUs: 1}}},
		Jobs:    trace.Each(jobs), Pairs: pairs, PairWorkloads: references,
		Speed: func(*trace.Job, string) float64 { return 1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The only reference keeps 0.9 of its speed beside all, so programs are taken to.
// Those here stand still side by side: they are tried so, and then no longer.
func TestAWrongEstimateIsTriedOnce(t *testing.T) {
	pairs := func(a, b *trace.Job, _ string) (float64, float64) {
		if a.Workload == "light" || b.Workload == "light" {
			return 0.9, 0.9
		}
		return 0, 0
	}
	r := packed(t, 1, []string{"x", "y"}, simulate.Spec{PairsTried: 1e-9}, []string{"light"}, pairs)
	for i, o := range r.Outcomes {
		if !o.Done || o.Shared < 360 || o.Shared > 3960 { // allocations are rebuilt after ten rounds
			t.Errorf("job %d: %+v, want a few rounds beside the other, and then the end", i, o)
		}
	}
	if r := packed(t, 1, []string{"x", "y"}, simulate.Spec{}, []string{"light"}, pairs); r.Outcomes[0].Shared != 0 {
		t.Errorf("where all pairs are known: %+v", r.Outcomes[0])
	}
}

// A program of which no pair is known runs alone, as where all are known: nobody
// takes it for a reference, beside whose partners it would stand still.
func TestNoPairIsNoTrial(t *testing.T) {
	pairs := func(a, b *trace.Job, _ string) (float64, float64) {
		if a.Workload == "light" && b.Workload == "light" {
			return 0.9, 0.9
		}
		return 0, 0
	}
	for _, tried := range []float64{1e-9, 1} {
		r := packed(t, 1, []string{"unknown", "light", "light", ""}, simulate.Spec{PairsTried: tried}, []string{"light"}, pairs)
		for i, o := range r.Outcomes {
			if alone := i == 0 || i == 3; !o.Done || alone != (o.Shared == 0) {
				t.Errorf("%v tried, job %d: %+v", tried, i, o)
			}
		}
	}
}

// Where all was tried the estimates are the truth, if no two programs are alike.
func TestAllTriedIsAllKnown(t *testing.T) {
	speed := map[[2]string]float64{
		{"a", "a"}: 0.9, {"a", "b"}: 0.8, {"a", "c"}: 0.3,
		{"b", "a"}: 0.7, {"b", "b"}: 0.6, {"b", "c"}: 0.1,
		{"c", "a"}: 0.2, {"c", "b"}: 0.4, {"c", "c"}: 0.1,
	}
	pairs := func(a, b *trace.Job, _ string) (float64, float64) {
		return speed[[2]string{a.Workload, b.Workload}], speed[[2]string{b.Workload, a.Workload}]
	}
	all := []string{"a", "b", "c"}
	jobs := []string{"a", "b", "c", "c", "b", "a", "a"}
	known := packed(t, 2, jobs, simulate.Spec{}, all, pairs)
	tried := packed(t, 2, jobs, simulate.Spec{PairsTried: 1}, all, pairs)
	shared := 0.0
	for i := range known.Outcomes {
		shared += known.Outcomes[i].Shared
		if known.Outcomes[i] != tried.Outcomes[i] {
			t.Errorf("job %d: known %+v, tried %+v", i, known.Outcomes[i], tried.Outcomes[i])
		}
	}
	if shared == 0 {
		t.Error("nobody ran beside another")
	}
}

func TestSpecOfTrials(t *testing.T) {
	for want, spec := range map[string]simulate.Spec{
		"--pairs-tried belongs to --allocation gandiva or POLICY:packed": {Allocation: "max-min", PairsTried: 0.2},
		"--pairs-tried: want a part from 0 (all pairs are known) to 1":   {Allocation: "max-min:packed", PairsTried: 20},
		"--pair-references belongs to --pairs-tried":                     {Allocation: "max-min:packed", PairReferences: 16},
		"--pair-references: want a number from 1, or 0 for all workloads": {
			Allocation: "max-min:packed", PairsTried: 0.2, PairReferences: -1,
		},
	} {
		spec.Engine = "rounds"
		if err := spec.Check(); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
