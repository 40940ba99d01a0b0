package trace

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Reserved are the reservations of a Slurm as they befall its nodes, those of FromSnapshot in its order, from the second 0
// of a trace on. Those of priod itself are none. When one was announced is not known: one that has begun was not, and keeps
// its nodes up to the snapshot, and one to come is from then on.
func (c *Cluster) Reserved(s *cluster.Snapshot, all []slurmplug.NodeReservation, origin time.Time) (events []NodeEvent, err error) {
	at := c.placesOf(s)
	for _, r := range all {
		if r.Nodes == "" || r.Start.IsZero() || !r.End.After(r.Start) || cluster.OwnReservation(r.Name) {
			continue
		}
		hosts, err := slurmplug.ExpandHosts(r.Nodes)
		if err != nil {
			return nil, err
		}
		start, end, announced := r.Start, r.End, time.Duration(0)
		if start.After(s.At) {
			announced = start.Sub(s.At)
		} else {
			start, end = cluster.Later(start, origin), cluster.Earlier(end, s.At)
		}
		e := NodeEvent{At: start.Sub(origin).Seconds(), Kind: NodesReserved, For: end.Sub(start).Seconds(), Announced: announced.Seconds()}
		for _, h := range hosts {
			if n, known := at[h]; known {
				e.Nodes = append(e.Nodes, n)
			}
		}
		if len(e.Nodes) > 0 && e.For > 0 {
			slices.Sort(e.Nodes)
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b NodeEvent) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}

// placesOf is the index of each node of a snapshot in the description that FromSnapshot made of it.
func (c *Cluster) placesOf(s *cluster.Snapshot) map[string]int32 {
	first, taken := make([]int32, len(c.Nodes)), make([]int32, len(c.Nodes))
	for i := 1; i < len(c.Nodes); i++ {
		first[i] = first[i-1] + int32(c.Nodes[i-1].Count)
	}
	at := map[string]int32{}
	for i := range s.Nodes {
		g := groupOf(&s.Nodes[i])
		if k := slices.IndexFunc(c.Nodes, func(o NodeGroup) bool { return g.alike(&o) && slices.Equal(g.Partitions, o.Partitions) }); k >= 0 && s.Nodes[i].Usable {
			at[s.Nodes[i].Name] = first[k] + taken[k]
			taken[k]++
		}
	}
	return at
}
