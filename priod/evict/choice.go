package evict

import (
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

// kind is a kind of claimants: who asks for room, which jobs may leave for it, at what price and under which limits.
type kind struct {
	purpose Purpose
	task    string          // in errors
	prefix  string          // in explain
	classes []cluster.Class // of the jobs that explain speaks to
	// due reports whether such claimants are asked in this cycle.
	due func(*Feature, *plan.Cycle, *Question) bool
	// price sets the weights and limits of the search; those of Settings.Policy stand there.
	price func(*preemption.Settings, *Settings)
	// ask adds the claimants, in order of priority, and takes out candidates that do not leave for them.
	ask    func(*Choice)
	decide func(*Choice) // has the search decide
}

// kinds are all of them, in order of priority.
var kinds = []kind{trials, gangs, rounds}

// Question is what a choice goes by. Nothing of it is changed.
type Question struct {
	Snapshot *cluster.Snapshot
	Nodes    *nodemap.Map
	Holders  *Holders
	Plan     *plan.Plan // which jobs count as TE, and the order of the queue
	Journal  *Journal
	Settings *Settings
	Vetoed   map[cluster.JobID]preemption.Why // jobs that a closer look ruled out

	Fragmented    func(cluster.JobID) time.Duration // of gangs: see plan.Cycle; nil: unknown
	FailedQuickly func(*cluster.Job) int            // see plan.Cycle; nil: not known
	Owing         *plan.Owing                       // at the end of a round
}

// Running is a job that leaves for a claimant, or why it does not.
type Running struct {
	Job  cluster.JobID  `json:"job"`
	User string         `json:"user"`
	GPUs int            `json:"gpus"`
	Node string         `json:"node,omitempty"` // of one that leaves
	Cost float64        `json:"cost_gpu_s"`     // GPU-seconds of work lost
	Why  preemption.Why `json:"why,omitempty"`
}

// Claimant is a waiting job that asks for room, and what was decided for it.
type Claimant struct {
	Job     cluster.JobID  `json:"job"`
	User    string         `json:"user"`
	GPUs    int            `json:"gpus"`
	Free    int            `json:"free_gpus"` // of a gang: of one type, on nodes that it may have
	Why     preemption.Why `json:"why"`
	Waited  float64        `json:"waited_s"` // of a gang: because of fragmentation
	Nodes   []string       `json:"nodes"`    // on which it would lie; none unless others leave
	Victims []Running      `json:"victims"`
	Cost    float64        `json:"cost_gpu_s"`
	WaitS   float64        `json:"wait_s"` // until the last victim has left

	What  string    `json:"-"` // that Why is about: what cannot be counted; "" of others
	Opens time.Time `json:"-"` // when the limit opens at the earliest that Why names; zero: unknown, or it is none

	job   *cluster.Job
	types placement.Types // kinds of nodes that it may have
	vain  *Claim          // that taught not to make room on some of them; nil: none
	at    int             // index among those of the search; -1: it is none of them
}

// Leaving are the jobs that leave for a claimant.
func (x *Claimant) Leaving() (ids []cluster.JobID) {
	for i := range x.Victims {
		ids = append(ids, x.Victims[i].Job)
	}
	return ids
}

// Choice is a decision for the claimants of a purpose. Changes holds the rows of new claims and evictions, which have no numbers yet.
type Choice struct {
	For       Purpose
	Claimants []Claimant // in order of priority
	Changes   Changes

	Question
	policy   preemption.Settings
	search   preemption.Snapshot
	decision preemption.Decision
	running  []*cluster.Job                       // the jobs of search.Candidates
	claims   map[cluster.JobID]*Claim             // that keep a place
	underWay map[cluster.JobID]int64              // evictions of jobs that are leaving: see awaits
	recent   []*Eviction                          // that count against limits
	released func(cluster.JobID) time.Time        // see Journal.releasedUntil
	promised func() func(cluster.JobID) time.Time // the same of entitled jobs
	careless givenUp                              // of trials
	taught   lessons
	doubtful time.Duration    // so long after Settings.Since, another priod's victims may still be in their grace
	after    *placement.Nodes // of gangs: what is free once all that has a place, and all waiting jobs that fit, have started
}

// Choose decides which jobs leave for the claimants of a purpose.
func Choose(purpose Purpose, q Question) *Choice {
	return choose(kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.purpose == purpose })], q)
}

