package virtual

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// once evicts a job at the first pass from a time on.
func once(index int, from float64, restore bool) func(*System) []Eviction {
	asked := false
	return func(s *System) []Eviction {
		if asked || s.Now() < from {
			return nil
		}
		asked = true
		return []Eviction{{Job: index, Restore: restore}}
	}
}

// One GPU; the victim runs from 0, a trial comes at 50 and evicts it.
func TestEviction(t *testing.T) {
	victim := trace.Job{ID: "victim", GPUs: 2, Duration: 100, Grace: 5}
	jobs := []trace.Job{victim, {ID: "behind", GPUs: 2, Duration: 30, Submit: 1}, {ID: "te", GPUs: 2, Duration: 10, Submit: 50, Class: cluster.TE}}
	base := Options{TEFirst: true, RequeueDelay: 20, RestartCost: 3, Prolog: 1, Epilog: 2}
	for _, c := range []struct {
		name            string
		ckpt            float64
		restore         bool
		te, behind, end float64
		ran, wasted     float64
	}{
		// Signal at 50 after 49 s of work (prolog 1 s), leaves at 55, epilog to 57; te runs 58..68, epilog to 70;
		// requeued at 75. "behind" runs 71..101, epilog to 103; the victim runs 104..(3 restart + 51)=158.
		{"restored, saves when told", 0, true, 57, 70, 158, 54 + 54, (5 + 3) * 2},
		{"last checkpoint at 40 s", 20, true, 57, 70, 167, 54 + 63, (9 + 5 + 3) * 2},
		{"not restored", 0, false, 57, 70, 158, 54 + 54, (5 + 3) * 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := base
			opt.Evict = once(0, 50, c.restore)
			own := slices.Clone(jobs)
			own[0].Ckpt = c.ckpt
			r := run(t, nodes(1, 2), own, opt)
			v := r.Outcomes[0]
			if v.Start != 0 || r.Outcomes[2].Start != c.te || r.Outcomes[1].Start != c.behind || v.End != c.end || v.Ran != c.ran || v.Wasted != c.wasted || v.Preemptions != 1 || !v.Done {
				t.Fatalf("%+v", r.Outcomes)
			}
		})
	}
}

// With its place restored the victim stands before what came after it.
func TestEvictedJobKeepsItsTurnOnlyIfRestored(t *testing.T) {
	jobs := []trace.Job{{ID: "victim", GPUs: 1, Duration: 100}, {ID: "other", GPUs: 1, Duration: 100, Submit: 1}}
	first := func(restore bool) float64 {
		return run(t, nodes(1, 1), jobs, Options{Evict: once(0, 1, restore)}).Outcomes[0].End
	}
	if kept, lost := first(true), first(false); kept != 100 || lost != 200 {
		t.Fatalf("restored it ends at %v, else at %v", kept, lost)
	}
}

func TestLimitsBlockNoOtherJob(t *testing.T) {
	jobs := []trace.Job{
		{ID: "a1", GPUs: 2, Duration: 10, User: "ann"}, {ID: "a2", GPUs: 1, Duration: 10, User: "ann"},
		{ID: "b1", GPUs: 2, Duration: 10, User: "bob"},
	}
	for _, b := range []Backfill{NoBackfill, EASY} {
		c := nodes(1, 4)
		c.QOS = map[string]slurmplug.QOSLimits{"": {User: slurmplug.TRES{{Name: "gres/gpu", Count: 2}}}}
		r := run(t, c, jobs, Options{Backfill: b})
		if r.Outcomes[0].Start != 0 || r.Outcomes[1].Start != 10 || r.Outcomes[2].Start != 0 {
			t.Errorf("%s: %+v", b, r.Outcomes)
		}
	}
}

func TestJobIsKilledAtItsLimit(t *testing.T) {
	r := run(t, nodes(1, 1), []trace.Job{{ID: "a", GPUs: 1, Duration: 100, Limit: 60}}, Options{})
	if o := r.Outcomes[0]; o.End != 60 || !o.Done {
		t.Fatalf("%+v", o)
	}
}

func TestSpeedsByType(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "k80", GPUs: 1}, {Count: 1, GPUType: "v100", GPUs: 1}, {Count: 1, GPUType: "t4", GPUs: 1}}}
	speed := func(_ *trace.Job, gpuType string) float64 { return map[string]float64{"k80": 1, "v100": 4}[gpuType] }
	jobs := []trace.Job{{ID: "a", GPUs: 1, Steps: 100}, {ID: "b", GPUs: 1, Steps: 100}, {ID: "c", GPUs: 1, Steps: 100, GPUType: "v100"}}
	r := run(t, c, jobs, Options{Speed: speed})
	for i, want := range []metrics.Outcome{{End: 100, Type: 0, Nodes: "n0", Ran: 100, Trials: 1, Done: true}, {End: 25, Type: 1, Nodes: "n1", Ran: 25, Trials: 1, Done: true}, {Start: 25, End: 50, Type: 1, Nodes: "n1", Ran: 25, Trials: 1, Done: true}} {
		if r.Outcomes[i] != want {
			t.Errorf("%+v, want %+v", r.Outcomes[i], want)
		}
	}
}

