package live

import (
	"context"
	"errors"
	"maps"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Places reads which nodes jobs name and refuse, and what they ask of each node. Jobs
// that cannot be read are left out, with an error; jobs that are gone, without.
func (c *Cluster) Places(ctx context.Context, raw map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	places, ids := make(map[cluster.JobID]cluster.Place, len(raw)), slices.Collect(maps.Keys(raw))
	return places, errors.Join(c.closer(ctx, ids, func(ctx context.Context, i int, record *slurmplug.Job) (func(), error) {
		if record == nil {
			return nil, slurmplug.ErrNoJob
		}
		required, excluded, err := c.client.NodesAsked(ctx, raw[ids[i]])
		if err != nil {
			return nil, err
		}
		b, err := c.client.Bounds(ctx, record)
		b.Binds = b.Binds && !c.conf.BindsGPUs()
		b.Fills = b.Fills && c.conf.FillsFirstNodes()
		b.AddsUp = b.AddsUp && c.conf.AddsUpGPUs()
		b.LosesThread = c.conf.LosesThread(b)
		b.Open = c.conf.Opens(b, c.defMemPerNode(record.Partition))
		return func() { places[ids[i]] = cluster.Place{Required: required, Excluded: excluded, Bounds: b} }, err
	}))
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