func choose(k kind, q Question) *Choice {
	c := &Choice{
		For: k.purpose, Question: q, policy: q.Settings.Policy, claims: q.Journal.claimsByJob(), underWay: q.Journal.underWay(), recent: q.Journal.recent(q.Snapshot.At),
		released: q.Journal.releasedUntil(q.Snapshot.At, q.Settings.Retry), taught: q.Journal.lessons(),
	}
	c.promised = sync.OnceValue(func() func(cluster.JobID) time.Time {
		return q.Journal.releasedUntil(q.Snapshot.At, min(q.Settings.Retry, entitledRetry))
	})
	c.policy.Limits = q.Settings.limits(q.Snapshot)
	k.price(&c.policy, q.Settings)
	c.search.Nodes = q.Nodes.Nodes
	c.addCandidates()
	c.countPast()
	k.ask(c)
	c.addClaims()
	if len(c.search.Claimants) > 0 {
		if c.policy.Policy == preemption.LeastLoss {
			c.setShadowTimes()
		}
		k.decide(c)
	}
	for i := range c.Claimants {
		c.addRows(&c.Claimants[i])
	}
	c.setOpens()
	return c
}

// claimant is a waiting job as one that asks for room.
func (c *Choice) claimant(job *cluster.Job) Claimant {
	return Claimant{Job: job.FirstTask(), User: job.User, GPUs: job.GPUs, Nodes: []string{}, Victims: []Running{}, job: job, at: -1}
}

// learn takes the kinds of nodes out of those that a claimant may have on which room for such a job was made in vain.
func (c *Choice) learn(x *Claimant, types placement.Types) {
	x.types, x.vain = c.taught.apply(c.Snapshot, c.Nodes, x.job, types)
}

// mostQuick is after how many quick failures in a row a job of several nodes gets no room any more, until one of its runs lasted: each
// of them would cost evictions anew.
const mostQuick = 2

// barred says why a claimant of any kind gets no room now; "": it may get some.
func (c *Choice) barred(x *Claimant) preemption.Why {
	switch {
	case x.vain != nil && x.types == 0:
		return InVain
	case c.Vetoed[x.Job] != "" && !(c.Vetoed[x.Job] == OneNode && c.Nodes.Request(x.job, x.types).Nodes == 1):
		return c.Vetoed[x.Job]
	case within(c.doubtful, c.Snapshot.At, c.Settings.Since):
		return TookOver
	case !c.waitsUntil(x).IsZero():
		return TooSoon
	case c.FailedQuickly != nil && x.job.Nodes > 1 && c.FailedQuickly(x.job) >= mostQuick:
		return FailsSoon
	}
	return ""
}

// entitledRetry is Settings.Retry of entitled jobs, if that is not less.
const entitledRetry = time.Minute

// waitsUntil is until when a claimant gets no other claim; zero: it may get one.
func (c *Choice) waitsUntil(x *Claimant) time.Time {
	if x.job.Right == cluster.Entitled {
		return c.promised()(x.Job)
	}
	return c.released(x.Job)
}

// add adds a claimant, and has the search look for room for it unless a reason stands against that.
func (c *Choice) add(x Claimant, terms preemption.Claimant) {
	if x.Why == "" {
		x.at = len(c.search.Claimants)
		terms.Request, terms.Alike, terms.Limit = c.Nodes.Request(x.job, x.types), c.Nodes.Together(x.job, x.types), limitOf(x.job)
		c.search.Claimants = append(c.search.Claimants, terms)
	}
	c.Claimants = append(c.Claimants, x)
}

