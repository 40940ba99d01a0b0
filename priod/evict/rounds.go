package evict

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// rounds are BE jobs that are owed their GPU type at the end of a round, the one that is owed most first: running BE
// jobs that have had more than their share yield to them.
var rounds = kind{
	purpose: ForRound, task: "end the round", prefix: "at the end of the last round: ", classes: []cluster.Class{cluster.BE},
	due: func(e *Feature, c *plan.Cycle, q *Question) bool {
		r := e.Rounds
		if r == nil || c.Owing == nil {
			return false
		}
		if !e.Settings.Rounds.Enabled {
			*r = Rounds{}
			return false
		}
		ends := r.hasEnded(c.Snapshot.At, e.Settings.Rounds.Length) || c.DryRun // a dry run shows what a round would bring that ended now
		if c.Plan.Shares == nil || c.Paused != "" {                             // no job is owed anything
			r.due, r.explained = false, explanations{}
			return false
		}
		if ends {
			q.Owing = c.Owing(e.Settings.Rounds.Lead)
		}
		return q.Owing != nil
	},
	price: func(p *preemption.Settings, set *Settings) {
		p.Policy, p.Round, p.Pay = preemption.MostHad, set.Rounds.Length.Seconds(), set.Rounds.Pay
	},
	ask:    (*Choice).askOwed,
	decide: (*Choice).decide,
}

// RoundSettings say whether running BE jobs yield, at the end of a round, to those that
// are owed their GPUs, and which. The limits are those of Settings.
type RoundSettings struct {
	Enabled bool
	Length  time.Duration // a job runs at least so long before it yields
	// Pay is how many GPU-seconds the one that is owed has to gain for each that the move loses.
	Pay  float64
	Lead plan.Lead
}

// Rounds end at the whole multiples of their length that lie between two cycles. Nothing of them is stored: after a start of priod, or
// after rounds were switched on, the next multiple is the first end.
type Rounds struct {
	lastCycle time.Time    // when the last cycle was
	due       bool         // a round has ended, and no cycle has dealt with it
	explained explanations // what the last round brought each job
}

// Restore takes in when an earlier process had its last cycle: a round that ended since is dealt with.
func (r *Rounds) Restore(lastCycle time.Time) { r.lastCycle = lastCycle }

// hasEnded reports whether a round has ended by now and has not been dealt with.
func (r *Rounds) hasEnded(now time.Time, length time.Duration) bool {
	if !r.lastCycle.IsZero() && now.Truncate(length).After(r.lastCycle.Truncate(length)) {
		r.due = true
	}
	r.lastCycle = now
	return r.due
}

// askOwed adds the jobs that wait for GPUs which they are owed. An array counts as its task that starts next. Only jobs
// that the allocation counts leave for them.
func (c *Choice) askOwed() {
	for i, job := range c.running {
		x := &c.search.Candidates[i]
		owed, counted := c.Owing.Running.Find(job.ID)
		if !counted && x.Stays == "" {
			c.stay(i, Uncounted)
		}
		x.Owed, x.Remaining = owed.Owed, min(owed.Run, x.Remaining)
	}
	queue := cluster.ByID(c.Snapshot.Jobs)
	for i := range c.Snapshot.Jobs {
		if id := c.Snapshot.Jobs[i].FirstTask(); queue.Get(id) == nil {
			queue.Set(id, &c.Snapshot.Jobs[i])
		}
	}
	for _, id := range c.Owing.First { // Slurm would give them a place before it gives one to jobs that are owed it
		job := queue.Get(id)
		types, understood := c.Nodes.Types(job)
		for n := job.TasksNow(); n > 0 && understood && job.WantsRoom() && len(c.search.First) < maxTrials; n-- {
			c.search.First = append(c.search.First, c.Nodes.Request(job, types))
		}
	}
	waiting := slices.Clone(c.Owing.Waiting)
	slices.SortStableFunc(waiting, func(a, b plan.Owed) int { return cmp.Compare(b.Owed, a.Owed) })
	for _, w := range waiting {
		job := queue.Get(w.Job)
		x := c.claimant(job)
		x.Job = w.Job
		types, understood := allowedTypes(c.Nodes, job)
		c.learn(&x, types)
		switch {
		case c.claims[w.Job] != nil:
			x.Why = preemption.Claimed
		case !understood:
			x.Why = Constraint
		default:
			x.Why = c.barred(&x)
		}
		c.add(x, preemption.Claimant{Owed: w.Owed, Start: w.Start, Left: w.Run})
	}
}
