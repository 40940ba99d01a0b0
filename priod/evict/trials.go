package evict

import (
	"math"
	"slices"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// trials are waiting TE jobs, in the order of the queue. A job that has just started is dearer for them, and no more.
var trials = kind{
	purpose: ForTrial, task: "make room for TE jobs", prefix: "preemption: ", classes: []cluster.Class{cluster.TE},
	due: func(e *Feature, c *plan.Cycle, _ *Question) bool {
		waits := func(d plan.Decision) bool { return d.GetsRoom() }
		return e.Settings.Enabled && c.Paused == "" && slices.ContainsFunc(c.Plan.Decisions, waits)
	},
	price: func(p *preemption.Settings, _ *Settings) {
		if p.Policy == preemption.LeastLoss {
			p.Young, p.MinRun = p.MinRun, 0
		}
	},
	ask:    (*Choice).askTrials,
	decide: (*Choice).decide,
}

// maxTrials is for how many TE jobs without a claim one cycle looks for room: limits
// keep the number of new claims low anyway, and the search takes time.
const maxTrials = 1000

// firstLook is how long a job without a reason may wait for Slurm's first look at it, which shows whether limits of
// its partition, QOS or association keep it from starting: Slurm looks as the job is submitted or, with defer, after
// batch_sched_delay (3 s) and a pass over the queue.
const firstLook = 10 * time.Second

// askTrials adds the waiting TE jobs, and the entitled ones. Of an array one task at a time asks: the first, which gets a record of
// its own. Entitled jobs that are passed over ask first: a trial ahead of them may fit, and wait for what is kept for a larger one.
func (c *Choice) askTrials() {
	c.careless = c.Journal.givenUp(c.Snapshot.At, c.Settings.Retry)
	beside := sync.OnceValue(func() *placement.Nodes { return c.Journal.beside(c.Nodes) })
	asked, limit, horizon := 0, c.policy.Limits.UserGPUMinutesPerDay, c.horizon()
	var passed []plan.Queued
	for _, q := range c.Plan.Queue {
		if job := &c.Snapshot.Jobs[q.Job]; c.passedOver(job) && takesFree(c.Nodes, job, beside()) {
			passed = append(passed, q)
		}
	}
	queue := c.Plan.Queue
	if len(passed) > 0 {
		queue = slices.Concat(passed, slices.DeleteFunc(slices.Clone(queue), func(q plan.Queued) bool { return slices.Contains(passed, q) }))
	}
	for _, q := range queue {
		job, decision := &c.Snapshot.Jobs[q.Job], &c.Plan.Decisions[q.Decision]
		x := c.claimant(job)
		if !decision.GetsRoom() || job.TaskCount > 1 && x.Job.Task == slurmplug.NoTask {
			continue
		}
		types, understood := allowedTypes(c.Nodes, job)
		run := runByKind(c.Plan.Shares, job, c.Nodes)
		for kind, s := range run {
			if math.IsInf(s, 1) {
				types &^= 1 << uint(kind)
			}
		}
		c.learn(&x, types)
		if c.claims[x.Job] == nil {
			switch c.vet(&x, understood, run); {
			case x.Why != "":
			case c.careless.waits(x.User):
				x.Why = Cancelled
			case job.Prefer != "" && fitsElsewhere(c.Nodes, job, x.types, beside()):
				x.Why = Elsewhere
			case asked >= maxTrials:
				x.Why = LaterTurn
			case limit > 0 && job.Right != cluster.Entitled && x.User != "" && 60*c.search.PastOwner[x.User] >= limit:
				x.Why = preemption.PerOwner
			default:
				asked++
			}
		}
		likely := 0.0
		if job.Right != cluster.Entitled && c.Snapshot.At.Before(c.patientUntil(job)) {
			likely = horizon
		}
		c.add(x, preemption.Claimant{Likely: likely, Owner: x.User, Start: math.Inf(1), Run: run, Price: decision.Choices.Budget.Factor(), Due: job.Right == cluster.Entitled, Waited: c.entitledFor(job).Seconds(), Spreads: c.spreads(job)})
	}
}

// spreads reports whether room may be made for an entitled job on several nodes where it would fit on one: it asks for GPUs in
// all, and not for one node, as far as is known.
func (c *Choice) spreads(job *cluster.Job) bool {
	return job.Right == cluster.Entitled && job.GPUs > 1 && job.Node.GPUs == 0 && job.Nodes <= 1 && !job.Whole && c.Vetoed[job.FirstTask()] != OneNode
}

// vet says why a trial gets no room by what it is and waits for.
func (c *Choice) vet(x *Claimant, understood bool, run []float64) {
	job := x.job
	switch {
	case job.GPUs == 0:
		x.Why = NoGPUs
	case job.HetLeader != 0 || !understood:
		x.Why = Constraint
	case run != nil && x.types == 0:
		x.Why = preemption.CannotRun
	case c.Nodes.Open(job) != "":
		x.Why, x.What = Uncountable, c.Nodes.Open(job)
	case !job.WantsRoom():
		x.Why = Unhelpful
	case job.Reason == "None" && c.Snapshot.At.Sub(job.Eligible) < firstLook:
		x.Why = Unseen
	case job.TasksNow() == 0:
		x.Why = ArrayLimit
	default:
		x.Why = c.barred(x)
	}
}

// runByKind is how long a job would run on each kind of node, s, infinite where it cannot; on a kind that the allocation does not know as
// long as on the slowest that it does. nil: its user did not agree to a type of priod's choice.
func runByKind(shares *plan.Shares, job *cluster.Job, m *nodemap.Map) []float64 {
	if shares == nil || !job.AllowsGPUType() {
		return nil
	}
	share := shares.Jobs.Get(job.ID)
	if share == nil || share.Run == nil {
		return nil
	}
	slowest := 0.0
	for _, run := range share.Run {
		if !math.IsInf(run, 1) {
			slowest = max(slowest, run)
		}
	}
	run := make([]float64, len(m.Kinds))
	for kind, n := range m.Kinds {
		run[kind] = slowest
		if at, is := slices.BinarySearch(shares.Types, n.GPUType); is && at < len(share.Run) {
			run[kind] = share.Run[at]
		}
	}
	return run
}

// allowedTypes are the kinds of nodes on which room is made for a job. The claim pins the job to its nodes, and a job with --prefer that
// is pinned to nodes without the preferred features never starts: Slurm says that no node satisfies it (seen on 22.05.8, 24.11.5 and
// 26.05.5).
func allowedTypes(m *nodemap.Map, job *cluster.Job) (types placement.Types, understood bool) {
	types, understood = m.Types(job)
	if job.Prefer == "" || !understood {
		return types, understood
	}
	preferring := *job
	preferring.Features = job.Prefer
	preferred, understood := m.Types(&preferring)
	return types & preferred, understood
}

// fitsElsewhere reports whether a job that prefers nodes of some types has a place now on others alone, beside the
// claims: Slurm starts it there. Up to 25.11 backfill alone does: the main scheduler is done with a partition on whose
// preferred nodes it has found no place (job_scheduler.c; seen on 22.05.8 and 24.11.5).
func fitsElsewhere(m *nodemap.Map, job *cluster.Job, preferred placement.Types, free *placement.Nodes) bool {
	types, _ := m.Types(job)
	fits := func(types placement.Types) bool {
		_, found := free.Fit(m.Request(job, types), nil)
		return found
	}
	return !fits(preferred) && fits(types)
}

// takesFree reports whether a job fits now in what is free.
func takesFree(m *nodemap.Map, job *cluster.Job, free *placement.Nodes) bool {
	types, _ := m.Types(job)
	_, fits := free.Fit(m.Request(job, types), nil)
	return fits
}