// addClaims adds the claims that keep a place.
func (c *Choice) addClaims() {
	at := map[cluster.JobID]int{}
	for i := range c.Claimants {
		if x := &c.Claimants[i]; x.at >= 0 {
			at[x.Job] = x.at
		}
	}
	for id, claim := range c.claims {
		of, asks := at[id]
		if !asks {
			of = -1
		}
		ready := max(claim.At.Add(claim.Wait).Sub(c.Snapshot.At).Seconds(), 0)
		c.search.Claims = append(c.search.Claims, preemption.Claim{Of: of, Shares: claim.places(c.Nodes), Ready: ready})
	}
}

// decide has the search decide, and says what it came to.
func (c *Choice) decide() {
	c.decision = preemption.Decide(&c.search, c.policy)
	for i := range c.Claimants {
		if x := &c.Claimants[i]; x.at >= 0 {
			c.describe(x, &c.decision.Verdicts[x.at])
		}
	}
}

// describe says what was decided for a claimant.
func (c *Choice) describe(x *Claimant, v *preemption.Verdict) {
	x.Why, x.Cost, x.WaitS, x.Nodes, x.Victims = v.Why, v.Cost, v.Grace, []string{}, []Running{}
	if v.Why != preemption.Evicts {
		return
	}
	for _, share := range v.Shares {
		x.Nodes = append(x.Nodes, c.Nodes.Names[share.Node])
	}
	for _, i := range v.Victims {
		victim := c.running[i]
		x.Victims = append(x.Victims, Running{Job: victim.ID, User: victim.User, GPUs: victim.GPUs, Node: victim.NodeList, Cost: c.search.Candidates[i].Loss()})
	}
}

// maxFit is for how many of the jobs that fit, and that Slurm has not started, a cycle looks closer.
const maxFit = 10

// addRows adds the rows of a claim and its evictions to the changes, where others leave for a claimant. A trial that
// fits, though Slurm has found no place for it, gets a closer look; where it prefers nodes the reason may stay Priority (24.11.5).
func (c *Choice) addRows(x *Claimant) {
	passed := x.Why == preemption.Fits && c.passedOver(x.job)
	fits := c.For == ForTrial && x.Why == preemption.Fits && !passed && (x.job.Reason == "Resources" || x.job.Prefer != "") && len(c.Changes.fit) < maxFit
	if x.at < 0 || x.Why != preemption.Evicts && !fits && !passed {
		return
	}
	verdict := &c.decision.Verdicts[x.at]
	claim := Claim{Purpose: c.For, Job: x.Job, RawID: x.job.RawID, User: x.User, GPUs: x.GPUs, Wait: seconds(x.WaitS), Shares: c.sharesOf(x.job, verdict.Shares)}
	if fits {
		c.Changes.fit = append(c.Changes.fit, claim)
		return
	}
	at := c.Snapshot.At
	claim.State, claim.At, claim.Changed, claim.Free = Planned, at, at, passed
	claim.Pin = slurmplug.CompactHosts(claim.Nodes())
	claim.Awaits = c.awaits(verdict)
	if len(claim.Awaits) > 0 || !passed && c.comesFreeInParts(verdict) {
		claim.Resv = "yes" // Number gives it its name
	}
	index := int64(len(c.Changes.Claims))
	c.Changes.Claims = append(c.Changes.Claims, claim)
	for _, i := range verdict.Victims {
		cost, victim := &c.search.Candidates[i], c.running[i]
		c.Changes.Evictions = append(c.Changes.Evictions, Eviction{
			Claim: index, Job: victim.ID, RawID: victim.RawID, User: victim.User, Start: victim.Start, Restarts: victim.Restarts,
			GPUs: victim.GPUs, Signal: victim.Signal(), Grace: c.Settings.grace(victim), Eligible: victim.Eligible,
			Unsaved: seconds(cost.Unsaved), Restart: c.Settings.Restart, Promised: cost.Loss(), State: Recorded, At: at,
		})
		c.underWay[victim.ID] = -int64(len(c.Changes.Evictions))
	}
}

