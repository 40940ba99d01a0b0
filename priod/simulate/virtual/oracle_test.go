package virtual

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// naive is the virtual Slurm as one would write it at first: it looks at every
// waiting job at every event and knows nothing of classes or trees.
type naive struct {
	opt     Options
	cluster trace.Cluster
	nodes   *placement.Nodes
	empty   *placement.Nodes
	groups  []*trace.NodeGroup // by node
	overlap bool               // of partitions, on a divided cluster
	now     float64
	queue   []*naiveJob
	running []*naiveJob
	starts  int
	// promised is the shadow time of each head under EASY, when it first was the first one.
	promised map[string]float64
	delayed  string
	heads    []naiveHead
	way      Backfill // of a pass
	wakes    float64  // backfill, which runs
	changed  bool     // where anything has since it did
	asked    bool     // the main scheduler, which runs
	main     float64  // in the second after that
}

// naiveHead is the first job of its partition that waits, and the place that is kept for it.
type naiveHead struct {
	job    *naiveJob
	part   string
	shadow float64
	shares []placement.Share // nil: none
}

// naivePart is a partition in which a job may run, and what it asks for there.
type naivePart struct {
	name    string
	request placement.Request
}

type naiveJob struct {
	trace.Job
	index           int
	parts           []naivePart
	part            string // in which it runs
	start, end, due float64
	order           int // of starts
	shares          []placement.Share
}

func (j *naiveJob) limit() float64 { return cmp.Or(j.Limit, j.Duration) }

func (n *naive) simulate(c trace.Cluster, jobs []trace.Job) []float64 {
	n.cluster, n.nodes = c, placement.New(n.opt.Placement, nodesOf(c, kindsOf(c).of))
	n.nodes.Apart()
	if n.opt.Backfill == NoBackfill {
		n.opt.Interval = 0
	}
	n.empty, n.groups = n.nodes.Clone(), groupsOf(c)
	n.overlap = c.Divided() && slices.ContainsFunc(c.Nodes, func(g trace.NodeGroup) bool { return len(g.Partitions) > 1 })
	n.promised = map[string]float64{}
	starts := make([]float64, len(jobs))
	arrivals := make([]*naiveJob, len(jobs))
	for i, j := range jobs {
		arrivals[i] = n.asks(c, &j, i)
	}
	for len(arrivals) > 0 || len(n.running) > 0 || len(n.queue) > 0 && n.opt.Own != (Own{}) {
		slices.SortFunc(n.running, func(a, b *naiveJob) int { return cmp.Or(cmp.Compare(a.end, b.end), a.order-b.order) })
		n.now = math.Inf(1)
		if len(arrivals) > 0 {
			n.now = arrivals[0].Submit
		}
		if len(n.running) > 0 {
			n.now = min(n.now, n.running[0].end)
		}
		if n.opt.Interval > 0 {
			n.now = min(n.now, n.wakes)
		}
		if n.asked {
			n.now = min(n.now, n.main)
		}
		happened := false
		n.threads(false, starts)
		for {
			switch {
			case len(n.running) > 0 && n.running[0].end == n.now:
				n.nodes.Release(n.running[0].shares)
				n.running, happened = n.running[1:], true
				continue
			case len(arrivals) > 0 && arrivals[0].Submit == n.now:
				n.queue = append(n.queue, arrivals[0])
				arrivals, happened = arrivals[1:], true
				continue
			}
			break
		}
		if happened && !n.asked {
			n.main = max(math.Floor(n.now)+1, n.main)
		}
		if n.asked, n.changed = n.asked || happened, n.changed || happened; n.opt.Pause == 0 {
			n.threads(happened, starts)
		}
	}
	return starts
}

// threads are the passes of a moment: of the main scheduler, which looks every second whether anything has happened and it did not
// run within Own.Pause, and of backfill, which looks every second, once Own.Interval is over, whether anything had changed before.
func (n *naive) threads(happened bool, starts []float64) {
	n.asked, n.changed = n.asked || happened, n.changed || happened
	started := false
	if n.asked && (n.opt.Pause == 0 || n.now == n.main) {
		n.asked = false
		if n.way = NoBackfill; n.opt.Interval == 0 {
			n.way = n.opt.Backfill
		}
		n.main = n.now + n.opt.Pause
		before := n.starts
		n.pass(starts)
		started = n.starts > before
	}
	if n.opt.Interval == 0 || n.now < n.wakes {
		n.changed = n.changed || started
		return
	}
	if !n.changed {
		n.wakes++
		n.changed = started
		return
	}
	before := n.starts
	n.way = n.opt.Backfill
	n.pass(starts)
	n.wakes, n.changed = n.now+n.opt.Interval, n.starts > before
}

