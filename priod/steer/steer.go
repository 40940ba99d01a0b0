// Package steer gives each pending job near the head of the queue a GPU type, so that
// jobs which start once and stay share the types as Gavel's allocation divides their
// time (Narayanan et al., OSDI 2020: allocation in section 4, priorities in section 5).
// Gavel moves every job at the end of each round; here no job is evicted, and only jobs
// that have not started are given a type.
//
// It decides from the snapshot (jobs, nodes), the plan (the order of the queue), the
// shares (package allocate: what time each job is allocated on each type, and how long
// it would run there) and what it remembers of the last cycles. It writes the node
// feature that stands for the type into the job's constraint, always composed with what
// the user asked for, or leaves of the partitions that the user named those of the type,
// and takes it back when it no longer holds. Only jobs whose tag
// allows it are steered (jobtag.Tag.AllowsSteering).
//
// # The rule
//
// Decide goes through the jobs in their order. For each it looks at the types allocated
// to the job, when a shadow schedule of the running jobs and of those before it would
// start it there, and how long it would run; the least weighted completion time wins. A
// GPU on which no job is planned now then goes to the job that it suits best among
// those that end no later on it. So a GPU stays idle only while every job that could
// use it ends sooner elsewhere.
//
// A type that was given stays for Rule.Keep, and one that was left does not come back
// for Rule.Away: until then a job moves only to where it starts at once. The expected
// waits change with each job that comes, ends or is sized, and what is free may be taken
// before Slurm comes to the job; without these two, jobs would be written to and fro.
// A TE job (Job.NoWait) is bound only to a type where it starts now, and only where it
// has a choice.
//
// # One cycle
//
// Feature.Plan calls Memory.Steer, which makes the candidates, asks Decide, and notes the
// writes. Unseen names the jobs whose records have to be read one by one, because no poll
// shows which nodes they name or refuse (cluster.Place), and Vet drops the writes that
// this rules out. What is left in Steered.Actions is carried out. The next cycle pauses the
// jobs of which Slurm refused a write.
//
// # Files
//
//	feature.go     how steering takes part in a cycle
//	decide.go      the rule: snapshot and Rule in, verdicts out; pure
//	shadow.go      the shadow schedule that the rule takes into account
//	standing.go    for how long the verdicts stand if nothing happens
//	verdict.go     the verdicts and their words
//	steer.go       one cycle: what it is given, and its steps
//	candidates.go  which jobs may be steered, and the input of Decide for them
//	gputypes.go    which types jobs can be bound to, and by what
//	nodes.go       which types have nodes for a job
//	snapshot.go    the nodes and running jobs as Decide sees them
//	memory.go      what is remembered of each job between cycles
//	places.go      the closer look: nodes that jobs name and refuse
//	writes.go      the writes
//	request.go     what binds a job to a type: a feature, or a part of its partitions
//	constraint.go  what can be written of a user's own constraint
//	owed.go        what the end of a round is told
//	settings.go    the settings
package steer

