package rounds_test

import (
	"math"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/tests/papers/published"
	"slurmprio/tests/papers/rounds"
	"slurmprio/tests/shared"
)

type continuousRuns []struct {
	Policy string
	AvgJCT float64            `json:"avg_jct_h"`
	JCT    map[string]float64 `json:"jct"`
}

// 4 GPUs of each of three types, 0.5 jobs/h: every job ends as in the published
// scheduler; without its faults the mean comes out close by.
func TestIsolatedContinuous(t *testing.T) {
	jobs := continuous(t, "continuous_single_seed0.tsv.gz", 0.5)
	speed := speeds(t, "gavel/simulation_throughputs.json")
	var runs continuousRuns
	shared.JSON(t, "gavel/expected/small_continuous_4_4_4.json", &runs)
	window := &metrics.Window{First: 0, Last: 149}
	for _, want := range runs {
		if want.Policy != "isolated" {
			continue
		}
		replay := run(t, gpus(4, 4, 4), jobs, rounds.Options{
			Model:  rounds.Gavel{Allocator: rounds.Isolated(), Published: &rounds.Published{TypeOrder: published.Shuffle(0)}},
			Speed:  speed,
			Window: window,
		})
		for i, j := range jobs[:150] {
			if got := replay.Outcomes[i].End - j.Submit; math.Abs(got-want.JCT[j.ID]) > 1e-2 {
				t.Errorf("job %s: JCT %v s, want %v", j.ID, got, want.JCT[j.ID])
			}
		}
		if mean := meanJCT(t, jobs, replay, 0, 149); math.Abs(mean-want.AvgJCT) > 1e-6 {
			t.Errorf("mean JCT %v h, want %v", mean, want.AvgJCT)
		}
	}
	ours := run(t, gpus(4, 4, 4), jobs, rounds.Options{Model: rounds.Gavel{Allocator: rounds.Isolated(), Agnostic: true}, Speed: speed, Window: window})
	mean := meanJCT(t, jobs, ours, 0, 149)
	t.Logf("ours: mean JCT %.3f h", mean)
	if math.Abs(mean/20.267-1) > 0.03 {
		t.Errorf("mean JCT %v h: an honest baseline is within 3 %% of 20.267", mean)
	}
}