// asks is what a job asks for, in each of its partitions. Jobs with GPUs that name none, or on a cluster that is not
// divided, are one queue, those without that name none another one.
func (n *naive) asks(c trace.Cluster, j *trace.Job, index int) *naiveJob {
	a := &naiveJob{Job: *j, index: index}
	for name := range strings.SplitSeq(j.Partition, ",") {
		in := func(g *trace.NodeGroup) bool { return slices.Contains(g.Partitions, name) }
		if (j.GPUs == 0 || c.Divided()) && slices.ContainsFunc(c.Nodes, func(g trace.NodeGroup) bool { return in(&g) }) {
			a.parts = append(a.parts, naivePart{name, n.request(c, j, in)})
		}
	}
	if len(a.parts) == 0 {
		name := "with"
		if j.GPUs == 0 {
			name = "without"
		}
		a.parts = []naivePart{{name, n.request(c, j, func(*trace.NodeGroup) bool { return true })}}
	}
	for j.GPUs == 0 && !a.fits(n.nodes) { // nothing is on them yet
		for i := range a.parts {
			a.parts[i].request.Nodes++
		}
	}
	return a
}

// fits reports whether nodes have room for a job in one of its partitions.
func (j *naiveJob) fits(nodes *placement.Nodes) bool {
	return slices.ContainsFunc(j.parts, func(p naivePart) bool {
		_, fits := nodes.Fit(p.request, nil)
		return fits && (j.GPUs > 0 || p.request.Nodes > 0)
	})
}

// request is what a job asks for on some of the nodes.
func (n *naive) request(c trace.Cluster, j *trace.Job, in func(*trace.NodeGroup) bool) placement.Request {
	r := placement.Request{Amount: placement.Amount{GPUs: int32(j.GPUs), CPUs: int32(j.CPUs), MemMB: j.MemMB}, Nodes: int32(j.Nodes)}
	if j.GPUs == 0 {
		r.CPUs = max(r.CPUs, r.Nodes, 1)
	}
	var off []int32
	node := int32(0)
	for i := range c.Nodes {
		g := &c.Nodes[i]
		may := in(g) && (j.GPUs == 0 || g.GPUs > 0 && (j.GPUType == "" || j.GPUType == g.GPUType))
		if may {
			r.Types |= 1 << uint(kindsOf(c).of[i])
		}
		for range g.Count {
			if !may {
				off = append(off, node)
			}
			node++
		}
	}
	r.Off = n.nodes.Refused(off)
	return r
}

// pass starts the jobs of each partition up to the first that does not fit, and then, by the way
// of backfill, others.
func (n *naive) pass(starts []float64) {
	for again := true; again; {
		n.heads, again = nil, false
		n.queue = slices.DeleteFunc(n.queue, func(j *naiveJob) bool {
			before := len(n.heads)
			for _, p := range j.parts {
				if slices.ContainsFunc(n.heads, func(h naiveHead) bool { return h.part == p.name }) || n.beyond(j, p.name) {
					continue
				}
				heads := n.heads
				n.heads = heads[:before]
				started := n.start(j, p, starts)
				if n.heads = heads; started {
					again = again || len(heads) > before && n.shares()
					n.heads = heads[:before]
					return true
				}
				if _, ever := n.empty.Fit(p.request, nil); ever || len(j.parts) == 1 {
					n.block(j, p)
				}
			}
			return false
		})
	}
	if n.way == EASY {
		n.queue = slices.DeleteFunc(n.queue, func(j *naiveJob) bool {
			return slices.ContainsFunc(j.parts, func(p naivePart) bool { return n.start(j, p, starts) })
		})
	}
}

// shares reports whether heads keep the nodes of their partitions from other partitions.
func (n *naive) shares() bool { return n.way == NoBackfill && n.overlap }

// block has a job be the head of a partition.
func (n *naive) block(j *naiveJob, p naivePart) {
	h := naiveHead{job: j, part: p.name, shadow: math.Inf(1)}
	if n.way == EASY {
		h.shadow, h.shares = n.shadow(p.request)
		if known, is := n.promised[j.ID]; len(n.heads) == 0 && is && h.shadow > known {
			n.delayed = j.ID
		} else if len(n.heads) == 0 && !is {
			n.promised[j.ID] = h.shadow
		}
	}
	n.heads = append(n.heads, h)
}

