package simulate

import (
	"context"
	"math"
	"strings"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/rounds"
	"slurmprio/tests/papers/sizing"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

// synergyJobs reads a trace that a plain clone does not have.
func synergyJobs(t *testing.T, table *workload.Table, name string) []trace.Job {
	t.Helper()
	r, err := trace.Open(shared.Path(t, "synergy/"+name), trace.Options{Source: traces.Synergy})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var jobs []trace.Job
	for j, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func synergyInput(table *workload.Table, servers int, jobs []trace.Job) Input {
	curves := map[string]*workload.Curve{}
	for _, w := range table.All() {
		if c, ok := w.Curves["v100"]; ok {
			curves[w.Name] = &c
		}
	}
	return Input{
		Cluster: trace.Cluster{Nodes: []trace.NodeGroup{{Count: servers, GPUType: "v100", GPUs: 8, CPUs: 24, MemMB: 512000}}},
		Jobs:    trace.Each(jobs),
		Speed:   func(j *trace.Job, _ string) float64 { return 1 / curves[j.Workload].IterationS },
		Curve:   func(j *trace.Job, _ string) *workload.Curve { return curves[j.Workload] },
	}
}

// preselected is the published simulator's LAS: only the jobs that fit by GPUs
// are tried, and what GREEDY leaves stays empty.
type preselected struct{ rounds.Sizer }

func (p preselected) Size(jobs []*rounds.Active, servers []rounds.Server, grants []rounds.Grant) ([]rounds.Grant, error) {
	free := 0
	for _, s := range servers {
		free += s.GPUs
	}
	var first []*rounds.Active
	for _, a := range jobs {
		if a.Job.GPUs <= free {
			free -= a.Job.GPUs
			first = append(first, a)
		}
	}
	return p.Sizer.Size(first, servers, grants)
}

// Every job of every GREEDY and TUNE run of the published simulator on the
// paper's deployment traces ends at the same time.
func TestSynergyMechanisms(t *testing.T) {
	var file struct {
		Runs []struct {
			Sched  string
			Static bool
			JCT    map[string]float64 `json:"jct_s"`
		}
	}
	shared.JSON(t, "synergy/expected/deploy_32gpu.json", &file)
	table, n := shared.Workloads(t), 0
	for _, want := range file.Runs {
		policy, mechanism, _ := strings.Cut(want.Sched, "+")
		sized := map[string]string{"fair": "proportional", "": "greedy", "tune": "tune"}[mechanism]
		if sized == "" {
			continue
		}
		n++
		name, first := "deploy_dynamic_100job_srtf.csv", 0.0
		if want.Static {
			name, first = "deploy_static_100job_6_3_1.csv", 1
		}
		t.Run(want.Sched+" "+name, func(t *testing.T) {
			order, err := rounds.ParseOrder(strings.ToLower(policy))
			if err != nil {
				t.Fatal(err)
			}
			jobs := synergyJobs(t, table, name)
			in := synergyInput(table, 4, jobs)
			sizer, err := sizing.NewSizer(sized, in.Cluster, in.Curve)
			if err != nil {
				t.Fatal(err)
			}
			if order == rounds.LAS {
				sizer = preselected{sizer}
			}
			r, err := rounds.Run(context.Background(), in.Cluster, in.Jobs, rounds.Options{
				Model: rounds.Synergy{FirstRound: first, Published: true, Sizer: sizer}, Order: order, Speed: in.Speed,
			})
			if err != nil {
				t.Fatal(err)
			}
			bad := 0
			for i, j := range jobs {
				if got := r.Outcomes[i].End - j.Submit; math.Abs(got-want.JCT[j.ID]) > 1e-6 {
					if bad++; bad <= 3 {
						t.Errorf("job %s: JCT %v s, want %v", j.ID, got, want.JCT[j.ID])
					}
				}
			}
			if bad > 3 {
				t.Errorf("%d jobs differ", bad)
			}
		})
	}
	if n != 24 {
		t.Errorf("%d runs, want 24", n)
	}
}

func meanHours(t *testing.T, in Input, spec Spec) Result {
	t.Helper()
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), spec, in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The headline of Synergy's artefact, and ours beside it.
func TestSynergy128(t *testing.T) {
	table := shared.Workloads(t)
	jobs := synergyJobs(t, table, "sim_single_gpu_9jph_20_70_10_seed42.csv.gz")
	hours := func(sizing string) (mean, p99 float64) {
		r := meanHours(t, synergyInput(table, 16, jobs), Spec{
			Engine: "rounds", Order: "fifo", Sizing: sizing, Window: &metrics.Window{First: 4000, Last: 4999},
		})
		return r.Figures.MeanJCT / 3600, r.Figures.P99JCT / 3600
	}
	if mean, p99 := hours("tune"); math.Abs(mean-21.876600555555555) > 1e-9 || math.Abs(p99-156.93307777777775) > 1e-9 {
		t.Errorf("TUNE: mean %v h, p99 %v h", mean, p99)
	}
	if mean, _ := hours("waterfill"); mean > 21.5 {
		t.Errorf("ours: mean %v h, want at most 21.5", mean)
	} else {
		t.Logf("ours: %.3f h", mean)
	}
}

// No row of the deployment traces is worse than TUNE, as published and as the
// paper has it; nor in the published order of FTF, the best-off job first.
func TestWaterfillRows(t *testing.T) {
	table := shared.Workloads(t)
	most := map[string]float64{"deploy_static_100job_6_3_1.csv fifo": 4.80, "deploy_dynamic_100job_srtf.csv srtf": 3.12}
	for _, name := range []string{"deploy_static_100job_6_3_1.csv", "deploy_dynamic_100job_srtf.csv"} {
		jobs := synergyJobs(t, table, name)
		for _, order := range []string{"fifo", "srtf", "las", "ftf"} {
			hours := func(sizing string) float64 {
				spec := Spec{Engine: "rounds", Order: order, Sizing: sizing}
				if strings.Contains(name, "static") {
					spec.FirstRound = 1
					spec.RoundModel = "synergy"
				}
				return meanHours(t, synergyInput(table, 4, jobs), spec).Figures.MeanJCT / 3600
			}
			ours := hours("waterfill")
			for _, tune := range []string{"tune-best-fit", "tune"} {
				if h := hours(tune); ours > h {
					t.Errorf("%s %s: ours %v h, %s %v h", name, order, ours, tune, h)
				}
			}
			t.Logf("%s %s: %.3f h", name, order, ours)
			if want, ok := most[name+" "+order]; ok && ours > want {
				t.Errorf("%s %s: ours %v h, want at most %v", name, order, ours, want)
			}
		}
		published := func(sized string) float64 {
			in, first := synergyInput(table, 4, jobs), 0.0
			if strings.Contains(name, "static") {
				first = 1
			}
			s, err := sizing.NewSizer(sized, in.Cluster, in.Curve)
			if err != nil {
				t.Fatal(err)
			}
			r, err := rounds.Run(context.Background(), in.Cluster, in.Jobs, rounds.Options{
				Model: rounds.Synergy{FirstRound: first, Published: true, Sizer: s}, Order: rounds.FTF, Speed: in.Speed,
			})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i, j := range jobs {
				sum += r.Outcomes[i].End - j.Submit
			}
			return sum / float64(len(jobs)) / 3600
		}
		ours, tune := published("waterfill"), published("tune")
		t.Logf("%s ftf as published: TUNE %.3f h, ours %.3f h, OPT %.3f h", name, tune, ours, published("opt"))
		if ours > tune {
			t.Errorf("%s ftf as published: ours %v h, TUNE %v h", name, ours, tune)
		}
	}
}

// The published simulator's OPT, whose optimum is one of many: the same makespan
// but for a round, and the same mean but for half a percent.
func TestSynergyOptimum(t *testing.T) {
	table := shared.Workloads(t)
	for _, want := range []struct {
		name, order    string
		mean, makespan float64 // h, the makespan from 0 on
	}{
		{"deploy_static_100job_6_3_1.csv", "fifo", 4.6627640277777775, 10.58361111111111},
		{"deploy_static_100job_6_3_1.csv", "srtf", 3.8969306944444444, 12.416944444444445},
		{"deploy_dynamic_100job_srtf.csv", "fifo", 3.3900722222222224, 14},
		{"deploy_dynamic_100job_srtf.csv", "srtf", 3.0934055555555555, 12.833333333333334},
	} {
		jobs := synergyJobs(t, table, want.name)
		spec := Spec{Engine: "rounds", Order: want.order, Sizing: "opt"}
		if strings.Contains(want.name, "static") {
			spec.FirstRound, spec.RoundModel = 1, "synergy"
		}
		f := meanHours(t, synergyInput(table, 4, jobs), spec).Figures
		mean, makespan := f.MeanJCT/3600, (f.Makespan+jobs[0].Submit)/3600
		if math.Abs(mean/want.mean-1) > 0.005 || math.Abs(makespan-want.makespan) > 301./3600 {
			t.Errorf("%s %s: mean %v h, makespan %v h", want.name, want.order, mean, makespan)
		}
	}
}

// What a plain clone can see of it: jobs as Synergy's generator draws them.
func TestSizingGenerated(t *testing.T) {
	table := shared.Workloads(t)
	jobs, err := traces.GenerateSynergy(traces.SynergyParams{Seed: 1, Jobs: 400, JobsPerHour: 2.2, Split: [3]float64{20, 70, 10}, MultiGPU: true, Workloads: table})
	if err != nil {
		t.Fatal(err)
	}
	last := math.Inf(1)
	for _, sizing := range []string{"proportional", "tune-best-fit", "waterfill", "opt"} {
		mean := meanHours(t, synergyInput(table, 4, jobs), Spec{Engine: "rounds", Order: "fifo", Sizing: sizing}).Figures.MeanJCT / 3600
		t.Logf("%s: %.2f h", sizing, mean)
		if mean > last {
			t.Errorf("%s: mean JCT %v h, more than the one before it", sizing, mean)
		}
		last = mean
	}
}

func TestSizingNeedsNodes(t *testing.T) {
	in := synergyInput(shared.Workloads(t), 1, nil)
	in.Cluster.Nodes[0].CPUs = 0
	if _, err := sizing.NewSizer("waterfill", in.Cluster, in.Curve); err == nil || !strings.Contains(err.Error(), "--nodes") {
		t.Errorf("nodes without CPUs: %v", err)
	}
	if _, err := sizing.NewSizer("opt", in.Cluster, in.Curve); err == nil || !strings.Contains(err.Error(), "--nodes") {
		t.Errorf("nodes without CPUs: %v", err)
	}
	if _, err := sizing.NewSizer("best", in.Cluster, in.Curve); err == nil || !strings.Contains(err.Error(), "best") {
		t.Errorf("no such sizing: %v", err)
	}
	if s, err := sizing.NewSizer("proportional", in.Cluster, in.Curve); s != nil || err != nil {
		t.Errorf("the proportional share of GPUs alone: %v, %v", s, err)
	}
}
