package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Look reads single jobs as Slurm shows them now, finished ones too. Its cost depends on
// their number, not on the length of the queue. A job whose record is inconsistent is
// left out, with an error; the others are returned all the same.
func (c *Cluster) Look(ctx context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	sights, ids := make(map[cluster.JobID]plan.JobStatus, len(targets)), make([]cluster.JobID, len(targets))
	for i := range targets {
		ids[i] = targets[i].Job
	}
	doubts, failed := c.closer(ctx, ids, func(ctx context.Context, i int, _ *slurmplug.Job) (func(), error) {
		records, err := c.client.Sights(ctx, targets[i].RawID)
		if err != nil {
			return nil, err
		}
		sight, err := c.sight(ids[i], records)
		switch {
		case err != nil:
		case sight.Gone:
			sight = c.lastRun(ctx, ids[i])
		case sight.CanRequeue && sight.State == cluster.Running && c.conf.ExpeditesRequeue():
			sight.Expedites, err = c.client.Expedites(ctx, ids[i])
		}
		return func() { sights[ids[i]] = sight }, err
	})
	if failed != nil {
		return nil, failed
	}
	return sights, doubts
}

// sight finds a job among the records of its id: its own record, or that of the array
// of which it is still a part.
func (c *Cluster) sight(id cluster.JobID, records []slurmplug.Sight) (plan.JobStatus, error) {
	own := slices.IndexFunc(records, func(r slurmplug.Sight) bool { return r.ID == id })
	if own < 0 && id.Task != slurmplug.NoTask {
		own = slices.IndexFunc(records, func(r slurmplug.Sight) bool {
			tasks, err := slurmplug.ExpandTasks(r.Tasks)
			return r.ID.ID == id.ID && err == nil && slices.Contains(tasks, id.Task)
		})
	}
	if own < 0 {
		return plan.JobStatus{Gone: true}, nil
	}
	r := &records[own]
	if r.Unread != "" {
		return plan.JobStatus{}, fmt.Errorf("squeue: %w: %s", slurmplug.ErrDoubtful, r.Unread)
	}
	s := plan.JobStatus{ExitCode: r.ExitCode, ExitedBy: r.Signal, CanRequeue: r.Requeue && r.Batch, ReqNodes: r.ReqNodes}
	var tags tagCache
	tags.begin()
	v := c.conversion(nil, &tags)
	v.job(&s.Job, &r.Job)
	s.ID = id
	s.OnHold = s.State == cluster.Running && r.Priority == 0
	if slurmplug.Ended(r.State) {
		s.Final = r.State
	}
	return s, nil
}

// lastRun is what accounting has of the last run of a job that slurmctld has
// forgotten. Only Gone is set where accounting has no end of it, or does not answer.
func (c *Cluster) lastRun(ctx context.Context, id cluster.JobID) plan.JobStatus {
	s := plan.JobStatus{Gone: true}
	runs, err := c.client.RunsOf(ctx, id)
	if err != nil || len(runs) == 0 || runs[len(runs)-1].Unread != "" || !slurmplug.Ended(runs[len(runs)-1].State) {
		return s
	}
	r := &runs[len(runs)-1]
	s.Job = cluster.Job{ID: id, User: r.User, State: cluster.Other, Start: r.Start, NodeList: r.NodeList}
	s.Final, s.ExitCode, s.ExitedBy, s.End = r.State, r.ExitCode, r.Signal, r.End
	return s
}

// Excluded are the nodes that a waiting job refuses, as a host list.
func (c *Cluster) Excluded(ctx context.Context, t plan.Target) (string, error) {
	_, excluded, err := c.client.NodesAsked(ctx, t.RawID)
	if errors.Is(err, slurmplug.ErrNoJob) {
		return "", nil
	}
	return excluded, err
}

// AtOnce is how many tasks of a task's array may run at a time; 0: any number, or it is
// not a task.
func (c *Cluster) AtOnce(ctx context.Context, t plan.Target) (int, error) {
	if t.Job.Task == slurmplug.NoTask {
		return 0, nil
	}
	return c.client.TasksAtOnce(ctx, t.Job)
}

// Do sends the commands, one after the other.
func (c *Cluster) Do(ctx context.Context, commands []plan.Command) []plan.Result {
	results := make([]plan.Result, len(commands))
	for i, cmd := range commands {
		var r slurmplug.Result
		switch cmd.Kind {
		case plan.Signal:
			signal, part := signalFor(cmd.Value.String())
			r = c.client.Signal(ctx, slurmplug.RunID{Job: cmd.Job, SLUID: cmd.SLUID}, signal, part)
		case plan.Requeue:
			r = c.client.Requeue(ctx, slurmplug.RunID{Job: cmd.Job, SLUID: cmd.SLUID})
			if r.Status == slurmplug.Applied && cmd.Value != (slurmplug.Value{}) {
				c.set(ctx, &cmd, "StartTime") // if this fails, the next Look shows it
			}
		case plan.Begin:
			r = c.set(ctx, &cmd, "StartTime")
		case plan.Pin, plan.Unpin:
			r = c.set(ctx, &cmd, slurmplug.ReqNodeList)
		case plan.Reserve:
			r = c.client.Reserve(ctx, cmd.Value.String(), cmd.Nodes, cmd.For)
		case plan.Free:
			r = c.client.DeleteReservation(ctx, cmd.Value.String())
		default:
			r = c.doFailed(ctx, &cmd)
		}
		results[i] = plan.Result{Command: cmd, Status: r.Status, Message: r.Message}
	}
	return results
}

// Notify writes a line into a running job's output, where Slurm lets this account do so: as root or SlurmUser.
func (c *Cluster) Notify(ctx context.Context, job cluster.JobID, text string) error {
	if !c.conf.Superuser() {
		return nil // slurmctld would log each try as a violation
	}
	if r := c.client.Notify(ctx, job, text); r.Status != slurmplug.Applied {
		return errors.New(r.Message)
	}
	return nil
}

// Reservations are the names of those that priod made.
func (c *Cluster) Reservations(ctx context.Context) (names []string, err error) {
	all, err := c.client.Reservations(ctx)
	for i := range all {
		if cluster.OwnReservation(all[i].Name) {
			names = append(names, all[i].Name)
		}
	}
	return names, err
}

// Reserved are all of Slurm's reservations, those to come too.
func (c *Cluster) Reserved(ctx context.Context) ([]slurmplug.NodeReservation, error) {
	return c.client.Reservations(ctx)
}

func (c *Cluster) set(ctx context.Context, cmd *plan.Command, lever slurmplug.Lever) slurmplug.Result {
	return c.client.Update(ctx, []slurmplug.Update{{Job: cmd.Job, SLUID: cmd.SLUID, Lever: lever, Value: cmd.Value}})[0]
}

// signalFor says which signal a tag asks for, and which part of the job gets it: as with
// sbatch --signal the steps, with B: the batch script alone. Without one the whole job
// gets TERM.
func signalFor(tag string) (signal string, part slurmplug.Part) {
	if tag == "" {
		return "TERM", slurmplug.Whole
	}
	if signal, script := strings.CutPrefix(tag, "B:"); script {
		return signal, slurmplug.Script
	}
	return tag, slurmplug.Steps
}
