package steer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Why a job is not steered, beside the verdicts of Decide.
const (
	noConsent        = plan.NoConsent
	asksForType      = "it requests a GPU type"
	partOfHetJob     = "it is part of a heterogeneous job"
	prefersNodes     = "it uses --prefer, with which Slurm ignores other constraints"
	hasClaim         = "room is being made for it"
	editedByUser     = "its constraint was changed after priod wrote it: left as it is"
	listEditedByUser = "its partitions were changed after priod wrote them: left as they are"
	namesNodes       = "it requests specific nodes"
	noNodes          = "no GPU type has usable nodes for it"
	speedUnknown     = "its speed is unknown on every GPU type: it starts on the first free one"
	runsNowhere      = "it cannot run on any GPU type that it may have"
	openedLately     = "left open: its type was withdrawn recently"
	beginsLater      = "not eligible yet: a TE job gets a type once it may start"
	sizeNamesNodes   = "its size names its nodes at present"
)

// candidate is a pending job, or a task of an array, for which Decide chooses. It is one
// also when it is not to be steered, because the others take into account where it will start.
type candidate struct {
	Job                      // the input of Decide
	at       int             // of its record in plan.Decisions
	id       cluster.JobID   // of the task, where the record is an array
	tasks    int             // of the record that are candidates
	excluded string          // why it is not steered in this cycle; "" when it is
	couldRun placement.Types // with those to which no job is bound; none when it is excluded
	ruledOut placement.Types // those on which it cannot run because of the nodes that it names or refuses
	state    *jobState       // what is remembered of it
	verdict  Verdict
}

// allocatedTypes are those on which at least so much of a job's time is allocated.
func (c *candidate) allocatedTypes(least float64) (types placement.Types) {
	for t, time := range c.Time {
		if time >= max(least, 1e-9) {
			types |= 1 << uint(t)
		}
	}
	return types
}

// findCandidates makes candidates of the jobs at the head of the queue, as far as
// Rule.Depth; from the jobs behind, the type is taken back that they have had for long.
func (st *Steered) findCandidates() {
	rule, queue := &st.in.set.Rule, st.queue()
	most := len(queue)
	if rule.Depth > 0 {
		most = min(most, rule.Depth)
	}
	st.candidates = make([]candidate, 0, most)
	for _, at := range queue {
		j, n := &st.in.jobs[at], 1
		if !j.ours && rule.Depth > 0 && len(st.candidates) >= rule.Depth {
			continue
		}
		if j.Tasks != "" {
			n = st.nodes.tasksAtOnce(j.Job)
		}
		if rule.Depth > 0 {
			n = min(n, rule.Depth-len(st.candidates))
		}
		if n <= 0 {
			switch held, _ := st.binding(j); {
			case !j.ours || st.in.history.Claiming[j.ID]:
			case held >= rule.Away:
				st.open(at, string(Far))
			default:
				st.in.plan.Stands(rule.Away - held)
			}
			continue
		}
		for _, id := range firstTasks(j.Job, n) {
			st.candidates = append(st.candidates, st.candidate(at, id, n))
		}
	}
}

// queue is the decisions about jobs that a free GPU would start, by priority. From the
// other jobs it takes back the types that they may not have.
func (st *Steered) queue() (queue []int) {
	st.excluded = make([]string, len(st.in.jobs))
	for _, q := range st.in.plan.Queue {
		at, j := q.Decision, &st.in.jobs[q.Decision]
		decision, why := &st.in.plan.Decisions[at], st.in.excluded(j)
		st.excluded[at] = why
		if j.GPUs > 0 && why != noConsent {
			decision.Steer = why
		}
		waits := decision.Ranked && waitsForGPU(j)
		if !st.in.isTrial(at) { // where that starts is seen once it may
			waits = waits || (decision.Ranked || decision.Why == string(plan.NotYet)) && j.Begins(st.in.snapshot.At)
		}
		switch {
		case waits && j.GPUs > 0 && st.in.shares.Of(&st.in.snapshot.Jobs[q.Job], q.Job) != nil:
			queue = append(queue, at)
		case j.ours:
			st.openUnqueued(at, why)
		}
	}
	return queue
}

