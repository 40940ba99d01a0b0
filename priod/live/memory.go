package live

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// AskMemory reads how jobs ask for memory, into their AskedMB. A job that cannot be read
// or is gone is left without, with an error; the others are read all the same.
func (c *Cluster) AskMemory(ctx context.Context, jobs []*cluster.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	c.refreshRights(ctx)
	records := c.recordsOf(idsOf(jobs))
	owners := map[uint32]string{}
	var mu sync.Mutex
	doubts := make([]error, len(jobs))
	var g errgroup.Group
	g.SetLimit(parallelReads)
	for i, j := range jobs {
		g.Go(func() error {
			m, err := c.memoryOf(ctx, j.ID, records)
			if err != nil {
				doubts[i] = err
				return nil
			}
			j.AskedMB = m.MB
			if c.inNameOf.may && isKnown(m.UID) {
				mu.Lock()
				defer mu.Unlock()
				owners[j.ID.ID] = m.UID
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in doubts
	c.owners = owners
	return errors.Join(doubts...)
}

// memoryOf is how one job asks for memory.
func (c *Cluster) memoryOf(ctx context.Context, id cluster.JobID, records map[cluster.JobID]*slurmplug.Job) (slurmplug.NodeMemory, error) {
	record := records[id]
	if record == nil {
		return slurmplug.NodeMemory{}, fmt.Errorf("job %s was not in the queue when that was read: %w", id, slurmplug.ErrDoubtful)
	}
	return c.client.NodeMemory(ctx, id, record)
}
