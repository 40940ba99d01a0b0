package virtual

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// state is what a job does.
type state uint8

const (
	waiting state = iota
	delayed       // requeued, may not run yet
	running       // or in its prolog
	leaving       // evicted, in its grace period
	closing       // in its epilog
	exited        // it was signalled and did, and it is not requeued yet
	halted        // it failed, and priod may still put it back
	gone
)

// job is one job in the system.
type job struct {
	trace.Job
	links
	index   int32
	state   state
	request placement.Request
	own     placement.Types // that it asks for; request may be bound to one of them
	holder  *holder
	claims  []claim // under which it counts while it runs
	line    *line
	part    *queuePart // in which it runs, last did or is planned to
	class   *class
	turn    int64 // first come, first served goes by it

	todo      float64  // work not yet done and saved
	occupancy float64  // s that its next run holds GPUs, as far as the scheduler knows
	since     float64  // from when on it could run; its age counts from there
	eligible  float64  // from when on it may run again, once evicted
	returns   bool     // to the queue, when this run is over
	roomAt    float64  // when those have left that SlurmPartitions told to
	bill      float64  // that its owner is billed for
	owner     *account // whose use it counts to; nil until asked for
	trial

	shares  []placement.Share
	one     [1]placement.Share // of jobs on one node
	epoch   int32              // counts what makes older events void
	runs    int32
	vain    int32 // runs on end of which nothing was kept
	speed   float64
	start   float64 // of this run, after the prolog
	cycles  int64   // before it
	lost    float64 // s of this run spent on restarting
	planned float64 // when the run frees its GPUs, as far as the scheduler knows

	asksSwitches string  // what priod wrote; "": nothing
	switchWait   float64 // s that it waits for few switches at most, from
	switchStart  float64 // when it could first have started on more; -1: it could not yet

	record  // as Slurm shows it
	limited limited
}

type engine struct {
	ctx     context.Context
	opt     Options
	cluster trace.Cluster
	divided bool // as trace.Cluster.Divided
	overlap bool // and nodes are in several partitions
	kinds   kinds
	types   []string // names of the kinds
	gpus    int
	cpus    float64 // of nodes with GPUs, for each GPU; 0: not counted
	agenda  agenda
	now     float64
	moved   bool // a pass may start something that the last one could not

	way   Backfill // of this pass
	clock clock

	queue        queue
	nodes        *placement.Nodes
	lines        map[string]*line // by list of partitions
	parts        map[string]*queuePart
	heads        []*slot              // of the partitions that are blocked, in this pass, each with its job in there
	kept         int                  // heads that have a place
	shadows      []float64            // by type, the time until which a job delays no head there
	reserved     []placement.Share    // for the heads
	on           []placement.Share    // of these one for each node
	room         []placement.Share    // see roomFor
	beyond       *placement.Nodes     // what that leaves
	future       *placement.Nodes     // scratch for finding it
	empty        *placement.Nodes     // the whole cluster
	running      []tree               // by GPU type and planned end
	out          []outage             // by node, why it starts no jobs
	reboots      map[int32]*reboot    // by node that drains for a reboot, or reboots
	leaves       []int32              // by node, the leaf switch of the node; nil: there are none
	slowdowns    []map[string]float64 // by node and workload; nil: nodes are equal
	reservations []reservation        // of nodes, which start nothing meanwhile
	windows      []window             // maintenance that is announced, by its start

	calculating, cycling bool // in the agenda
	cycles               int64

	limits  limits
	factors *multifactor
	slurm   *slurm
	rand    *rand.Rand

	turns    int64
	last     float64 // submit of the last arrival
	inSystem int
	ahead    int // arrivals in the agenda
	awaited  int // jobs of the window not yet done; -1 without one
	hopeless error
	jobs     []metrics.Job
	outcomes []metrics.Outcome
	series   metrics.Series
	steps    int
}

