package locality

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Memory is what is remembered of jobs from one cycle to the next. The zero value remembers nothing. What was written into jobs is
// in cluster.History; what jobs waited for is in their waits (Refusals.Waited), which outlive the daemon.
type Memory struct {
	jobs  map[cluster.JobID]*jobState
	cycle uint32
}

// jobState is what is remembered of a job, or of an array's record.
type jobState struct {
	cycle    uint32 // in which it was last looked at
	restarts int    // of the job: another run waits again
	waited   float64
	ticking  bool // since at it could have started on more switches than it accepted
	at       time.Time
	accepts  int // switches, when it was last looked at: they never become fewer; 0: not known

	// As they were first chosen: their figures move with the queue.
	places *plan.PlacesChoice
	nodes  *plan.RefusedNodes
}

// anyNumber is jobState.accepts of a job that has waited long enough.
const anyNumber = -1

func (m *Memory) begin() {
	if m.jobs == nil {
		m.jobs = map[cluster.JobID]*jobState{}
	}
	m.cycle++
}

// end forgets the jobs that were not looked at.
func (m *Memory) end() {
	for id, state := range m.jobs {
		if state.cycle != m.cycle {
			delete(m.jobs, id)
		}
	}
}

// of is what is remembered of a job up to now; known is false when that is nothing.
func (m *Memory) of(j *cluster.Job, at time.Time) (state *jobState, known bool) {
	state, known = m.jobs[j.ID]
	if !known || state.restarts != j.Restarts {
		state, known = &jobState{restarts: j.Restarts}, false
		m.jobs[j.ID] = state
	}
	if state.ticking {
		state.waited += max(at.Sub(state.at).Seconds(), 0)
	}
	state.cycle, state.ticking, state.at = m.cycle, false, at
	return state, known
}
