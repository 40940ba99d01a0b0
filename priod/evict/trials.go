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

// maxTrials is for how many TE jobs without a claim one cycle looks for room: limits
// keep the number of new claims low anyway, and the search takes time.
const maxTrials = 1000

// firstLook is how long a job without a reason may wait for Slurm's first look at it, which shows whether limits of
// its partition, QOS or association keep it from starting: Slurm looks as the job is submitted or, with defer, after
// batch_sched_delay (3 s) and a pass over the queue.
const firstLook = 10 * time.Second

// Trial is a waiting TE job and what was decided for it.
type Trial struct {
	Job     cluster.JobID
	RawID   uint32
	User    string
	Why     preemption.Why
	Victims []cluster.JobID
	Cost    float64       // GPU-seconds with least-loss
	Wait    time.Duration // until the last victim has left
	What    string        // that Why is about: what cannot be counted; "" of others
	Opens   time.Time     // when the gate opens at the earliest that Why names; zero: unknown, or it is none

	types placement.Types // kinds of nodes that it may have
	vain  *Claim          // that taught not to make room on some of them; nil: none
	at    int             // index among snapshot.Trials; -1: it is none of them
}

// waitingTE returns the waiting TE jobs in the order of the queue.
func waitingTE(p *plan.Plan) (jobs []plan.Queued) {
	for _, q := range p.Queue {
		if d := &p.Decisions[q.Decision]; d.GetsRoom() {
			jobs = append(jobs, q)
		}
	}
	return jobs
}

// addTrials adds the waiting TE jobs, in the order of the queue, and returns the record
// of the queue that each belongs to.
func (c *Choice) addTrials(s *cluster.Snapshot, p *plan.Plan, j *Journal, set *Settings, m *nodemap.Map, vetoed map[cluster.JobID]preemption.Why) (jobs []*cluster.Job) {
	claims, released, taught := j.claimsByJob(), j.releasedUntil(s.At, set.Retry), j.lessons()
	spent, careless := j.spentByUser(s.At), j.givenUp(s.At, set.Retry)
	beside := sync.OnceValue(func() *placement.Nodes { return j.beside(m) })
	owners := map[string]int{}
	held := map[cluster.JobID]bool{}
	for _, q := range waitingTE(p) {
		job, choices := &s.Jobs[q.Job], &p.Decisions[q.Decision].Choices
		id, count := job.ID, max(job.TaskCount, 1)
		if count > 1 { // one task at a time: the first, which gets a record of its own
			if id = job.FirstTask(); id.Task == slurmplug.NoTask {
				continue
			}
		}
		t := Trial{Job: id, RawID: job.RawID, User: job.User, at: -1}
		types, understood := allowedTypes(m, job)
		run := runByKind(p.Shares, job, m)
		for kind, s := range run {
			if math.IsInf(s, 1) {
				types &^= 1 << uint(kind)
			}
		}
		types, t.vain = taught.apply(s, m, job, types)
		t.types = types
		claim := claims[id]
		switch {
		case claim != nil:
			held[id] = true
		case job.GPUs == 0:
			t.Why = NoGPUs
		case job.HetLeader != 0 || !understood:
			t.Why = Constraint
		case run != nil && types == 0:
			t.Why = preemption.CannotRun
		case m.Open(job) != "":
			t.Why, t.What = Uncountable, m.Open(job)
		case t.vain != nil && types == 0:
			t.Why = InVain
		case vetoed[id] != "":
			t.Why = vetoed[id]
		case !job.WantsRoom():
			t.Why = Unhelpful
		case job.Reason == "None" && s.At.Sub(job.Eligible) < firstLook:
			t.Why = Unseen
		case job.TasksNow() == 0:
			t.Why = ArrayLimit
		case within(c.doubtful, s.At, set.Since):
			t.Why = TookOver
		case !released(id).IsZero():
			t.Why = TooSoon
		case careless.waits(t.User):
			t.Why = Cancelled
		case job.Prefer != "" && fitsNow(m, job, beside()):
			t.Why = preemption.Fits
		case len(c.snapshot.Trials)-len(c.snapshot.Claims) >= maxTrials:
			t.Why = LaterTurn
		case c.set.Limits.UserGPUMinutesPerDay > 0 && t.User != "" && 60*spent[t.User] >= c.set.Limits.UserGPUMinutesPerDay:
			t.Why = preemption.PerOwner
		}
		if t.Why == "" {
			t.at = len(c.snapshot.Trials)
			c.snapshot.Trials = append(c.snapshot.Trials, preemption.Trial{
				Request: m.Request(job, types), Alike: m.Together(job, types), Owner: c.owner(t.User, owners, spent), Start: math.Inf(1), Run: run,
				Price: choices.Budget.Factor(), Due: job.Right == cluster.Entitled,
			})
			if claim != nil {
				c.addClaim(t.at, claim, m)
			}
		}
		c.Trials = append(c.Trials, t)
		jobs = append(jobs, job)
	}
	for id, claim := range claims { // of jobs that the plan does not rank now
		if !held[id] {
			c.snapshot.Trials = append(c.snapshot.Trials, preemption.Trial{Start: math.Inf(1)})
			c.addClaim(len(c.snapshot.Trials)-1, claim, m)
		}
	}
	return jobs
}

// givenUp are the claims of trials, by user, that were released by their owner's doing after a victim had its signal.
type givenUp struct {
	times map[string]int
	until map[string]time.Time // no trial of the user gets a claim until then
	open  map[string]bool      // a trial of the user has one
}