import (
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Steered is one cycle's steering.
type Steered struct {
	Actions []plan.Action // the writes
	bindsTo []int32       // by action: the type that it binds to; Open: it takes one back
	quota   plan.Quota    // of writes

	in         inputs
	types      gpuTypes
	nodes      nodeView
	memory     *Memory
	since      time.Time // of the cycle before; zero: there was none
	excluded   []string  // by decision: see inputs.excluded; only of those of the queue
	candidates []candidate
	lookAgain  map[cluster.JobID]uint32 // jobs whose Place is read again, by Slurm's own id
}

// inputs are what a cycle gives steering. It changes of them only the plan's notes, until
// when it stands, and what the decisions say about steering.
type inputs struct {
	set      *Settings
	snapshot *cluster.Snapshot
	history  *cluster.History
	plan     *plan.Plan
	shares   *plan.Shares // nil: nothing is allocated
	jobs     []pendingJob // of plan.Decisions
}

// pendingJob is a job of the plan, and whose its request is.
type pendingJob struct {
	*cluster.Job
	own   request // as its user wrote it
	reach string  // the partitions in which it may come to run: its own, and those that its site adds
	wrote bool    // priod has written into it
	ours  bool    // the job has one that priod wrote
	bound int32   // the type to which that binds it; Open: none
}

// ownConstraint is the job's own, parsed; empty where it cannot be.
func (j *pendingJob) ownConstraint() slurmplug.Constraint {
	c, _ := slurmplug.ParseConstraint(j.own.features) // excluded reports the error
	return c
}

// Steer decides which writes bind pending jobs to GPU types and which take that back,
// and notes in the plan's decisions why. Vet then drops some of the writes.
func (m *Memory) Steer(c *plan.Cycle, set Settings, jobs func() []pendingJob) *Steered {
	since := m.at
	m.cycle, m.at = m.cycle+1, c.Snapshot.At
	if !steers(c, set) {
		m.jobs = cluster.JobMap[*jobState]{}
		return &Steered{}
	}
	st := &Steered{memory: m, since: since, lookAgain: map[cluster.JobID]uint32{}, quota: plan.Quota{Most: set.WritesPerCycle}}
	st.in = inputs{set: &set, snapshot: c.Snapshot, history: c.History, plan: c.Plan, shares: c.Plan.Shares, jobs: jobs()}
	switch {
	case !set.Enabled:
		st.openAll("steering is off")
	case st.in.shares == nil:
		st.openAll("nothing is allocated")
	default:
		st.types = newGPUTypes(&st.in)
		nodes := c.Nodes()
		if !nodes.Tells(strings.Join(st.types.features, ",")) {
			nodes = nodemap.New(c.Snapshot, st.types.features...)
		}
		st.nodes = newNodeView(&st.in, &st.types, nodes)
		st.steer()
	}
	st.quota.Note(c.Plan, plan.SteeringWrites, "jobs")
	m.endCycle()
	return st
}

// steers reports whether there may be anything to write.
func steers(c *plan.Cycle, set Settings) bool {
	return set.Enabled || len(c.History.Requests) > 0
}

// pendingJobs finds the jobs that the plan decided about. Both go by the order of the snapshot. They are bound to no type yet.
func pendingJobs(s *cluster.Snapshot, h *cluster.History, decisions []plan.Decision) []pendingJob {
	jobs := make([]pendingJob, 0, len(decisions))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if n := len(jobs); n == len(decisions) || decisions[n].Job != j.ID {
			continue
		}
		job := pendingJob{Job: j, bound: Open, own: requestOf(j), wrote: len(h.Requests[j.ID]) > 0}
		if job.wrote {
			fields := fieldsOf(j, h)
			job.own = request{fields[0].Own.String(), fields[1].Own.String()}
			job.ours = fields[0].Ours || fields[1].Ours
		}
		job.reach = h.Reaches(j)
		jobs = append(jobs, job)
	}
	return jobs
}

// openAll takes back every type that a pending job was given.
func (st *Steered) openAll(why string) {
	st.types.vocabulary, st.types.listed = newVocabulary(st.in.snapshot.Nodes), st.in.snapshot.Partitions
	for at := range st.in.jobs {
		if st.in.jobs[at].ours {
			st.open(at, why)
		}
	}
}

// steer lets Decide choose for the jobs at the head of the queue, and writes that.
func (st *Steered) steer() {
	st.types.findBound(st.in.jobs)
	snapshot := plan.Concurrently(st.in.snapshot, st.nodes.snapshot)
	st.findCandidates()
	snap := snapshot()
	off := st.nodes.off(snap)
	snap.Jobs = make([]Job, len(st.candidates))
	for i := range st.candidates {
		c := &st.candidates[i]
		c.Request.Off = off(&st.in.jobs[c.at])
		snap.Jobs[i] = c.Job
	}
	snap.Unknown, st.memory.unknown = st.memory.unknown, snap.heldByNobody()
	if st.memory.unknown != snap.Unknown {
		st.in.plan.Stands(0) // the next cycle knows more
	}
	verdicts, stands := decide(snap, st.in.set.Rule)
	st.in.plan.Stands(stands)
	for i, v := range verdicts {
		st.candidates[i].verdict = v
		st.remember(&st.candidates[i])
	}
	for rest := st.candidates; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].at == rest[0].at {
			n++
		}
		st.bind(rest[:n])
		rest = rest[n:]
	}
}

// RuledOut are the types on which jobs cannot run because of nodes that they name or
// refuse, for each job that was a candidate in this cycle.
func (st *Steered) RuledOut() map[cluster.JobID]placement.Types {
	out := make(map[cluster.JobID]placement.Types, len(st.candidates))
	for i := range st.candidates {
		out[st.in.jobs[st.candidates[i].at].ID] = st.candidates[i].ruledOut
	}
	return out
}

// isTrial reports whether a job is not to wait for a type: it counts as TE, or will once its user's budget has room again.
func (in *inputs) isTrial(at int) bool {
	d := &in.plan.Decisions[at]
	return d.Class == cluster.TE || d.Why == string(plan.OverBudget)
}

// usableForClaim reports whether a node starts nothing else only because priod has
// reserved it for a claim. That is soon over, and no reason to give a job another type.
func (in *inputs) usableForClaim(n *cluster.Node) bool {
	return in.history.Reserved[n.Name] && n.Usable && !n.MixedTypes
}
