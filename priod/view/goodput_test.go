package view

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug/jobtag"
)

var midnight = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// pastRun is a run of 2 GPUs of a user's job from one hour of the day to another.
func pastRun(id uint32, from, to float64, state string, tag jobtag.Tag) cluster.PastStay {
	at := func(h float64) time.Time { return midnight.Add(time.Duration(h * float64(time.Hour))) }
	return cluster.PastStay{
		Stay:  cluster.Stay{Job: cluster.JobID{ID: id, Task: -1}, Start: at(from), End: at(to), Closed: state != "", GPUs: 2, User: "ann", Account: "vision"},
		State: state, Tag: jobtag.Text{Tag: tag},
	}
}

// What of a run no later one builds on, by how it ended and what it saves.
func TestLossOfARun(t *testing.T) {
	hourly, onSignal := jobtag.Tag{Ckpt: time.Hour}, jobtag.Tag{Signal: "USR1"}
	paid := 2 * 1800.0
	for name, x := range map[string]struct {
		run  cluster.PastStay
		paid *float64
		lost time.Duration
		why  Loss
	}{
		"completed":                    {pastRun(1, 0, 3.5, "COMPLETED", jobtag.Tag{}), nil, 0, ""},
		"failed, saves nothing":        {pastRun(1, 0, 3.5, "FAILED", jobtag.Tag{}), nil, 210 * time.Minute, ByFailure},
		"failed, checkpoints":          {pastRun(1, 0, 3.5, "NODE_FAIL", hourly), nil, 30 * time.Minute, ByFailure},
		"failed without a signal":      {pastRun(1, 0, 3.5, "OUT_OF_MEMORY", onSignal), nil, 210 * time.Minute, ByFailure},
		"time limit":                   {pastRun(1, 0, 3.5, "TIMEOUT", jobtag.Tag{}), nil, 210 * time.Minute, ByTimeLimit},
		"time limit, saves at signals": {pastRun(1, 0, 3.5, "TIMEOUT", onSignal), nil, 0, ""},
		"cancelled":                    {pastRun(1, 0, 3.5, "CANCELLED", hourly), nil, 210 * time.Minute, ByCancel},
		"requeued":                     {pastRun(1, 0, 3.5, "REQUEUED", hourly), nil, 30 * time.Minute, ByRequeue},
		"evicted":                      {pastRun(1, 0, 3.5, "REQUEUED", jobtag.Tag{}), &paid, 30 * time.Minute, ByEviction},
		"evicted, saved, exit 0":       {pastRun(1, 0, 3.5, "COMPLETED", onSignal), &paid, 30 * time.Minute, ByEviction},
		"evicted at once":              {pastRun(1, 0, 0.1, "REQUEUED", onSignal), &paid, 6 * time.Minute, ByEviction},
	} {
		if lost, why := lossOf(&x.run, x.paid); lost != x.lost || why != x.why {
			t.Errorf("%s: %s by %q, want %s by %q", name, lost, why, x.lost, x.why)
		}
	}
}

