package retry

import (
	"testing"

	"slurmprio/priod/cluster"
)

// Of a job in several partitions Slurm says what one of them lacks: it refuses nodes in vain where none is left in any.
func TestNoneLeft(t *testing.T) {
	node := func(name, partition string, usable bool) cluster.Node {
		return cluster.Node{Name: name, Partitions: []string{partition}, Usable: usable, GPUs: 4, CPUs: 8}
	}
	const notAvailable = "ReqNodeNotAvail, UnavailableNodes:a1"
	for _, c := range []struct {
		partitions, reason, refused string
		otherUp, none               bool
	}{
		{"a", notAvailable, "a1", true, true}, {"a", "Resources", "a1", true, false}, {"a", "BadConstraints", "a1", true, true},
		{"a,b", notAvailable, "a1", true, false}, {"a,b", "BadConstraints", "a1", true, false},
		{"a,b", notAvailable, "a1", false, true}, {"b,a", notAvailable, "a1,b1", true, true},
	} {
		s := cluster.Snapshot{Nodes: []cluster.Node{node("a1", "a", true), node("b1", "b", c.otherUp)}}
		j := cluster.Job{Partition: c.partitions, Reason: c.reason, State: cluster.Pending, Nodes: 1, GPUs: 1}
		if got := noneLeft(&s, &j, c.refused); got != c.none {
			t.Errorf("%s, %s, refuses %s, the other up %v: none is left %v", c.partitions, c.reason, c.refused, c.otherUp, got)
		}
	}
}
