package simulate

import (
	"context"
	"math"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

// The published code was run again on its traces, with its simulation speeds:
// model gavel-published comes out like it, agnostic policies within 3 %, so
// that the baseline is honest.
func TestPublishedFigures(t *testing.T) {
	small := &metrics.Window{First: 0, Last: 149}
	for _, c := range []struct {
		runs, policy, trace string // of the published run
		allocation          string
		within              float64
		window              *metrics.Window
	}{
		{"simulation_runs", "max_min_fairness", "max_min_fairness.trace", "max-min:agnostic", 0.03, nil},
		{"simulation_runs", "max_min_fairness_perf", "max_min_fairness.trace", "max-min", 0.01, nil},
		{"simulation_runs", "min_total_duration", "minimize_makespan.trace", "makespan:agnostic", 0.03, nil},
		{"simulation_runs", "min_total_duration_perf", "minimize_makespan.trace", "makespan", 0.005, nil},
		{"small_continuous_4_4_4", "max_min_fairness", "", "max-min:agnostic", 0.01, small},
		{"small_continuous_4_4_4", "max_min_fairness_perf", "", "max-min", 0.01, small},
		{"small_continuous_4_4_4", "finish_time_fairness", "", "finish-time-fairness:agnostic", 0.01, small},
		{"small_continuous_4_4_4", "finish_time_fairness_perf", "", "finish-time-fairness", 0.01, small},
		{"small_continuous_4_4_4", "fifo_perf", "", "fifo", 0.001, small},
	} {
		t.Run(c.runs+"/"+c.allocation, func(t *testing.T) {
			file, opt, cluster := "traces/"+c.trace, traces.Options{Workloads: shared.Workloads(t)}, []int{8, 16, 24}
			if c.window != nil {
				file, opt.JobsPerHour, cluster = "traces/continuous_single_seed0.tsv.gz", 0.5, []int{4, 4, 4}
			}
			want := publishedRun(t, c.runs, c.policy, c.trace)
			r, err := trace.Open(shared.Path(t, "gavel/"+file), trace.Options{Source: traces.Gavel(opt)})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			in := Input{Jobs: r.All(), Speed: func(j *trace.Job, gpuType string) float64 {
				id, _ := opt.Workloads.Lookup(j.Workload)
				s, _ := opt.Workloads.Speed(id, j.GPUs, gpuType)
				return s
			}}
			for i, name := range []string{"v100", "p100", "k80"} {
				in.Cluster.Nodes = append(in.Cluster.Nodes, trace.NodeGroup{Count: cluster[i], GPUType: name, GPUs: 1})
			}
			spec := Spec{Engine: "rounds", RoundModel: "gavel-published", Allocation: c.allocation, Window: c.window}
			if err := spec.Check(); err != nil {
				t.Fatal(err)
			}
			result, err := Run(context.Background(), spec, in)
			if err != nil {
				t.Fatal(err)
			}
			got, figure := result.Figures.MeanJCT/3600, want.JCT
			if c.trace == "minimize_makespan.trace" {
				got, figure = result.Figures.Makespan/3600, want.Makespan/3600
			}
			t.Logf("%.3f h, published %.3f h (%+.2f %%)", got, figure, 100*(got/figure-1))
			if math.Abs(got/figure-1) > c.within {
				t.Errorf("%.3f h, want %.3f h within %v %%", got, figure, 100*c.within)
			}
		})
	}
}

type publishedFigures struct {
	Policy, Trace, Throughputs string
	JCT                        float64 `json:"avg_jct_h"`
	Makespan                   float64 `json:"makespan_s"`
}

// publishedRun finds a run with the simulation speeds.
func publishedRun(t *testing.T, file, policy, trace string) publishedFigures {
	t.Helper()
	var runs []publishedFigures
	shared.JSON(t, "gavel/expected/"+file+".json", &runs)
	for _, r := range runs {
		if r.Policy == policy && r.Trace == trace && r.Throughputs != "physical_cluster_throughputs.json" {
			return r
		}
	}
	t.Fatalf("no run of %s on %q in %s", policy, trace, file)
	return publishedFigures{}
}
