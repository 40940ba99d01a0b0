package virtual

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

const retrying = "[retry]\nenabled = true\n"

// What becomes of a job that fails, by what the trace says, what its user agreed to and what
// priod.toml says. Cycles come every 10 s.
func TestTrials(t *testing.T) {
	failed, node := trace.Ending{State: "FAILED", ExitCode: 1}, trace.Ending{State: "NODE_FAIL"}
	once, twice := []trace.Trial{{Work: 95, Ending: failed}}, []trace.Trial{{Work: 95, Ending: failed}, {Work: 95, Ending: failed}}
	for name, w := range map[string]struct {
		toml string // "": no priod
		job  trace.Job
		want metrics.Outcome
	}{
		"the trace requeues it":            {"", trace.Job{Trials: once}, metrics.Outcome{End: 95 + 121 + 200, Ran: 295, Trials: 2, Failures: 1, Lost: 95, Nodes: "n0"}},
		"the trace gives it up":            {"", trace.Job{Trials: once, Ending: failed}, metrics.Outcome{End: 95 + 121 + 200, Ran: 295, Trials: 2, Failures: 2, Lost: 295, Nodes: "n0", Failed: true}},
		"its user did not agree":           {retrying, trace.Job{Trials: once}, metrics.Outcome{End: 95 + 121 + 200, Ran: 295, Trials: 2, Failures: 1, Lost: 95, Nodes: "n0"}},
		"priod is not there":               {"", trace.Job{Trials: once, Retry: "always"}, metrics.Outcome{End: 95 + 121 + 200, Ran: 295, Trials: 2, Failures: 1, Lost: 95, Nodes: "n0"}},
		"later":                            {retrying, trace.Job{Trials: once, Retry: "always"}, metrics.Outcome{End: 100 + 300 + 200, Ran: 295, Trials: 2, Failures: 1, Lost: 95, Nodes: "n0"}},
		"for the machine only":             {retrying, trace.Job{Trials: once, Retry: "infra"}, metrics.Outcome{End: 95, Ran: 95, Trials: 1, Failures: 1, Lost: 95, Nodes: "n0", Failed: true}},
		"never":                            {retrying, trace.Job{Trials: once, Retry: "never"}, metrics.Outcome{End: 95 + 121 + 200, Ran: 295, Trials: 2, Failures: 1, Lost: 95, Nodes: "n0"}},
		"twice the same is held":           {retrying, trace.Job{Trials: twice, Retry: "always"}, metrics.Outcome{End: 100 + 300 + 95, Ran: 190, Trials: 2, Failures: 2, Lost: 190, Nodes: "n0", Failed: true, Held: true}},
		"out of memory":                    {retrying, trace.Job{Ending: trace.Ending{State: "OUT_OF_MEMORY", Signal: 125}, Retry: "always"}, metrics.Outcome{End: 200, Ran: 200, Trials: 1, Failures: 1, Lost: 200, Nodes: "n0", Failed: true}},
		"a signal of a step is a crash":    {retrying, trace.Job{Ending: trace.Ending{State: "FAILED", StepSignal: 11}, Retry: "always"}, metrics.Outcome{End: 200 + 121 + 200, Ran: 400, Trials: 2, Failures: 2, Lost: 400, Nodes: "n1", Failed: true}},
		"elsewhere":                        {retrying, trace.Job{Ending: node, Retry: "infra"}, metrics.Outcome{End: 200 + 121 + 200, Ran: 400, Trials: 2, Failures: 1, Lost: 200, Nodes: "n1"}},
		"on the same node":                 {retrying + "max_excluded_nodes = 0\n", trace.Job{Ending: node, Retry: "infra"}, metrics.Outcome{End: 200 + 121 + 200, Ran: 400, Trials: 2, Failures: 2, Lost: 400, Nodes: "n0", Failed: true, Held: true}},
		"on too few other nodes":           {retrying, trace.Job{GPUs: 4, Nodes: 2, Ending: node, Retry: "infra"}, metrics.Outcome{End: 200 + 121 + 200, Ran: 400, Trials: 2, Failures: 2, Lost: 400, Nodes: "n0,n1", Failed: true, Held: true}},
		"at its time limit":                {retrying, trace.Job{Limit: 125, Retry: "always"}, metrics.Outcome{End: 130 + 121 + 75, Ran: 200, Trials: 2, Failures: 1, Nodes: "n0"}},
		"at its time limit by checkpoints": {retrying, trace.Job{Limit: 125, Ckpt: 50, Retry: "always"}, metrics.Outcome{End: 130 + 121 + 100, Ran: 225, Trials: 2, Failures: 1, Lost: 25, Nodes: "n0"}},
		"killed at its time limit":         {retrying, trace.Job{Limit: 125, Retry: "infra"}, metrics.Outcome{End: 125, Ran: 125, Trials: 1, Failures: 1, Lost: 125, Nodes: "n0", Failed: true}},
	} {
		w.job.ID, w.job.User, w.job.Duration = name, "ann", 200
		w.job.GPUs = max(w.job.GPUs, 2)
		opt := Options{Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121}
		if w.toml != "" {
			opt.Order, opt.Daemon = Priod, daemonOf(t, w.toml, nil)
		}
		w.want.Done = true
		o := run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 2}}}, []trace.Job{w.job}, opt).Outcomes[0]
		if o != w.want {
			t.Errorf("%s: %+v, want\n%+v", name, o, w.want)
		}
	}
}

