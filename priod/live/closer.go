package live

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// parallelReads is how many jobs are read at the same time.
const parallelReads = 4

// closer looks closer at some jobs, each with its record in the last poll (nil: it has none), several at a time. What read
// returns takes in what it found: one after the other. A job that is gone is left out. One that cannot be read is, too, with an
// error in doubts; any other error ends the rest.
func (c *Cluster) closer(ctx context.Context, ids []cluster.JobID, read func(ctx context.Context, i int, record *slurmplug.Job) (take func(), err error)) (doubts, failed error) {
	if len(ids) == 0 {
		return nil, nil
	}
	records := c.recordsOf(ids)
	var mu sync.Mutex
	all := make([]error, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for i, id := range ids {
		g.Go(func() error {
			take, err := read(ctx, i, records[id])
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				take()
			case errors.Is(err, slurmplug.ErrDoubtful):
				all[i] = fmt.Errorf("job %s: %w", id, err)
			case !errors.Is(err, slurmplug.ErrNoJob):
				return err
			}
			return nil
		})
	}
	failed = g.Wait()
	return errors.Join(all...), failed
}

// idsOf names some jobs.
func idsOf(jobs []*cluster.Job) []cluster.JobID {
	ids := make([]cluster.JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

// recordsOf are the records of some jobs in the last poll; for a task without one of its
// own, that of its array.
func (c *Cluster) recordsOf(ids []cluster.JobID) map[cluster.JobID]*slurmplug.Job {
	wanted := map[uint32][]cluster.JobID{}
	for _, id := range ids {
		wanted[id.ID] = append(wanted[id.ID], id)
	}
	records := map[cluster.JobID]*slurmplug.Job{}
	for i := range c.jobs {
		r := &c.jobs[i]
		for _, id := range wanted[r.ID.ID] {
			if r.ID == id || r.Tasks != "" && records[id] == nil {
				records[id] = r
			}
		}
	}
	return records
}

// ownName is the uid of a job's user, in whose name its request is written: such a write, unlike an operator's, lifts no
// limit from the job. "": it is written in priod's name, or this host does not know the user, and scontrol takes no such uid.
func (c *Cluster) ownName(record *slurmplug.Job) string {
	if !c.inNameOf.may || record == nil {
		return ""
	}
	uid := strconv.FormatUint(uint64(record.UID), 10)
	if _, err := user.LookupId(uid); err != nil {
		return ""
	}
	return uid
}
