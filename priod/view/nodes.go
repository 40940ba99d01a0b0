package view

import (
	"time"

	"slurmprio/priod/nodespeed"
	"slurmprio/priod/workload/speed"
)

// Nodes is how fast nodes are beside others of their type.
type Nodes struct {
	Since time.Time        `json:"since"`
	Until time.Time        `json:"until"`
	Jobs  int              `json:"jobs"` // that completed, on nodes that are known
	Slow  int              `json:"slow"`
	Nodes []nodespeed.Node `json:"nodes"` // the slow ones first
}

// OfNodes compares nodes by the runs of a span of time, on one GPU type or on all ("").
func OfNodes(since, until time.Time, runs []speed.Run, gpuType string) *Nodes {
	n := &Nodes{Since: since, Until: until}
	var of []speed.Run
	for _, r := range runs {
		if _, there := r.Seconds[gpuType]; r.Place.Nodes != "" && (there || gpuType == "") {
			of = append(of, r)
		}
	}
	n.Jobs, n.Nodes = len(of), nodespeed.Find(of)
	for i := range n.Nodes {
		if n.Nodes[i].Slow {
			n.Slow++
		}
	}
	return n
}