// Whatever may go before the head of the queue, each job runs as often as the trace says.
func TestTrialsUnderEachBackfill(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	var jobs []trace.Job
	for i := range 60 {
		j := trace.Job{ID: fmt.Sprint(i), GPUs: 1 + r.IntN(4), Duration: float64(50 + r.IntN(400)), Submit: float64(30 * i)}
		for range r.IntN(4) {
			j.Trials = append(j.Trials, trace.Trial{Work: float64(1 + r.IntN(500)), Ending: trace.Ending{State: "FAILED"}})
		}
		jobs = append(jobs, j)
	}
	for _, b := range []Backfill{NoBackfill, EASY} {
		for _, mode := range []placement.Mode{placement.Packed, placement.Consolidated} {
			o := run(t, nodes(2, 4), jobs, Options{Backfill: b, Placement: mode, RequeueDelay: 121}).Outcomes
			for i := range o {
				if want := len(jobs[i].Trials); !o[i].Done || o[i].Failed || int(o[i].Failures) != want || int(o[i].Trials) != want+1 {
					t.Errorf("%s, %v: %+v, want %d failed trials", b, mode, o[i], want)
				}
			}
		}
	}
}

// Of two jobs that fail together one is requeued within the hour, as the cap says, and
// slurmctld has forgotten the other one by then: it ended when it failed.
func TestRetryKeepsCaps(t *testing.T) {
	var jobs []trace.Job
	for i := range 2 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), User: "ann", GPUs: 1, Duration: 100, Retry: "infra", Trials: []trace.Trial{{Work: 100, Ending: trace.Ending{State: "NODE_FAIL"}}}})
	}
	opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, Daemon: daemonOf(t, retrying+"per_hour = 1\n", nil)}
	o := run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 1}}}, jobs, opt).Outcomes
	if o[0].Failed || o[0].Trials != 2 || !o[1].Failed || o[1].Trials != 1 || o[1].End != 100 {
		t.Errorf("%+v", o)
	}
}

// A node fails, and Slurm puts its job back: priod keeps the job off the node, which is up
// again when the job may start.
func TestRetryAfterNodeFailure(t *testing.T) {
	for _, toml := range []string{retrying, ""} {
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, MTBF: 3000, Repair: 60, Seed: 5, Daemon: daemonOf(t, toml, nil)}
		var jobs []trace.Job
		for i := range 40 {
			jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), User: "ann", GPUs: 1, Duration: 500, Ckpt: 10, Submit: float64(600 * i), Retry: "infra"})
		}
		var refused, ran []string
		opt.Evict = func(s *System) []Eviction {
			for j := range s.Running() {
				if off := s.Nodes().Off(j.Request); off != nil {
					refused = append(refused, fmt.Sprint(off))
					if slices.Contains(off, j.Shares[0].Node) {
						ran = append(ran, j.Job.ID)
					}
				}
			}
			return nil
		}
		run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 3, GPUType: "a100", GPUs: 1}}}, jobs, opt)
		if (len(refused) > 0) != (toml != "") || len(ran) > 0 {
			t.Errorf("%q: refused %v, and ran there %v", toml, refused, ran)
		}
	}
}

