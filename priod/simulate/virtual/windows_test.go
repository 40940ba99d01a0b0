package virtual

import (
	"cmp"
	"slices"
	"strconv"
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

// While all nodes of a partition are reserved for maintenance, jobs of it alone that would reach into it wait, and those that name
// another one, too, take that; priod gives no type whose partition is reserved.
func TestMaintenanceOfAPartition(t *testing.T) {
	c := byType
	events := nodeEvents(t, &c, "[[events]]\nat = \"1000s\"\nevent = \"maintenance\"\nnodes = \"a100\"\nfor = \"500s\"\nannounced = \"900s\"\n")
	job := func(partition string, submit, limit float64) trace.Job {
		return trace.Job{GPUs: 2, Duration: 200, Limit: limit, Submit: submit, Partition: partition}
	}
	jobs := numbered(job("a100", 200, 900), job("a100,v100", 210, 900), job("a100", 220, 700), job("v100,a100", 230, 900))
	for _, opt := range []Options{{}, {Backfill: EASY}, {Backfill: Conservative, Own: Own{Depth: 100}}, {Order: Priod, Backfill: EASY, Daemon: daemonOf(t, allOn, nil)}} {
		opt.Placement, opt.NodeEvents = placement.Packed, events
		o := run(t, c, jobs, opt).Outcomes
		if o[0].Start < 1500 || o[1].Start != 210 || o[1].Nodes != "n1" || o[2].Start != 220 || o[2].Nodes != "n0" || o[3].Start != 230 || o[3].Nodes != "n1" {
			t.Errorf("order %s, backfill %s: %+v", opt.Order, opt.Backfill, o)
		}
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

// maintained changes windows of maintenance as it goes, and has those begin that are due.
type maintained struct {
	*engine
	begun map[int]bool // by number, which is the name of a window here
	next  int
}

// on announces a window.
func (m *maintained) on(start, end float64, nodes ...int32) int {
	m.announce(&trace.NodeEvent{At: start, For: end - start, Nodes: nodes})
	m.next++
	for i := range m.windows {
		if w := &m.windows[i]; w.off[-1] == 0 {
			w.off[-1] = int32(m.next) // no request is off -1
		}
	}
	return m.next
}

// to gives a window other times; it ends at once where its end is over.
func (m *maintained) to(number int, start, end float64) {
	for i := range m.windows {
		if w := &m.windows[i]; w.off[-1] == int32(number) {
			if m.begun[number] && end > m.now {
				start = w.start
			}
			w.start, w.end = start, end
			if m.begun[number] {
				m.unreserve(m.name(number)) // which may shorten the list
				delete(m.begun, number)
			}
			break
		}
	}
	slices.SortStableFunc(m.windows, func(a, b window) int { return cmp.Compare(a.start, b.start) })
	m.pastWindows()
	m.slurm.change()
	m.moved = true
}

func (m *maintained) name(number int) string { return maintenance + strconv.Itoa(number) }

// begin has the windows begin that are due.
func (m *maintained) begin() {
	m.pastWindows()
	for i := range m.windows {
		if w, number := &m.windows[i], int(m.windows[i].off[-1]); w.start <= m.now && !m.begun[number] {
			m.begun[number] = true
			m.reserveNodes(m.name(number), w.nodes, w.end-m.now)
			m.moved = true
		}
	}
}

const vacating = "[windows]\nenabled = true\n"

// Windows that are moved, cancelled and extended while jobs run towards them, that overlap, and on a part of the nodes: jobs
// leave before them, once each, and go on after them; where none is left in their way they run on.
func TestWindowsChange(t *testing.T) {
	two := []int32{0, 1}
	for name, w := range map[string]struct {
		at    float64
		do    func(*maintained) // beside a window from 10000 to 11000 on both nodes
		left  [2]int32          // how often each of two jobs of 12000 s left
		after float64           // the first one ends then, or up to ten minutes later
	}{
		"as announced":     {0, func(*maintained) {}, [2]int32{1, 1}, 13000},
		"earlier":          {3000, func(m *maintained) { m.to(1, 5000, 6000) }, [2]int32{1, 1}, 13000},
		"at once":          {3000, func(m *maintained) { m.to(1, 3010, 4000) }, [2]int32{1, 1}, 13000},
		"later":            {3000, func(m *maintained) { m.to(1, 11000, 12000) }, [2]int32{1, 1}, 13000},
		"far enough":       {3000, func(m *maintained) { m.to(1, 90000, 91000) }, [2]int32{}, 12000},
		"cancelled":        {3000, func(m *maintained) { m.to(1, 0, 0) }, [2]int32{}, 12000},
		"extended":         {3000, func(m *maintained) { m.to(1, 10000, 15000) }, [2]int32{1, 1}, 17000},
		"extended in it":   {10500, func(m *maintained) { m.to(1, 10000, 15000) }, [2]int32{1, 1}, 17000},
		"two that overlap": {3000, func(m *maintained) { m.on(10500, 13000, two...) }, [2]int32{1, 1}, 15000},
		"another one":      {3000, func(m *maintained) { m.on(4000, 4500, two...) }, [2]int32{2, 2}, 13500},
		"of one node":      {3000, func(m *maintained) { m.to(1, 0, 0); m.on(10000, 11000, 0) }, [2]int32{1, 0}, 12000},
	} {
		c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4}}}
		job := trace.Job{GPUs: 4, Duration: 12000, Limit: 20000, Grace: 30, Submit: 10}
		opt := Options{Order: Priod, Backfill: EASY, Placement: placement.Packed, Daemon: daemonOf(t, vacating, nil)}
		opt.Daemon.Every = true
		var m *maintained
		e := moments(t, c, numbered(trace.Job{GPUs: 1, Duration: 1}, job, job), opt, func(e *engine) { // the first one is over when the window is announced
			if m == nil {
				m = &maintained{engine: e, begun: map[int]bool{}}
				m.on(10000, 11000, two...)
			}
			if do := w.do; do != nil && e.now >= w.at {
				do(m)
				w.do = nil
			}
			m.begin()
		})
		a, b := &e.outcomes[1], &e.outcomes[2]
		if a.Nodes == "n1" && w.left[0] != w.left[1] { // which of them is on the first node does not matter
			a, b = b, a
		}
		if [2]int32{a.Preemptions, b.Preemptions} != w.left || a.End < w.after || b.End > w.after+1500 || !a.Done || !b.Done {
			t.Errorf("%s: %+v\n%+v", name, *a, *b)
		}
	}
}

