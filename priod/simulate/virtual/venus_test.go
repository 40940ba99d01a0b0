package virtual

import (
	"context"
	"math"
	"testing"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/shared/venus"
)

// nodes of 8 GPUs, as Venus has them (Helios, SC'21).
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

func figures(t testing.TB, r Result, gpus int) metrics.Figures {
	t.Helper()
	f, err := metrics.Measure(r.Jobs, r.Outcomes, nil, gpus)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The start of every job without backfill, on which three published programs agree. With backfill tests/papers/pool is
// held against CQSim: there GPUs are counted, here the head's place is on nodes.
func TestVenusEveryStart(t *testing.T) {
	jobs, starts := venus.Jobs(t), venus.Starts(t, "nobackfill")
	r := run(t, nodes(768, 1), jobs, Options{})
	wrong := 0
	for i, o := range r.Outcomes {
		if o.Start != starts[r.Jobs[i].ID] {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d starts differ", wrong, len(jobs))
	}
}

// Figures: data/traces/expected/README.md of the shared data.
func TestVenusAgainstPublishedSimulators(t *testing.T) {
	jobs := venus.Jobs(t)
	for _, c := range []struct {
		name              string
		count, gpus       int // of nodes, of GPUs on each
		opt               Options
		meanJCT, meanWait float64
		within            float64
	}{
		{"fifo", 768, 1, Options{}, 15519.5, 7008.3, 1e-5},
		{"easy", 768, 1, Options{Backfill: EASY}, 12094.1, 3582.9, 0.12}, // see TestVenusEveryStart
		{"consolidated", 96, 8, Options{Placement: placement.Consolidated}, 21651.9, 13140.7, 0.01},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := figures(t, run(t, nodes(c.count, c.gpus), jobs, c.opt), 768)
			t.Logf("mean JCT %.1f (%+.3f %%), mean wait %.1f, p90 %.1f, max %.1f, preemptions %d",
				f.MeanJCT, 100*(f.MeanJCT/c.meanJCT-1), f.MeanWait, f.P90Wait, f.MaxWait, f.Preemptions)
			if math.Abs(f.MeanJCT/c.meanJCT-1) > c.within {
				t.Errorf("mean JCT %.1f s, reference %.1f", f.MeanJCT, c.meanJCT)
			}
			if math.Abs(f.MeanWait/c.meanWait-1) > c.within {
				t.Errorf("mean wait %.1f s, reference %.1f", f.MeanWait, c.meanWait)
			}
		})
	}
}
