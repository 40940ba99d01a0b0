package evict

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

// gangs are jobs of several GPUs that wait though enough GPUs are free, but not in the shape that they ask for. Small jobs move for them,
// with the least work lost: those that were never evicted, hold a part of one node, and have room elsewhere at once.
var gangs = kind{
	purpose: ForGang, task: "make room for gangs", prefix: "nodes for gangs: ", classes: []cluster.Class{cluster.BE, cluster.TE},
	due: func(e *Feature, c *plan.Cycle, _ *Question) bool {
		return e.Settings.Defrag && c.Paused == "" && c.Fragmented != nil
	},
	price: func(p *preemption.Settings, _ *Settings) {
		p.Policy, p.MaxEvictions = preemption.LeastLoss, 1
		p.Urgency, p.Each = 1, 0 // as in pays
	},
	ask:    (*Choice).askGangs,
	decide: (*Choice).settleMoves,
}

// pays reports whether the gang's GPUs have waited as long as the GPU time that moving others for it loses. Who so waits until waiting has
// cost as much as acting, pays at most twice what a scheduler would that knew the future (ski rental: Karlin et al., Competitive snoopy
// caching, Algorithmica 1988).
func (x *Claimant) pays() bool { return float64(x.GPUs)*x.Waited >= x.Cost }

// askGangs goes through the queue: a job that fits takes its place, and of those that do
// not fit, the gangs for which enough GPUs are left ask.
func (c *Choice) askGangs() {
	c.excludeUnmovable()
	c.after = c.whenUnderwayIsDone()
	looked := 0
	for _, q := range c.Plan.Queue {
		job, decision := &c.Snapshot.Jobs[q.Job], &c.Plan.Decisions[q.Decision]
		types, understood := allowedTypes(c.Nodes, job)
		if job.GPUs == 0 || job.HetLeader != 0 || !job.WantsRoom() || !understood || c.claims[job.FirstTask()] != nil {
			continue
		}
		if looked++; looked > maxTrials {
			break
		}
		if c.start(c.Nodes.Request(job, types), job.TasksNow()) > 0 {
			continue
		}
		free := c.freeOfOneType(types)
		if job.GPUs < 2 || free < job.GPUs || !decision.Ranked || c.Settings.Enabled && decision.Class == cluster.TE {
			continue
		}
		x := c.claimant(job)
		x.Free = free
		if c.Fragmented != nil {
			x.Waited = c.Fragmented(job.ID).Seconds()
		}
		c.learn(&x, types)
		if x.Why = c.barred(&x); !job.AllowsWaiting() {
			x.Why = NoTag
		}
		c.add(x, preemption.Claimant{Owner: x.User, Start: math.Inf(1)})
	}
	if len(c.search.Claimants) > 0 {
		c.excludeWithoutRoom()
	}
}

// excludeUnmovable lets those stay that hold whole nodes, or several: to move them would open no node. Those that name nodes stay, too.
func (c *Choice) excludeUnmovable() {
	for i := range c.search.Candidates {
		x := &c.search.Candidates[i]
		if len(x.Shares) > 1 || x.Shares[0].GPUs >= c.Nodes.Nodes.Size(x.Shares[0].Node).GPUs || c.Vetoed[c.running[i].ID] == Bound {
			c.stay(i, Unmovable)
		}
	}
}

// excludeWithoutRoom lets those stay that fit on no other node, whatever job gets their place.
func (c *Choice) excludeWithoutRoom() {
	for i, job := range c.running {
		x := &c.search.Candidates[i]
		if x.Stays != "" || x.Leaving {
			continue
		}
		types, understood := c.Nodes.Types(job)
		node := x.Shares[0].Node
		down := c.after.Down(node)
		c.after.SetDown(node, true)
		_, fits := c.after.Fit(c.Nodes.Request(job, types), nil)
		c.after.SetDown(node, down)
		if !understood || !fits {
			x.Stays = Unmovable
		}
	}
}

