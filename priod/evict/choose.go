package evict

import (
	"cmp"
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

// Settings say whether, for whom and how jobs are evicted.
type Settings struct {
	Enabled bool // new evictions; those under way end in any case
	Policy  preemption.Settings
	Ranking plan.Classes // which partitions, and which QOS consent

	Grace    time.Duration // of a job that names none
	MaxGrace time.Duration // a job that asks for more is never evicted
	Restart  time.Duration // what starting again costs
	Reserve  bool          // nodes whose place comes free in parts are reserved meanwhile
	Hold     time.Duration // how long a place is kept after the last victim left
	Retry    time.Duration // no second claim for a TE job so soon; doubled each time
	ZeroEnds bool          // a victim that exits 0 in its grace has done its work: it is not requeued

	// Since is when this priod began to act for one on another host, whose journal
	// it cannot read; zero: it never did.
	Since time.Time
}

// Consents tells whether a job agreed to be evicted: by its tag, or by a QOS
// that the configuration names. Reservations, foreign partitions and components
// of heterogeneous jobs are never touched.
func (set *Settings) Consents(j *cluster.Job) bool {
	agreed := j.Tag.Type == "be" || j.Tag.Type == "" && set.Ranking.ByQOS(j.QOS) == plan.BEQOS
	return agreed && j.TagErr == "" && j.Reservation == "" && j.HetLeader == 0 && set.Ranking.Ranks(j.Partition)
}

// Reasons of this package beside preemption's, for a TE job and for a candidate.
const (
	Unhelpful  preemption.Why = "slurm-waits"       // for what no eviction gives
	Constraint preemption.Why = "constraint"        // it names nodes or features in a way that is not read here
	TooSoon    preemption.Why = "released-recently" // its last claim failed
	NoGPUs     preemption.Why = "no-gpus"
	LongGrace  preemption.Why = "grace-too-long" // Settings.MaxGrace
	Scattered  preemption.Why = "uneven"         // what it takes of each of its nodes is not known
	Vetoed     preemption.Why = "not-requeueable"
	Expedited  preemption.Why = "expedited-requeue"
	Held       preemption.Why = "held"
	LaterTurn  preemption.Why = "later"         // behind as many TE jobs as one cycle considers
	Uncounted  preemption.Why = "not-allocated" // the allocation does not count it: for rounds
	TookOver   preemption.Why = "took-over"     // Settings.Since: another priod's victims may be in their grace
	ArrayLimit preemption.Why = "array-limit"   // as many tasks of its array run, or have a place, as may at a time
)

// considered is how many TE jobs without a claim one cycle looks for room for:
// what it begins is capped anyway, and the search takes time.
const maxTrials = 1000

// Trial is a waiting TE job and what was decided for it.
type Trial struct {
	Job     cluster.JobID
	RawID   uint32
	User    string
	Why     preemption.Why
	Victims []cluster.JobID
	Cost    float64       // GPU-seconds with least-loss
	Wait    time.Duration // until the last victim has left

	at int // among preemption's trials, -1 when it was not asked about
}

// Refusal says why a running job does not leave for a trial.
type Refusal struct {
	Job  cluster.JobID  `json:"job"`
	User string         `json:"user"`
	GPUs int            `json:"gpus"`
	Cost float64        `json:"cost_gpu_s"`
	Why  preemption.Why `json:"why"`
}

// Choice is one cycle's decision. Turn holds the rows of new claims and
// evictions, not yet numbered.
type Choice struct {
	Trials []Trial
	Turn   Turn

	set      preemption.Settings
	snapshot preemption.Snapshot
	decision preemption.Decision
	running  []*cluster.Job   // of candidates
	ownWhy   []preemption.Why // why a candidate has no consent, when not for lack of it
	doubtful time.Duration    // for so long after Settings.Since another priod's victims may be in their grace
}

// Choose decides who leaves for whom. vetoed are jobs that a closer look ruled
// out. The plan says which jobs count as TE, and in which order.
func Choose(s *cluster.Snapshot, p *plan.Plan, j *Journal, set *Settings, vetoed map[cluster.JobID]preemption.Why) *Choice {
	m := nodemap.New(s)
	c := &Choice{set: set.Policy}
	c.snapshot.Nodes = m.Nodes
	c.addCandidates(s, j, set, m, vetoed)
	waiting := c.addTrials(s, p, j, set, m, vetoed)
	c.countRecent(s, j)
	if set.Policy.Policy == preemption.LeastLoss {
		c.setShadowTimes(m, set)
	}
	c.set.Seed += uint64(j.LastEviction) // another shuffle each time
	c.decision = preemption.Decide(&c.snapshot, c.set)
	for i := range c.Trials {
		t := &c.Trials[i]
		if t.at < 0 {
			continue
		}
		v := &c.decision.Verdicts[t.at]
		t.Why, t.Cost, t.Wait = v.Why, v.Cost, seconds(v.Grace)
		for _, x := range v.Victims {
			t.Victims = append(t.Victims, c.running[x].ID)
		}
		if v.Why == preemption.Evicts {
			c.addRows(s, m, Claim{Purpose: ForTrial, Job: t.Job, RawID: t.RawID, User: t.User, GPUs: waiting[i].GPUs, Wait: t.Wait}, v.Shares, v.Victims, set)
		}
	}
	return c
}

// past counts what was evicted lately.
func (c *Choice) countRecent(s *cluster.Snapshot, j *Journal) {
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.Counts() {
			if within(time.Hour, s.At, e.At) {
				c.snapshot.PastHour++
			}
			if within(day, s.At, e.At) {
				c.snapshot.PastDay += e.costNow() / 3600
			}
		}
	}
}

