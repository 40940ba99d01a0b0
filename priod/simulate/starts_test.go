package simulate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// Whatever starts when and with how much: no node gives more than it has, and a
// job gets more than its share only beside free GPUs that keep theirs. (Where one
// ends that needed less, its GPU is free with less: nothing takes the rest back.)
func TestFreeGPUsKeepTheirShare(t *testing.T) {
	table := defaultTable(t)
	var models []string
	for _, w := range table.All() {
		if _, ok := w.Curves["v100"]; ok {
			models = append(models, w.Name)
		}
	}
	asked, missed := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		var groups []trace.NodeGroup
		for _, gpuType := range []string{"v100", "other"}[:rapid.IntRange(1, 2).Draw(r, "types")] {
			gpus := rapid.IntRange(1, 8).Draw(r, "gpus")
			groups = append(groups, trace.NodeGroup{
				Count: rapid.IntRange(1, 4).Draw(r, "nodes"), GPUType: gpuType, GPUs: gpus,
				CPUs: gpus*rapid.IntRange(1, 6).Draw(r, "cpus") + rapid.IntRange(0, gpus-1).Draw(r, "odd cpus"), MemMB: int64(gpus) * int64(rapid.IntRange(1, 2e5).Draw(r, "mb")),
			})
		}
		var jobs []trace.Job
		now := 0.0
		for i := range rapid.IntRange(1, 40).Draw(r, "jobs") {
			now += rapid.Float64Range(0, 500).Draw(r, "pause")
			j := trace.Job{ID: fmt.Sprint(i), Submit: now, GPUs: rapid.SampledFrom([]int{1, 1, 1, 2, groups[0].GPUs}).Draw(r, "job's gpus"), Steps: rapid.Float64Range(100, 1e4).Draw(r, "steps"),
				Workload: rapid.SampledFrom(models).Draw(r, "model")}
			if j.GPUs > groups[0].GPUs {
				j.GPUs = 1
			}
			jobs = append(jobs, j)
		}
		in := synergyInput(table, 1, jobs)
		known := in.Curve
		in.Curve = func(j *trace.Job, gpuType string) *workload.Curve {
			if gpuType == "other" {
				return nil
			}
			return known(j, gpuType)
		}
		in.Cluster = trace.Cluster{Nodes: groups}
		s, err := newStarts(rapid.SampledFrom([]string{"waterfill", "tune", "tune-best-fit", "proportional"}).Draw(r, "sizing"), &in)
		if err != nil {
			r.Fatal(err)
		}
		opt := virtual.Options{
			Placement: placement.Packed, Backfill: rapid.SampledFrom([]virtual.Backfill{virtual.NoBackfill, virtual.EASY, virtual.Skip}).Draw(r, "backfill"), Speed: in.Speed,
			Size: func(sys *virtual.System, starting []virtual.InSystem) [][]placement.Share {
				sized := s.size(sys, starting)
				after := sys.Nodes().Clone()
				for i, shares := range sized {
					if shares == nil {
						missed++
						return sized
					}
					asked++
					gpus := 0
					for _, p := range shares {
						gpus += int(p.GPUs)
					}
					if gpus != starting[i].Job.GPUs {
						r.Fatalf("job %s: %+v", starting[i].Job.ID, shares)
					}
					after.Take(shares)
				}
				for i, shares := range sized {
					for _, p := range shares {
						free, size := after.FreeOn(p.Node), after.Size(p.Node)
						gpus := int64(size.GPUs) // shares are whole
						short := func(left, all int64) bool { return left < all/gpus*int64(free.GPUs) }
						more := func(has, all int64) bool { return has > all/gpus*int64(p.GPUs) }
						if free.GPUs < 0 || free.CPUs < 0 || free.MemMB < 0 ||
							short(int64(free.CPUs), int64(size.CPUs)) && more(int64(p.CPUs), int64(size.CPUs)) ||
							short(free.MemMB, size.MemMB) && more(p.MemMB, size.MemMB) {
							r.Fatalf("job %s has %+v of %+v, and %+v is left", starting[i].Job.ID, p, size, free)
						}
					}
				}
				return sized
			},
		}
		if _, err := virtual.Run(context.Background(), in.Cluster, s.least(in.Jobs), opt); err != nil {
			r.Fatal(err)
		}
	})
	if missed > asked/50 {
		t.Errorf("%d jobs sized, %d passes in which one had no place", asked, missed)
	}
}

