package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
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

// Of nodes that wait for a reboot those come first whose jobs lose least.
func TestReboots(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	nodes := []cluster.Node{{Name: "n1", State: "MIXED+DRAIN+REBOOT_REQUESTED", GPUs: 8, GPUsUsed: 4}, {Name: "n2", State: "ALLOCATED+REBOOT_REQUESTED", GPUs: 8, GPUsUsed: 8}, {Name: "n3", State: "IDLE", GPUs: 8}, {Name: "n4", State: "IDLE+DRAIN+REBOOT_REQUESTED", GPUs: 8}}
	holder := func(nodes string, gpus int, tag jobtag.Tag) store.Holder {
		return store.Holder{Nodes: nodes, GPUs: gpus, Start: at.Add(-150 * time.Minute), Tag: jobtag.Text{Tag: tag}}
	}
	got := OfReboots(nodes, []store.Holder{holder("n1", 4, jobtag.Tag{}), holder("n[2-3]", 16, jobtag.Tag{Ckpt: time.Hour}), holder("n2", 1, jobtag.Tag{Signal: "B:USR1"})}, at)
	if want := []Reboot{{"n4", 0, 8, 0}, {"n2", 2, 0, 8}, {"n1", 1, 4, 10}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	v := Windows{Reboots: got}
	if page := v.Page(); len(page.Tables) != 1 {
		t.Errorf("%+v", page)
	}
}

// A coming window has the jobs on its nodes, and of these the ones that run until it; of a user's page, the user's.
// A running job's window is as it stands in Slurm, whatever its last decision knew: moved, with another before it, cancelled.
func TestExplainFollowsWindows(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	was := plan.WindowChoice{Name: "maint", Start: at.Add(2 * time.Hour), End: at.Add(3 * time.Hour), OwnS: 86400}
	maint := slurmplug.NodeReservation{Name: "maint", Nodes: "n[1-2]", Start: at.Add(5 * time.Hour), End: at.Add(6 * time.Hour)}
	early, elsewhere, late := maint, maint, maint
	early.Name, early.Start, early.End = "early", at.Add(time.Hour), at.Add(90*time.Minute)
	elsewhere.Nodes, late.Start, late.End = "n3", at.Add(48*time.Hour), at.Add(49*time.Hour)
	for name, c := range map[string]struct {
		all  []slurmplug.NodeReservation
		want string
	}{
		"moved": {[]slurmplug.NodeReservation{maint}, "5h0m0s"}, "another before it": {[]slurmplug.NodeReservation{maint, early}, "1h0m0s"},
		"cancelled": {nil, ""}, "of other nodes": {[]slurmplug.NodeReservation{elsewhere}, ""}, "beyond its own limit": {[]slurmplug.NodeReservation{late}, ""},
	} {
		for state, want := range map[cluster.State]string{cluster.Running: c.want, cluster.Pending: "2h0m0s"} {
			choice := was
			v := &Explanation{}
			v.Job = store.Job{State: state.String(), NodeList: "n2", Start: at.Add(-time.Hour)}
			v.Decision = &store.Decision{}
			v.Decision.Choices.Window = &choice
			v.followWindow(&store.Sample{At: at, Reservations: c.all}, at)
			got := ""
			if w := v.Decision.Choices.Window; w != nil {
				got = w.Start.Sub(at).String()
			}
			if got != want {
				t.Errorf("%s, %s: in %s, want %s", name, state, got, want)
			}
		}
	}
}

func TestComingWindows(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	w := cluster.Window{Name: "maint", Start: at.Add(2 * time.Hour), End: at.Add(3 * time.Hour), Nodes: []string{"n1", "n2"}}
	h := store.Holder{Job: slurmplug.Plain(1), User: "ann", GPUs: 8, Nodes: "n[1-2]", Start: at, Limit: 4 * time.Hour, UntilWindow: true}
	other, short, beside, into := h, h, h, h
	into.Job, into.UntilWindow = slurmplug.Plain(3), false // by IGNORE_JOBS
	later := w
	later.Start = w.End.Add(time.Minute)
	other.Job, other.User, other.Nodes, other.Limit = slurmplug.Plain(2), "bob", "n2", 0
	short.Limit, beside.Nodes = time.Hour, "n3"
	v := EvictionPage{Coming: comingWindows([]cluster.Window{w, later}, []store.Holder{h, other, short, beside, into})}
	if c := &v.Coming[0]; c.Name != "maint" || c.Nodes != 2 || c.Here != 4 || c.Into != 1 || len(c.Until) != 2 || c.GPUs() != 16 {
		t.Errorf("%+v", c)
	}
	if c := &v.Coming[1]; c.Into != 1 || len(c.Until) != 0 {
		t.Errorf("of the second window: %+v", c)
	}
	v.only("bob")
	if c := &v.Coming[0]; len(c.Until) != 1 || c.Until[0].User != "bob" {
		t.Errorf("%+v", c)
	}
}
