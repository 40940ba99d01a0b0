package live

import (
	"context"
	"fmt"

	"slurmprio/slurmplug"
)

// Controllers asks each slurmctld of SlurmctldHost whether it is up, in order;
// one on standby is up. Unlike the other methods it may run beside Apply.
func (c *Cluster) Controllers(ctx context.Context) ([]slurmplug.Controller, error) {
	return c.client.Ping(ctx)
}

// Answers reports whether a slurmctld is in control: one on standby makes
// Slurm's commands wait for half of SlurmctldTimeout, so ctx should end sooner.
func (c *Cluster) Answers(ctx context.Context) error {
	_, err := c.client.Diag(ctx)
	return err
}

// Identity names the cluster apart from all others that this host's clients can
// reach: its name, its first controller and its port.
func (c *Cluster) Identity(ctx context.Context) (string, error) {
	conf, err := c.client.Config(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s at %s:%s", conf.ClusterName(), conf.Get("SlurmctldHost[0]"), conf.Get("SlurmctldPort")), nil
}
