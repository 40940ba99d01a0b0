package size

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// queuedJob is a waiting job, its decision and its place in the queue.
type queuedJob struct {
	job      *cluster.Job
	dec      *plan.Decision
	priority int64 // the priority that it will have
}

// waitingInOrder returns the waiting jobs that could start, in the order that the plan
// gives.
func waitingInOrder(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) []queuedJob {
	var all []queuedJob
	next := 0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending {
			continue
		}
		for next < len(p.Decisions) && p.Decisions[next].Job != j.ID {
			next++
		}
		if next == len(p.Decisions) {
			break
		}
		d := &p.Decisions[next]
		if _, eligible := h.FirstEligible[j.ID]; !eligible && !j.Begins(s.At) || j.GPUs == 0 || j.Held() || j.Dependency || j.Reservation != "" || j.HetOffset > 0 {
			continue
		}
		w := queuedJob{j, d, d.Own + d.Value}
		if p.Mode == slurmplug.Priority && d.Value > 0 {
			w.priority = d.Value
		}
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b queuedJob) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), a.job.Submit.Compare(b.job.Submit), a.job.ID.Compare(b.job.ID))
	})
	return all
}

// isOrdered tells whether priod orders a job. A job that is held back for a while, so
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
