package advise_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
	"slurmprio/tests/shared"
	"slurmprio/tests/shared/venus"
)

// asked are the jobs of a week of Helios's Venus (SC'21), which has no time limits, with limits
// that are as many times their run times as those of users of NREL's Eagle.
func asked(t *testing.T) (jobs []trace.Job) {
	t.Helper()
	var times []float64
	for _, x := range shared.Columns(t, "traces/nrel_eagle_1000_slurm_jobs.csv.gz", "run_time", "wallclock_req") {
		if run, limit := shared.Number(t, x[0]), shared.Number(t, x[1]); run >= 60 && limit >= run {
			times = append(times, limit/run)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i, j := range venus.Jobs(t) {
		j.ID, j.Limit = strconv.Itoa(i+1), min(max(j.Duration, 60)*times[rnd.IntN(len(times))], max(30*86400, j.Duration))
		jobs = append(jobs, j)
	}
	return jobs
}

// week is a busy one of Venus, in the order of submission with EASY backfill. each is shown all cycles, ask one of each half hour, with the
// jobs that wait, in their order, and for how long, s; both may be nil. It returns how long each job waited, s.
func week(t *testing.T, each func(*cluster.Snapshot), ask func(s *cluster.Snapshot, order []*cluster.Job, waited map[cluster.JobID]float64)) (wait map[cluster.JobID]float64) {
	t.Helper()
	jobs := asked(t)
	set, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	opt := virtual.Options{Placement: placement.Consolidated, Backfill: virtual.EASY, Order: virtual.Priod, Own: virtual.Own{Multifactor: virtual.FIFOWeights}}
	opt.Daemon = virtual.Daemon{Interval: 30 * time.Second, Settings: set.Features(nil, nil, cycle.NewState())}
	opt.Daemon.Seen = func(r *cycle.Result) {
		s := &r.Snapshot
		if each != nil {
			each(s)
		}
		if s.At.Sub(last) < 30*time.Minute {
			return
		}
		last = s.At
		var order []*cluster.Job
		waited := map[cluster.JobID]float64{}
		for _, q := range r.Plan.Queue {
			j := s.Jobs[q.Job]
			j.Nodes = (j.GPUs + 7) / 8 // a trace does not say
			order, waited[j.ID] = append(order, &j), s.At.Sub(j.Submit).Seconds()
		}
		ask(s, order, waited)
	}
	r, err := virtual.Run(context.Background(), trace.Cluster{Nodes: []trace.NodeGroup{{Count: 96, GPUs: 8, GPUType: "v100"}}}, trace.Each(jobs), opt)
	if err != nil {
		t.Fatal(err)
	}
	wait = map[cluster.JobID]float64{}
	for i, o := range r.Outcomes {
		wait[slurmplug.Plain(uint32(i+1))] = o.Start - r.Jobs[i].Submit
	}
	return wait
}

// On a busy week, asked each half hour, hardly a job starts later than Starts says, in the order
// of their submission with EASY backfill; what is to start now does, and most start much sooner.
func TestStartsComeTrue(t *testing.T) {
	type guess struct {
		job           cluster.JobID
		waited, after float64 // s; since its submission, and from then on
	}
	var guesses []guess
	wait := week(t, nil, func(s *cluster.Snapshot, order []*cluster.Job, waited map[cluster.JobID]float64) {
		queue := forecast.Queue{Now: s, Order: order, Memory: true}
		for id, after := range queue.Starts() {
			guesses = append(guesses, guess{id, waited[id], after})
		}
	})
	from := -1.0
	for _, to := range []float64{60, 3600, 6 * 3600, 24 * 3600, 1e9} {
		var parts []float64 // of the time that was said
		late := 0
		for _, g := range guesses {
			if g.after <= from || g.after > to {
				continue
			}
			after := wait[g.job] - g.waited
			if after > g.after+60 {
				late++
			}
			parts = append(parts, after/max(g.after, 1))
		}
		from = to
		slices.Sort(parts)
		if len(parts) == 0 {
			t.Fatalf("nothing is said to start within %.0f s", to)
		}
		at := func(q float64) float64 { return parts[int(q*float64(len(parts)-1))] }
		t.Logf("said to start within %9.0f s: %5d, %d later than that; after %.2f of the time in the median, %.2f in one of ten", to, len(parts), late, at(0.5), at(0.9))
		if float64(late) > 0.05*float64(len(parts)) || to == 60 && at(1) > 60 || at(0.5) > 0.25 {
			t.Errorf("within %.0f s: %d of %d were late, the median part is %.2f", to, late, len(parts), at(0.5))
		}
	}
}
