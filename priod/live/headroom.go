package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// KeepNodes keeps nodes for TE jobs: see headroom.Slurm.
func (c *Cluster) KeepNodes(ctx context.Context, nodes string, d time.Duration) error {
	if r := c.client.Reserve(ctx, cluster.HeadroomReservation, nodes, d); r.Status != slurmplug.Applied {
		return errors.New(r.Message)
	}
	return nil
}

// findHeadroom marks the nodes that are kept for TE jobs.
func (c *Cluster) findHeadroom(ctx context.Context, nodes []cluster.Node) error {
	if !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return strings.Contains(n.State, reserved) }) {
		return nil
	}
	list, err := c.client.ReservationNodes(ctx, cluster.HeadroomReservation)
	if err != nil {
		return err
	}
	names, err := slurmplug.ExpandHosts(list)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, name := range names {
		kept[name] = true
	}
	for i := range nodes {
		if n := &nodes[i]; kept[n.Name] {
			n.State = strings.ReplaceAll(n.State, reserved, "") + cluster.StateHeadroom
		}
	}
	return nil
}

// reserved is how Slurm marks a node of a reservation that is active.
const reserved = "+RESERVED"
