package window

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature has jobs run until windows. The zero value starts none.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Slurm    interface {
		Look(context.Context, []plan.Target) (map[cluster.JobID]plan.JobStatus, error)
	}
	// Evictions tell what is free beside the places that they hold, and the jobs that have one.
	Evictions interface {
		Beside(*nodemap.Map) (free *placement.Nodes, jobs map[cluster.JobID]bool)
	}
}

// Why a limit is written.
const (
	FitsBefore = "it runs until a window"
	HasOwn     = "no window is ahead of it"
)

// Plan writes limits, and says which jobs have to leave. What runs until a window leaves in time even while priod is paused.
func (f *Feature) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.Slurm == nil || f.Evictions == nil || len(c.History.Requests) == 0 && (!f.Settings.Enabled || len(c.Snapshot.Windows) == 0) {
		return nil
	}
	q := &Question{Snapshot: c.Snapshot, History: c.History, Nodes: c.Nodes()}
	for _, x := range c.Plan.Queue {
		q.Queue = append(q.Queue, x.Job)
	}
	q.Free, q.Placed = f.Evictions.Beside(q.Nodes)
	var failed error
	q.Requeues = func(j *cluster.Job) bool {
		requeues, err := f.requeues(ctx, c, j)
		if err != nil {
			failed = err
		}
		return requeues
	}
	r := Decide(q, &f.Settings)
	c.Vacating = r.Leaving
	for i := range r.Limits {
		if l := &r.Limits[i]; l.Until == nil {
			c.Plan.LateLimits++
		} else if l.Job.State == cluster.Running {
			c.Plan.UntilWindow++
		}
	}
	write(c, &r)
	explain(c, &r)
	if !r.Next.IsZero() {
		c.Plan.StandsUntil(r.Next)
	}
	return failed
}

// requeues looks closer whether a job can be requeued, and starts on any nodes.
func (f *Feature) requeues(ctx context.Context, c *plan.Cycle, j *cluster.Job) (bool, error) {
	all, err := f.Slurm.Look(ctx, []plan.Target{{Job: j.FirstTask(), RawID: j.RawID}})
	s, looked := all[j.FirstTask()]
	if err != nil || !looked {
		return false, err
	}
	if s.State == cluster.Pending && (!s.CanRequeue || s.Expedites || s.ReqNodes != "") {
		c.History.Refuse(j.ID, slurmplug.TimeLimit, "it cannot be requeued, or names nodes", c.Snapshot.At)
		return false, nil
	}
	return s.State == cluster.Pending, nil
}

// write asks for the limits that jobs have not yet.
func write(c *plan.Cycle, r *Result) {
	if c.Paused != "" {
		return
	}
	var actions []plan.Action
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Until != nil && l.Job.State == cluster.Pending {
			c.Plan.StandsUntil(c.Snapshot.At.Add(time.Minute)) // then a shorter one may be due
		}
		if l.To == l.Field.Now {
			continue
		}
		why := HasOwn
		if l.Until != nil {
			why = FitsBefore
		}
		a := plan.Change(l.Job, &l.Field, l.To, why)
		if tasks, err := slurmplug.FirstTasks(l.Job.Tasks, l.Tasks); l.Tasks > 0 && l.Job.Tasks != "" && err == nil {
			a = a.OfTasks(tasks)
		}
		actions = append(actions, a)
	}
	c.Plan.Ask(actions)
}

// explain notes in the decisions which jobs run until which window.
func explain(c *plan.Cycle, r *Result) {
	until := map[cluster.JobID]*Limit{}
	for i := range r.Limits {
		if l := &r.Limits[i]; l.Until != nil {
			until[l.Job.ID] = l
		}
	}
	if len(until) == 0 {
		return
	}
	for i := range c.Plan.Decisions {
		d := &c.Plan.Decisions[i]
		l := until[d.Job]
		if l == nil {
			continue
		}
		own, _ := l.Field.Own.Limit()
		d.Choices.Window = &plan.WindowChoice{Name: l.Until.Name, Start: l.Until.Start, End: l.Until.End, OwnS: own.Seconds()}
	}
}
