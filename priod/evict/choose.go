package evict

import (
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Refusal says why a running job does not leave for a trial.
type Refusal struct {
	Job  cluster.JobID  `json:"job"`
	User string         `json:"user"`
	GPUs int            `json:"gpus"`
	Cost float64        `json:"cost_gpu_s"`
	Why  preemption.Why `json:"why"`
}

// Choice is one cycle's decision. Changes holds the rows of new claims and evictions,
// which have no numbers yet.
type Choice struct {
	Trials  []Trial
	Changes Changes

	set      preemption.Settings
	snapshot preemption.Snapshot
	decision preemption.Decision
	running  []*cluster.Job          // the jobs of snapshot.Candidates
	ownWhy   []preemption.Why        // why a candidate may not leave though its owner agreed
	underWay map[cluster.JobID]int64 // evictions of jobs that are leaving: see awaits
	doubtful time.Duration           // so long after Settings.Since, another priod's victims may still be in their grace
}

// Choose decides which jobs leave for which. The plan says which jobs count as TE, and in
// which order. m are the nodes, which are not changed. vetoed are jobs that a closer look ruled out.
func Choose(s *cluster.Snapshot, m *nodemap.Map, held *Holders, p *plan.Plan, j *Journal, set *Settings, vetoed map[cluster.JobID]preemption.Why) *Choice {
	c := &Choice{set: set.Policy}
	c.set.Limits = set.limits(s)
	if c.set.Policy == preemption.LeastLoss { // for a trial a job that has just started is dearer, and no more
		c.set.Young, c.set.MinRun = c.set.MinRun, 0
	}
	c.snapshot.Nodes = m.Nodes
	c.addCandidates(held, set, vetoed)
	c.underWay = j.underWay()
	waiting := c.addTrials(s, p, j, set, m, vetoed)
	c.countRecent(s, j)
	if set.Policy.Policy == preemption.LeastLoss {
		c.setShadowTimes(m, set)
	}
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
		claim := Claim{Purpose: ForTrial, Job: t.Job, RawID: t.RawID, User: t.User, GPUs: waiting[i].GPUs, Wait: t.Wait}
		switch {
		case v.Why == preemption.Evicts:
			c.addRows(s, m, waiting[i], claim, v.Shares, v.Victims, set)
		case v.Why == preemption.Fits && waiting[i].Reason == noRoom && len(c.Changes.fit) < maxFit:
			claim.Shares = sharesOf(s, m, waiting[i], v.Shares)
			c.Changes.fit = append(c.Changes.fit, claim)
		}
	}
	c.setGates(s, j, set)
	return c
}

const (
	// noRoom is Slurm's reason for a job that it would start and has found no place for.
	noRoom = "Resources"
	// maxFit is for how many of such jobs that fit a cycle looks closer.
	maxFit = 10
)

// sharesOf are the shares of a place as rows.
func sharesOf(s *cluster.Snapshot, m *nodemap.Map, job *cluster.Job, place []placement.Share) (shares []ClaimShare) {
	for _, share := range place {
		shares = append(shares, ClaimShare{Node: m.Names[share.Node], GPUType: m.PartOf(share.Node), GPUs: int(share.GPUs), CPUs: int(share.CPUs), MemMB: share.MemMB, Others: m.Named(share.Others), Kind: lessonKey(s, m, job, m.Nodes.Type(share.Node))})
	}
	return shares
}

// addRows adds the rows of a claim and its evictions to the changes.
func (c *Choice) addRows(s *cluster.Snapshot, m *nodemap.Map, job *cluster.Job, claim Claim, shares []placement.Share, victims []int, set *Settings) {
	claim.State, claim.At, claim.Changed = Planned, s.At, s.At
	claim.Shares = sharesOf(s, m, job, shares)
	claim.Pin = slurmplug.CompactHosts(claim.Nodes())
	claim.Awaits = c.awaits(shares, victims)
	if len(claim.Awaits) > 0 || c.comesFreeInParts(shares, victims) {
		claim.Resv = "yes" // Number gives it its name
	}
	index := int64(len(c.Changes.Claims))
	c.Changes.Claims = append(c.Changes.Claims, claim)
	for _, i := range victims {
		x, victim := &c.snapshot.Candidates[i], c.running[i]
		c.Changes.Evictions = append(c.Changes.Evictions, Eviction{
			Claim: index, Job: victim.ID, RawID: victim.RawID, User: victim.User, Start: victim.Start, Restarts: victim.Restarts,
			GPUs: victim.GPUs, Signal: victim.Signal(), Grace: set.grace(victim), Eligible: victim.Eligible,
			Unsaved: seconds(x.Unsaved), Restart: set.Restart, Promised: x.Loss(), State: Recorded, At: s.At,
		})
		if c.underWay == nil {
			c.underWay = map[cluster.JobID]int64{}
		}
		c.underWay[victim.ID] = -int64(len(c.Changes.Evictions))
	}
}

// awaits are the evictions on whose victims a place counts though they leave for other claims: those
// on its nodes, where what is free and the place's own victims have is not enough. Those of this
// cycle, which have no numbers yet, are named by their place among the rows, -1 the first.
func (c *Choice) awaits(shares []placement.Share, victims []int) (numbers []int64) {
	short := map[int32]bool{}
	for _, share := range shares {
		free := c.snapshot.Nodes.FreeOn(share.Node)
		add := func(shares []placement.Share, sign int32) {
			for _, s := range shares {
				if s.Node == share.Node {
					free.GPUs, free.CPUs, free.MemMB = free.GPUs+sign*s.GPUs, free.CPUs+sign*s.CPUs, free.MemMB+int64(sign)*s.MemMB
				}
			}
		}
		for _, claim := range c.snapshot.Claims {
			add(claim.Shares, -1)
		}
		for _, i := range victims {
			add(c.snapshot.Candidates[i].Shares, 1)
		}
		short[share.Node] = free.GPUs < share.GPUs || free.CPUs < share.CPUs || free.MemMB < share.MemMB
	}
	if !slices.Contains(slices.Collect(maps.Values(short)), true) {
		return nil
	}
	for i := range c.snapshot.Candidates {
		number := c.underWay[c.running[i].ID]
		if number != 0 && !slices.Contains(victims, i) && slices.ContainsFunc(c.snapshot.Candidates[i].Shares, func(s placement.Share) bool { return short[s.Node] }) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// comesFreeInParts reports whether a part of the place is or becomes free before the
// rest: Slurm's backfill would give it to another job.
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

// Refusals says of each candidate why it does not leave for a trial, in the order of
// the queue; nil when no choice was made for the trial.
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
