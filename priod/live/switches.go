package live

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
)

// Topology is the cluster's tree of switches. It is read again as often as slurm.conf, by
// those alone that ask for it.
func (c *Cluster) Topology(ctx context.Context) (cluster.Topology, error) {
	if err := c.refreshConfig(ctx, time.Now()); err != nil {
		return cluster.Topology{}, err
	}
	if c.topologyAt.Equal(c.configAt) {
		return c.topology, nil
	}
	leaves, err := c.client.LeafSwitches(ctx, c.conf)
	if err != nil {
		return cluster.Topology{}, err
	}
	c.topology, c.topologyAt = cluster.Topology{Leaves: leaves, MaxWait: c.conf.MaxSwitchWait()}, c.configAt
	return c.topology, nil
}

// AskSwitches reads what waiting jobs ask of switches, into their Switches. Jobs that are
// gone are left as they are.
func (c *Cluster) AskSwitches(ctx context.Context, jobs []*cluster.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	ids := make([]uint32, len(jobs))
	for i, j := range jobs {
		ids[i] = j.RawID
	}
	for len(ids) > 0 {
		n := min(len(ids), idsPerSqueue)
		texts, err := c.client.Switches(ctx, ids[:n]...)
		if err != nil {
			return err
		}
		for _, j := range jobs[:n] {
			j.Switches = texts[j.RawID]
		}
		ids, jobs = ids[n:], jobs[n:]
	}
	return nil
}