// start starts a job in a partition, if it may.
func (n *naive) start(j *naiveJob, p naivePart, starts []float64) bool {
	shares, fits := n.place(j, p)
	if !fits || n.beyond(j, p.name) {
		return false
	}
	j.part, j.shares = p.name, slices.Clone(shares)
	n.nodes.Take(j.shares)
	for _, s := range j.shares {
		if free := n.nodes.FreeOn(s.Node); free.GPUs < 0 || free.CPUs < 0 || free.MemMB < 0 {
			panic("more than a node has")
		}
	}
	n.starts++
	j.start, j.end, j.due, j.order = n.now, n.now+min(j.Duration, j.limit()), n.now+j.limit(), n.starts
	if known, is := n.promised[j.ID]; is && n.now > known {
		n.delayed = j.ID
	}
	starts[j.index] = n.now
	n.running = append(n.running, j)
	return true
}

// place is where a job may start: it delays no head that has a place on one of its GPU
// types when it ends before the first of these, or fits beside them.
func (n *naive) place(j *naiveJob, p naivePart) ([]placement.Share, bool) {
	if n.shares() && len(n.heads) > 0 {
		left := n.nodes.Clone()
		for i, g := range n.groups {
			if slices.ContainsFunc(n.heads, func(h naiveHead) bool { return slices.Contains(g.Partitions, h.part) }) {
				left.SetDown(int32(i), true)
			}
		}
		return left.Fit(p.request, nil)
	}
	first := map[int32]float64{}
	for _, h := range n.heads {
		for _, s := range h.shares {
			t := n.nodes.Type(s.Node)
			if at, some := first[t]; !some || h.shadow < at {
				first[t] = h.shadow
			}
		}
	}
	until := math.Inf(1)
	for t, at := range first {
		if p.request.Types.Has(t) {
			until = min(until, at)
		}
	}
	if n.way != EASY || n.now+j.limit() <= until {
		return n.nodes.Fit(p.request, nil)
	}
	beside := n.nodes.Clone()
	for _, r := range n.running {
		if at, some := first[n.nodes.Type(r.shares[0].Node)]; some && r.due <= at {
			beside.Release(r.shares)
		}
	}
	for _, h := range n.heads {
		beside.Take(h.shares)
	}
	return n.nodes.Fit(p.request, beside)
}

// shadow tries the end of every running job.
func (n *naive) shadow(r placement.Request) (float64, []placement.Share) {
	ends := []float64{}
	for _, j := range n.running {
		ends = append(ends, j.due)
	}
	slices.Sort(ends)
	for _, end := range ends {
		then := n.nodes.Clone()
		for _, j := range n.running {
			if j.due <= end {
				then.Release(j.shares)
			}
		}
		for _, h := range n.heads {
			then.Take(h.shares)
		}
		if shares, fits := then.Fit(r, nil); fits {
			return end, slices.Clone(shares)
		}
	}
	if len(n.heads) == 0 {
		panic("never")
	}
	return math.Inf(1), nil
}

func drawCluster(t *rapid.T) trace.Cluster {
	var c trace.Cluster
	for i := range rapid.IntRange(1, 2).Draw(t, "types") {
		c.Nodes = append(c.Nodes, trace.NodeGroup{
			Count: rapid.IntRange(1, 3).Draw(t, "count"), GPUType: string(rune('a' + i)),
			GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"), CPUs: rapid.SampledFrom([]int{0, 8, 16}).Draw(t, "cpus"),
			MemMB: rapid.SampledFrom([]int64{0, 100}).Draw(t, "mem"),
		})
	}
	return c
}

// withoutGPUs adds nodes without GPUs to a cluster and names partitions, and has some jobs
// ask for no GPUs.
func withoutGPUs(t *rapid.T, c *trace.Cluster, jobs []trace.Job) {
	partitions := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2, rapid.ID[string])
	for range rapid.IntRange(0, 3).Draw(t, "groups without GPUs") {
		c.Nodes = append(c.Nodes, trace.NodeGroup{Count: rapid.IntRange(1, 3).Draw(t, "count"), CPUs: rapid.SampledFrom([]int{4, 8}).Draw(t, "cpus"), MemMB: rapid.SampledFrom([]int64{0, 60}).Draw(t, "mem")})
	}
	for i := range c.Nodes {
		c.Nodes[i].Partitions = partitions.Draw(t, "partitions")
	}
	for i := range jobs {
		if j := &jobs[i]; rapid.Bool().Draw(t, "without GPUs") {
			j.GPUs, j.GPUType, j.CPUs, j.Nodes = 0, "", rapid.IntRange(0, 12).Draw(t, "cpus"), rapid.IntRange(0, 3).Draw(t, "nodes")
			j.Partition = rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "partition")
		}
	}
}