// A day with a run of each kind, and a cluster of 8 GPUs of which 2 are down; the daemon was away in its last six hours.
func TestGoodputOfADay(t *testing.T) {
	runs := []cluster.PastStay{
		pastRun(1, -2, 4, "COMPLETED", jobtag.Tag{}), pastRun(2, 4, 8, "FAILED", jobtag.Tag{}), pastRun(3, 8, 10, "REQUEUED", jobtag.Tag{}),
		pastRun(3, 12, 30, "", jobtag.Tag{}), pastRun(4, 20, 24, "TIMEOUT", jobtag.Tag{Ckpt: 3 * time.Hour}),
	}
	runs[4].Account, runs[4].User = "chem", "bob"
	paid := 2 * 3600.0
	evictions := []store.Eviction{{Victim: runs[2].Job, GPUs: 2, Left: runs[2].End.Add(5 * time.Second), Paid: &paid}}
	var samples []store.Sample
	for m := range 18 * 60 {
		x := store.Sample{At: midnight.Add(time.Duration(m) * time.Minute), GPUs: 8, InUse: 2, Down: 2, Idle: 1}
		if m < 60 {
			x.Causes = map[plan.Cause]int{"limit": 3}
		}
		samples = append(samples, x)
	}
	g := OfGoodput(midnight, midnight.Add(24*time.Hour), runs, evictions, samples)
	vision := GoodputOf{Name: "vision", Runs: 4, GPUHours: 44, Good: 34, Evicted: 2, Failed: 8}
	chem := GoodputOf{Name: "chem", Runs: 1, GPUHours: 8, Good: 6, TimeLimit: 2}
	if diff := cmp.Diff([]GoodputOf{vision, chem}, g.Account); diff != "" {
		t.Error(diff)
	}
	want := []HoursOf{
		{worked, 8 + 1./60 - 0, ""}, {lostPart, 10, ""}, {idlePart, 18 + 1./60, ""}, {outOfUse, 36 + 2./60, ""}, {freeWaits, 3, ""}, {freePart, 69 + 4./60, ""},
	}
	for i := range want {
		want[i].See = seeOf[want[i].Part]
	}
	if diff := cmp.Diff(want, g.Cluster, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })); diff != "" {
		t.Error(diff)
	}
	var b strings.Builder
	g.Page().Show(&b, 20)
	for _, line := range []string{"runs held 52.0 GPU-hours, 40.0 of them good (76.9 %)", "free while jobs waited", "vision", "eviction"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in\n%s", line, &b)
		}
	}
}

// Whatever the runs and samples: what is good and what is lost add up to what was held, and the cluster's parts to its GPUs.
func TestGoodputAddsUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		states := []string{"", "COMPLETED", "FAILED", "REQUEUED", "TIMEOUT", "CANCELLED", "NODE_FAIL"}
		var runs []cluster.PastStay
		var evictions []store.Eviction
		for i := range rapid.IntRange(0, 12).Draw(rt, "runs") {
			from := rapid.Float64Range(-10, 24).Draw(rt, "from")
			r := pastRun(uint32(i+1), from, from+rapid.Float64Range(0, 20).Draw(rt, "length"), rapid.SampledFrom(states).Draw(rt, "state"), jobtag.Tag{Ckpt: time.Duration(rapid.IntRange(0, 2).Draw(rt, "ckpt")) * time.Hour})
			if runs = append(runs, r); rapid.Bool().Draw(rt, "evicted") {
				paid := rapid.Float64Range(0, 1e6).Draw(rt, "paid")
				evictions = append(evictions, store.Eviction{Victim: r.Job, GPUs: 2, Left: r.End, Paid: &paid})
			}
		}
		var samples []store.Sample
		for m := 0; m < 24*60; m += rapid.IntRange(1, 90).Draw(rt, "gap") {
			n := rapid.SliceOfN(rapid.IntRange(0, 10), 5, 5).Draw(rt, "gpus")
			samples = append(samples, store.Sample{
				At: midnight.Add(time.Duration(m) * time.Minute), GPUs: 40, InUse: n[0], Stranded: n[1], Down: n[2], Reserved: n[3], Idle: min(n[0], n[4]), Causes: map[plan.Cause]int{"limit": n[4]},
			})
		}
		g := OfGoodput(midnight, midnight.Add(24*time.Hour), runs, evictions, samples)
		for _, of := range append(g.Account, g.Total) {
			if sum := of.Good + of.Evicted + of.Requeued + of.Failed + of.TimeLimit + of.Cancelled; math.Abs(sum-of.GPUHours) > 1e-6 || of.Good < -1e-9 {
				rt.Errorf("%+v adds up to %g", of, sum)
			}
		}
		all := 0.0
		for _, h := range g.Cluster {
			if all += h.GPUHours; h.GPUHours < 0 {
				rt.Errorf("%+v", h)
			}
		}
		if math.Abs(all-40*g.Sampled) > 1e-6 {
			rt.Errorf("the parts add up to %g GPU-hours of %g", all, 40*g.Sampled)
		}
	})
}
