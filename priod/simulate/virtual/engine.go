package virtual

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

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
	gone
)

// job is one job in the system.
type job struct {
	trace.Job
	links
	index   int32
	state   state
	request placement.Request
	owners  owners
	class   *class
	turn    int64 // first come, first served goes by it

	todo      float64 // work not yet done and saved
	occupancy float64 // s that its next run holds GPUs, as far as the scheduler knows
	since     float64 // from when on it could run; its age counts from there
	eligible  float64 // from when on it may run again, once evicted
	peers     int     // jobs in the system at its arrival

	shares  []placement.Share
	one     [1]placement.Share // of jobs on one node
	epoch   int32              // counts what makes older events void
	runs    int32
	vain    int32 // runs on end of which nothing was kept
	speed   float64
	start   float64 // of this run, after the prolog
	lost    float64 // s of this run spent on restarting
	planned float64 // when the run frees its GPUs, as far as the scheduler knows
	opens   float64 // reserved start, under conservative backfill

	level    int     // LAS queue
	attained float64 // GPU-seconds
	record           // as Slurm shows it
}

type engine struct {
	ctx      context.Context
	opt      Options
	types    []string
	gpus     int
	agenda   agenda
	now      float64
	together bool // all events of one time before one pass
	moved    bool // a pass may start something that the last one could not

	queue   queue
	nodes   *placement.Nodes
	beyond  *placement.Nodes // what the head's reservation leaves
	future  *placement.Nodes // scratch for finding it
	empty   *placement.Nodes // the whole cluster
	running []tree           // by GPU type and planned end; under SRTF and LAS one, in order
	plan    *reservations    // of conservative backfill

	demotions []*job // at this moment, under LAS
	preempted int64  // turns of jobs preempted at this moment, under LAS: before all others

	calculating, cycling bool // in the agenda

	users, accounts map[string]*owner
	factors         *multifactor
	slurm           *slurm
	rand            *rand.Rand

	turns    int64
	last     float64 // submit of the last arrival
	inSystem int
	ahead    int // arrivals in the agenda
	awaited  int // jobs of the window not yet done; -1 without one
	hopeless error
	jobs     []metrics.Job
	outcomes []metrics.Outcome
	series   series
	steps    int
}

func newEngine(ctx context.Context, c trace.Cluster, opt Options) *engine {
	e := &engine{
		ctx: ctx, opt: opt, types: c.Types(), gpus: c.TotalGPUs(), awaited: -1,
		queue: queue{classes: map[classKey]*class{}},
		users: map[string]*owner{}, accounts: map[string]*owner{},
		rand: rand.New(rand.NewPCG(opt.Seed, 0x736c75726d)), together: opt.Placement != placement.Pool || opt.preemptive(),
	}
	e.nodes = placement.New(opt.Placement, nodesOf(c, e.types))
	e.beyond, e.future, e.empty = e.nodes.Clone(), e.nodes.Clone(), e.nodes.Clone()
	e.running = make([]tree, len(e.types))
	if opt.Window != nil {
		e.awaited = opt.Window.Last - opt.Window.First + 1
	}
	if opt.Backfill == Conservative {
		e.plan = newReservations(e)
		e.together = e.together || !e.plan.steady
	}
	if opt.Order == Multifactor || opt.Order == Priod {
		e.factors = newMultifactor(opt.Multifactor)
	}
	if opt.Order == Priod {
		e.slurm = newSlurm(e)
	}
	if opt.MTBF > 0 {
		for n := range e.nodes.Len() {
			e.failLater(int32(n))
		}
	}
	return e
}

func (o *Options) preemptive() bool { return o.Order == SRTF || o.Order == LAS }

func nodesOf(c trace.Cluster, types []string) []placement.Node {
	index := map[string]int32{}
	for i, t := range types {
		index[t] = int32(i)
	}
	var nodes []placement.Node
	for _, g := range c.Nodes {
		if g.GPUs == 0 {
			continue
		}
		a := placement.Amount{GPUs: int32(g.GPUs), CPUs: placement.Plenty, MemMB: placement.Plenty}
		if g.CPUs > 0 {
			a.CPUs = int32(g.CPUs)
		}
		if g.MemMB > 0 {
			a.MemMB = g.MemMB
		}
		for range g.Count {
			nodes = append(nodes, placement.Node{Type: index[g.GPUType], Amount: a})
		}
	}
	return nodes
}

// lookAhead is how many more jobs are read to name those that are stuck: a
// generator need not end.
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

func (s *Stuck) add(id, why string) {
	s.Jobs, s.Reasons = append(s.Jobs, id), append(s.Reasons, why)
}