func drawJobs(t *rapid.T, c trace.Cluster, most int) []trace.Job {
	var jobs []trace.Job
	at := 0
	for i := range rapid.IntRange(1, most).Draw(t, "jobs") {
		at += rapid.IntRange(0, 6).Draw(t, "gap")
		j := trace.Job{ID: string(rune('A'+i%26)) + string(rune('0'+i/26)), Submit: float64(at), Duration: float64(rapid.IntRange(1, 30).Draw(t, "duration"))}
		group := c.Nodes[rapid.IntRange(0, len(c.Nodes)-1).Draw(t, "group")]
		j.GPUs = rapid.IntRange(1, group.Count*group.GPUs).Draw(t, "gpus")
		if rapid.Bool().Draw(t, "typed") {
			j.GPUType = group.GPUType
		}
		switch rapid.IntRange(0, 3).Draw(t, "limit") {
		case 0:
			j.Limit = j.Duration + float64(rapid.IntRange(0, 20).Draw(t, "more"))
		case 1:
			j.Limit = float64(rapid.IntRange(1, 40).Draw(t, "some"))
		}
		if rapid.Bool().Draw(t, "cpus") {
			j.CPUs = rapid.IntRange(1, 2*j.GPUs).Draw(t, "cpus")
		}
		if rapid.Bool().Draw(t, "mem") {
			j.MemMB = int64(rapid.IntRange(1, 60).Draw(t, "mem"))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// possible leaves out the jobs that the cluster can never hold.
func possible(c trace.Cluster, jobs []trace.Job, opt Options) []trace.Job {
	e := newEngine(context.Background(), c, opt)
	return slices.DeleteFunc(jobs, func(j trace.Job) bool {
		_, why, _ := e.admit(j)
		return why != ""
	})
}

// drawClock is when the schedulers run.
func drawClock(t *rapid.T) Own {
	return Own{Interval: rapid.SampledFrom([]float64{0, 1, 7, 30}).Draw(t, "interval"), Pause: rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "pause")}
}

func TestIndexedBackfillIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opt := Options{
			Backfill:  rapid.SampledFrom([]Backfill{NoBackfill, EASY}).Draw(t, "backfill"),
			Placement: rapid.SampledFrom([]placement.Mode{placement.Packed, placement.Consolidated}).Draw(t, "placement"),
			Own:       drawClock(t),
		}
		c := drawCluster(t)
		jobs := drawJobs(t, c, 40)
		if rapid.Bool().Draw(t, "some without GPUs") {
			withoutGPUs(t, &c, jobs)
		}
		drawLimits(t, &c, jobs)
		checkAgainstNaive(t, c, jobs, opt)
	})
}

// On few nodes that jobs with GPUs and without share, several heads want one place.
func TestHeadsThatShareNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: rapid.IntRange(1, 3).Draw(t, "count"), GPUType: "a", GPUs: 4, CPUs: 8, Partitions: []string{"x"}}}}
		if rapid.Bool().Draw(t, "more nodes") {
			c.Nodes = append(c.Nodes, trace.NodeGroup{Count: 1, GPUType: "a", GPUs: 2, CPUs: 8, Partitions: []string{"y"}})
		}
		var jobs []trace.Job
		at := 0
		for i := range rapid.IntRange(20, 60).Draw(t, "jobs") {
			at += rapid.IntRange(0, 3).Draw(t, "gap")
			j := trace.Job{ID: strconv.Itoa(i), Submit: float64(at), Duration: float64(rapid.IntRange(1, 40).Draw(t, "duration")), Nodes: rapid.IntRange(1, 3).Draw(t, "nodes")}
			j.Limit = j.Duration + float64(rapid.IntRange(0, 9).Draw(t, "more"))
			j.CPUs = rapid.IntRange(1, 8*j.Nodes).Draw(t, "cpus")
			if rapid.Bool().Draw(t, "with GPUs") {
				j.GPUs = rapid.IntRange(j.Nodes, 4*j.Nodes).Draw(t, "gpus")
			} else {
				j.Partition = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "partition")
			}
			jobs = append(jobs, j)
		}
		checkAgainstNaive(t, c, jobs, Options{Backfill: EASY, Placement: placement.Packed, Own: drawClock(t)})
	})
}