// Jobs that fail change nothing about which cycles may be left out.
func TestSkippedCyclesWhileJobsFail(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 9))
		jobs := waitingJobs(seed, 80)
		for i := range jobs {
			jobs[i].Retry = []string{"", "infra", "always"}[r.IntN(3)]
			for range r.IntN(3) {
				e := trace.Ending{State: []string{"FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}[r.IntN(3)], ExitCode: r.IntN(3)}
				jobs[i].Trials, jobs[i].Ending = append(jobs[i].Trials, trace.Trial{Work: jobs[i].Steps * r.Float64(), Ending: e}), e
			}
		}
		outcomes := map[bool][]metrics.Outcome{}
		failures := int32(0)
		for _, every := range []bool{true, false} {
			c, opt := busy(t, steering+"[preemption]\nenabled = true\n"+retrying+"per_user_hour = 3\n")
			opt.MTBF, opt.Repair, opt.Seed, opt.Daemon.Every = 400000, 3000, seed, every
			outcomes[every] = run(t, c, jobs, opt).Outcomes
		}
		for _, o := range outcomes[true] {
			failures += o.Failures
		}
		if failures < 20 || !reflect.DeepEqual(outcomes[true], outcomes[false]) {
			t.Errorf("seed %d: %d failures, another outcome when cycles are left out", seed, failures)
		}
	}
}

// Two gangs of a user fail soon after their start, each in room that others made: for the next ones no job leaves, until one
// has run for ten minutes.
func TestGangsThatFailAtOnceEvictNothing(t *testing.T) {
	failed := trace.Ending{State: "FAILED", ExitCode: 1}
	gang := func(submit, duration float64, ending trace.Ending) trace.Job {
		return trace.Job{GPUs: 8, Nodes: 2, Duration: duration, Limit: 3600, Submit: submit, User: "bob", Class: cluster.TE, Ending: ending}
	}
	be := trace.Job{GPUs: 4, Duration: 8000, Limit: 43200, Grace: 10, User: "ann"}
	jobs := numbered(be, be, gang(1000, 60, failed), gang(2000, 60, failed), gang(3000, 700, trace.Ending{}), be, be, gang(14000, 60, failed))
	jobs[5].Submit, jobs[6].Submit = 12000, 12000
	opt := Options{Order: Priod, Backfill: EASY, Placement: placement.Packed, Daemon: daemonOf(t, evicting+retrying, nil)}
	o := run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4}}}, jobs, opt).Outcomes
	for i, want := range []int32{2, 2, 0, 0, 0, 1, 1, 0} {
		if o[i].Preemptions != want {
			t.Errorf("job %d: %+v, want %d evictions", i+1, o[i], want)
		}
	}
	if first := min(o[0].End, o[1].End); o[2].Start > 1200 || o[3].Start > 2200 || o[4].Start < first || o[7].Start > 14200 {
		t.Errorf("%+v", o)
	}
}

// Runs of two users fail on a node soon after their start: a third user's job on several nodes does without it.
func TestNodeOfQuickFailuresIsAvoided(t *testing.T) {
	node := trace.Ending{State: "NODE_FAIL"}
	jobs := numbered(
		trace.Job{GPUs: 4, Duration: 60, User: "ann", Ending: node},
		trace.Job{GPUs: 4, Duration: 60, Submit: 300, User: "bob", Ending: node},
		trace.Job{GPUs: 16, Nodes: 4, Duration: 300, Submit: 400, User: "ann"},
		trace.Job{GPUs: 8, Nodes: 2, Duration: 600, Submit: 600, User: "eve"},
	)
	for i := range jobs {
		jobs[i].Class = cluster.BE
	}
	opt := Options{Order: Priod, Backfill: EASY, Placement: placement.Packed, Daemon: daemonOf(t, retrying+"[locality]\nenabled = true\nslow_nodes = true\n", nil)}
	opt.Daemon.Settings.Refusals.Slow.Known = true
	o := run(t, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 4, GPUType: "a100", GPUs: 4}}}, jobs, opt).Outcomes
	if o[0].Nodes != o[1].Nodes || strings.Contains(o[3].Nodes, o[0].Nodes) || !o[3].Done {
		t.Errorf("%+v", o)
	}
}
