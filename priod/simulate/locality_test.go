package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"slurmprio/priod/trace"
)

// gangsOf generates jobs with many gangs among them, half of all GPU time and more, that run
// for five minutes to twelve hours, on a cluster with so many GPUs under so much load.
func gangsOf(seed uint64, jobs, gpus int, load float64) []trace.Job {
	r := rand.New(rand.NewPCG(seed, 0x6c6f63))
	sizes := []struct{ gpus, weight int }{{1, 55}, {2, 10}, {4, 10}, {8, 12}, {16, 9}, {32, 4}}
	all, work := make([]trace.Job, jobs), 0.0
	for i := range all {
		at := r.IntN(100)
		size := 0
		for at >= sizes[size].weight {
			at -= sizes[size].weight
			size++
		}
		run := math.Round(300 * math.Pow(144, r.Float64()))
		all[i] = trace.Job{ID: fmt.Sprint(i), GPUs: sizes[size].gpus, Duration: run, User: "u", Account: "a", Weight: 1, Deadline: trace.NoDeadline}
		work += run * float64(all[i].GPUs)
	}
	mean, at := work/(load*float64(gpus)*float64(jobs)), 0.0
	for i := range all {
		all[i].Submit = math.Round(at)
		at += mean * r.ExpFloat64()
	}
	return all
}

// Waiting for few switches as long as that pays is better than never to wait and than to
// wait always, under any load (docs/evidence/locality.md).
func TestLocality(t *testing.T) {
	const switches, nodes, gpus = 8, 4, 4
	seeds, jobs, loads := 1, 800, []float64{0.8} // a part of it in each run of all tests
	if os.Getenv("SLURMPRIO_TABLE") == "1" {
		seeds, jobs, loads = 4, 2000, []float64{0.6, 0.8, 0.95}
	}
	policies := []struct{ name, toml string }{
		{"never", ""},
		{"always", "[locality]\nenabled = true\nwait_weight = 0.0\nmax_wait = \"1000d\"\n"},
		{"as long as it pays", "[locality]\nenabled = true\n"},
	}
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: switches * nodes, GPUType: "gpu", GPUs: gpus}}}
	if err := c.Hang(nodes); err != nil {
		t.Fatal(err)
	}
	for _, load := range loads {
		mean, gangs := make([]float64, len(policies)), make([]float64, len(policies))
		for i, p := range policies {
			n := 0
			for seed := range uint64(seeds) {
				all := gangsOf(seed, jobs, c.TotalGPUs(), load)
				spec := Spec{Order: "priod", SlurmOrder: "fifo", Backfill: "easy", SpreadCosts: []float64{0.146, 0.199, 0.441}}
				if err := spec.Check(); err != nil {
					t.Fatal(err)
				}
				r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(all), Config: configured(t, "[cycle]\ninterval = \"1m\"\n"+p.toml)})
				if err != nil {
					t.Fatal(err)
				}
				for k, o := range r.Outcomes {
					jct := o.End - r.Jobs[k].Submit
					mean[i] += jct / float64(seeds*jobs)
					if all[k].GPUs > gpus {
						gangs[i] += jct
						n++
					}
				}
			}
			gangs[i] /= float64(n)
			t.Logf("load %v, %-20s mean completion %6.0f s, of jobs on several nodes %6.0f s", load, p.name, mean[i], gangs[i])
		}
		if mean[2] >= mean[0] || mean[2] >= mean[1] {
			t.Errorf("load %v: %.0f s, never waiting %.0f, always waiting %.0f", load, mean[2], mean[0], mean[1])
		}
	}
}

// The virtual Slurm itself has a job wait for few switches no longer than what is written
// says, from when it could have started on more.
func TestSwitchesAreWaitedFor(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 4, GPUType: "gpu", GPUs: 1}}}
	if err := c.Hang(2); err != nil {
		t.Fatal(err)
	}
	jobs := []trace.Job{{Duration: 3700}, {Duration: 9000}, {Duration: 3700}, {Duration: 9000}, {Submit: 10, Duration: 36000, GPUs: 2, Nodes: 2}}
	for i := range jobs {
		j := &jobs[i]
		j.ID, j.GPUs, j.User, j.Account, j.Weight, j.Deadline = fmt.Sprint(i), max(j.GPUs, 1), "u", "a", 1, trace.NoDeadline
	}
	for toml, want := range map[string][2]float64{ // its start and its run
		"": {3700, 36000 / 0.8},
		"[locality]\nenabled = true\nmax_wait = \"5m\"\n": {4000, 36000 / 0.8},
		"[locality]\nenabled = true\n":                    {9000, 36000},
	} {
		spec := Spec{Order: "priod", SlurmOrder: "fifo", Backfill: "easy", SpreadCosts: []float64{0.2}}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Config: configured(t, "[cycle]\ninterval = \"1h\"\n"+toml)})
		if err != nil {
			t.Fatal(err)
		}
		if o := r.Outcomes[4]; o.Start != want[0] || o.Ran != want[1] {
			t.Errorf("%q: starts at %v and runs %v, want %v", toml, o.Start, o.Ran, want)
		}
	}
}