const day = 24 * time.Hour

// within tells whether something happened no longer ago than a span; what a clock
// that was ahead dated later than that from now is past.
func within(span time.Duration, now, at time.Time) bool { return now.Sub(at).Abs() < span }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// cost is what the eviction cost, or is expected to.
func (e *Eviction) costNow() float64 {
	if e.Paid > 0 || !e.Open() {
		return e.Paid
	}
	return e.Promised
}

// candidates are the jobs that hold GPUs.
func (c *Choice) addCandidates(s *cluster.Snapshot, j *Journal, set *Settings, m *nodemap.Map, vetoed map[cluster.JobID]preemption.Why) {
	leaving := map[cluster.JobID]bool{}
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.Leaving() {
			leaving[e.Job] = true
		}
	}
	learned := j.leavingByUser()
	c.snapshot.Candidates = make([]preemption.Candidate, 0, len(s.Jobs))
	for i := range s.Jobs {
		job := &s.Jobs[i]
		running := job.State == cluster.Running
		if job.GPUs == 0 || !running && job.State != cluster.Completing && !leaving[job.ID] || job.State == cluster.Pending {
			continue
		}
		shares := m.Shares(job)
		consent, why := running && set.Consents(job), preemption.Why("")
		switch {
		case len(shares) == 0:
			continue
		case !consent:
		case vetoed[job.ID] != "" && vetoed[job.ID] != Constraint: // that was about a place for itself
			consent, why = false, vetoed[job.ID]
		case job.Tag.Grace > set.MaxGrace:
			consent, why = false, LongGrace
		case len(shares) > 1 && (job.CPUs%len(shares) != 0 || job.MemMB%int64(len(shares)) != 0):
			consent, why = false, Scattered
		}
		if consent && job.Start.Before(set.Since) {
			c.doubtful = max(c.doubtful, set.grace(job)+time.Second)
		}
		x := preemption.Candidate{
			Shares: shares, Consent: consent || leaving[job.ID], Leaving: leaving[job.ID],
			Evicted: j.Times[job.ID], Elapsed: max(s.At.Sub(job.Start).Seconds(), 0), Remaining: job.Remaining(s.At),
			Restart: set.Restart.Seconds(),
		}
		x.Grace, x.Unsaved = learned.expect(job, set, x.Elapsed)
		c.snapshot.Candidates = append(c.snapshot.Candidates, x)
		c.running = append(c.running, job)
		c.ownWhy = append(c.ownWhy, why)
	}
}

