package virtual

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// A job whose limit reaches into an announced maintenance waits for its end, and blocks none that is shorter; what
// runs when it is announced runs on.
func TestMaintenance(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4}}}
	events := nodeEvents(t, &c, "[[events]]\nat = \"1000s\"\nevent = \"maintenance\"\nnodes = \"n[0-1]\"\nfor = \"500s\"\nannounced = \"900s\"\n")
	jobs := numbered(
		trace.Job{GPUs: 4, Duration: 1100, Submit: 0}, // before it is announced
		trace.Job{GPUs: 4, Duration: 500, Limit: 950, Submit: 110},
		trace.Job{GPUs: 1, Duration: 300, Limit: 800, Submit: 120},
		trace.Job{GPUs: 4, Duration: 300, Limit: 300, Submit: 130},
	)
	for _, backfill := range []Backfill{NoBackfill, EASY} {
		o := run(t, c, jobs, Options{Backfill: backfill, Placement: placement.Packed, NodeEvents: events}).Outcomes
		if o[0].End != 1100 || o[1].Start != 1500 || o[2].Start != 120 || o[3].Start != 420 {
			t.Errorf("backfill %s: %+v", backfill, o)
		}
	}
	// One node alone: jobs that reach into it take the other.
	events[0].Nodes = []int32{0}
	o := run(t, c, jobs[1:3], Options{Backfill: EASY, Placement: placement.Packed, NodeEvents: events}).Outcomes
	if o[0].Nodes != "n1" || o[0].Start != 110 || o[1].Nodes != "n0" {
		t.Errorf("%+v", o)
	}
}

// priod sees nodes in maintenance as they are.
func TestMaintenanceIsShown(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4}}}
	var states []string
	opt := Options{Order: Priod, Placement: placement.Packed, Daemon: daemonOf(t, "", nil), NodeEvents: []trace.NodeEvent{{At: 100, Kind: trace.NodesReserved, Nodes: []int32{1}, For: 100}}}
	opt.Daemon.Every = true
	opt.Daemon.Seen = func(r *cycle.Result) {
		if n := &r.Snapshot.Nodes[1]; !slices.Contains(states, n.State) {
			states = append(states, n.State)
			if n.Usable != (n.State == "UP") {
				t.Errorf("%+v", n)
			}
		}
	}
	run(t, c, numbered(trace.Job{GPUs: 4, Duration: 300}), opt)
	if got := strings.Join(states, " "); got != "UP UP+MAINTENANCE" {
		t.Errorf("%s", got)
	}
}

// Whatever is announced when, no job starts on nodes where its limit would reach into it, and all end.
func TestNoJobReachesIntoMaintenance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawDivided(t)
		opt := Options{
			Backfill:  rapid.SampledFrom([]Backfill{NoBackfill, EASY}).Draw(t, "backfill"),
			Placement: rapid.SampledFrom([]placement.Mode{placement.Packed, placement.Consolidated}).Draw(t, "placement"),
		}
		all := int32(len(groupsOf(c)))
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			opt.NodeEvents = append(opt.NodeEvents, trace.NodeEvent{
				Kind: trace.NodesReserved, At: float64(rapid.IntRange(1, 80).Draw(t, "at")), For: float64(rapid.IntRange(1, 30).Draw(t, "for")),
				Announced: float64(rapid.IntRange(0, 60).Draw(t, "announced")), Nodes: slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.Int32Range(0, all-1), 1, int(all), rapid.ID[int32]).Draw(t, "nodes"))),
			})
		}
		jobs := possible(c, drawPartitioned(t, c), opt)
		ran := map[int32]bool{}
		e := moments(t, c, jobs, opt, func(e *engine) {
			for k := range e.running {
				for j := range e.running[k].all {
					if ran[j.index] {
						continue
					}
					ran[j.index] = true
					for i := range opt.NodeEvents {
						v := &opt.NodeEvents[i]
						if v.At-v.Announced <= j.start && j.start < v.At+v.For && j.planned > v.At && slices.ContainsFunc(j.nodes(), func(n int32) bool { return slices.Contains(v.Nodes, n) }) {
							t.Fatalf("backfill %s: %s starts at %v and may run until %v on %v: %+v", opt.Backfill, j.ID, j.start, j.planned, j.nodes(), *v)
						}
					}
				}
			}
			if e.queue.n > 0 {
				if err := e.idle(); err != nil {
					t.Fatal(err)
				}
			}
		})
		for i, o := range e.outcomes {
			if !o.Done {
				t.Fatalf("backfill %s: %s never ran: %+v", opt.Backfill, jobs[i].ID, o)
			}
		}
	})
}

// A job that agrees to leave and saves its state runs until maintenance, whatever its limit, leaves before it and goes on after
// it; one that agrees to nothing waits. Cycles that are left out change nothing.
func TestRunsUntilMaintenance(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4}}}
	events := nodeEvents(t, &c, "[[events]]\nat = \"10000s\"\nevent = \"maintenance\"\nnodes = \"n[0-1]\"\nfor = \"1000s\"\nannounced = \"10000s\"\n")
	jobs := numbered(
		trace.Job{GPUs: 4, Duration: 12000, Limit: 20000, Grace: 30, Submit: 10},
		trace.Job{GPUs: 4, Duration: 12000, Limit: 20000, NoTag: true, Submit: 10},
	)
	for _, every := range []bool{true, false} {
		opt := Options{Order: Priod, Backfill: EASY, Placement: placement.Packed, Daemon: daemonOf(t, "[windows]\nenabled = true\n", nil), NodeEvents: events}
		opt.Daemon.Every = every
		o := run(t, c, jobs, opt).Outcomes
		if a := &o[0]; a.Start > 100 || a.Preemptions != 1 || a.End < 13000 || a.End > 13500 || a.Wasted > 4*200 {
			t.Errorf("%+v", *a)
		}
		if back := opt.Daemon.Settings.Evictions.Journal.BackFromWindows(); len(back) != 1 || back[0].Sub(Epoch).Seconds() < 11000 || back[0].Sub(Epoch).Seconds() > 11060 {
			t.Errorf("back at %v", back)
		}
		if b := &o[1]; b.Start < 11000 || b.Preemptions != 0 {
			t.Errorf("%+v", *b)
		}
	}
}

// GPUs of nodes that are reserved, drained or down and hold no job are not in use.
func TestSeriesCountsWhatJobsHold(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 3, GPUType: "a100", GPUs: 4}}}
	jobs := numbered(trace.Job{GPUs: 3, Duration: 1000}, trace.Job{GPUs: 1, Duration: 10, Submit: 300})
	for _, kind := range []string{"maintenance", "drain", "fail"} {
		events := nodeEvents(t, &c, "[[events]]\nat = \"200s\"\nevent = \""+kind+"\"\nnodes = \"n[1-2]\"\nfor = \"500s\"\n")
		for _, p := range run(t, c, jobs, Options{Placement: placement.Packed, NodeEvents: events}).Series {
			if want := map[bool]int{true: 3}[p.At < 1000]; p.GPUs != want && p.GPUs != want+1 {
				t.Errorf("%s: %+v", kind, p)
			}
		}
	}
}
