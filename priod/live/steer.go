package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Places reads which nodes jobs name and refuse, and what they ask of each node. Jobs
// that cannot be read are left out, with an error; jobs that are gone, without.
func (c *Cluster) Places(ctx context.Context, raw map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	places := make(map[cluster.JobID]cluster.Place, len(raw))
	var mu sync.Mutex
	var doubts error
	records := c.recordsOf(slices.Collect(maps.Keys(raw)))
	var g errgroup.Group
	g.SetLimit(parallelReads)
	for id, raw := range raw {
		g.Go(func() error {
			required, excluded, err := c.client.NodesAsked(ctx, raw)
			var bounds slurmplug.Bounds
			if record := records[id]; record == nil && err == nil {
				err = slurmplug.ErrNoJob
			} else if err == nil {
				bounds, err = c.client.Bounds(ctx, record)
				bounds.Binds = bounds.Binds && !c.conf.BindsGPUs()
				bounds.Fills = bounds.Fills && c.conf.FillsFirstNodes()
				bounds.AddsUp = bounds.AddsUp && c.conf.AddsUpGPUs()
				bounds.Open = c.conf.Opens(bounds, c.defMemPerNode(record.Partition))
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				places[id] = cluster.Place{Required: required, Excluded: excluded, Bounds: bounds}
			case !errors.Is(err, slurmplug.ErrNoJob):
				doubts = errors.Join(doubts, fmt.Errorf("job %s: %w", id, err))
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in doubts
	return places, doubts
}

// defMemPerNode is the largest default memory by node of some partitions, MB; a partition without one has that of the cluster.
func (c *Cluster) defMemPerNode(partitions string) (most int64) {
	_, ofCluster := c.conf.DefaultMemory()
	for _, name := range cluster.PartitionNames(partitions) {
		mb := ofCluster
		if p := c.admitting[name]; p != nil && p.NodeMemMB > 0 {
			mb = p.NodeMemMB
		}
		most = max(most, mb)
	}
	return most
}
