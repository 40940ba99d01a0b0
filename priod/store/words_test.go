package store

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/slurmplug"
)

// A row holds what was chosen as data; whoever reads it gets the words, each once. In a row of an earlier version they stand already.
func TestWordsAreMadeWhenRead(t *testing.T) {
	at := time.Date(2025, 11, 3, 10, 0, 0, 0, time.Local)
	d := plan.Decision{
		Class: cluster.BE, Why: string(plan.OverBudget), Size: "size: unchanged",
		Choices: plan.Choices{
			Budget:   &plan.BudgetLimit{Of: "user", Name: "ann", Limit: "gpus", Allowed: 3, Asks: 16, Times: 5},
			Part:     &plan.ArrayPart{First: 6, Of: 100},
			Eviction: &plan.EvictionChoice{For: string(evict.ForTrial), Why: string(preemption.PerHour), Opens: at.Add(time.Hour)},
			Switches: &plan.PlacesChoice{Accepts: 1, Fewest: 1, Most: 2, RunS: 3600, RunOnMostS: 4200},
			Refused:  &plan.RefusedNodes{Nodes: "n[0-1]", Worst: "n1", WorstFactor: 1.5},
		},
	}
	row := func(detail, choices string) *db.Decision {
		return &db.Decision{Class: "be", Why: d.Why, Detail: detail, Choices: choices, AtMs: millis(at)}
	}
	text := choicesText(&d.Choices)
	want := "5 times the share of user ann, 3 TE GPUs at a time; the first 6 of 100 tasks; the others cost more; size: unchanged; " +
		"preemption: preemption.max_per_hour is reached, until 11:00 at the earliest; " +
		"switches: 1 at most, of the 2 that it might get; it waits for them as long as that pays, for it would run 1h10m0s instead of 1h0m0s on 2; " +
		"slow nodes: it avoids n[0-1], as long as that pays: on n1 it would run 1.50 times as long"
	stored := decisionParams(&d, "", 1, 1, at).Detail
	if stored != "size: unchanged" {
		t.Errorf("the row holds words of data: %q", stored)
	}
	if got := showDecision(row(stored, text), slurmplug.Plain(1)).Detail; got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	before := strings.Replace(text, `,"data":true`, "", 1)
	if got := showDecision(row("as it said then", before), slurmplug.Plain(1)).Detail; got != "as it said then" || before == text {
		t.Errorf("a row of an earlier version: %q", got)
	}
	d.Why, d.Class, d.Choices = string(plan.TETag), cluster.TE, plan.Choices{Budget: &plan.BudgetLimit{Of: "user", Name: "ann", Limit: "gpus", Allowed: 3, Times: 1.5}}
	if got := Detail(&d, at); got != "size: unchanged" {
		t.Errorf("a share that is used less than twice: %q", got)
	}
	d.Choices.Budget.Times = 3
	if got := Detail(&d, at); got != "over budget: 3 times the share of user ann, 3 TE GPUs at a time; size: unchanged" {
		t.Errorf("one that is used more: %q", got)
	}
}