// trials lists the waiting TE jobs, those with claims first, and tells which
// record of the queue each one is.
func (c *Choice) addTrials(s *cluster.Snapshot, p *plan.Plan, j *Journal, set *Settings, m *nodemap.Map, vetoed map[cluster.JobID]preemption.Why) (jobs []*cluster.Job) {
	type waiting struct {
		job   *cluster.Job
		value int64
	}
	te := map[cluster.JobID]int64{}
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Ranked && d.Class == cluster.TE {
			te[d.Job] = d.Value
		}
	}
	var all []waiting
	for i := range s.Jobs {
		if value, ok := te[s.Jobs[i].ID]; ok {
			all = append(all, waiting{&s.Jobs[i], value})
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int { return cmp.Compare(b.value, a.value) })
	claims, tooSoon := j.openClaims(), j.recentlyReleased(s.At, set.Retry)
	spent := j.spentByUser(s.At)
	beside := sync.OnceValue(func() *placement.Nodes { // what the claims leave free
		free := m.Nodes.Clone()
		for _, claim := range claims {
			free.Take(claim.places(m))
		}
		return free
	})
	owners := map[string]int{}
	held := map[cluster.JobID]bool{}
	for _, w := range all {
		id, count := w.job.ID, max(w.job.TaskCount, 1)
		if count > 1 { // one task at a time: the first, which gets a record of its own
			if id = w.job.FirstTask(); id.Task == slurmplug.NoTask {
				continue
			}
		}
		t := Trial{Job: id, RawID: w.job.RawID, User: w.job.User, at: -1}
		types, understood := allowedTypes(m, w.job)
		claim := claims[id]
		switch {
		case claim != nil:
			held[id] = true
		case w.job.GPUs == 0:
			t.Why = NoGPUs
		case w.job.HetLeader != 0 || !understood:
			t.Why = Constraint
		case vetoed[id] != "":
			t.Why = vetoed[id]
		case !w.job.WantsRoom():
			t.Why = Unhelpful
		case within(c.doubtful, s.At, set.Since):
			t.Why = TookOver
		case tooSoon(id):
			t.Why = TooSoon
		case w.job.Prefer != "" && fitsNow(m, w.job, beside()):
			t.Why = preemption.Fits
		case len(c.snapshot.Trials)-len(c.snapshot.Claims) >= maxTrials:
			t.Why = LaterTurn
		case set.Policy.Limits.PerOwner > 0 && spent[t.User] >= set.Policy.Limits.PerOwner:
			t.Why = preemption.PerOwner
		}
		if t.Why == "" {
			t.at = len(c.snapshot.Trials)
			owner, known := owners[t.User]
			if !known {
				owner = len(owners)
				owners[t.User] = owner
				c.snapshot.PastOwner = append(c.snapshot.PastOwner, spent[t.User])
			}
			c.snapshot.Trials = append(c.snapshot.Trials, preemption.Trial{Request: m.Request(w.job, types), Owner: owner, Start: math.Inf(1)})
			if claim != nil {
				c.addClaim(t.at, claim, m)
			}
		}
		c.Trials = append(c.Trials, t)
		jobs = append(jobs, w.job)
	}
	for id, claim := range claims { // of jobs that are not in the plan just now
		if !held[id] {
			c.snapshot.Trials = append(c.snapshot.Trials, preemption.Trial{Start: math.Inf(1)})
			c.addClaim(len(c.snapshot.Trials)-1, claim, m)
		}
	}
	return jobs
}

// spent are the GPU-hours lost within a day, by the TE jobs' user.
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