func TestNodeFailures(t *testing.T) {
	var jobs []trace.Job
	for j, err := range stream(300, 64, 0.8, 3) {
		if err != nil {
			t.Fatal(err)
		}
		if j.GPUs <= 64 {
			j.Limit = 0
			j.Submit = math.Floor(j.Submit)
			jobs = append(jobs, j)
		}
	}
	for _, b := range []Backfill{NoBackfill, EASY} {
		opt := Options{Placement: placement.Packed, Backfill: b, MTBF: 40000, Repair: 600, Checkpoint: 300, RequeueDelay: 121, Seed: 7, Epilog: 3}
		one, two := run(t, nodes(8, 8), jobs, opt), run(t, nodes(8, 8), jobs, opt)
		if fmt.Sprint(one) != fmt.Sprint(two) {
			t.Fatal("the same seed gives another run")
		}
		opt.Seed = 8
		if fmt.Sprint(one) == fmt.Sprint(run(t, nodes(8, 8), jobs, opt)) {
			t.Fatal("another seed gives the same run")
		}
		f := figures(t, one, 64)
		if f.Wasted == 0 || f.Preemptions != 0 {
			t.Fatalf("%+v", f)
		}
		for i, o := range one.Outcomes {
			if useful := o.Ran - o.Wasted/float64(jobs[i].GPUs); !near(useful, jobs[i].Duration) {
				t.Fatalf("%s: job %s did %v of %v s", b, jobs[i].ID, useful, jobs[i].Duration)
			}
		}
	}
}

// Whatever is evicted whenever, each job does its work exactly once, and the
// GPUs are all free at the end.
func TestEvictionsLoseNothingButWhatIsBooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opt := Options{
			Backfill:  rapid.SampledFrom([]Backfill{NoBackfill, EASY}).Draw(t, "backfill"),
			Placement: rapid.SampledFrom([]placement.Mode{placement.Packed, placement.Consolidated}).Draw(t, "placement"),
			Grace:     float64(rapid.IntRange(0, 5).Draw(t, "grace")), RequeueDelay: float64(rapid.IntRange(0, 9).Draw(t, "delay")),
			Prolog: float64(rapid.IntRange(0, 2).Draw(t, "prolog")), Epilog: float64(rapid.IntRange(0, 2).Draw(t, "epilog")),
			Checkpoint: float64(rapid.IntRange(0, 5).Draw(t, "ckpt")), RestartCost: float64(rapid.IntRange(0, 3).Draw(t, "restart")),
			TEFirst: rapid.Bool().Draw(t, "te first"),
		}
		if rapid.Bool().Draw(t, "failures") {
			opt.MTBF, opt.Repair, opt.Seed = 200, 10, rapid.Uint64().Draw(t, "seed")
		}
		c := drawCluster(t)
		jobs := possible(c, drawJobs(t, c, 20), opt)
		for i := range jobs {
			jobs[i].Limit = 0
		}
		left := rapid.IntRange(0, 30).Draw(t, "evictions")
		opt.Evict = func(s *System) []Eviction {
			for r := range s.Running() {
				if !r.Leaving && left > 0 && rapid.Bool().Draw(t, "evict") {
					left--
					return []Eviction{{Job: r.Index, Restore: rapid.Bool().Draw(t, "restore")}}
				}
			}
			return nil
		}
		e := moments(t, c, jobs, opt, func(e *engine) {
			for n := range e.nodes.Len() {
				if e.nodes.FreeOn(int32(n)).GPUs < 0 {
					t.Fatalf("node %d holds more than it has at %v", n, e.now)
				}
			}
		})
		for i, o := range e.outcomes {
			if useful := o.Ran - o.Wasted/float64(jobs[i].GPUs); !o.Done || !near(useful, jobs[i].Duration) {
				t.Fatalf("job %s did %v of %v s: %+v", jobs[i].ID, useful, jobs[i].Duration, o)
			}
		}
	})
}

// Without checkpoints a long job on failing nodes never ends; the run does.
func TestJobThatFailuresNeverLetEnd(t *testing.T) {
	jobs := []trace.Job{{ID: "long", GPUs: 32, Duration: 1e6}}
	_, err := Run(context.Background(), nodes(4, 8), trace.Each(jobs), Options{Placement: placement.Packed, MTBF: 3600, Repair: 60})
	if want := "stuck: these jobs can never run because 1000 runs on end were cut off before anything was saved (no checkpoints?): long"; err == nil || err.Error() != want {
		t.Fatal(err)
	}
}

