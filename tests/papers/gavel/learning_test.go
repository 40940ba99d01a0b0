package gavel_test

import (
	"context"
	"testing"

	"slurmprio/priod/trace"
	"slurmprio/tests/papers/simulate"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

// Jobs of Gavel's kinds on 6 V100, 6 P100 and 6 K80: speeds found out from
// completed jobs are nearly as good as true ones, and better than none.
func TestSpeedsFromHistory(t *testing.T) {
	table := shared.Workloads(t)
	jobs, err := traces.GenerateGavel(traces.GavelParams{Seed: 3, Jobs: 900, JobsPerHour: 0.85, Workloads: table})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := trace.ParseNodes([]string{"6:v100:1", "6:p100:1", "6:k80:1"})
	if err != nil {
		t.Fatal(err)
	}
	mean := func(spec simulate.Spec) float64 {
		t.Helper()
		spec.Engine = "rounds"
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := simulate.Run(context.Background(), spec, simulate.Input{
			Cluster: cluster,
			Jobs: func(yield func(trace.Job, error) bool) {
				for _, j := range jobs {
					if !yield(j, nil) {
						return
					}
				}
			},
			Speed: func(j *trace.Job, gpuType string) float64 {
				id, _ := table.Lookup(j.Workload)
				s, _ := table.Speed(id, j.GPUs, gpuType)
				return s
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r.Figures.MeanJCT / 3600
	}
	told := mean(simulate.Spec{Allocation: "max-min"})
	agnostic := mean(simulate.Spec{Allocation: "max-min:agnostic"})
	learned := mean(simulate.Spec{Allocation: "max-min", Speeds: "history"})
	few := mean(simulate.Spec{Allocation: "max-min", Speeds: "history", HistoryJobs: 100})
	t.Logf("mean JCT: told %.2f h, learned %.2f h, from 100 jobs %.2f h, agnostic %.2f h", told, learned, few, agnostic)
	if learned > 1.1*told || few <= learned || few >= agnostic {
		t.Error("want learned within 10 % of told, and 100 jobs worth less than all and more than none")
	}
}

func TestSpecOfSpeeds(t *testing.T) {
	for name, s := range map[string]simulate.Spec{
		"pairs":                  {Engine: "rounds", Allocation: "max-min:packed", Speeds: "history"},
		"an unknown word":        {Engine: "rounds", Speeds: "guess"},
		"engine slurm":           {Speeds: "history"},
		"model synergy":          {Engine: "rounds", RoundModel: "synergy", Speeds: "history"},
		"jobs without history":   {Engine: "rounds", HistoryJobs: 5},
		"a negative count":       {Engine: "rounds", Speeds: "history", HistoryJobs: -1},
		"jobs with engine slurm": {HistoryJobs: 5},
	} {
		if err := s.Check(); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
