package rounds_test

import (
	"math"
	"strconv"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/rounds"
	"slurmprio/tests/shared"
)

// iteration is the time of one iteration in s, at the proportional share
// (Synergy's models-3, research data models/sensitivity.json).
var iteration = map[string]float64{
	"alexnet": 0.6, "shufflenet": 0.615, "res18": 0.64, "mobilenet": 0.71, "res50": 0.78,
	"m5": 0.6, "deepspeech": 0.757, "gnmt": 0.12, "transformer": 0.67, "lstm": 0.011,
}

func iterations(j *trace.Job, _ string) float64 { return 1 / iteration[j.Workload] }

// synergyTrace reads job, model, arrival, iterations, GPUs.
func synergyTrace(t testing.TB, name string) []trace.Job {
	t.Helper()
	var jobs []trace.Job
	for _, r := range rows(t, "synergy/"+name, ",") {
		gpus, err := strconv.Atoi(r[4])
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, trace.Job{ID: r[0], Workload: r[1], Submit: shared.Number(t, r[2]), Steps: shared.Number(t, r[3]), GPUs: gpus})
	}
	return jobs
}

func synergyServers(n int) trace.Cluster {
	return trace.Cluster{Nodes: []trace.NodeGroup{{Count: n, GPUType: "v100", GPUs: 8, CPUs: 24, MemMB: 500_000}}}
}

// Every proportional run of the published simulator on the deployment traces.
func TestSynergyDeployment(t *testing.T) {
	var file struct {
		Runs []struct {
			Sched    string
			Static   bool
			Mean     float64            `json:"mean_h"`
			Makespan float64            `json:"makespan_h"`
			JCT      map[string]float64 `json:"jct_s"`
		}
	}
	shared.JSON(t, "synergy/expected/deploy_32gpu.json", &file)
	orders := map[string]rounds.Order{"FIFO+fair": rounds.FIFO, "SRTF+fair": rounds.SRTF, "LAS+fair": rounds.LAS, "FTF+fair": rounds.FTF}
	n := 0
	for _, want := range file.Runs {
		order, ok := orders[want.Sched]
		if !ok {
			continue
		}
		n++
		name, first := "deploy_dynamic_100job_srtf.csv", 0.0
		if want.Static {
			name, first = "deploy_static_100job_6_3_1.csv", 1
		}
		t.Run(want.Sched+" "+name, func(t *testing.T) {
			jobs := synergyTrace(t, name)
			result := run(t, synergyServers(4), jobs, rounds.Options{
				Model: rounds.Synergy{FirstRound: first, Published: true}, Order: order, Speed: iterations,
			})
			for i, j := range jobs {
				if got := result.Outcomes[i].End - j.Submit; math.Abs(got-want.JCT[j.ID]) > 1e-6 {
					t.Errorf("job %s: JCT %v s, want %v", j.ID, got, want.JCT[j.ID])
				}
			}
			if mean := meanJCT(t, jobs, result, 0, len(jobs)-1); math.Abs(mean-want.Mean) > 1e-9 {
				t.Errorf("mean JCT %v h, want %v", mean, want.Mean)
			}
			if got := result.End / 3600; math.Abs(got-want.Makespan) > 1e-9 {
				t.Errorf("makespan %v h, want %v", got, want.Makespan)
			}
		})
	}
	if n != 8 {
		t.Errorf("%d proportional runs, want 8", n)
	}
}

// The proportional rows on 128 GPUs, windows and all, from the jobs that the
// published generator makes (20/70/10).
func TestSynergy128(t *testing.T) {
	for _, c := range []struct {
		file        string
		order       rounds.Order
		first, last int
		want        float64
	}{
		{"9jph", rounds.FIFO, 4000, 4999, 81.08860055555554},
		{"7jph", rounds.FIFO, 1000, 1999, 17.15574555555556},
		{"7jph", rounds.LAS, 1000, 1999, 16.775745555555556},
		{"7jph", rounds.SRTF, 1000, 1999, 16.90216222222222},
		{"7jph", rounds.FTF, 1000, 1999, 18.535162222222226},
	} {
		t.Run(c.order.String()+" "+c.file, func(t *testing.T) {
			jobs := synergyTrace(t, "sim_single_gpu_"+c.file+"_20_70_10_seed42.csv.gz")
			result := run(t, synergyServers(16), jobs, rounds.Options{
				Model: rounds.Synergy{Published: true}, Order: c.order, Speed: iterations, Window: &metrics.Window{First: c.first, Last: c.last},
			})
			if mean := meanJCT(t, jobs, result, c.first, c.last); math.Abs(mean-c.want) > 1e-9 {
				t.Errorf("mean JCT %v h, want %v", mean, c.want)
			}
		})
	}
}