// admit checks a job and makes it ready to arrive. why is not empty when it
// can never run.
func (e *engine) admit(t trace.Job) (j *job, why string, err error) {
	work := t.Duration
	if work == 0 {
		work = t.Steps
	}
	switch {
	case t.GPUs <= 0:
		return nil, "", fmt.Errorf("job %s asks for %d GPUs", t.ID, t.GPUs)
	case !(work > 0) || math.IsInf(work, 1):
		return nil, "", fmt.Errorf("job %s has a run time of %v", t.ID, work)
	case !(t.Submit >= 0) || math.IsInf(t.Submit, 1):
		return nil, "", fmt.Errorf("job %s is submitted at %v", t.ID, t.Submit)
	case t.Submit < e.last:
		return nil, "", fmt.Errorf("job %s is submitted at %v, before the job that comes before it (%v): sort the trace by submit_s", t.ID, t.Submit, e.last)
	case t.Limit < 0:
		return nil, "", fmt.Errorf("job %s has a time limit of %v", t.ID, t.Limit)
	case t.Duration == 0 && e.opt.Speed == nil:
		return nil, "", fmt.Errorf("job %s is given by its steps, and no speeds are known", t.ID)
	}
	e.last = t.Submit
	j = &job{Job: t, index: int32(len(e.jobs)), todo: work, record: record{direct: -1, row: -1}}
	j.height = scatter(j.index)
	j.owners = owners{e.owner(e.users, t.User, e.opt.UserGPUs), e.owner(e.accounts, t.Account, e.opt.AccountGPUs)}
	j.request = placement.Request{Amount: placement.Amount{GPUs: int32(t.GPUs)}}
	if e.opt.Placement != placement.Pool {
		j.request.CPUs, j.request.MemMB, j.request.Nodes = int32(t.CPUs), t.MemMB, int32(t.Nodes)
	}
	for i, name := range e.types {
		if (t.GPUType == "" || t.GPUType == name) && e.speed(j, int32(i)) > 0 {
			j.request.Types |= 1 << uint(i)
		}
	}
	if why := e.never(j); why != "" {
		return nil, why, nil
	}
	e.jobs = append(e.jobs, metrics.JobOf(&t))
	e.outcomes = append(e.outcomes, metrics.Outcome{Start: -1, Type: -1})
	return j, "", nil
}

// never says why a job could not even run on the empty cluster.
func (e *engine) never(j *job) string {
	if j.request.Types == 0 && j.GPUType != "" {
		return fmt.Sprintf("the cluster has no GPUs of type %s on which it runs", j.GPUType)
	}
	if j.request.Types == 0 {
		return "it runs on no GPU type of the cluster"
	}
	for _, w := range []struct {
		*owner
		name string
	}{{j.owners.user, "a user"}, {j.owners.account, "an account"}} {
		if w.owner != nil && j.GPUs > w.limit {
			return fmt.Sprintf("%d GPUs are more than %s may hold (%d)", j.GPUs, w.name, w.limit)
		}
	}
	if _, fits := e.empty.Fit(j.request, nil); fits {
		return ""
	}
	most := 0
	for t := range e.types {
		if j.request.Types.Has(int32(t)) {
			most = max(most, e.empty.FreeGPUs(int32(t)))
		}
	}
	if j.GPUs > most {
		return fmt.Sprintf("%d GPUs of one type are more than the cluster has (%d)", j.GPUs, most)
	}
	return "no nodes of the cluster hold its GPUs, CPUs and memory"
}

func (e *engine) owner(of map[string]*owner, name string, limit int) *owner {
	if limit == 0 || name == "" {
		return nil
	}
	if of[name] == nil {
		of[name] = &owner{limit: limit}
	}
	return of[name]
}

