package advise_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/slurmplug"
)

// On a busy week, asked each half hour, nine of ten jobs start by the time said for nine of ten, and the median is less than
// half as far off as a plan by time limits. Nothing but the number of GPUs and the limit is known of a job.
func TestExpectComesTrue(t *testing.T) {
	type guess struct {
		job                              cluster.JobID
		waited, limits, median, p90, fit float64 // s; fit: by what earlier promises were off
		first                            bool    // that was said of the job
	}
	type promise struct {
		at        time.Time
		said, was float64 // s; was: -1 while it waits
	}
	promises := map[cluster.JobID]*promise{} // the first of each job, as the daemon keeps it
	var guesses []guess
	m, runs := runtimes.NewModel(), map[cluster.JobID]bool{}
	each := func(s *cluster.Snapshot) {
		there := map[cluster.JobID]bool{}
		for i := range s.Jobs {
			j := &s.Jobs[i]
			running, known := runs[j.ID]
			if there[j.ID] = true; !known {
				runs[j.ID] = false
				m.Submit(uint64(j.ID.ID), runtimes.KindOf(j), j.Submit)
			}
			if j.State == cluster.Running && !running {
				runs[j.ID] = true
				if p := promises[j.ID]; p != nil {
					p.was = j.Start.Sub(p.at).Seconds()
				}
				m.Start(uint64(j.ID.ID), j.Start)
			}
		}
		for id := range runs {
			if !there[id] {
				if p := promises[id]; p != nil && p.was < 0 { // it ran between two cycles
					p.was = s.At.Sub(p.at).Seconds()
				}
				m.End(uint64(id.ID), s.At, false)
				delete(runs, id)
			}
		}
	}
	wait := week(t, each, func(s *cluster.Snapshot, order []*cluster.Job, since map[cluster.JobID]float64) {
		queue := forecast.Queue{Now: s, Order: order, Memory: true}
		limits := queue.Starts()
		var waited []advise.Waited
		for _, p := range promises {
			waited = append(waited, advise.Waited{Was: p.was, Said: p.said})
			if w := &waited[len(waited)-1]; p.was < 0 {
				w.Was, w.Cut = s.At.Sub(p.at).Seconds(), true
			}
		}
		fit := advise.FitP90(waited)
		for id, e := range queue.Expect(func(j *cluster.Job) *runtimes.Distribution { return m.Predict(runtimes.KindOf(j), s.At) }, 20) {
			if l, planned := limits[id]; planned {
				guesses = append(guesses, guess{id, since[id], l, e.Median, e.P90, fit, promises[id] == nil})
				if promises[id] == nil {
					promises[id] = &promise{s.At, e.P90, -1}
				}
			}
		}
	})
	var byLimits, byDraws []float64
	held, fitted, first, firstHeld := 0.0, 0.0, 0.0, 0.0
	for _, g := range guesses {
		after := wait[g.job] - g.waited
		byLimits, byDraws = append(byLimits, math.Abs(after-g.limits)), append(byDraws, math.Abs(after-g.median))
		if after <= g.p90+30 {
			held++
		}
		if g.first {
			first++
			if after <= g.p90+30 {
				firstHeld++
			}
			if after <= max(g.p90*g.fit, g.median)+30 {
				fitted++
			}
		}
	}
	slices.Sort(byLimits)
	slices.Sort(byDraws)
	n := len(guesses)
	if n < 1000 {
		t.Fatalf("%d guesses", n)
	}
	limits, draws := byLimits[n/2], byDraws[n/2]
	held, fitted, firstHeld = held/float64(n), fitted/first, firstHeld/first
	t.Logf("%d expected starts: off by %.0f s in the median, by time limits %.0f s; %.1f %% started by the time said for nine of ten; of %.0f first ones %.1f %%, fitted to earlier ones %.1f %%", n, draws, limits, 100*held, first, 100*firstHeld, 100*fitted)
	if draws > limits/2 || held < 0.87 || held > 0.98 || fitted < 0.87 || fitted > 0.93 {
		t.Errorf("off by %.0f s, by time limits %.0f s; %.1f %% held, %.1f %% of the first ones when fitted", draws, limits, 100*held, 100*fitted)
	}
}

// Whatever the queue, the median is not after the time said for nine of ten, and who asks again is told the same.
func TestExpectIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		s := &cluster.Snapshot{At: at, Nodes: []cluster.Node{{Name: "n1", Usable: true, State: "MIXED", Partitions: []string{"gpu"}, GPUType: "a100", GPUs: 4, CPUs: 32, MemMB: 1 << 20}}}
		var order []*cluster.Job
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			j := cluster.Job{
				ID: slurmplug.Plain(uint32(i + 1)), TaskCount: 1, User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), Partition: "gpu", State: cluster.Pending, Reason: "Priority",
				GPUs: rapid.IntRange(1, 5).Draw(t, "GPUs"), Nodes: 1, CPUs: 1, TimeLimit: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, slurmplug.Unlimited}).Draw(t, "limit"),
			}
			if i == 0 {
				j.State, j.Start, j.NodeList, j.GPUType = cluster.Running, at.Add(-time.Hour), "n1", "a100"
				j.GPUs = min(j.GPUs, 4)
				s.Nodes[0].GPUsUsed = j.GPUs
			}
			s.Jobs = append(s.Jobs, j)
		}
		for i := range s.Jobs {
			if s.Jobs[i].State == cluster.Pending {
				order = append(order, &s.Jobs[i])
			}
		}
		var past []runtimes.Run
		for i := range rapid.IntRange(0, 40).Draw(t, "past runs") {
			start := at.Add(-time.Duration(100+i) * time.Hour)
			past = append(past, runtimes.Run{Kind: runtimes.KindOf(&s.Jobs[0]), Submit: start, Start: start, End: start.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "ran")) * time.Second)})
		}
		m := runtimes.Learn(slices.Concat(past, runtimes.Going(s.Jobs)), at)
		ask := func() map[cluster.JobID]forecast.ETA {
			queue := forecast.Queue{Now: s, Order: order, Memory: true}
			return queue.Expect(func(j *cluster.Job) *runtimes.Distribution { return m.Predict(runtimes.KindOf(j), at) }, 10)
		}
		first, again := ask(), ask()
		for id, e := range first {
			if !(e.Median >= 0) || e.P90 < e.Median || again[id] != e {
				t.Fatalf("job %s: %+v, then %+v", id, e, again[id])
			}
		}
		for _, j := range order {
			if _, planned := first[j.ID]; planned && j.GPUs > 4 {
				t.Fatalf("job %s never fits and is expected", j.ID)
			}
		}
	})
}

// What nine of ten waited is the fit; jobs that still wait count.
func TestFitP90(t *testing.T) {
	var waited []advise.Waited
	for i := range 100 {
		waited = append(waited, advise.Waited{Was: float64(i+1) * 60, Said: 3000})
	}
	if fit := advise.FitP90(waited); math.Abs(fit-1.8) > 0.03 {
		t.Errorf("nine of ten waited 5400 s for 3000 s: %v", fit)
	}
	for range 50 {
		waited = append(waited, advise.Waited{Was: 9000, Said: 3000, Cut: true})
	}
	if fit := advise.FitP90(waited); fit != 3 {
		t.Errorf("a third still waits: %v", fit)
	}
	if fit := advise.FitP90(waited[:20]); fit != 1 {
		t.Errorf("20 promises teach %v", fit)
	}
}