// openUnqueued takes back the type of a job that no free GPU would start, when the job may not be steered any more, is no longer priod's,
// cannot start with it, or is a trial that begins later.
func (st *Steered) openUnqueued(at int, why string) {
	j, decision := &st.in.jobs[at], &st.in.plan.Decisions[at]
	if j.Unsatisfied() {
		why = "no node satisfies it (BadConstraints)"
		for _, id := range firstTasks(j.Job, st.nodes.tasksAtOnce(j.Job)) {
			st.memory.of(id).refused(fmt.Sprintf("left open: no node satisfied %.80q (BadConstraints)", j.Features), st.in.set.Rule.Cycles)
		}
		if decision.Steer == "" {
			decision.Steer = why
		}
	}
	if j.listed() && !j.Dependency && slurmplug.WaitsFor(j.Reason) == slurmplug.ForElse {
		why = fmt.Sprintf("waits for what its partition lacks (%.80s)", j.Reason)
		for _, id := range firstTasks(j.Job, st.nodes.tasksAtOnce(j.Job)) {
			st.memory.of(id).refused("left open: it "+why, st.in.set.Rule.Cycles)
		}
	}
	if why == "" && (decision.Why == string(plan.Foreign) || decision.Why == string(plan.Reserved)) {
		why = decision.Why
	}
	if why == "" && st.in.isTrial(at) && slurmplug.WaitsFor(j.Reason) == slurmplug.ForTime {
		why = beginsLater // it got that before it was requeued
	}
	if why != "" && why != hasClaim {
		st.open(at, why)
	}
}

// waitsForGPU reports whether a free GPU can end what Slurm says that a job waits for. Where
// priod bound it, the nodes that are down may be those of its type alone.
func waitsForGPU(j *pendingJob) bool {
	return j.WantsRoom() || j.ours && slurmplug.WaitsFor(j.Reason) == slurmplug.ForNodes
}

// excluded says why a job is not steered, whatever the allocation and the nodes are.
func (in *inputs) excluded(j *pendingJob) string {
	if !j.AllowsGPUType() {
		return noConsent
	}
	var fields [2]cluster.Field
	if j.wrote {
		fields = fieldsOf(j.Job, in.history)
	}
	c, err := slurmplug.ParseConstraint(j.own.features)
	if err == nil {
		_, err = c.With("x")
	}
	switch {
	case j.GPUType != "":
		return asksForType
	case j.HetLeader != 0:
		return partOfHetJob
	case j.Prefer != "":
		return prefersNodes
	case fields[0].Theirs:
		return editedByUser
	case fields[1].Theirs:
		return listEditedByUser
	case err != nil:
		return fmt.Sprintf("its constraint %.80q is left alone: %v", j.own.features, err)
	case in.history.Claiming[j.ID]:
		return hasClaim
	}
	return ""
}

// firstTasks are the ids of the first n tasks of an array, or that of a single job.
func firstTasks(j *cluster.Job, n int) []cluster.JobID {
	if j.Tasks != "" {
		if first, err := slurmplug.FirstTasks(j.Tasks, n); err == nil {
			return plan.Action{Job: j.ID, Tasks: first, Part: true}.Jobs()
		}
	}
	return []cluster.JobID{j.ID}
}

// candidate gathers the input of Decide for a job, or a task: id. tasks is how many of its record are candidates.
func (st *Steered) candidate(at int, id cluster.JobID, tasks int) candidate {
	j := &st.in.jobs[at]
	share, state := st.in.shares.Jobs.Get(j.ID), st.memory.of(id)
	c := candidate{at: at, id: id, tasks: tasks, state: state, excluded: st.excludedNow(at, id, state)}
	asks, types := st.typesFor(j, &c)
	c.Job = Job{
		Run: share.Run, Time: share.Time, Received: share.Received, Steered: Open, Given: state.given, Ready: state.ready,
		NoWait: st.in.isTrial(at),
	}
	if j.reach != j.own.partitions {
		c.Alone = types & st.nodes.fit(&asks, &j.own, "")
	}
	switch c.excluded {
	case hasClaim: // its claim is for a place on the type that it is bound to
		if j.bound != Open {
			types &= 1 << uint(j.bound)
		}
	case "":
		c.couldRun, types = types, st.types.steerable(j, types, func(r *request) placement.Types { return st.nodes.fit(&asks, r, state.place.Excluded) })
		c.Steered = j.bound
		c.Held, c.JustLeft = st.binding(j)
		if c.Steered == Open {
			c.Ready, state.ready = 0, 0
		} else if state.given == 0 && share.Time != nil { // priod was started after it was bound
			state.given = share.Time[c.Steered]
			c.Given = state.given
		}
		if oneType := c.couldRun != 0 && c.couldRun&(c.couldRun-1) == 0; types == 0 && oneType && j.bound == Open {
			types = c.couldRun // it has no choice anyway
		} else if types == 0 {
			c.excluded = cmp.Or(st.types.whyBarred(j, c.couldRun), st.nodes.whyMixed(j), noNodes)
		} else if share.Unknown() {
			if c.excluded = speedUnknown; runsOnNone(share, types) {
				c.excluded = runsNowhere
			}
		}
	}
	c.Consent = c.excluded == ""
	c.Request = st.nodes.nodeMap.Request(&asks, st.nodes.kinds(types))
	c.Request.Types, c.Request.Together = types, placement.Sets{} // those are of nodeMap's kinds
	return c
}

