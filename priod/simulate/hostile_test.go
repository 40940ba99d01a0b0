package simulate

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// ordinary are the jobs of eight users: trainings with consent to evictions that keep 64 GPUs busy for a day, and trials.
func ordinary(t *rapid.T) (jobs []trace.Job) {
	add := func(class cluster.Class, at, run float64, gpus int) {
		n := len(jobs)
		jobs = append(jobs, trace.Job{
			ID: fmt.Sprint("o", n), Submit: at, Duration: run, Limit: 2 * run, GPUs: gpus, Class: class, Ckpt: 1800, Grace: 60,
			User: fmt.Sprint("u", n%8), Account: fmt.Sprint("a", n%3), Weight: 1, Deadline: trace.NoDeadline,
		})
	}
	for range 60 {
		add(cluster.BE, float64(rapid.IntRange(0, 20*3600).Draw(t, "at")), float64(rapid.IntRange(1800, 8*3600).Draw(t, "run")), rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(t, "gpus"))
	}
	for range 40 {
		add(cluster.TE, float64(rapid.IntRange(3600, 20*3600).Draw(t, "at")), float64(rapid.IntRange(20, 1200).Draw(t, "run")), rapid.SampledFrom([]int{1, 1, 2, 4, 8}).Draw(t, "gpus"))
	}
	return jobs
}

// flood are the trials of hostile users: arrays of thousands of tasks, limits of a minute resubmitted for ever, trials of all
// nodes, one user in ten accounts.
func flood(t *rapid.T) (jobs []trace.Job) {
	for f := range rapid.IntRange(1, 2).Draw(t, "hostile users") {
		begin := float64(rapid.IntRange(2*3600, 10*3600).Draw(t, "begin"))
		accounts := rapid.SampledFrom([]int{1, 10}).Draw(t, "accounts")
		add := func(at, run float64, gpus int) {
			n := len(jobs)
			jobs = append(jobs, trace.Job{
				ID: fmt.Sprint("h", n), Submit: at, Duration: run, Limit: run, GPUs: gpus, Class: cluster.TE,
				User: fmt.Sprint("hostile", f), Account: fmt.Sprint("x", n%accounts), Weight: 1, Deadline: trace.NoDeadline,
			})
		}
		switch rapid.SampledFrom([]string{"array", "minutes", "wide", "long"}).Draw(t, "flood") {
		case "array":
			for range 1000 {
				add(begin, 300, 1)
			}
		case "minutes":
			for i := range 1500 {
				add(begin+float64(i/50)*60, 60, 1)
			}
		case "wide":
			for i := range 60 {
				add(begin+float64(i)*20, 120, 64)
			}
		case "long":
			for range 40 {
				add(begin, 3600, 8)
			}
		}
	}
	return jobs
}

// Whatever hostile users submit: no trial of another user waits longer than twice as long as without them and as evictions
// take, and evictions for them lose no more work of others than their share of the GPUs may.
func TestHostileUsersCostThemselves(t *testing.T) {
	const gpus, grace, latency = 64, 60, 90 // of the hold, two cycles and the prolog
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 8, GPUType: "gpu", GPUs: 8, CPUs: 64, MemMB: 512000}}}
	conf := configured(t, "profile = \"balanced\"\n[locality]\nenabled = false\n[sizing]\nenabled = false\n")
	count := 5
	if os.Getenv("SLURMPRIO_LONG") == "1" {
		count = 200
	}
	for seed := range count {
		all, bad := rapid.Custom(ordinary).Example(seed), rapid.Custom(flood).Example(seed)
		run := func(jobs []trace.Job) map[string]metrics.Outcome {
			slices.SortStableFunc(jobs, func(a, b trace.Job) int { return int(a.Submit - b.Submit) })
			spec := Spec{Order: "priod", Backfill: "easy", Overheads: Overheads{Grace: grace, Requeue: 121, Prolog: 10, Restart: 60, Hold: 20}}
			if err := spec.Check(); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Config: conf})
			if err != nil {
				t.Fatal(err)
			}
			by := map[string]metrics.Outcome{}
			for i, o := range r.Outcomes {
				by[r.Jobs[i].ID] = o
			}
			return by
		}
		without, with := run(slices.Clone(all)), run(slices.Concat(all, bad))
		lost := 0.0
		for i := range all {
			j, a, b := &all[i], without[all[i].ID], with[all[i].ID]
			wait, flooded := a.Start-j.Submit, b.Start-j.Submit
			if j.Class == cluster.TE && flooded > 2*wait+grace+latency {
				t.Errorf("draw %d: trial %s of %d GPUs waits %.0f s, without the flood %.0f s", seed, j.ID, j.GPUs, flooded, wait)
			}
			lost += b.Wasted - a.Wasted
		}
		hostile := map[string]bool{}
		for i := range bad {
			hostile[bad[i].User] = true
		}
		const share = plan.Worth * 0.02 // te_budget.user.gpu_hours_share: beyond that they are BE jobs
		if most := float64(len(hostile)) * share * gpus * 86400; lost > most {
			t.Errorf("draw %d: others lose %.0f GPU-seconds, more than %.0f", seed, lost, most)
		}
	}
}