// checkAgainstNaive runs those of the jobs that the cluster can hold both ways.
func checkAgainstNaive(t *rapid.T, c trace.Cluster, jobs []trace.Job, opt Options) {
	if jobs = possible(c, jobs, opt); len(jobs) == 0 {
		return
	}
	n := &naive{opt: opt}
	want := n.simulate(c, jobs)
	r, err := Run(context.Background(), c, trace.Each(jobs), opt)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range r.Outcomes {
		if o.Start != want[i] {
			t.Fatalf("backfill %s, placement %d: job %s starts at %v, the naive one at %v", opt.Backfill, opt.Placement, jobs[i].ID, o.Start, want[i])
		}
		if !o.Done || o.End-o.Start != min(jobs[i].Duration, cmp.Or(jobs[i].Limit, jobs[i].Duration)) || o.Ran != o.End-o.Start {
			t.Fatalf("job %s ran %+v", jobs[i].ID, o)
		}
	}
	if n.delayed != "" && opt.Interval+opt.Pause == 0 && !hasLimits(c) {
		t.Fatalf("head %s starts after its first shadow time", n.delayed)
	}
	checkCapacity(t, c, r, jobs)
}

func checkCapacity(t *rapid.T, c trace.Cluster, r Result, jobs []trace.Job) {
	for i := range jobs {
		used := map[int32]int{}
		for k, o := range r.Outcomes {
			if o.Start <= r.Outcomes[i].Start && r.Outcomes[i].Start < o.End {
				used[o.Type] += jobs[k].GPUs
			}
		}
		for k, name := range r.Types {
			if used[int32(k)] > c.GPUs(name) {
				t.Fatalf("%d GPUs of %d at %v", used[int32(k)], c.GPUs(name), r.Outcomes[i].Start)
			}
		}
	}
}

// moments runs the engine and looks at it after every moment.
func moments(t rapid.TB, c trace.Cluster, jobs []trace.Job, opt Options, look func(*engine)) *engine {
	if err := check(c, &opt); err != nil {
		t.Fatal(err)
	}
	e := newEngine(context.Background(), c, opt)
	for _, j := range jobs {
		a, _, err := e.admit(j)
		if err != nil {
			t.Fatal(err)
		}
		e.agenda.push(event{at: j.Submit, kind: arrived, job: a})
		e.ahead++
	}
	for len(e.agenda.heap) > 0 && (e.inSystem > 0 || e.ahead > 0) {
		if err := e.moment(); err != nil {
			t.Fatal(err)
		}
		look(e)
	}
	return e
}

func TestErrors(t *testing.T) {
	ok := trace.Job{ID: "ok", GPUs: 1, Duration: 1}
	for _, c := range []struct {
		name string
		jobs []trace.Job
		opt  Options
		want string
	}{
		{"empty", nil, Options{}, "the trace is empty"},
		{"too large", []trace.Job{ok, {ID: "big", GPUs: 9, Duration: 1}, ok, {ID: "bigger", GPUs: 99, Duration: 1}}, Options{},
			"stuck: these jobs can never run because they ask for more than they can get: big (9 GPUs of one type are more than the cluster has (8)), bigger (99 GPUs of one type are more than the cluster has (8))"},
		{"type", []trace.Job{{ID: "x", GPUs: 1, Duration: 1, GPUType: "h100"}}, Options{}, "stuck: these jobs can never run because the cluster has no GPUs of type h100 on which it runs: x"},
		{"zero", []trace.Job{{ID: "x", GPUs: 1}}, Options{}, "job x has a run time of 0"},
		{"negative", []trace.Job{{ID: "x", GPUs: 1, Duration: 1, Submit: -1}}, Options{}, "job x is submitted at -1"},
		{"unsorted", []trace.Job{{ID: "a", GPUs: 1, Duration: 1, Submit: 5}, {ID: "x", GPUs: 1, Duration: 1}}, Options{}, "job x is submitted at 0, before the job that comes before it (5): sort the trace by submit_s"},
		{"window", []trace.Job{ok}, Options{Window: &metrics.Window{First: 0, Last: 3}}, "the window ends at job 3 and the trace has only 1 jobs, counted from 0"},
		{"order", []trace.Job{ok}, Options{Order: "lifo"}, `no order "lifo": want fifo, multifactor or priod`},
		{"steps", []trace.Job{{ID: "x", GPUs: 1, Steps: 10}}, Options{}, "job x is given by its steps, and no speeds are known"},
	} {
		_, err := Run(context.Background(), nodes(1, 8), trace.Each(c.jobs), c.opt)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, nodes(100, 8), stream(10000, 800, 1, 1), Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
