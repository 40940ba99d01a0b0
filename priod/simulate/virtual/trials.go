package virtual

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// trial is what a job's run comes to, unless it has to leave before.
type trial struct {
	number int          // of those in the trace: Trials, then the last run; more than these are repeats
	cut    bool         // at its time limit
	ending trace.Ending // of the last run, while the job is not requeued
	kept   float64      // s of that run that the job has saved
	before float64      // s that the job had run before this trial
	bad    int32        // the node that failed under the last run, from 1; 0: none
}

// work is what the next run of a job does until it passes or fails.
func (j *job) work() float64 {
	if j.number < len(j.Trials) {
		return j.Trials[j.number].Work
	}
	return cmp.Or(j.Duration, j.Steps)
}

// outcome is how a run ends that is cut short by its time limit at most. A repeat ends as
// the last run of the trace did; where a node failed then, it passes on other nodes.
func (e *engine) outcome(j *job) trace.Ending {
	switch {
	case j.cut:
		return trace.Ending{State: "TIMEOUT"}
	case j.number < len(j.Trials):
		return j.Trials[j.number].Ending
	case j.number > len(j.Trials) && j.Ending.ByNode() && !slices.Contains(j.nodes(), j.bad-1):
		return trace.Ending{}
	}
	return j.Ending
}

// endFailed is the end of a run that failed. Whose user agreed to priod's requeues waits for
// them; of all other jobs the runs in the trace follow.
func (e *engine) endFailed(j *job) {
	o := &e.outcomes[j.index]
	o.Failures++
	if j.ending.ByNode() && j.number <= len(j.Trials) {
		j.bad = j.shares[0].Node + 1
	}
	waits := e.slurm.retries(j)
	if waits && j.cut {
		j.kept = e.saves(j, e.now-j.start, true)
	}
	o.Lost += o.Ran - j.before - j.kept
	switch {
	case waits:
	case j.number < len(j.Trials) && !j.cut:
		e.nextTrial(j)
		j.returns, j.turn, j.eligible = true, 0, e.now+e.opt.RequeueDelay
	default:
		o.Failed = true
		e.done(j, e.now)
	}
	e.close(j)
}

// nextTrial makes a job that failed ready for its next run. One that reached its time limit continues with what it saved.
func (e *engine) nextTrial(j *job) {
	if j.cut {
		j.todo -= j.kept * j.speed
	} else {
		j.number++
		j.todo = j.work()
	}
	j.ending, j.kept, j.before = trace.Ending{}, 0, e.outcomes[j.index].Ran
}

// giveUp ends a job that failed at this time and is not put back.
func (e *engine) giveUp(j *job, at float64) {
	o := &e.outcomes[j.index]
	o.Lost, o.Failed = o.Lost+j.kept, true
	j.state = gone
	e.done(j, at)
}

// halt is a job that failed, and about which priod may still do something.
type halt struct {
	job *job
	row cluster.Job // as it was while it ran
	at  float64     // its end
}

// minJobAge is how long slurmctld has the record of a job that ended, s: Slurm's default.
const minJobAge = 300

// retries reports whether priod says what becomes of a job that fails.
func (s *slurm) retries(j *job) bool {
	return s != nil && s.classifies() && (j.Retry == "infra" || j.Retry == "always")
}

// classifies reports whether priod gives runs that failed a class.
func (s *slurm) classifies() bool { return s.e.opt.Daemon.Settings.Retries.Memory != nil }

// judges reports whether priod has something to do about jobs that failed.
func (s *slurm) judges() bool {
	return len(s.halted) > 0 || s.classifies() && s.e.opt.Daemon.Settings.Retries.Memory.Busy()
}

// halt takes a job that failed out of the queue.
func (s *slurm) halt(j *job) {
	row := s.snapshot.Jobs[j.row]
	row.State = cluster.Other
	s.halted[row.ID], s.ended[row.ID] = &halt{j, row, s.e.now}, s.pastOf(j)
	s.remove(j)
}

// record is slurmctld's of a job that failed; nil: it has none any more.
func (s *slurm) record(id cluster.JobID) *halt {
	if h := s.halted[id]; h != nil && s.e.now < h.at+minJobAge {
		return h
	}
	return nil
}

// settle lets jobs go that failed, and about which priod has nothing more to do.
func (s *slurm) settle() {
	var over []*halt
	for id, h := range s.halted {
		if !s.e.opt.Daemon.Settings.Retries.Memory.Attends(id) {
			over = append(over, h)
		}
	}
	slices.SortFunc(over, func(a, b *halt) int { return cmp.Compare(a.job.index, b.job.index) })
	for _, h := range over {
		delete(s.halted, h.row.ID)
		s.e.giveUp(h.job, h.at)
	}
}

// putBack puts a job that failed back into the queue. One that is held there is over: no operator releases it in a simulation.
func (s *slurm) putBack(h *halt, wait float64, hold bool) {
	e, j := s.e, h.job
	delete(s.halted, h.row.ID)
	delete(s.ended, h.row.ID)
	if hold {
		e.outcomes[j.index].Held = true
		e.giveUp(j, h.at)
		return
	}
	e.nextTrial(j)
	j.turn, j.eligible = 0, e.now+max(e.opt.RequeueDelay, wait)
	e.comeBack(j)
}

// bar has a job that waits refuse the nodes that it names, and those of other partitions.
func (e *engine) bar(j *job) {
	if j.request.Off = j.line.off; len(j.excluded) > 0 {
		off := slices.Concat(j.excluded, e.nodes.Off(j.request))
		j.request.Off = e.nodes.Refused(slices.Compact(slices.Sorted(slices.Values(off))))
	}
}

// exclude names the nodes that a pending job refuses.
func (s *slurm) exclude(j *job, list string) error {
	nodes, err := s.nodesNamed(list)
	if err != nil {
		return err
	}
	err = s.ask(j, func() {
		j.excluded = nodes
		s.e.bar(j)
	})
	s.changed(j)
	return err
}

// refuse writes a value of the lever ExcNodeList.
func (s *slurm) refuse(j *job, value slurmplug.Value) error { return s.exclude(j, value.String()) }

// refuses are the nodes that a job refuses, as a host list.
func (s *slurm) refuses(j *job) string { return s.names(j.excluded) }

// unsatisfied reports whether no node is left for a job because of those that it refuses.
func (e *engine) unsatisfied(j *job) bool {
	if len(j.excluded) == 0 {
		return false
	}
	return !e.fitsEmpty(j)
}

// nodes are those on which a job runs, or last did.
func (j *job) nodes() []int32 {
	nodes := make([]int32, len(j.shares))
	for i, s := range j.shares {
		nodes[i] = s.Node
	}
	return nodes
}