// whenUnderwayIsDone is what is free once all open claims have their places, and all victims that are on their way run again.
func (c *Choice) whenUnderwayIsDone() *placement.Nodes {
	free := c.Nodes.Nodes.Clone()
	leaving := map[cluster.JobID]bool{}
	for i := range c.search.Candidates {
		if x := &c.search.Candidates[i]; x.Leaving {
			free.Release(x.Shares)
			leaving[c.running[i].ID] = true
		}
	}
	for _, claim := range c.claims {
		free.Take(claim.places(c.Nodes))
	}
	returning := map[cluster.JobID]bool{}
	_, evictions := c.Journal.live()
	for _, e := range evictions {
		returning[e.Job] = true
	}
	for i := range c.Snapshot.Jobs {
		if job := &c.Snapshot.Jobs[i]; returning[job.ID] && (job.State == cluster.Pending || leaving[job.ID]) {
			c.restart(job, free)
		}
	}
	return free
}

// restart gives a job that left a place for its own request, and reports whether there is one.
func (c *Choice) restart(job *cluster.Job, free *placement.Nodes) bool {
	types, understood := c.Nodes.Types(job)
	return understood && takeIfFits(free, c.Nodes.Request(job, types))
}

// start lets as many tasks of a waiting job as fit take their places, and returns how many do.
func (c *Choice) start(request placement.Request, tasks int) (n int) {
	for n < tasks && takeIfFits(c.after, request) {
		n++
	}
	return n
}

func takeIfFits(free *placement.Nodes, r placement.Request) bool {
	shares, fits := free.Fit(r, nil)
	if fits {
		free.Take(shares)
	}
	return fits
}

// freeOfOneType counts the free GPUs of that type of which most are free.
func (c *Choice) freeOfOneType(types placement.Types) (most int) {
	free := map[string]int{}
	for kind, n := range c.Nodes.Kinds {
		if types.Has(int32(kind)) {
			free[n.GPUType] += c.after.FreeGPUs(int32(kind))
			most = max(most, free[n.GPUType])
		}
	}
	return most
}

// maxMoves is how often one cycle decides on its gangs at most.
const maxMoves = 8

// settleMoves decides, and decides again without the victims that have no room elsewhere and
// without the gangs for which it does not pay yet, until neither is left. Where that takes too long, those before the
// first doubtful one stand: nothing of them depends on those behind.
func (c *Choice) settleMoves() {
	sound := 0
	for range maxMoves {
		c.decision = preemption.Decide(&c.search, c.policy)
		after, settled := c.after.Clone(), true
		for i := range c.Claimants {
			x := &c.Claimants[i]
			if x.at < 0 {
				continue
			}
			verdict := &c.decision.Verdicts[x.at]
			if c.describe(x, verdict); settled {
				sound = i
			}
			switch {
			case x.Why != preemption.Evicts:
			case !x.pays(): // nor would it with others, which lose more
				x.Why, settled = NotYet, false
				c.search.Claimants[x.at], x.at = preemption.Claimant{}, -1
			default:
				moved, stuck := c.move(after, verdict)
				for _, k := range stuck {
					c.search.Candidates[k].Stays, settled = Unmovable, false
				}
				after = moved
			}
		}
		if settled {
			return
		}
	}
	for i := range c.Claimants[sound:] {
		if x := &c.Claimants[sound+i]; x.at >= 0 && x.Why == preemption.Evicts {
			c.describe(x, &preemption.Verdict{Why: preemption.Impossible})
		}
	}
}

// move lets the victims of a verdict start elsewhere, the largest first, beside the gang.
// It returns what is free then, and the victims without a place.
func (c *Choice) move(free *placement.Nodes, v *preemption.Verdict) (after *placement.Nodes, stuck []int) {
	after = free.Clone()
	for _, i := range v.Victims {
		after.Release(c.search.Candidates[i].Shares)
	}
	after.Take(v.Shares)
	victims := slices.Clone(v.Victims)
	slices.SortStableFunc(victims, func(a, b int) int { return cmp.Compare(c.running[b].GPUs, c.running[a].GPUs) })
	for _, i := range victims {
		if !c.restart(c.running[i], after) {
			stuck = append(stuck, i)
		}
	}
	return after, stuck
}
