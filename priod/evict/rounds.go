package evict

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/evict/yield"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
)

// RoundSettings say whether running BE jobs yield, at the end of a round, to those that
// are owed their GPUs, and which. The limits are those of Settings.
type RoundSettings struct {
	Enabled bool
	Policy  yield.Settings
}

// RoundWaiter is a waiting BE job and what the end of a round brings it.
type RoundWaiter struct {
	Job     cluster.JobID
	Why     preemption.Why // of yield, of preemption's limits or of this package; see RoundReasonText
	Victims []cluster.JobID
	Cost    float64       // GPU-seconds
	Wait    time.Duration // until the last victim has left
}

// Round is what the end of a round brings. Changes holds the rows of new claims and
// evictions, which have no numbers yet.
type Round struct {
	Waiting []RoundWaiter // in the order of the queue
	Running []Refusal     // all jobs that hold GPUs, those that yield too
	Changes Changes
}

// EndRound decides which jobs yield to which. vetoed are jobs that a closer look ruled out.
func EndRound(s *cluster.Snapshot, m *nodemap.Map, held *Holders, o *plan.Owing, j *Journal, set *Settings, round *RoundSettings, vetoed map[cluster.JobID]preemption.Why) *Round {
	c := &Choice{set: set.Policy}
	c.set.Limits = set.limits(s)
	c.snapshot.Nodes = m.Nodes
	c.addCandidates(held, set, vetoed)
	c.countRecent(s, j)
	r := &Round{Waiting: make([]RoundWaiter, len(o.Waiting))}
	snap := yield.Snapshot{Nodes: m.Nodes.Clone()}
	r.addRunning(&snap, c, o)
	for _, claim := range j.claimsByJob() {
		snap.Nodes.Take(claim.places(m))
	}
	queue := cluster.ByID(s.Jobs)
	for i := range s.Jobs { // an array counts as its task that starts next
		if id := s.Jobs[i].FirstTask(); queue.Get(id) == nil {
			queue.Set(id, &s.Jobs[i])
		}
	}
	snap.First = teRequests(o, m, &queue)
	asked, jobs := r.addWaiting(&snap, c, s, o, j, set, m, vetoed, &queue)
	d := yield.Decide(&snap, round.Policy)
	for i, why := range d.Running {
		if r.Running[i].Why == "" {
			r.Running[i].Why = preemption.Why(why)
		}
	}
	order := make([]int, len(asked))
	for k, i := range asked {
		r.Waiting[i].Why, order[k] = preemption.Why(d.Waiting[k]), k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(snap.Waiting[b].Owed, snap.Waiting[a].Owed) })
	gate, refused := preemption.NewGate(&c.snapshot, c.set.Limits), preemption.Why("")
	for _, k := range order {
		if d.Waiting[k] != yield.Gets {
			continue
		}
		var victims []int
		for i, to := range d.For {
			if to == k {
				victims = append(victims, i)
			}
		}
		t := &r.Waiting[asked[k]]
		if refused == "" { // a refused claim refuses those after it, which count on its room
			refused = gate.Refuses(&c.snapshot, preemption.NoOwner, victims)
		}
		if refused != "" {
			t.Why = refused
			for _, i := range victims {
				r.Running[i].Why = refused
			}
			continue
		}
		for _, i := range victims {
			x := &c.snapshot.Candidates[i]
			t.Victims = append(t.Victims, c.running[i].ID)
			t.Cost += x.Loss()
			t.Wait = max(t.Wait, seconds(x.Grace))
		}
		job := jobs[k]
		c.addRows(s, m, job, Claim{Purpose: ForRound, Job: t.Job, RawID: job.RawID, User: job.User, GPUs: job.GPUs, Wait: t.Wait}, d.Shares[k], victims, set)
	}
	r.Changes = c.Changes
	return r
}

// addRunning adds the candidates, in their order, with the reasons of those that may
// not leave. The places of jobs that are leaving count as free.
func (r *Round) addRunning(snap *yield.Snapshot, c *Choice, o *plan.Owing) {
	standing := preemption.Decide(&c.snapshot, c.set).Standing
	for i, job := range c.running {
		x := &c.snapshot.Candidates[i]
		why := cmp.Or(c.ownWhy[i], standing[i])
		owed, counted := o.Running.Find(job.ID)
		switch {
		case why == preemption.Allowed && !counted:
			why = Uncounted
		case why == preemption.Allowed:
			why = ""
		}
		if x.Leaving {
			snap.Nodes.Release(x.Shares)
		}
		snap.Running = append(snap.Running, yield.Running{
			Shares: x.Shares, Consent: why == "", Leaving: x.Leaving, Owed: owed.Owed, Elapsed: x.Elapsed,
			Left: min(owed.Run, x.Remaining), Cost: x.Loss() / float64(job.GPUs),
		})
		r.Running = append(r.Running, Refusal{Job: job.ID, User: job.User, GPUs: job.GPUs, Cost: x.Loss(), Why: why})
	}
}

// teRequests are the requests of TE jobs to which Slurm would give a place before it
// gives one to jobs that are owed it.
func teRequests(o *plan.Owing, m *nodemap.Map, queue *cluster.JobMap[*cluster.Job]) (requests []placement.Request) {
	for _, id := range o.First {
		job := queue.Get(id)
		types, understood := m.Types(job)
		for n := job.TasksNow(); n > 0 && understood && job.WantsRoom() && len(requests) < maxTrials; n-- {
			requests = append(requests, m.Request(job, types))
		}
	}
	return requests
}

// addWaiting adds the jobs for which room can be made. It returns their indices in
// Waiting, and their records of the queue.
func (r *Round) addWaiting(
	snap *yield.Snapshot, c *Choice, s *cluster.Snapshot, o *plan.Owing, j *Journal, set *Settings, m *nodemap.Map, vetoed map[cluster.JobID]preemption.Why,
	queue *cluster.JobMap[*cluster.Job],
) (asked []int, jobs []*cluster.Job) {
	claims, released, taught := j.claimsByJob(), j.releasedUntil(s.At, set.Retry), j.lessons()
	for i, w := range o.Waiting {
		t, job := &r.Waiting[i], queue.Get(w.Job)
		t.Job = w.Job
		types, understood := m.Types(job)
		types, vain := taught.apply(s, m, job, types)
		switch {
		case claims[w.Job] != nil:
			t.Why = preemption.Claimed
		case !understood:
			t.Why = Constraint
		case vetoed[w.Job] != "":
			t.Why = vetoed[w.Job]
		case within(c.doubtful, s.At, set.Since):
			t.Why = TookOver
		case !released(w.Job).IsZero():
			t.Why = TooSoon
		case vain != nil && types == 0:
			t.Why = InVain
		default:
			snap.Waiting = append(snap.Waiting, yield.Waiting{Request: m.Request(job, types), Owed: w.Owed, Start: w.Start, Run: w.Run})
			asked, jobs = append(asked, i), append(jobs, job)
		}
	}
	return asked, jobs
}
