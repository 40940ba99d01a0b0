package simulate

import (
	"os"
	"strings"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

// onSlurm is the mean completion time, h, of jobs that ask for their share, sized by
// priod with its defaults, or without it.
func onSlurm(t *testing.T, servers int, jobs []trace.Job, spec Spec) float64 {
	table := shared.Workloads(t)
	in := synergyInput(table, servers, jobs)
	in.Config, in.Table = configured(t, ""), table
	spec.Backfill, spec.Overheads.Hold = "easy", 15
	return meanHours(t, in, spec).Figures.MeanJCT / 3600
}

// What is left of it where jobs stay as they start, from jobs as Synergy's
// generator draws them.
func TestSizingOnSlurm(t *testing.T) {
	jobs, err := traces.GenerateSynergy(traces.SynergyParams{Seed: 1, Jobs: 300, JobsPerHour: 1.2, Split: [3]float64{20, 70, 10}, MultiGPU: true, Workloads: shared.Workloads(t)})
	if err != nil {
		t.Fatal(err)
	}
	fair, ours := onSlurm(t, 4, jobs, Spec{Sizing: "proportional"}), onSlurm(t, 4, jobs, Spec{Sizing: "waterfill"})
	t.Logf("proportional %.2f h, ours %.2f h", fair, ours)
	if ours > 0.95*fair {
		t.Errorf("proportional %v h, ours %v h", fair, ours)
	}
}

// The published traces, of which most of the gain is left.
func TestSizingOnSlurmRows(t *testing.T) {
	table := shared.Workloads(t)
	for _, c := range []struct {
		name    string
		servers int
		window  *metrics.Window
		ratio   float64 // of proportional to waterfill, at least
		long    bool
	}{
		{"deploy_static_100job_6_3_1.csv", 4, nil, 1.12, false},
		{"deploy_dynamic_100job_srtf.csv", 4, nil, 1.19, false},
		{"sim_single_gpu_7jph_20_70_10_seed42.csv.gz", 16, &metrics.Window{First: 1000, Last: 1999}, 1.13, false},
		{"sim_single_gpu_9jph_20_70_10_seed42.csv.gz", 16, &metrics.Window{First: 4000, Last: 4999}, 3, true},
	} {
		if c.long && os.Getenv("SLURMPRIO_LONG") == "" {
			continue
		}
		jobs := synergyJobs(t, table, c.name)
		fair, ours := onSlurm(t, c.servers, jobs, Spec{Sizing: "proportional", Window: c.window}), onSlurm(t, c.servers, jobs, Spec{Sizing: "waterfill", Window: c.window})
		t.Logf("%s: %.3f h, %.3f h", c.name, fair, ours)
		if fair/ours < c.ratio {
			t.Errorf("%s: proportional %v h, ours %v h", c.name, fair, ours)
		}
	}
}

// The daemon's own cycles write the sizes: jobs that ask for twice their share, as
// users do, are cut to what they can use or to what is there.
func TestDaemonSizes(t *testing.T) {
	table := shared.Workloads(t)
	jobs, err := traces.GenerateSynergy(traces.SynergyParams{Seed: 1, Jobs: 150, JobsPerHour: 2.2, Split: [3]float64{20, 70, 10}, Workloads: table})
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		jobs[i].CPUs, jobs[i].MemMB = 6*jobs[i].GPUs, 64000*int64(jobs[i].GPUs)
	}
	hours := func(sizing string) float64 {
		in := synergyInput(table, 4, jobs)
		in.Config, in.Table = configured(t, "cycle.interval = \"1m\"\nsizing.start_timeout = \"5m\""), table
		return meanHours(t, in, Spec{Order: "priod", Backfill: "easy", Sizing: sizing}).Figures.MeanJCT / 3600
	}
	asked, sized := hours("request"), hours("waterfill")
	t.Logf("as asked %.2f h, sized %.2f h", asked, sized)
	if sized > 0.8*asked {
		t.Errorf("as asked %v h, sized %v h", asked, sized)
	}
}

func TestSizingOnSlurmRefuses(t *testing.T) {
	for want, spec := range map[string]Spec{
		"--engine rounds": {Sizing: "greedy"},
		"keep its share":  {Sizing: "opt"},
		"not srtf":        {Sizing: "waterfill", Order: "srtf"},
		"other engines":   {Sizing: "waterfill", Engine: "pool"},
		"engine pool":     {Backfill: "conservative"},
		"no order of a":   {Order: "las"},
	} {
		if err := spec.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	for want, spec := range map[string]Spec{
		"wants backfill": {Sizing: "waterfill", Backfill: "none"},
		"--nodes":        {Sizing: "waterfill"},
	} {
		in := synergyInput(shared.Workloads(t), 1, nil)
		if want == "--nodes" {
			in.Cluster.Nodes[0].MemMB = 0
		}
		in.Config = configured(t, "")
		if err := spec.Check(); err != nil {
			t.Errorf("%+v: %v", spec, err)
		} else if _, err := Run(t.Context(), spec, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
