package view

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// Evictions before a window are summed up by window; others are none of its.
func TestWindowsCost(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	paid := 3600.0
	x := store.Eviction{Purpose: "window", ClaimReason: "the window maint", GPUs: 8, Start: at.Add(-2 * time.Hour), Signalled: at, State: "done", How: "exited", Paid: &paid}
	y, other, called := x, x, x
	y.State, y.How, y.Paid = "restored", "forced", nil
	other.Purpose, called.Signalled = "te", time.Time{}
	v := OfWindows(at, at, []store.Eviction{x, y, other, called})
	if len(v.Windows) != 1 || v.Windows[0] != (WindowCost{Name: "maint", First: at, Jobs: 2, Back: 1, Ran: 32, Lost: 1, Ended: 1}) {
		t.Errorf("%+v", v.Windows)
	}
	if words := strings.Join(OfWindows(at, at, nil).Page().Words, " "); !strings.Contains(words, "No job left") {
		t.Error(words)
	}
}

// A coming window has the jobs on its nodes, and of these the ones that run until it; of a user's page, the user's.
func TestComingWindows(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	w := cluster.Window{Name: "maint", Start: at.Add(2 * time.Hour), End: at.Add(3 * time.Hour), Nodes: []string{"n1", "n2"}}
	h := store.Holder{Job: slurmplug.Plain(1), User: "ann", GPUs: 8, Nodes: "n[1-2]", Start: at, Limit: 4 * time.Hour}
	other, short, beside := h, h, h
	other.Job, other.User, other.Nodes, other.Limit = slurmplug.Plain(2), "bob", "n2", 0
	short.Limit, beside.Nodes = time.Hour, "n3"
	v := EvictionPage{Coming: comingWindows([]cluster.Window{w}, []store.Holder{h, other, short, beside})}
	if c := &v.Coming[0]; c.Name != "maint" || c.Nodes != 2 || c.Here != 3 || len(c.Until) != 2 || c.GPUs() != 16 {
		t.Errorf("%+v", c)
	}
	v.only("bob")
	if c := &v.Coming[0]; len(c.Until) != 1 || c.Until[0].User != "bob" {
		t.Errorf("%+v", c)
	}
}
