package view

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

// stay is a job that ran once and has left.
func stay(id uint32, class string, submit, start, end float64) store.JobTimes {
	return store.JobTimes{Job: slurmplug.Plain(id), Tasks: 1, Class: class, Submit: at(submit), Ready: at(submit), Start: at(start), End: at(end), Ran: at(end).Sub(at(start)), Left: at(end)}
}

// evicted is an eviction of a job with two GPUs that lost 100 GPU-seconds.
func evicted(victim, trial uint32, how string, took float64) store.Eviction {
	paid := 100.0
	return store.Eviction{
		Victim: slurmplug.Plain(victim), VictimUser: "ann", VictimTag: "prio:type=be&v=1&workload=resnet50", For: slurmplug.Plain(trial), ForUser: "bob",
		State: "done", How: how, GPUs: 2, GraceS: 30, TookS: &took, Promised: 180, Paid: &paid, Recorded: at(0), Signalled: at(1), Left: at(1 + took), Ended: at(100),
	}
}

func TestPreemptions(t *testing.T) {
	tag := "prio:type=te&v=1"
	stays := []store.JobTimes{
		stay(1, "te", 0, 10, 20), stay(2, "te", 0, 20, 30), stay(3, "te", 0, 30, 40),
		stay(4, "be", 0, 200, 300),
		// Evicted after 100 s, of which 50 were lost; it left the queue, came back as
		// another row and ended after 150 s more.
		stay(5, "be", 0, 0, 100), stay(5, "be", 110, 250, 400),
		{Job: slurmplug.Plain(6), Tasks: 3, Tag: jobtag.Read(tag), Submit: at(0)},                                           // waits
		{Job: slurmplug.Plain(7), Tasks: 1, Tag: jobtag.Read(tag), Submit: at(0), Left: at(5)},                              // cancelled before it ran
		{Job: slurmplug.Plain(8), Tasks: 1, Tag: jobtag.Read("junk"), Submit: at(0)},                                        // waits, and is no TE job
		{Job: slurmplug.Plain(9), Class: "be", Submit: at(0), Ready: at(0), Start: at(1), End: at(9), Ran: 8 * time.Second}, // runs
	}
	open := evicted(9, 2, "", 0)
	open.State, open.TookS, open.Paid, open.Left, open.Ended = "signalled", nil, nil, time.Time{}, time.Time{}
	off := store.Eviction{Victim: slurmplug.Plain(4), State: "called-off", Ended: at(3)}
	other := evicted(10, 3, "forced", 33)
	other.VictimUser, other.VictimTag, other.ForUser = "eve", "", "ann"
	late := evicted(11, 3, "exited", 31)
	round := evicted(4, 9, "exited", 4)
	round.Purpose = "round"
	gang := evicted(14, 9, "exited", 4)
	gang.Purpose = "gang"
	evictions := []store.Eviction{round, gang, evicted(5, 1, "exited", 4), evicted(12, 1, "finished", 8), late, other, evicted(13, 1, "ended", 2), open, off}
	p := OfPreemptions(at(-1000), at(1000), stays, evictions)

	number := func(v float64) *float64 { return &v }
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	want := &Preemptions{
		Since: at(-1000), Until: at(1000),
		TE:      Waits{Jobs: 3, Waiting: 3, P50: number(20), P95: number(29), P99: number(29.8)},
		BE:      Slowdowns{Jobs: 2, P50: number(4), P95: number(5.8), P99: number(5.96)}, // the one that yielded lost half of its run
		Evicted: Slowdowns{Jobs: 1, P50: number(2), P95: number(2), P99: number(2)},
		Evictions: Evictions{Count: 6, Underway: 1, CalledOff: 1, Promised: 6 * 180.0 / 3600, Lost: 5 * 100.0 / 3600, Kept: 2, Broken: 2,
			How: map[string]int{"exited": 2, "finished": 1, "forced": 1, "ended": 1}},
		Rounds:  Evictions{Count: 1, Promised: 180.0 / 3600, Lost: 100.0 / 3600, Kept: 1, How: map[string]int{"exited": 1}},
		Gangs:   Evictions{Count: 1, Promised: 180.0 / 3600, Lost: 100.0 / 3600, Kept: 1, How: map[string]int{"exited": 1}},
		Windows: Evictions{How: map[string]int{}},
		ByUser: []Victims{
			{Name: "ann", Count: 5, Jobs: 5, Lost: 400.0 / 3600, Kept: 2, Broken: 1, P50: number(8), P95: number(28.7)},
			{Name: "eve", Count: 1, Jobs: 1, Lost: 100.0 / 3600, Broken: 1, P50: number(33), P95: number(33)},
		},
		ByWorkload: []Victims{
			{Name: "resnet50", Count: 5, Jobs: 5, Lost: 400.0 / 3600, Kept: 2, Broken: 1, P50: number(8), P95: number(28.7)},
			{Name: "", Count: 1, Jobs: 1, Lost: 100.0 / 3600, Broken: 1, P50: number(33), P95: number(33)},
		},
		ForUser: []Benefits{{User: "bob", Count: 5, Jobs: 3, Lost: 400.0 / 3600}, {User: "ann", Count: 1, Jobs: 1, Lost: 100.0 / 3600}},
	}
	if d := cmp.Diff(want, p, near); d != "" {
		t.Error(d)
	}
	nothing := OfPreemptions(at(0), at(1), nil, nil)
	if nothing.TE.P50 != nil || nothing.ByUser == nil || nothing.ForUser == nil || nothing.Evictions.How == nil {
		t.Errorf("of nothing: %+v", nothing)
	}
}