// Over random windows that come, move, grow and go: each job does all its work, none ends by a limit of priod's, none has one
// for long where no window is announced, and none that has one is in a window for longer than it takes to leave.
func TestWindowsPropertyOfCycles(t *testing.T) {
	fresh := func() Daemon { return daemonOf(t, vacating, nil) }
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: nodes, GPUType: "a100", GPUs: 4}}}
		var jobs []trace.Job
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			d := float64(rapid.IntRange(100, 4000).Draw(t, "seconds"))
			j := trace.Job{GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"), Duration: d, Limit: d + float64(rapid.IntRange(1, 9000).Draw(t, "more")), Grace: 30, User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")}
			j.NoTag = rapid.IntRange(0, 3).Draw(t, "untagged") == 0
			jobs = append(jobs, j)
		}
		opt := Options{Order: Priod, Backfill: EASY, Placement: placement.Packed, Daemon: fresh()}
		opt.Daemon.Every = true
		var m *maintained
		changed, events, end := 0.0, rapid.IntRange(1, 8).Draw(t, "events"), 0.0
		e := moments(t, c, numbered(jobs...), opt, func(e *engine) {
			if m == nil {
				m = &maintained{engine: e, begun: map[int]bool{}}
			}
			if events > 0 && e.now > changed+float64(rapid.IntRange(10, 900).Draw(t, "pause")) {
				changed, events = e.now, events-1
				start := e.now + float64(rapid.IntRange(1, 3000).Draw(t, "ahead"))
				stop := start + float64(rapid.IntRange(1, 1200).Draw(t, "long"))
				switch n := 0; {
				case m.next > 0 && rapid.Bool().Draw(t, "which"):
					if n = rapid.IntRange(1, m.next).Draw(t, "number"); rapid.Bool().Draw(t, "goes") {
						start, stop = 0, 0
					}
					m.to(n, start, stop)
				default:
					on := rapid.SliceOfNDistinct(rapid.Int32Range(0, int32(nodes)-1), 1, nodes, rapid.ID[int32]).Draw(t, "on")
					slices.Sort(on)
					m.on(start, stop, on...)
				}
				end = max(end, stop)
			}
			m.begin()
			for k := range e.running {
				for j := range e.running[k].all {
					short := j.limited.written && j.Limit != j.limited.own
					if short && len(e.windows) == 0 && e.now > max(changed, end)+60 {
						t.Fatalf("at %v job %s has the limit %v, its own is %v", e.now, j.ID, j.Limit, j.limited.own)
					}
					for i := range e.windows {
						w := &e.windows[i]
						if short && e.now > max(changed, w.start)+120 && slices.ContainsFunc(j.nodes(), func(n int32) bool { return slices.Contains(w.nodes, n) }) {
							t.Fatalf("at %v job %s runs in a window since %v", e.now, j.ID, w.start)
						}
					}
				}
			}
		})
		for i, o := range e.outcomes {
			if worked := o.Ran*float64(jobs[i].GPUs) - o.Wasted; !o.Done || worked < jobs[i].Duration*float64(jobs[i].GPUs)-1 {
				t.Fatalf("job %d: %+v of %+v", i, o, jobs[i])
			}
		}
	})
}
