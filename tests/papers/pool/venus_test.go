package pool

import (
	"context"
	"math"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/shared/venus"
)

// nodes of so many GPUs, as Venus has them of 8 (Helios, SC'21).
func nodes(count, gpus int) trace.Cluster {
	return trace.Cluster{Nodes: []trace.NodeGroup{{Count: count, GPUs: gpus, GPUType: "v100"}}}
}

func run(t testing.TB, c trace.Cluster, jobs []trace.Job, opt Options) Result {
	t.Helper()
	r, err := Run(context.Background(), c, trace.Each(jobs), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The start of every job: without backfill three published programs agree on
// it, with backfill it is CQSim's.
func TestVenusEveryStart(t *testing.T) {
	jobs := venus.Jobs(t)
	for b, name := range map[Backfill]string{NoBackfill: "nobackfill", EASY: "easy", Conservative: "conservative"} {
		r := run(t, nodes(96, 8), jobs, Options{Backfill: b})
		starts, wrong := venus.Starts(t, name), 0
		for i, o := range r.Outcomes {
			if o.Start != starts[r.Jobs[i].ID] {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d of %d starts differ", name, wrong, len(jobs))
		}
	}
}

// Figures: data/traces/expected/README.md of the shared data.
func TestVenusAgainstPublishedSimulators(t *testing.T) {
	jobs := venus.Jobs(t)
	for _, c := range []struct {
		name            string
		opt             Options
		meanJCT, within float64
		meanWait        float64
	}{
		{"fifo", Options{}, 15519.5, 1e-5, 7008.3},
		{"easy", Options{Backfill: EASY}, 12094.1, 1e-5, 3582.9},
		{"conservative", Options{Backfill: Conservative}, 12216.7, 1e-5, 3705.5},
		{"srtf", Options{Order: SRTF}, 8771.2, 0.0001, 0},
		{"las", Options{Order: LAS, LASQueues: []float64{3250, 7200}}, 8776.7, 0.01, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, nodes(96, 8), jobs, c.opt)
			f, err := metrics.Measure(r.Jobs, r.Outcomes, nil, 768)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("mean JCT %.1f (%+.3f %%), mean wait %.1f, p90 %.1f, max %.1f, preemptions %d",
				f.MeanJCT, 100*(f.MeanJCT/c.meanJCT-1), f.MeanWait, f.P90Wait, f.MaxWait, f.Preemptions)
			if math.Abs(f.MeanJCT/c.meanJCT-1) > c.within {
				t.Errorf("mean JCT %.1f s, reference %.1f", f.MeanJCT, c.meanJCT)
			}
			if c.meanWait > 0 && math.Abs(f.MeanWait/c.meanWait-1) > 1e-4 {
				t.Errorf("mean wait %.1f s, reference %.1f", f.MeanWait, c.meanWait)
			}
		})
	}
}