// The parts add up to the whole, whatever the rows.
func TestPreemptionsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []store.Eviction
		for i := range rapid.IntRange(0, 40).Draw(t, "evictions") {
			x := evicted(uint32(rapid.IntRange(1, 10).Draw(t, "victim")), uint32(rapid.IntRange(20, 25).Draw(t, "trial")),
				rapid.SampledFrom([]string{"exited", "finished", "forced", "requeued", "ended", "forgotten", ""}).Draw(t, "how"), rapid.Float64Range(0, 60).Draw(t, "took"))
			*x.Paid = rapid.Float64Range(0, 1e6).Draw(t, "paid")
			x.VictimUser = rapid.SampledFrom([]string{"ann", "bob", "\x1b[2J"}).Draw(t, "user")
			x.ForUser = rapid.SampledFrom([]string{"cid", "dan"}).Draw(t, "for")
			if rapid.Bool().Draw(t, "open") {
				x.Ended = time.Time{}
			}
			if i%7 == 6 {
				x.Signalled = time.Time{}
			}
			all = append(all, x)
		}
		var stays []store.JobTimes
		for range rapid.IntRange(0, 20).Draw(t, "jobs") {
			start := rapid.Float64Range(0, 100).Draw(t, "start")
			stays = append(stays, stay(uint32(rapid.IntRange(1, 30).Draw(t, "job")), rapid.SampledFrom([]string{"te", "be"}).Draw(t, "class"), 0, start, start+rapid.Float64Range(0, 100).Draw(t, "ran")))
		}
		p := OfPreemptions(at(0), at(1), stays, all)
		check := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-6 {
				t.Fatalf("%s: %v, and in all %v", what, got, want)
			}
		}
		for name, groups := range map[string][]Victims{"users": p.ByUser, "workloads": p.ByWorkload} {
			count, kept, broken, lost := 0, 0, 0, 0.0
			for _, v := range groups {
				count, kept, broken, lost = count+v.Count, kept+v.Kept, broken+v.Broken, lost+v.Lost
			}
			check(name+" count", float64(count), float64(p.Evictions.Count))
			check(name+" kept", float64(kept), float64(p.Evictions.Kept))
			check(name+" broken", float64(broken), float64(p.Evictions.Broken))
			check(name+" lost", lost, p.Evictions.Lost)
		}
		lost := 0.0
		for _, b := range p.ForUser {
			lost += b.Lost
		}
		check("for users", lost, p.Evictions.Lost)
		for _, s := range []Slowdowns{p.BE, p.Evicted} {
			if s.Jobs > 0 && (*s.P50 < 1 || *s.P50 > *s.P95 || *s.P95 > *s.P99) {
				t.Fatalf("%v", fmt.Sprint(*s.P50, *s.P95, *s.P99))
			}
		}
		if p.Evicted.Jobs > p.BE.Jobs {
			t.Fatal("more evicted jobs than jobs")
		}
	})
}