// runsOnNone reports whether a job can run on none of the types.
func runsOnNone(share *plan.Share, types placement.Types) bool {
	for t, run := range share.Run {
		if types.Has(int32(t)) && !math.IsInf(run, 1) {
			return false
		}
	}
	return len(share.Run) > 0
}

// excludedNow adds to excluded what holds for one task, and what holds for a while: a pause,
// which it counts down, and the time after a type was taken back.
func (st *Steered) excludedNow(at int, id cluster.JobID, state *jobState) string {
	why := st.excluded[at]
	if why == "" && st.in.history.Claiming[id] { // a task that has no record of its own yet
		why = hasClaim
	}
	st.hear(state, &st.in.jobs[at], id)
	if why == "" && state.pause > 0 {
		why = state.pauseWhy
		state.pause--
		st.in.plan.Stands(0)
	}
	if since := st.in.snapshot.At.Sub(state.openedAt); why == "" && since >= 0 && since.Seconds() < st.in.set.Rule.Away {
		why = openedLately
		st.in.plan.Stands(st.in.set.Rule.Away - since.Seconds())
	}
	return why
}

// typesFor is what a job asks for and the types with nodes for it, both by all that is
// known of the nodes that it names or refuses. One that names nodes is not steered.
func (st *Steered) typesFor(j *pendingJob, c *candidate) (asks cluster.Job, types placement.Types) {
	wide := request{j.own.features, j.reach}
	types = st.nodes.fit(j.Job, &wide, "")
	state := c.state
	state.placeGood--
	if state.place == (cluster.Place{}) {
		return wide.asked(j.Job), types
	}
	st.in.plan.Stands(0) // placeGood counts cycles
	asks = st.nodes.demand(j, &state.place)
	left := types & st.nodes.fit(&asks, &wide, state.place.Excluded) & st.nodes.typesOf(state.place.Required)
	c.ruledOut = types &^ left
	if state.place.Required != "" && c.excluded == "" {
		c.excluded = namesNodes
	}
	if state.placeGood <= 0 && len(st.lookAgain) < maxLookAgain {
		st.lookAgain[j.ID] = j.RawID
	}
	return asks, left
}

// binding is for how long, s, a job's request has been what it is, and which types
// were written into it before, until less than Rule.Away ago.
func (st *Steered) binding(j *pendingJob) (held float64, left placement.Types) {
	fields := fieldsOf(j.Job, st.in.history)
	last := cluster.Later(fields[0].Last.At, fields[1].Last.At)
	if held = st.in.snapshot.At.Sub(last).Seconds(); last.IsZero() || held < 0 || held >= st.in.set.Rule.Away {
		return math.Abs(held), 0 // below zero the clock was set back: that keeps no job from moving
	}
	for t, feature := range st.types.features {
		f := &fields[0]
		if feature == "" || !st.types.has(j.own.partitions, int32(t)) {
			f = &fields[1]
		}
		if !f.Written {
			continue
		}
		given := *j
		given.own, given.ours = ownBy(f, j.own), true
		ask, err := st.types.requestFor(&given, int32(t))
		if err == nil && ask.of(f.Lever) != f.Now && slices.Contains(f.Last.Older, ask.of(f.Lever)) {
			left |= 1 << uint(t)
		}
	}
	return held, left
}

// ownBy is the request of a job's user, with the field of a lever as priod first found it.
func ownBy(f *cluster.Field, own request) request {
	if f.Lever == slurmplug.Features {
		own.features = f.Last.Was.String()
	} else {
		own.partitions = f.Last.Was.String()
	}
	return own
}