// kinds are those of nodes on which room is made for a job. The claim names the nodes,
// and of a job that prefers features (--prefer) Slurm then says that no node satisfies
// it unless they have these (seen on 22.05.8, 24.11.5 and 26.05.5).
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

// fits tells whether a job has a place now on any node that it allows, beside the
// claims: Slurm starts it there, though it prefers others.
func fitsNow(m *nodemap.Map, job *cluster.Job, free *placement.Nodes) bool {
	types, _ := m.Types(job)
	_, found := free.Fit(m.Request(job, types), nil)
	return found
}

func (c *Choice) addClaim(trial int, claim *Claim, m *nodemap.Map) {
	c.snapshot.Claims = append(c.snapshot.Claims, preemption.Claim{Trial: trial, Shares: claim.places(m)})
}

// on is the claim's place in placement's terms, without nodes that are gone.
func (c *Claim) places(m *nodemap.Map) (shares []placement.Share) {
	for _, s := range c.Shares {
		if at, known := m.Index[s.Node]; known {
			shares = append(shares, placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(s.GPUs), CPUs: int32(s.CPUs), MemMB: s.MemMB}})
		}
	}
	return shares
}

// open are the claims that keep a place, by job.
func (j *Journal) openClaims() map[cluster.JobID]*Claim {
	claims := map[cluster.JobID]*Claim{}
	for i := range j.Claims {
		if x := &j.Claims[i]; x.Open() {
			claims[x.Job] = x
		}
	}
	return claims
}

// hopeless is as how many releases one counts because no node satisfies the job: the
// next claim would most likely end like that, too.
const unsatisfiedWeight = 4

// tooSoon tells of which jobs a claim was released lately: after retry they get the
// next one, then after twice that, and so on. What no node satisfies is the request,
// which all tasks of an array have in common.
func (j *Journal) recentlyReleased(now time.Time, retry time.Duration) func(cluster.JobID) bool {
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
	lately := func(id cluster.JobID) bool {
		n := released[id]
		return n > 0 && within(retry<<min(n-1, 6), now, last[id])
	}
	return func(id cluster.JobID) bool { return lately(id) || lately(slurmplug.Plain(id.ID)) }
}

// shadows finds when each trial would start without evictions, by the time
// limits of what runs, each behind the room of those before it.
func (c *Choice) setShadowTimes(m *nodemap.Map, set *Settings) {
	type release struct {
		at     float64
		shares []placement.Share
	}
	longest := 0.0
	for i := range c.snapshot.Candidates {
		if x := &c.snapshot.Candidates[i]; x.Consent {
			longest = max(longest, x.Grace)
		}
	}
	horizon := longest + set.Policy.MinGain // who ends later saves nobody
	var releases []release
	for i := range c.snapshot.Candidates {
		if x := &c.snapshot.Candidates[i]; !x.Leaving && x.Remaining <= horizon {
			releases = append(releases, release{x.Remaining, x.Shares})
		}
	}
	slices.SortStableFunc(releases, func(a, b release) int { return cmp.Compare(a.at, b.at) })
	var taken []placement.Share
	claimed := map[int]bool{}
	for _, x := range c.snapshot.Claims {
		taken = append(taken, x.Shares...)
		claimed[x.Trial] = true
	}
	future := m.Nodes.Clone()
	for i := range c.snapshot.Trials {
		if claimed[i] {
			continue
		}
		future.CopyFree(m.Nodes)
		future.Take(taken)
		request := c.snapshot.Trials[i].Request
		at := future.Shadow(0, request, func(yield func(float64, []placement.Share) bool) {
			for _, r := range releases {
				if !yield(r.at, r.shares) {
					return
				}
			}
		})
		if !math.IsInf(at, 1) {
			c.snapshot.Trials[i].Start = at
			shares, _ := future.Fit(request, nil)
			taken = append(taken, shares...)
		}
	}
}