// scatter turns an index into a number without pattern (Steele et al.,
// SplitMix, OOPSLA'14).
func scatter(index int32) uint32 {
	z := uint64(index+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32(z >> 32)
}

func (e *engine) speed(j *job, gpuType int32) float64 {
	if j.Duration > 0 {
		return 1
	}
	return e.opt.Speed(&j.Job, e.types[gpuType])
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

// moment handles what happens next and then schedules. In a pool that is one
// event: between two of one time a job may start on what only the first of them
// freed. Where jobs are placed or moved, or a pass plans anew for all, it is all
// that happens at that time.
func (e *engine) moment() error {
	e.now = e.agenda.heap[0].at
	for {
		if err := e.handle(e.agenda.pop()); err != nil {
			return err
		}
		if !e.together || len(e.agenda.heap) == 0 || e.agenda.heap[0].at != e.now {
			break
		}
	}
	if e.hopeless != nil {
		return e.hopeless
	}
	if e.moved {
		e.moved = false
		e.schedule()
		used := e.gpus
		for t := range e.types {
			used -= e.nodes.FreeGPUs(int32(t))
		}
		e.series.add(Point{At: e.now, GPUs: used, Queued: e.queue.n})
	}
	return nil
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
		j.peers = e.inSystem
		e.wait(j)
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
	case repaired:
		e.repair(v.node)
	case demoted:
		e.demote(j)
	case calculate:
		e.calculate()
	case cycled:
		return e.cycle()
	case opened:
		e.plan.due = append(e.plan.due, j)
		e.moved = true
	}
	return nil
}

// idle finds out that nothing can happen any more although jobs wait.
func (e *engine) idle() error {
	if e.queue.n == 0 || e.queue.n < e.inSystem || e.ahead > 0 || e.plan.holds() {
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
		why := "nothing that runs can make room for it any more"
		if e.slurm != nil && j.held() {
			why = "it is held"
		}
		stuck.add(j.ID, why)
	}
	return stuck
}

// wait puts a job into the queue.
func (e *engine) wait(j *job) {
	j.state = waiting
	if j.turn == 0 {
		e.turns++
		j.turn, j.since = e.turns, e.now
	}
	j.occupancy = e.occupies(j)
	j.key = e.place(j)
	e.queue.add(j)
	e.plan.wants(j)
	e.slurm.changed(j)
	e.wake()
	e.moved = true
}

// occupies is how long the scheduler must think that the next run holds GPUs,
// on the slowest type that the job may get.
func (e *engine) occupies(j *job) float64 {
	if j.Limit > 0 {
		return e.opt.Prolog + j.Limit + e.opt.Epilog
	}
	return e.opt.Prolog + e.restart(j) + e.needs(j) + e.opt.Epilog
}

func (e *engine) restart(j *job) float64 {
	if j.runs == 0 {
		return 0
	}
	return e.opt.RestartCost
}

// begin starts a waiting job on the shares.
func (e *engine) begin(j *job, shares []placement.Share) {
	e.queue.remove(j)
	e.hold(j, shares)
	j.lost = e.restart(j)
	j.runs++
	j.epoch++
	j.start = e.now + e.opt.Prolog
	j.state = running
	seconds := j.lost + j.todo/j.speed
	if j.Limit > 0 {
		j.planned = j.start + j.Limit + e.opt.Epilog
		seconds = min(seconds, j.Limit)
	} else {
		j.planned = j.start + seconds + e.opt.Epilog
	}
	e.agenda.push(event{at: j.start + seconds, kind: ended, job: j, epoch: j.epoch})
	j.key = key{rank: j.planned, seq: int64(j.index)}
	e.running[e.nodes.Type(j.shares[0].Node)].insert(j)
	e.slurm.changed(j)
}

// hold gives a job its GPUs.
func (e *engine) hold(j *job, shares []placement.Share) {
	j.shares = append(j.one[:0], shares...)
	e.nodes.Take(j.shares)
	j.owners.add(j.GPUs)
	t := e.nodes.Type(j.shares[0].Node)
	j.speed = e.speed(j, t)
	o := &e.outcomes[j.index]
	if o.Start < 0 {
		o.Start = e.now
	}
	if e.types[t] != "" {
		o.Type = t
	}
	e.factors.starts(j, e.now)
}

// end is the end of a job: it is done, or its time limit is reached.
func (e *engine) end(j *job) {
	o := &e.outcomes[j.index]
	o.Ran += e.now - j.start
	o.Wasted += float64(j.GPUs) * j.lost
	j.todo = 0
	e.done(j)
	e.close(j)
}

// done closes a job's account.
func (e *engine) done(j *job) {
	o := &e.outcomes[j.index]
	o.End, o.Done = e.now, true
	e.inSystem--
	if w := e.opt.Window; w != nil && int(j.index) >= w.First && int(j.index) <= w.Last {
		e.awaited--
	}
}

// close runs the epilog.
func (e *engine) close(j *job) {
	j.state = closing
	if e.opt.Epilog == 0 {
		e.free(j)
		return
	}
	e.replan(j, e.now+e.opt.Epilog)
	e.agenda.push(event{at: e.now + e.opt.Epilog, kind: freed, job: j, epoch: j.epoch})
	e.slurm.changed(j)
}

// replan moves the time at which a job's GPUs become free.
func (e *engine) replan(j *job, planned float64) {
	t := e.nodes.Type(j.shares[0].Node)
	e.running[t].remove(j)
	e.plan.freed(j, planned)
	j.planned = planned
	j.key.rank = planned
	e.running[t].insert(j)
	e.moved = true
}

// free gives a job's GPUs back, and the job to the queue when it is not done.
func (e *engine) free(j *job) {
	e.running[e.nodes.Type(j.shares[0].Node)].remove(j)
	e.plan.freed(j, e.now)
	e.drop(j)
	e.moved = true
	if e.outcomes[j.index].Done {
		j.state = gone
		e.slurm.gone(j)
		return
	}
	if j.eligible <= e.now {
		e.wait(j)
		return
	}
	j.state = delayed
	e.agenda.push(event{at: j.eligible, kind: requeued, job: j, epoch: j.epoch})
	e.slurm.changed(j)
}

// drop takes a job's GPUs away.
func (e *engine) drop(j *job) {
	e.nodes.Release(j.shares)
	j.owners.add(-j.GPUs)
	e.factors.stops(j, e.now)
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
	return Result{Types: e.types, Jobs: e.jobs, Outcomes: e.outcomes, Series: e.series.points, End: e.now}
}
