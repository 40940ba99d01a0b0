package live

import (
	"context"
	"errors"
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// mostNew is for how many jobs one squeue asks how their tasks lie.
const mostNew = 2000

// taskRules are what jobs say of their tasks, by RawID. It stays the same while a job is in the queue.
type taskRules map[uint32]taskRule

// taskRule is --ntasks-per-node, and --ntasks-per-gpu where that was read: squeue has no column of it.
type taskRule struct {
	perNode, perGPU int
	read            bool   // of scontrol
	why             string // it could not be read
}

// findFragile names the jobs whose tasks slurmctld would set anew at any update (slurmplug.RewritesTasks). One of
// which that is not known yet is one of them.
func (c *Cluster) findFragile(ctx context.Context, jobs []cluster.Job, records []slurmplug.Job) {
	version := c.conf.Version()
	if !slurmplug.RewritesTasks(version) {
		c.taskRules = nil
		return
	}
	last := c.taskRules
	c.taskRules = make(taskRules, len(last))
	var unknown []uint32
	for i := range jobs {
		id := jobs[i].RawID
		if rule, known := last[id]; known {
			c.taskRules[id] = rule
		} else if jobs[i].State != cluster.Unread && len(unknown) < mostNew {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		tasks, _ := c.client.TasksPerNode(ctx, unknown) // of those that are left out it is not known
		for id, n := range tasks {
			c.taskRules[id] = taskRule{perNode: n}
		}
	}
	c.askPerGPU(ctx, jobs, records)
	components := map[uint32]string{}
	for i := range jobs {
		j, r := &jobs[i], &records[i]
		if j.State == cluster.Unread {
			continue
		}
		rule, known := c.taskRules[j.RawID]
		switch to := rule.tasks(r, j); {
		case !known, rule.asks(r, j):
			j.Fragile = fmt.Sprintf("whether an update by Slurm %s would change its tasks is not known yet", version)
		case rule.why != "":
			j.Fragile = fmt.Sprintf("whether an update by Slurm %s would change its tasks is not known: %s", version, rule.why)
		case to != r.NumTasks:
			j.Fragile = fmt.Sprintf("any update by Slurm %s would set its tasks from %d to %d (--%s)", version, r.NumTasks, to, rule.option())
		}
		if j.HetLeader != 0 && j.Fragile != "" {
			components[j.HetLeader] = j.Fragile
		}
	}
	for i := range jobs { // an update of the leader is one of all components
		if j := &jobs[i]; j.HetLeader != 0 && j.Fragile == "" {
			j.Fragile = components[j.HetLeader]
		}
	}
}

// tasks is what an update sets a job's tasks to. The nodes are the fewest that it asks for; where it would
// also take more, slurmctld leaves the tasks as they are.
func (t taskRule) tasks(r *slurmplug.Job, j *cluster.Job) int {
	switch {
	case t.perNode > 0:
		return t.perNode * max(j.Nodes, 1)
	case t.perGPU > 0:
		return t.perGPU * max(j.Nodes, 1)
	}
	return r.NumTasks
}

func (t taskRule) option() string {
	if t.perNode > 0 {
		return fmt.Sprint("ntasks-per-node=", t.perNode)
	}
	return fmt.Sprint("ntasks-per-gpu=", t.perGPU)
}

// asks reports whether a job may name its tasks for each GPU, in a way that matters, and it is to be read: with
// that option its tasks are a multiple of its GPUs, and of one GPU on each node any update keeps them.
func (t taskRule) asks(r *slurmplug.Job, j *cluster.Job) bool {
	_, gpus := r.GPUs()
	if _, counted, ok := r.AllocatedGPUs(); ok && j.State == cluster.Pending {
		gpus = counted
	}
	return !t.read && t.perNode == 0 && gpus > max(j.Nodes, 1) && r.NumTasks >= gpus && r.NumTasks%gpus == 0
}

// askPerGPU reads the tasks for each GPU of jobs that may name them.
func (c *Cluster) askPerGPU(ctx context.Context, jobs []cluster.Job, records []slurmplug.Job) {
	var ask []*cluster.Job
	for i := range jobs {
		if rule, known := c.taskRules[jobs[i].RawID]; known && rule.asks(&records[i], &jobs[i]) && len(ask) < mostAsked {
			ask = append(ask, &jobs[i])
		}
	}
	_, _ = c.closer(ctx, idsOf(ask), func(ctx context.Context, i int, record *slurmplug.Job) (func(), error) {
		b, err := c.client.Bounds(ctx, record)
		if err != nil && !errors.Is(err, slurmplug.ErrDoubtful) {
			return nil, err // it ended, or the next poll asks again
		}
		return func() {
			rule := c.taskRules[ask[i].RawID]
			rule.perGPU, rule.read = b.TasksPerGPU, true
			if err != nil {
				rule.why = err.Error()
			}
			c.taskRules[ask[i].RawID] = rule
		}, nil
	})
}
