package view

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

var usageNodes = []cluster.Node{
	{Name: "a1", GPUType: "a100", GPUs: 4}, {Name: "a2", GPUType: "a100", GPUs: 4}, {Name: "v1", GPUType: "v100", GPUs: 2},
	{Name: "c1"}, {Name: "m1", GPUType: "t4", GPUs: 8, MixedTypes: true},
}

func usedRun(id uint32, user, gpuType, state, nodes string, gpus int, start, end time.Time) cluster.PastStay {
	return cluster.PastStay{
		Stay:     cluster.Stay{Job: slurmplug.Plain(id), Start: start, End: end, Closed: !end.IsZero(), GPUType: gpuType, GPUs: gpus, User: user, Account: "lab"},
		NodeList: nodes, State: state,
	}
}

// Runs count with the part of them that lies within the span; one that waits, or has no
// GPU, does not count.
func TestUsage(t *testing.T) {
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	hour := func(h float64) time.Time { return from.Add(time.Duration(h * float64(time.Hour))) }
	u := NewUsage(from, hour(10), usageNodes)
	u.Add(from, hour(10), []cluster.PastStay{
		usedRun(1, "ann", "a100", "COMPLETED", "a1", 4, hour(-5), hour(5)),
		usedRun(2, "bob", "a100", "FAILED", "a[1-2]", 2, hour(1), hour(2)),
		usedRun(3, "bob", "v100", "RUNNING", "v1", 2, hour(6), time.Time{}),
		usedRun(4, "bob", "v100", "TIMEOUT", "v1", 2, hour(9), hour(12)),
		usedRun(5, "bob", "a100", "PENDING", "", 8, time.Time{}, time.Time{}),
		usedRun(6, "bob", "", "COMPLETED", "c1", 0, hour(1), hour(2)),
	})
	u.AddUsed([]sensitivity.Stay{
		{PastStay: usedRun(1, "ann", "a100", "COMPLETED", "a1", 4, hour(1), hour(5)), CPUSeconds: 1800},
		{PastStay: usedRun(2, "bob", "a100", "COMPLETED", "a1", 1, hour(1), hour(2)), CPUSeconds: 3600},
		{PastStay: usedRun(3, "bob", "a100", "COMPLETED", "a1", 1, hour(1), hour(2))},
		{PastStay: usedRun(7, "eve", "a100", "COMPLETED", "a1", 1, hour(1), hour(2)), CPUSeconds: 3600, GPUUse: new(float64)},
		{PastStay: usedRun(8, "eve", "a100", "COMPLETED", "a1", 1, hour(1), hour(2)), CPUSeconds: 3600, GPUUse: &[]float64{3}[0]},
	})
	u.Sum()
	if u.Runs != 4 || u.GPUHours != 20+2+8+2 || u.Measured != 4 {
		t.Errorf("%+v", u)
	}
	if of := u.ByType[0]; of.Name != "a100" || of.GPUHours != 22 || math.Abs(*of.Of-22.0/80) > 1e-9 {
		t.Errorf("%+v", of)
	}
	if of := u.ByState[1]; of.Name != "RUNNING" || of.Runs != 1 || of.GPUHours != 8 {
		t.Errorf("%+v", u.ByState)
	}
	if len(u.Spread) != 1 || u.Spread[0] != (SpreadRun{slurmplug.Plain(2), "bob", "a100", 2, 2, 1, 2}) {
		t.Errorf("%+v", u.Spread)
	}
	if len(u.Idle) != 2 || u.Idle[0].User != "ann" || u.Idle[0].CPUs != 0.5/4/4 || u.Idle[0].GPUUse != nil || u.Idle[1].User != "eve" || u.Idle[1].GPUUse == nil {
		t.Errorf("%+v", u.Idle)
	}
	var page bytes.Buffer
	if err := u.Page().Write(&page); err != nil || !strings.Contains(page.String(), "On more nodes than their GPUs fill") || !strings.Contains(page.String(), `<figure class="chart"`) {
		t.Errorf("%v: %s", err, page.String())
	}
}

// Read in parts or at once, the sums are the same, and those of each table are the whole.
func TestUsageInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		until := from.Add(100 * time.Hour)
		var runs []cluster.PastStay
		for i := range rapid.IntRange(0, 20).Draw(t, "runs") {
			start := from.Add(time.Duration(rapid.IntRange(-1000, 6000).Draw(t, "start")) * time.Minute)
			end := start.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "length")) * time.Minute)
			if rapid.IntRange(0, 5).Draw(t, "goes on") == 0 {
				end = time.Time{}
			}
			runs = append(runs, usedRun(uint32(i+1), rapid.SampledFrom([]string{"ann", "bob", ""}).Draw(t, "user"), rapid.SampledFrom([]string{"a100", "v100", ""}).Draw(t, "type"),
				"COMPLETED", "a1", rapid.IntRange(0, 9).Draw(t, "gpus"), start, end))
		}
		once, parts := NewUsage(from, until, usageNodes), NewUsage(from, until, usageNodes)
		once.Add(from, until, runs)
		cut := from.Add(time.Duration(rapid.IntRange(1, 99).Draw(t, "cut")) * time.Hour)
		parts.Add(from, cut, runs)
		parts.Add(cut, until, runs)
		once.Sum()
		parts.Sum()
		if once.Runs != parts.Runs || math.Abs(once.GPUHours-parts.GPUHours) > 1e-6 || len(once.Spread) != len(parts.Spread) {
			t.Fatalf("at once %+v, in parts %+v", once, parts)
		}
		plotted := 0.0
		for _, h := range once.hours {
			for _, v := range h {
				plotted += v
			}
		}
		for k, all := range [][]UsageOf{once.ByType, once.ByState, once.BySize, once.ByUser, once.ByAccount} {
			runs, hours := 0, 0.0
			for _, of := range all {
				runs, hours = runs+of.Runs, hours+of.GPUHours
			}
			if runs != once.Runs || math.Abs(hours-once.GPUHours) > 1e-6 || math.Abs(plotted-hours) > 1e-6 {
				t.Fatalf("table %d: %d runs, %f GPU-hours of %d, %f; %f in the plot", k, runs, hours, once.Runs, once.GPUHours, plotted)
			}
		}
	})
}
