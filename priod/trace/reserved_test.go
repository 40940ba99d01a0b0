package trace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Reservations of a Slurm befall the nodes that have their names, in the order of the description made of them.
func TestReserved(t *testing.T) {
	node := func(name, gpuType string, usable bool) cluster.Node {
		return cluster.Node{Name: name, GPUType: gpuType, GPUs: 4, Usable: usable, Partitions: []string{gpuType}}
	}
	now := time.Date(2026, 5, 3, 0, 0, 0, 0, time.UTC)
	origin := now.Add(-24 * time.Hour)
	s := cluster.Snapshot{At: now, Nodes: []cluster.Node{node("a1", "a", true), node("b1", "b", true), node("a2", "a", false), node("a3", "a", true), node("b2", "b", true)}}
	c, _ := FromSnapshot(&s) // n0 and n1 are a1 and a3, n2 and n3 are b1 and b2
	hours := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	got, err := c.Reserved(&s, []slurmplug.NodeReservation{
		{Name: "to come", Nodes: "b[1-2]", Start: hours(10), End: hours(12)},
		{Name: "course", Nodes: "a[1-3]", Start: hours(-100), End: hours(900)},
		{Name: "today", Nodes: "b2", Start: hours(-2), End: hours(-1)},
		{Name: "licences", Start: hours(-2), End: hours(2)},
		{Name: "elsewhere", Nodes: "x[1-9]", Start: hours(-2), End: hours(2)},
		{Name: "before", Nodes: "b2", Start: hours(-200), End: hours(-100)},
		{Name: cluster.HeadroomReservation, Nodes: "b2", Start: hours(-2), End: hours(2)},
	}, origin)
	want := []NodeEvent{
		{At: 0, Kind: NodesReserved, Nodes: []int32{0, 1}, For: 24 * 3600},
		{At: 22 * 3600, Kind: NodesReserved, Nodes: []int32{3}, For: 3600},
		{At: 34 * 3600, Kind: NodesReserved, Nodes: []int32{2, 3}, For: 2 * 3600, Announced: 10 * 3600},
	}
	if !cmp.Equal(want, got) || err != nil {
		t.Error(err, cmp.Diff(want, got))
	}
	if _, err := c.Reserved(&s, []slurmplug.NodeReservation{{Name: "odd", Nodes: "b[1-", Start: hours(-2), End: hours(2)}}, origin); err == nil {
		t.Error("no error of an odd host list")
	}
}