// startsBy is how long an entitled job may fit before it gets the place as a claim: Slurm looks at all jobs that wait twice a minute.
const startsBy = 90 * time.Second

// passedOver reports whether Slurm does not start an entitled job that fits: what is free is kept for a job ahead of it.
func (c *Choice) passedOver(job *cluster.Job) bool {
	return c.For == ForTrial && c.entitledFor(job) >= startsBy
}

// entitledFor is how long a waiting job has been entitled.
func (c *Choice) entitledFor(job *cluster.Job) time.Duration {
	if job.Right != cluster.Entitled || job.EntitledSince.IsZero() {
		return 0
	}
	return c.Snapshot.At.Sub(job.EntitledSince)
}

// sharesOf are the shares of a place as rows.
func (c *Choice) sharesOf(job *cluster.Job, place []placement.Share) (shares []ClaimShare) {
	m := c.Nodes
	for _, share := range place {
		shares = append(shares, ClaimShare{
			Node: m.Names[share.Node], GPUType: m.PartOf(share.Node), GPUs: int(share.GPUs), CPUs: int(share.CPUs), MemMB: share.MemMB,
			Others: m.Named(share.Others), Kind: lessonKey(c.Snapshot, m, job, m.Nodes.Type(share.Node)),
		})
	}
	return shares
}

// awaits are the evictions on whose victims a place counts though they leave for other claims: those
// on its nodes, where what is free and the place's own victims have is not enough. Those of this
// cycle, which have no numbers yet, are named by their place among the rows, -1 the first.
func (c *Choice) awaits(v *preemption.Verdict) (numbers []int64) {
	short := map[int32]bool{}
	for _, share := range v.Shares {
		free := c.search.Nodes.FreeOn(share.Node)
		for _, claim := range c.search.Claims {
			free = free.Minus(on(share.Node, claim.Shares))
		}
		for _, i := range v.Victims {
			free = free.Plus(on(share.Node, c.search.Candidates[i].Shares))
		}
		if free.GPUs < share.GPUs || free.CPUs < share.CPUs || free.MemMB < share.MemMB {
			short[share.Node] = true
		}
	}
	if len(short) == 0 {
		return nil
	}
	for i := range c.search.Candidates {
		number := c.underWay[c.running[i].ID]
		if number != 0 && !slices.Contains(v.Victims, i) && slices.ContainsFunc(c.search.Candidates[i].Shares, func(s placement.Share) bool { return short[s.Node] }) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// on is what shares take of a node.
func on(node int32, shares []placement.Share) (sum placement.Amount) {
	for _, s := range shares {
		if s.Node == node {
			sum = sum.Plus(s.Amount)
		}
	}
	return sum
}

// comesFreeInParts reports whether a part of the place is or becomes free before the rest: Slurm's backfill would give it to another job.
func (c *Choice) comesFreeInParts(v *preemption.Verdict) bool {
	if len(v.Victims) != 1 {
		return true
	}
	victim := c.search.Candidates[v.Victims[0]].Shares
	return slices.ContainsFunc(v.Shares, func(s placement.Share) bool {
		return !slices.ContainsFunc(victim, func(x placement.Share) bool {
			return x.Node == s.Node && x.GPUs >= s.GPUs && x.CPUs >= s.CPUs && x.MemMB >= s.MemMB
		})
	})
}

// Refusals says of each candidate why it does not leave for a claimant, in the order of
// the queue; nil when the search was not asked for it.
func (c *Choice) Refusals(x *Claimant) []Running {
	if x.at < 0 {
		return nil
	}
	all := c.decision.Refusals(&c.search, c.policy, x.at)
	out := make([]Running, len(all))
	for i, why := range all {
		out[i] = Running{Job: c.running[i].ID, User: c.running[i].User, GPUs: c.running[i].GPUs, Cost: c.search.Candidates[i].Loss(), Why: why}
	}
	return out
}