func newEngine(ctx context.Context, c trace.Cluster, opt Options) *engine {
	if opt.Placement == placement.Pool { // the zero value
		opt.Placement = placement.Packed
	}
	if opt.Origin.IsZero() {
		opt.Origin = Epoch
	}
	e := &engine{
		ctx: ctx, opt: opt, cluster: c, kinds: kindsOf(c), gpus: c.TotalGPUs(), cpus: cpusOf(c), awaited: -1, clock: clock{mainAt: -opt.Pause}, divided: c.Divided(), lines: map[string]*line{}, parts: map[string]*queuePart{},
		queue:  queue{classes: map[classKey]*class{}},
		limits: newLimits(&c),
		rand:   rand.New(rand.NewPCG(opt.Seed, 0x736c75726d)),
	}
	e.types = e.kinds.names
	e.overlap = e.divided && slices.ContainsFunc(c.Nodes, func(g trace.NodeGroup) bool { return len(g.Partitions) > 1 })
	e.shadows = make([]float64, len(e.types))
	e.nodes = placement.New(opt.Placement, nodesOf(c, e.kinds.of))
	if e.leaves = leavesOf(c); e.leaves != nil {
		e.nodes.SetLeaves(e.leaves)
	}
	e.slowdowns = slowdownsOf(c)
	e.beyond, e.future, e.empty = e.nodes.Clone(), e.nodes.Clone(), e.nodes.Clone()
	e.beyond.Apart()
	e.future.Apart()
	e.running = make([]tree, len(e.types))
	if opt.Window != nil {
		e.awaited = opt.Window.Last - opt.Window.First + 1
	}
	if opt.Order == Multifactor || opt.Order == Priod {
		e.factors = newMultifactor(&opt, c)
	}
	if opt.Order == Priod {
		e.slurm = newSlurm(e)
	}
	e.out, e.reboots = make([]outage, e.nodes.Len()), map[int32]*reboot{}
	for i := range opt.NodeEvents {
		v := &opt.NodeEvents[i]
		if v.Kind == trace.NodesJoin {
			for _, n := range v.Nodes {
				e.takeOut(n, absent)
			}
		}
		e.agenda.push(event{at: v.At, kind: befell, node: int32(i)})
		if v.Announced > 0 {
			e.agenda.push(event{at: max(v.At-v.Announced, 0), kind: announced, node: int32(i)})
		}
	}
	if opt.MTBF > 0 {
		for n := range e.nodes.Len() {
			e.failLater(int32(n))
		}
	}
	return e
}

// nodesOf are the nodes of a cluster, whose groups are of these kinds.
func nodesOf(c trace.Cluster, kinds []int32) []placement.Node {
	var nodes []placement.Node
	for i, g := range c.Nodes {
		a := placement.Amount{GPUs: int32(g.GPUs), CPUs: placement.Plenty, MemMB: placement.Plenty}
		if g.CPUs > 0 {
			a.CPUs = int32(g.CPUs)
		}
		if g.MemMB > 0 {
			a.MemMB = g.MemMB
		}
		for range g.Count {
			nodes = append(nodes, placement.Node{Type: kinds[i], Amount: a})
		}
	}
	return nodes
}

// cpusOf is how many CPUs nodes with GPUs have for each of these; 0 where they do not count.
func cpusOf(c trace.Cluster) float64 {
	cpus, gpus := 0, 0
	for i := range c.Nodes {
		if g := &c.Nodes[i]; g.GPUs > 0 && g.CPUs > 0 {
			cpus, gpus = cpus+g.Count*g.CPUs, gpus+g.Count*g.GPUs
		}
	}
	return float64(cpus) / float64(max(gpus, 1))
}

// lookAhead is how many more jobs are read to name those that are stuck: a generator need not end.
const lookAhead = 100_000

// run takes the jobs one by one and lets time pass up to each.
func (e *engine) run(jobs iter.Seq2[trace.Job, error]) error {
	var stuck *Stuck
	looked := 0
	for t, err := range jobs {
		if err != nil {
			return err
		}
		j, why, err := e.admit(t)
		if err != nil {
			return err
		}
		if why != "" && stuck == nil {
			stuck = &Stuck{}
		}
		if stuck != nil { // only to name more of them
			if why != "" {
				stuck.add(t.ID, why)
			}
			if looked++; len(stuck.Jobs) == maxNamed || looked == lookAhead {
				return stuck
			}
			continue
		}
		if err := e.until(t.Submit); err != nil || e.awaited == 0 {
			return err
		}
		e.agenda.push(event{at: t.Submit, kind: arrived, job: j})
		e.ahead++
	}
	switch {
	case stuck != nil:
		return stuck
	case len(e.jobs) == 0:
		return fmt.Errorf("the trace is empty")
	case e.opt.Window != nil && e.opt.Window.Last >= len(e.jobs):
		return fmt.Errorf("the window ends at job %d and the trace has only %d jobs, counted from 0", e.opt.Window.Last, len(e.jobs))
	}
	return e.until(math.Inf(1))
}