func TestEndlessTraceWithAStuckJob(t *testing.T) {
	endless := func(yield func(trace.Job, error) bool) {
		for i := 0; yield(trace.Job{ID: fmt.Sprint(i), GPUs: 1 + i%2*(i/2%50000), Duration: 1}, nil); i++ {
			if i > 1_000_000 {
				t.Fatal("reads on and on")
			}
		}
	}
	if _, err := Run(context.Background(), nodes(1, 8), endless, Options{}); err == nil || !strings.HasPrefix(err.Error(), "stuck: ") {
		t.Fatal(err)
	}
	one := func(yield func(trace.Job, error) bool) {
		for i := 0; yield(trace.Job{ID: fmt.Sprint(i), GPUs: max(1, 9-i), Duration: 1}, nil); i++ {
			if i > 1_000_000 {
				t.Fatal("reads on and on")
			}
		}
	}
	if _, err := Run(context.Background(), nodes(1, 8), one, Options{}); err == nil || !strings.HasSuffix(err.Error(), ": 0") {
		t.Fatal(err)
	}
}

func TestWindowStopsTheRun(t *testing.T) {
	endless := func(yield func(trace.Job, error) bool) {
		for i := 0; ; i++ {
			if !yield(trace.Job{ID: fmt.Sprint(i), GPUs: 1, Duration: 30, Submit: float64(10 * i)}, nil) {
				return
			}
		}
	}
	w := &metrics.Window{First: 5, Last: 9}
	r, err := Run(context.Background(), nodes(1, 1), endless, Options{Window: w})
	if err != nil {
		t.Fatal(err)
	}
	f, err := metrics.Measure(r.Jobs, r.Outcomes, w, 1)
	if err != nil || f.Jobs != 5 || r.End != 300 || len(r.Jobs) < 30 || len(r.Jobs) > 32 {
		t.Fatal(f, err, r.End, len(r.Jobs))
	}
}

func TestFairShareOfAccounts(t *testing.T) {
	var jobs []trace.Job
	for i := range 10 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint("greedy", i), GPUs: 1, Duration: 1000, Account: "greedy"})
	}
	jobs = append(jobs, trace.Job{ID: "modest", GPUs: 1, Duration: 1000, Submit: 400, Account: "modest"})
	r := run(t, nodes(1, 1), jobs, Options{Order: Multifactor})
	if r.Outcomes[10].Start != 1000 {
		t.Fatalf("the job of the account without use starts at %v", r.Outcomes[10].Start)
	}
}

// The order comes from the same cycle.Step as the daemon's: TE before BE from
// the next cycle on.
func TestPriodOrdersThroughItsCycle(t *testing.T) {
	var jobs []trace.Job
	for i := range 20 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), GPUs: 1, Duration: 100, User: "ann", Account: "x", Submit: float64(i)})
	}
	for i := 10; i < 20; i += 3 {
		jobs[i].Class = cluster.TE
	}
	daemon := Daemon{Settings: cycle.Settings{Order: order.Feature{Settings: order.Settings{Top: 2_000_000_000, WritesPerCycle: 1000}}}, Interval: 15 * time.Second}
	r := run(t, nodes(1, 1), jobs, Options{Order: Priod, Daemon: daemon})
	for i, want := range map[int]float64{0: 0, 10: 100, 13: 200, 16: 300, 19: 400} {
		if r.Outcomes[i].Start != want {
			t.Errorf("job %d starts at %v, want %v", i, r.Outcomes[i].Start, want)
		}
	}
	without := daemon
	without.Settings.Hold = "paused by a test"
	r = run(t, nodes(1, 1), jobs, Options{Order: Priod, Daemon: without})
	if r.Outcomes[10].Start != 1000 {
		t.Errorf("paused, and job 10 starts at %v", r.Outcomes[10].Start)
	}
}

// The daemon's allocation goes through the same cycle: an account of more weight
// first, and a job that is owed less last.
func TestPriodOrdersByAllocation(t *testing.T) {
	jobs := []trace.Job{{ID: "first", GPUs: 1, Duration: 1000, User: "ann", Account: "x"}}
	for i := range 4 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), GPUs: 1, Duration: 1000, User: "ann", Account: []string{"x", "y"}[i%2], Submit: 1})
	}
	daemon := Daemon{Interval: 15 * time.Second, Settings: cycle.Settings{
		Order: order.Feature{Settings: order.Settings{Top: 2_000_000_000, Order: order.OwedOrder}},
		Allocation: allocate.Feature{Ledger: &allocate.Ledger{}, Settings: allocate.Settings{
			Policy: "max-min", Every: time.Hour, Weights: map[string]float64{"y": 5},
		}},
	}}
	r := run(t, nodes(1, 1), jobs, Options{Order: Priod, Daemon: daemon})
	for i, want := range []float64{0, 3000, 1000, 4000, 2000} {
		if r.Outcomes[i].Start != want {
			t.Errorf("job %d starts at %v, want %v", i, r.Outcomes[i].Start, want)
		}
	}
}
