package size

import (
	"iter"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// queuedJob is a waiting job and its decision.
type queuedJob struct {
	job *cluster.Job
	dec *plan.Decision
	at  int // its index in the snapshot
}

// waitingInOrder are the waiting jobs that could start, in the order that the plan gives.
func waitingInOrder(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) iter.Seq[queuedJob] {
	return func(yield func(queuedJob) bool) {
		for _, q := range p.Queue {
			j := &s.Jobs[q.Job]
			if _, eligible := h.FirstEligible.Find(j.ID); !eligible && !j.Begins(s.At) || j.GPUs == 0 || j.Held() || j.Dependency || j.Reserved() || j.HetOffset > 0 {
				continue
			}
			if !yield(queuedJob{j, &p.Decisions[q.Decision], q.Job}) {
				return
			}
		}
	}
}

// isOrdered reports whether priod orders a job. A job that is held back for a while, so
// that its size is written before it starts, counts as ordered.
func isOrdered(dec *plan.Decision, j *cluster.Job, at time.Time) bool {
	return dec.Ranked || dec.Why == string(plan.NotYet) && j.Begins(at)
}

// tasksFrom returns the first n tasks of an unsplit array that may start now, at least
// one; of another job its own id.
func tasksFrom(j *cluster.Job, n int) []cluster.JobID {
	if j.Tasks == "" {
		return []cluster.JobID{j.ID}
	}
	tasks, err := slurmplug.ExpandTasks(j.Tasks)
	if err != nil {
		return nil
	}
	tasks = tasks[:min(len(tasks), max(n, 1))]
	ids := make([]cluster.JobID, len(tasks))
	for i, t := range tasks {
		ids[i] = cluster.JobID{ID: j.ID.ID, Task: t}
	}
	return ids
}
