package live

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// arrayLimit is how many tasks of an array may run at a time, 0 for any number, and when that was read.
type arrayLimit struct {
	most int
	at   time.Time
}

// arrayFor is how long a limit counts that squeue does not show: a user may change it.
const arrayFor = 5 * time.Minute

// addArrays fills in how many tasks of their arrays jobs with GPUs that wait may have at a time, and how many run. Up to 22.05
// squeue shows that of arrays from which no task was taken; of others, and in later Slurms of all, scontrol is asked once.
func (c *Cluster) addArrays(ctx context.Context, at time.Time, records []slurmplug.Job, jobs []cluster.Job) {
	type array struct {
		waits *cluster.Job // one record of it
		tasks int
		runs  int
	}
	able, err := c.client.Abilities(ctx)
	shows := err == nil && able.ArrayUnique
	known, arrays := make(map[uint32]arrayLimit, len(c.arrays)), map[uint32]*array{}
	for i := range jobs {
		j := &jobs[i]
		if j.GPUs == 0 || j.Tasks == "" && j.ID.Task == slurmplug.NoTask {
			continue
		}
		a := arrays[j.ID.ID]
		if a == nil {
			a = &array{}
			arrays[j.ID.ID] = a
		}
		switch a.tasks += max(j.TaskCount, 1); j.State {
		case cluster.Pending:
			a.waits = j
			if records[i].AtOnce > 0 || shows && j.Tasks != "" {
				known[j.ID.ID] = arrayLimit{records[i].AtOnce, at}
			}
		case cluster.Running, cluster.Suspended:
			a.runs++
		}
	}
	var ask []*cluster.Job
	for id, a := range arrays {
		if _, told := known[id]; told || a.waits == nil || a.tasks < 2 {
			continue
		}
		last, read := c.arrays[id]
		if known[id] = last; !read || at.Sub(last.at) > arrayFor && len(ask) < mostAsked {
			ask = append(ask, a.waits)
		}
	}
	c.askArrays(ctx, at, ask[:min(len(ask), mostAsked)], known)
	for i := range jobs {
		j := &jobs[i]
		if a := arrays[j.ID.ID]; j.State == cluster.Pending && a != nil && known[j.ID.ID].most > 0 {
			j.AtOnce, j.ArrayRuns = known[j.ID.ID].most, a.runs
		}
	}
	c.arrays = known
}

// askArrays reads the limits of the arrays of some jobs. One that cannot be read stays as it was.
func (c *Cluster) askArrays(ctx context.Context, at time.Time, jobs []*cluster.Job, known map[uint32]arrayLimit) {
	_, _ = c.closer(ctx, idsOf(jobs), func(ctx context.Context, i int, _ *slurmplug.Job) (func(), error) {
		j := jobs[i]
		most, err := c.client.TasksAtOnce(ctx, j.FirstTask())
		return func() {
			if err != nil {
				most = known[j.ID.ID].most
			}
			known[j.ID.ID] = arrayLimit{most, at}
		}, nil
	})
}
