package steer

import (
	"cmp"
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

// Memory is what steering remembers of jobs from one cycle to the next. The zero value
// remembers nothing. What was written into jobs is in cluster.History.
type Memory struct {
	jobs    cluster.JobMap[*jobState]
	cycle   uint32
	at      time.Time       // of the last cycle
	unknown placement.Types // see Snapshot.Unknown
}

// jobState is what is remembered of a job, or of a task of an array.
type jobState struct {
	cycle uint32 // in which it was last a candidate

	// Of the type that it is bound to:
	given    float64   // the fraction of its time that was allocated there when it was bound
	ready    int       // cycles in which it could have started there and did not
	openedAt time.Time // when its last one was taken back

	// After Slurm refused what was written, or did not start it:
	pause    int    // cycles for which it is still not steered
	pauseWhy string // what explain says meanwhile
	refusals int

	// From the closer look:
	place     cluster.Place // what it says of its nodes
	placeGood int           // cycles until that is read again

	// Of the last cycle:
	verdict Verdict
	barred  string              // why the types that it could have are not steered to, instead of the verdict's words; "" else
	words   string              // for explain, where something else than the verdict is behind it; "" else
	told    Verdict             // the one that choice says, from the cycle that first said so, or that last found the figures moved
	choice  *plan.GPUTypeChoice // it as data; nil: there is none
}

// endCycle forgets the jobs that were no candidates.
func (m *Memory) endCycle() {
	m.jobs.DeleteFunc(func(_ cluster.JobID, state *jobState) bool { return state.cycle != m.cycle })
}

// of is what is remembered of a job, which is not forgotten in this cycle.
func (m *Memory) of(id cluster.JobID) *jobState {
	state := m.jobs.Get(id)
	if state == nil {
		state = &jobState{verdict: Verdict{Type: Open}}
		m.jobs.Set(id, state)
	}
	state.cycle = m.cycle
	return state
}

// hear takes in that Slurm did not take what the last cycle wrote into a job: a task, or its record.
func (st *Steered) hear(state *jobState, j *pendingJob, id cluster.JobID) {
	if st.since.IsZero() {
		return
	}
	for _, l := range levers {
		if r := st.in.history.Refusal(j.Job, id, l); !r.At.IsZero() && !r.At.Before(st.since) {
			state.refused(fmt.Sprintf("left alone: %.200s", r.Words), st.in.set.Rule.Cycles)
		}
	}
}

// refused starts a pause, twice as long each time: what Slurm looks at and no poll
// shows, such as a job's sockets or licences, is not going to change soon.
func (state *jobState) refused(why string, cycles int) {
	if state.pauseWhy = why; state.pause == 0 {
		state.pause = cycles << min(state.refusals, 10)
		state.refusals++
	}
}

// remember keeps what was decided for a candidate, and says it in the decision about the job.
func (st *Steered) remember(c *candidate) {
	state, v, now := c.state, &c.verdict, st.in.snapshot.At
	barred := st.whyBarred(c)
	switch {
	case c.excluded != "":
		state.words, state.choice = c.excluded, nil
	case barred != "":
		state.words, state.choice = barred, v.Choice(st.types.names, now)
	case state.barred != "" || state.choice == nil || v.Type != state.verdict.Type || v.Why != state.verdict.Why || v.Back != state.verdict.Back || v.movedFrom(&state.told, now.Sub(state.choice.At).Seconds()):
		state.words, state.choice, state.told = "", v.Choice(st.types.names, now), *v
	}
	state.verdict, state.barred = *v, barred
	switch {
	case v.Why == Stuck:
		state.pause, state.pauseWhy = st.in.set.Rule.Cycles, cmp.Or(state.words, state.choice.Words())
	case v.Type == Open:
		state.given, state.ready = 0, 0
	case v.Type != c.Steered:
		state.given, state.ready = c.Time[v.Type], 0
	case v.Start == 0 && !st.in.jobs[c.at].Begins(st.in.snapshot.At):
		state.ready++
	}
	decision := &st.in.plan.Decisions[c.at]
	if decision.Steer == "" && decision.Choices.GPUType == nil && c.excluded != noConsent { // of an array its first task speaks
		decision.Steer, decision.Choices.GPUType = state.words, state.choice
	}
}

// whyBarred says why a job is not bound to types on which it could run, or has time,
// where that is the reason for its verdict; "" when it is not.
func (st *Steered) whyBarred(c *candidate) string {
	switch c.verdict.Why {
	case NoTime:
		return st.types.whyBarred(&st.in.jobs[c.at], c.couldRun&c.allocatedTypes(st.in.set.Rule.Least))
	case OneType, NoRoom:
		barred := ""
		if c.verdict.Why != OneType || c.couldRun&(c.couldRun-1) != 0 { // else it has no choice anyway
			barred = st.types.whyBarred(&st.in.jobs[c.at], c.couldRun)
		}
		return cmp.Or(barred, st.types.whyUnlabelled(c.couldRun), st.nodes.whyMixed(&st.in.jobs[c.at]))
	}
	return ""
}
