package view

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
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
