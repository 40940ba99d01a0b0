package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
)

func TestClasses(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return day.Add(time.Duration(minutes) * time.Minute) }
	short := func(user string, start, ran int) store.JobTimes {
		j := store.JobTimes{User: user, Class: "te", Submit: day, Ready: day, GPUs: 2, Tasks: 1, Why: string(plan.TERule), Detail: "class rule short; preemption: it fits"}
		if start >= 0 {
			j.Start, j.Ran, j.Left = at(start), time.Duration(ran)*time.Minute, at(start+ran)
		}
		return j
	}
	got := OfClasses(day, at(600), []store.JobTimes{
		short("ann", 2, 30), short("bob", 2, 30), short("bob", -1, 0),
		{User: "cem", Class: "be", Submit: day, Ready: day, Start: at(60), GPUs: 1, Tasks: 1, Ran: time.Hour, Why: string(plan.OverBudget), Detail: "8 of 8 GPUs"},
		{User: "cem", Submit: day, Ready: day, GPUs: 1, Tasks: 40, Why: string(plan.OverBudget), Detail: "7 of 8 GPUs"},
		{User: "dan", Class: "te", Submit: day, Ready: day, GPUs: 1, Start: at(0)},
	})
	minute := func(n float64) *float64 { n *= 60; return &n }
	want := []Classed{
		{Why: string(plan.TERule), Detail: "class rule short", Class: "te", Jobs: 3, Users: 2, GPUHours: 2, P50: minute(2), P95: minute(2), Ran: minute(30), Waiting: 1},
		{Why: string(plan.OverBudget), Class: "be", Jobs: 41, Users: 1, GPUHours: 1, P50: minute(60), P95: minute(60), Waiting: 40},
		{Class: "te", Jobs: 1, Users: 1, P50: new(float64), P95: new(float64)},
	}
	if diff := cmp.Diff(want, got.By); diff != "" {
		t.Error(diff)
	}
}

// Three jobs of a program were given a type that was believed to be twice as fast as the other and is half as fast; one
// of another program was given the faster one. The tag's own speed is no guess.
func TestLearning(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	run := func(name string, source speed.Source, now ...float64) Given {
		return Given{
			TypeGiven: store.TypeGiven{
				User: "ann", Name: name, GPUs: 2, GPUType: "a", Start: day, End: day.Add(time.Hour),
				Types: []store.ShareOfType{{GPUType: "a", Speed: 1, Source: source}, {GPUType: "b", Speed: 0.5, Source: source}},
			},
			Now: []speed.Answer{{GPUType: "a", Speed: now[0]}, {GPUType: "b", Speed: now[1]}},
		}
	}
	wrong, right := run("wrong", speed.Past, 0.5, 1), run("right", speed.Site, 1, 0.25)
	l := OfLearning(day, day, []Given{wrong, right, wrong, run("told", speed.Tag, 0.5, 1), wrong}, map[string]int{"a": 4, "b": 12})
	want := &Learning{Since: day, Until: day, Jobs: 4, Better: 1, Worse: 3, Held: 0, Misled: 3, SavedGPU: -6*(1-0.5/0.875) + 2*(1/0.4375-1), Programs: []Guessed{
		{User: "ann", Name: "wrong", GPUType: "a", Jobs: 3, Believed: 1 / 0.625, Now: 0.5 / 0.875, SavedGPU: -6 * (1 - 0.5/0.875)},
		{User: "ann", Name: "right", GPUType: "a", Jobs: 1, Believed: 1 / 0.625, Now: 1 / 0.4375, SavedGPU: 2 * (1/0.4375 - 1)},
	}}
	if diff := cmp.Diff(want, l, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
		t.Error(diff)
	}
}

func TestClassedWords(t *testing.T) {
	for _, why := range plan.Reasons {
		if words := (&Classed{Why: string(why)}).Words(); words == string(why) && why != plan.Held && why != plan.Untagged {
			switch why { // named by its detail
			case plan.TERule, plan.BERule, plan.TEQOS, plan.BEQOS, plan.BESite:
			default:
				t.Errorf("%s has no words", why)
			}
		}
	}
}