// What is left of it where jobs stay as they start, from jobs as Synergy's
// generator draws them.
func TestSizingOnSlurm(t *testing.T) {
	table := defaultTable(t)
	jobs, err := trace.GenerateSynergy(trace.SynergyParams{Seed: 1, Jobs: 400, JobsPerHour: 2.2, Split: [3]float64{20, 70, 10}, MultiGPU: true, Workloads: table})
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"fifo", "sjf"} {
		hours := map[string]float64{}
		for _, sizing := range []string{"proportional", "tune-best-fit", "waterfill"} {
			r := meanHours(t, synergyInput(table, 4, jobs), Spec{Order: order, Backfill: "easy", Sizing: sizing})
			hours[sizing] = r.Figures.MeanJCT / 3600
		}
		t.Logf("%s: mean JCT in h: %v", order, hours)
		if hours["waterfill"] > hours["tune-best-fit"] || hours["waterfill"] > 0.9*hours["proportional"] {
			t.Errorf("%s: %v", order, hours)
		}
	}
}

// The published traces, of which most of the gain is left.
func TestSizingOnSlurmRows(t *testing.T) {
	table := defaultTable(t)
	for _, c := range []struct {
		name, order string
		servers     int
		window      *metrics.Window
		ratio       float64 // of proportional to waterfill, at least
	}{
		{"deploy_static_100job_6_3_1.csv", "fifo", 4, nil, 1.11},
		{"deploy_dynamic_100job_srtf.csv", "fifo", 4, nil, 1.19},
		{"deploy_dynamic_100job_srtf.csv", "sjf", 4, nil, 1.22},
		{"sim_single_gpu_9jph_20_70_10_seed42.csv.gz", "fifo", 16, &metrics.Window{First: 4000, Last: 4999}, 3.6},
		{"sim_single_gpu_7jph_20_70_10_seed42.csv.gz", "fifo", 16, &metrics.Window{First: 1000, Last: 1999}, 1.14},
	} {
		jobs := synergyJobs(t, table, c.name)
		hours := func(sizing string) float64 {
			return meanHours(t, synergyInput(table, c.servers, jobs), Spec{Order: c.order, Sizing: sizing, Window: c.window}).Figures.MeanJCT / 3600
		}
		fair, ours := hours("proportional"), hours("waterfill")
		t.Logf("%s %s: %.3f h, %.3f h", c.name, c.order, fair, ours)
		if fair/ours < c.ratio {
			t.Errorf("%s %s: proportional %v h, ours %v h", c.name, c.order, fair, ours)
		}
	}
}

// The daemon's own cycles write the sizes: jobs that ask for twice their share, as
// users do, are cut to what they can use or to what is there.
func TestDaemonSizes(t *testing.T) {
	table := defaultTable(t)
	jobs, err := trace.GenerateSynergy(trace.SynergyParams{Seed: 1, Jobs: 150, JobsPerHour: 2.2, Split: [3]float64{20, 70, 10}, Workloads: table})
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		jobs[i].CPUs, jobs[i].MemMB = 6*jobs[i].GPUs, 64000*int64(jobs[i].GPUs)
	}
	hours := func(sizing string) float64 {
		in := synergyInput(table, 4, jobs)
		in.Config, in.Table = configured(t, "cycle.interval = \"1m\"\nsizing.within = \"5m\""), table
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
		"--order srtf":    {Sizing: "waterfill", Order: "srtf"},
		"placed on nodes": {Sizing: "waterfill", Placement: "pool"},
		"conservative":    {Sizing: "waterfill", Backfill: "conservative"},
	} {
		if err := spec.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	in := synergyInput(defaultTable(t), 1, nil)
	in.Cluster.Nodes[0].MemMB = 0
	if _, err := newStarts("waterfill", &in); err == nil || !strings.Contains(err.Error(), "--nodes") {
		t.Errorf("nodes without memory: %v", err)
	}
}
