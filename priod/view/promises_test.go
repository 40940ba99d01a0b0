package view

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
)

func TestETA(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	promise := func(gpus, median, p90, limits, start int) store.Promise {
		p := store.Promise{Partition: "gpu", GPUs: gpus, At: now, Median: at(median), P90: at(p90), Limits: at(limits)}
		if start >= 0 {
			p.Start = at(start)
		}
		return p
	}
	gone := promise(8, 10, 20, 600, -1)
	gone.Left = at(5) // cancelled
	e := OfETA(now, at(60), []store.Promise{
		promise(1, 10, 20, 600, 10), promise(1, 10, 20, 600, 15), promise(1, 10, 20, 600, 50), // the last one late
		promise(8, 10, 20, 600, -1), promise(8, 10, 90, 600, -1), gone, // late; can still be in time; says nothing
	})
	if a := e.All; a.Promised != 6 || a.Scored != 4 || a.Started != 3 || *a.Held != 0.5 || *a.ErrorS != 300 || *a.LimitsS != 585*60 || *a.Minute != 1./3 || *a.TenMin != 2./3 {
		t.Errorf("%+v: held %v, error %v, by limits %v", a, *a.Held, *a.ErrorS, *a.LimitsS)
	}
	if len(e.BySize) != 2 || e.BySize[1].Held == nil || *e.BySize[1].Held != 0 || e.BySize[1].ErrorS != nil || len(e.ByPartition) != 1 {
		t.Errorf("%+v", e.BySize)
	}
	any, a := promise(1, 10, 20, 600, 10), promise(1, 10, 20, 600, 15)
	any.Partition, a.Partition = "v100,a100", "a100,v100"
	if e := OfETA(now, at(60), []store.Promise{any, a}); len(e.ByPartition) != 1 || e.ByPartition[0].Name != "a100,v100" {
		t.Errorf("the same partitions in another order: %+v", e.ByPartition)
	}
	w := OfWaiting(now, at(60), nil, []store.Waiters{{Partition: "v100,a100", Jobs: 2}, {Partition: "a100,v100", Jobs: 1}, {Partition: "a100", Jobs: 1}}, nil)
	if len(w.ByPartition) != 2 || w.ByPartition[1].Name != "a100,v100" || w.ByPartition[1].Jobs != 3 {
		t.Errorf("%+v", w.ByPartition)
	}
	if w := e.Words(); !strings.Contains(w, "6 expected starts, 4 scored: 50 %") {
		t.Error(w)
	}
	if w := OfETA(now, now, nil).Words(); !strings.Contains(w, "no start was expected") {
		t.Error(w)
	}
}
