package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// View is the cluster as an ordinary user may see it.
type View struct {
	Snapshot   cluster.Snapshot // without what sprio says
	Partitions []slurmplug.Partition
	Config     slurmplug.Config
	OwnJobs    bool // the site shows a user only jobs of his own (PrivateData=jobs)
}

// View reads the queue, the nodes and the partitions, each once, with the rights
// of any user.
func (c *Cluster) View(ctx context.Context) (*View, error) {
	at := time.Now()
	v := &View{}
	var jobs []slurmplug.Job
	var nodes []slurmplug.Node
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { jobs, err = c.client.Jobs(gctx); return err })
	g.Go(func() (err error) {
		if v.Config, err = c.client.Config(gctx); err != nil {
			return err
		}
		private := v.Config.List("PrivateData")
		v.OwnJobs = slices.Contains(private, "jobs")
		if v.Partitions, err = c.client.Partitions(gctx); err != nil {
			return explainPrivate(err, private, "partitions")
		}
		nodes, err = c.client.Nodes(gctx)
		return explainPrivate(err, private, "nodes")
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	c.name = v.Config.ClusterName()
	c.addSubAccounts(ctx, v.Config, v.Partitions)
	c.setLimits(v.Partitions)
	v.Snapshot = c.snapshot(at, jobs, nodes)
	return v, c.addReservations(ctx, &v.Snapshot)
}

// explainPrivate adds to an error that the site hides something from users, if it does.
func explainPrivate(err error, private []string, what string) error {
	if err == nil || !slices.Contains(private, what) {
		return err
	}
	return fmt.Errorf("this site shows its %s to operators only (PrivateData=%s in slurm.conf): ask them, or Slurm itself by sbatch --test-only: %w", what, what, err)
}