// until lets everything happen that comes before a time.
func (e *engine) until(end float64) error {
	for len(e.agenda.heap) > 0 && e.agenda.heap[0].at < end && e.awaited != 0 {
		if e.steps++; e.steps%4096 == 0 && e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		if math.IsInf(end, 1) && e.inSystem == 0 && e.ahead == 0 {
			return nil // only failures and cycles are left
		}
		if err := e.moment(); err != nil {
			return err
		}
		if math.IsInf(end, 1) {
			if err := e.idle(); err != nil {
				return err
			}
		}
	}
	return nil
}

// moment handles all that happens next, at one time, and then schedules.
func (e *engine) moment() error {
	e.now = e.agenda.heap[0].at
	for {
		v := e.agenda.pop()
		if err := e.handle(v); err != nil {
			return err
		}
		if len(e.agenda.heap) == 0 || e.agenda.heap[0].at != e.now || v.kind <= filled && e.agenda.heap[0].kind > filled {
			break
		}
	}
	if e.hopeless != nil {
		return e.hopeless
	}
	if e.moved || e.clock.main || e.clock.fill {
		e.schedule()
		if e.hopeless != nil {
			return e.hopeless
		}
		e.series.Add(metrics.Point{At: e.now, GPUs: e.held(), Queued: e.queue.n - e.queue.others, Others: e.queue.others})
	}
	return nil
}

// held is how many GPUs jobs hold, also on nodes that start none: those that are down, drained or reserved.
func (e *engine) held() int {
	held := e.gpus
	for t := range e.types {
		held -= e.nodes.FreeGPUs(int32(t))
	}
	for n := range int32(e.nodes.Len()) {
		if e.nodes.Down(n) {
			held -= int(e.nodes.FreeOn(n).GPUs)
		}
	}
	return held
}

func (e *engine) handle(v event) error {
	j := v.job
	if j != nil && v.kind != arrived && v.epoch != j.epoch {
		return nil // of a run that is over
	}
	switch v.kind {
	case arrived:
		e.ahead--
		e.inSystem++
		if e.opt.Hold > 0 && e.slurm.holdsBack(j) {
			j.eligible = e.now + e.opt.Hold
			e.delay(j)
			e.wake()
			return nil
		}
		e.wait(j)
		e.slurm.call(j)
	case requeued:
		e.wait(j)
	case ended:
		e.end(j)
	case left:
		e.leave(j)
	case freed:
		e.free(j)
	case failed:
		e.fail(v.node)
	case befell:
		e.befall(&e.opt.NodeEvents[v.node])
	case announced:
		e.announce(&e.opt.NodeEvents[v.node])
	case returned:
		e.comeIn(v.node, v.why)
	case repaired:
		e.repair(v.node)
	case calculate:
		e.calculate()
	case cycled:
		return e.cycle()
	case tended:
		return e.tend()
	case called:
		return e.called()
	case scheduled, filled:
		e.strikes(v.kind)
	case relaxed:
		e.relax(j)
	case unreserved:
		e.unreserve("")
	}
	return nil
}

// idle finds out that nothing can happen any more although jobs wait.
func (e *engine) idle() error {
	if e.queue.n == 0 || e.queue.n < e.inSystem || e.ahead > 0 || len(e.windows) > 0 || e.clock.mainSet || e.clock.fillSet {
		return nil
	}
	for t := range e.running {
		if e.running[t].root != nil {
			return nil // an epilog
		}
	}
	for n := range e.nodes.Len() {
		if e.nodes.Down(int32(n)) {
			return nil
		}
	}
	stuck := &Stuck{}
	for _, j := range e.queue.list(maxNamed) {
		if e.unsatisfied(j) {
			return nil // priod takes back what it refuses
		}
		stuck.add(j.ID, "nothing that runs can make room for it any more")
	}
	return stuck
}

// finish is the state of things when the run stops.
func (e *engine) finish() Result {
	for t := range e.running {
		for j := range e.running[t].all {
			if j.state == running || j.state == leaving {
				e.outcomes[j.index].Ran += max(e.now-j.start, 0)
			}
		}
	}
	for i := range e.outcomes {
		if e.outcomes[i].Start < 0 {
			e.outcomes[i].Start = 0
		}
	}
	return Result{Types: e.types, Jobs: e.jobs, Outcomes: e.outcomes, Series: e.series.Points(), End: e.now}
}
