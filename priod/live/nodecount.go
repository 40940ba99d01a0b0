package live

import (
	"context"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// AskNodeCounts reads how many nodes waiting jobs ask for, into their NodeCount: each by
// itself. One that cannot be read stays without, with an error.
func (c *Cluster) AskNodeCounts(ctx context.Context, jobs []*cluster.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	booted, err := c.booted(ctx) // when slurmctld started decides what it shows
	if err != nil {
		return err
	}
	c.refreshRights(ctx)
	return errors.Join(c.closer(ctx, idsOf(jobs), func(ctx context.Context, i int, record *slurmplug.Job) (func(), error) {
		if record == nil {
			return nil, slurmplug.ErrNoJob
		}
		n, err := c.client.NodeCount(ctx, record, booted)
		return func() { jobs[i].NodeCount = n }, err
	}))
}

// booted is when the active slurmctld read its jobs from its state; zero where that is not
// known: a backup says when it began to stand by.
func (c *Cluster) booted(ctx context.Context) (time.Time, error) {
	conf, err := c.client.Config(ctx)
	if err != nil || conf.Get("SlurmctldHost[1]") == "" {
		return conf.Booted(), err
	}
	all, err := c.client.Ping(ctx)
	if err != nil || !all[0].Up {
		return time.Time{}, err
	}
	return conf.Booted(), nil
}