// givenUp counts such claims. For so long as after as many failed claims of one job (releasedUntil) no trial of such a
// user gets one, and for Memory one at a time.
func (j *Journal) givenUp(now time.Time, retry time.Duration) givenUp {
	told, g := map[int64]bool{}, givenUp{map[string]int{}, map[string]time.Time{}, map[string]bool{}}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		told[e.Claim] = told[e.Claim] || e.Counts()
	}
	for i := range j.Claims {
		c := &j.Claims[i]
		switch {
		case c.Purpose != ForTrial || c.User == "":
		case c.Open():
			g.open[c.User] = true
		case c.State == Released && told[c.Number] && slices.Contains([]string{leftQueue, isHeld, notTE, otherNodes}, c.Reason):
			wait := retry << min(g.times[c.User], maxDoubled)
			if g.times[c.User]++; within(wait, now, c.Ended) {
				g.until[c.User] = cluster.Later(g.until[c.User], c.Ended.Add(wait))
			}
		}
	}
	return g
}

// waits reports whether a trial of a user gets no claim now. One that may is the user's only one.
func (g givenUp) waits(user string) bool {
	if g.times[user] == 0 {
		return false
	}
	waits := g.open[user] || !g.until[user].IsZero()
	g.open[user] = true
	return waits
}

// owner is the index of a user in Snapshot.PastOwner; owners are those so far.
func (c *Choice) owner(user string, owners map[string]int, spent map[string]float64) int {
	if user == "" { // jobs without a user name, as in some traces, share no limit
		return preemption.NoOwner
	}
	owner, known := owners[user]
	if !known {
		owner = len(owners)
		owners[user] = owner
		c.snapshot.PastOwner = append(c.snapshot.PastOwner, spent[user])
	}
	return owner
}

// runByKind is how long a job would run on each kind of node, s, infinite where it cannot; on a kind that the
// allocation does not know as long as on the slowest that it does. nil: its user did not agree to a type of
// priod's choice.
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

// spentByUser returns the GPU-hours of work lost within a day, by the user of the TE
// job or gang.
func (j *Journal) spentByUser(now time.Time) map[string]float64 {
	hours := map[string]float64{}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		if claim := j.Claim(e.Claim); claim != nil && claim.Purpose != ForRound && e.Counts() && within(day, now, e.At) {
			hours[claim.User] += e.costNow() / 3600
		}
	}
	return hours
}

// allowedTypes are the kinds of nodes on which room is made for a job. The claim pins
// the job to its nodes, and a job with --prefer that is pinned to nodes without the
// preferred features never starts: Slurm says that no node satisfies it (seen on
// 22.05.8, 24.11.5 and 26.05.5).
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

// fitsNow reports whether a job has a place now on some node that it allows, beside the
// claims: Slurm starts it there, though it prefers other nodes.
func fitsNow(m *nodemap.Map, job *cluster.Job, free *placement.Nodes) bool {
	types, _ := m.Types(job)
	_, found := free.Fit(m.Request(job, types), nil)
	return found
}

// addClaim adds an open claim of a trial.
func (c *Choice) addClaim(trial int, claim *Claim, m *nodemap.Map) {
	c.snapshot.Claims = append(c.snapshot.Claims, preemption.Claim{Trial: trial, Shares: claim.places(m)})
}

// places returns the claim's place in the terms of placement, without nodes that no
// longer exist.
func (c *Claim) places(m *nodemap.Map) (shares []placement.Share) {
	for _, s := range c.Shares {
		if at, known := m.At(s.Node, s.GPUType); known {
			shares = append(shares, placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(s.GPUs), CPUs: int32(s.CPUs), MemMB: s.MemMB, Others: m.Unnamed(s.Others)}})
		}
	}
	return shares
}

// claimsByJob returns the claims that keep a place, by job.
func (j *Journal) claimsByJob() map[cluster.JobID]*Claim {
	claims := map[cluster.JobID]*Claim{}
	live, _ := j.live()
	for x := range live {
		if x.Open() {
			claims[x.Job] = x
		}
	}
	return claims
}

// unsatisfiedWeight is how many releases one counts for that came because no node
// satisfies the job: the next claim would most likely end in the same way.
const unsatisfiedWeight = 4

// maxDoubled is how often the wait before another claim is doubled at most.
const maxDoubled = 6

// releasedUntil returns a function that tells until when a job gets no other claim; zero: it may get
// one. After the first release a job waits for retry before its next claim, after each further one
// twice as long. When no node satisfies a job, that is due to the request, which all tasks of an array
// share.
func (j *Journal) releasedUntil(now time.Time, retry time.Duration) func(cluster.JobID) time.Time {
	released, last := map[cluster.JobID]int{}, map[cluster.JobID]time.Time{}
	for i := range j.Claims {
		if x := &j.Claims[i]; x.State == Released {
			id, n := x.Job, 1
			if x.Reason == unsatisfied {
				id, n = slurmplug.Plain(x.Job.ID), unsatisfiedWeight
			}
			released[id] += n
			last[id] = x.Ended
		}
	}
	until := func(id cluster.JobID) (at time.Time) {
		if wait := retry << min(max(released[id]-1, 0), maxDoubled); released[id] > 0 && within(wait, now, last[id]) {
			at = last[id].Add(wait)
		}
		return at
	}
	return func(id cluster.JobID) time.Time { return cluster.Later(until(id), until(slurmplug.Plain(id.ID))) }
}
