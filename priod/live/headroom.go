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

// reservationsEvery is how often reservations are read while no node is reserved.
const reservationsEvery = 10 * time.Second

// addReservations marks the nodes that are kept for TE jobs, and adds the windows of other reservations.
func (c *Cluster) addReservations(ctx context.Context, s *cluster.Snapshot) error {
	nodes := s.Nodes
	active := slices.ContainsFunc(nodes, func(n cluster.Node) bool { return strings.Contains(n.State, reserved) })
	if old := s.At.Sub(c.reservationsAt); active || old < 0 || old >= reservationsEvery {
		all, err := c.client.Reservations(ctx)
		if err != nil {
			return err
		}
		c.reservations, c.reservationsAt = all, s.At
	}
	s.Windows = cluster.WindowsOf(c.reservations, s.At)
	if !active {
		return nil
	}
	list := ""
	for i := range c.reservations {
		if c.reservations[i].Name == cluster.HeadroomReservation {
			list = c.reservations[i].Nodes
		}
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