// record makes the rows of a claim and its evictions.
func (c *Choice) addRows(s *cluster.Snapshot, m *nodemap.Map, claim Claim, shares []placement.Share, victims []int, set *Settings) {
	claim.State, claim.At, claim.Changed = Planned, s.At, s.At
	for _, share := range shares {
		claim.Shares = append(claim.Shares, ClaimShare{m.Names[share.Node], int(share.GPUs), int(share.CPUs), share.MemMB})
	}
	claim.Pin = slurmplug.CompactHosts(claim.Nodes())
	if set.Reserve && c.comesFreeInParts(shares, victims) {
		claim.Resv = "yes" // Number gives it its name
	}
	index := int64(len(c.Turn.Claims))
	c.Turn.Claims = append(c.Turn.Claims, claim)
	for _, i := range victims {
		x, victim := &c.snapshot.Candidates[i], c.running[i]
		c.Turn.Evictions = append(c.Turn.Evictions, Eviction{
			Claim: index, Job: victim.ID, RawID: victim.RawID, User: victim.User, Start: victim.Start, Restarts: victim.Restarts,
			GPUs: victim.GPUs, Signal: victim.Tag.Signal, Grace: set.grace(victim), Eligible: victim.Eligible,
			Unsaved: seconds(x.Unsaved), Restart: set.Restart, Promised: x.Loss(), State: Recorded, At: s.At,
		})
	}
}

// inParts tells whether a part of the place is, or comes, free before the rest:
// backfill would give it to somebody else.
func (c *Choice) comesFreeInParts(shares []placement.Share, victims []int) bool {
	if len(victims) != 1 {
		return true
	}
	victim := c.snapshot.Candidates[victims[0]].Shares
	return slices.ContainsFunc(shares, func(s placement.Share) bool {
		return !slices.ContainsFunc(victim, func(x placement.Share) bool {
			return x.Node == s.Node && x.GPUs >= s.GPUs && x.CPUs >= s.CPUs && x.MemMB >= s.MemMB
		})
	})
}

// grace is the time that a victim is given.
func (set *Settings) grace(j *cluster.Job) time.Duration {
	if j.Tag.Grace > 0 {
		return j.Tag.Grace
	}
	return set.Grace
}

// Refusals says of each candidate why it does not leave for a trial, in the
// order of the queue; nil when the trial did not come to a choice.
func (c *Choice) Refusals(t *Trial) []Refusal {
	if t.at < 0 {
		return nil
	}
	all := c.decision.Refusals(&c.snapshot, c.set, t.at)
	out := make([]Refusal, len(all))
	for i, why := range all {
		if why == preemption.NoConsent && c.ownWhy[i] != "" {
			why = c.ownWhy[i]
		}
		out[i] = Refusal{Job: c.running[i].ID, User: c.running[i].User, GPUs: c.running[i].GPUs, Cost: c.snapshot.Candidates[i].Loss(), Why: why}
	}
	return out
}

// Vet takes a closer look at a victim before it is recorded; "" lets it go.
func (e *Eviction) Vet(s Sight, set *Settings) preemption.Why {
	switch {
	case !e.isRun(&s) || s.State != cluster.Running:
		return preemption.IsLeaving
	case !set.Consents(&s.Job):
		return preemption.NoConsent
	case !s.CanRequeue:
		return Vetoed
	case s.Expedites:
		return Expedited
	case s.OnHold:
		return Held
	}
	return ""
}

// Vet takes a closer look at the TE job: who names nodes, or refuses those of
// the claim, gets no room made.
func (c *Claim) Vet(s Sight, excluded string) preemption.Why {
	refused, err := slurmplug.ExpandHosts(excluded)
	switch {
	case s.Gone || s.State != cluster.Pending:
		return Unhelpful
	case s.ReqNodes != "", excluded != "" && err != nil:
		return Constraint
	case slices.ContainsFunc(c.Nodes(), func(n string) bool { return slices.Contains(refused, n) }):
		return Constraint
	}
	return ""
}
