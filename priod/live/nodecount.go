package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// AskNodeCounts reads how many nodes waiting jobs ask for, into their NodeCount: each by
// itself. One that cannot be read stays without, with an error, and holds up no other.
func (c *Cluster) AskNodeCounts(ctx context.Context, jobs []*cluster.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	booted, err := c.booted(ctx) // when slurmctld started decides what it shows
	if err != nil {
		return err
	}
	c.refreshRights(ctx)
	if c.countedFor == nil {
		c.countedFor = map[uint32]string{}
	}
	var mu sync.Mutex
	var doubts []error
	records := c.recordsOf(idsOf(jobs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for _, j := range jobs {
		record := records[j.ID]
		if record == nil {
			continue
		}
		g.Go(func() error {
			n, err := c.client.NodeCount(ctx, record, booted)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, slurmplug.ErrNoJob) {
				return nil
			}
			if err != nil {
				doubts = append(doubts, err)
				return nil
			}
			j.NodeCount = n.Text
			if c.inNameOf.may && isKnown(n.UID) {
				c.countedFor[j.ID.ID] = n.UID
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	return errors.Join(doubts...)
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
