package view

import (
	"fmt"
	"time"

	"slurmprio/priod/nodespeed"
	"slurmprio/priod/report"
	"slurmprio/priod/workload/speed"
)

// Nodes is how fast nodes are beside others of their type.
type Nodes struct {
	Since time.Time        `json:"since"`
	Until time.Time        `json:"until"`
	Jobs  int              `json:"jobs"` // that completed, on nodes that are known
	Slow  int              `json:"slow"`
	Nodes []nodespeed.Node `json:"nodes"` // the slow ones first

	Notes []string `json:"-"` // what the figures lack
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

// Page shows them: all that are slow.
func (n *Nodes) Page() *report.Page {
	p := &report.Page{Title: "Speed of nodes", Notes: n.Notes, Words: []string{fmt.Sprintf("%s: %s on %s, %d of them slow beyond doubt.", report.Between(n.Since, n.Until),
		report.Count(n.Jobs, "completed job"), report.Count(len(n.Nodes), "node"), n.Slow)}}
	t := report.TableOf("", []string{"NODE", "TYPE", "RUNS", "TIMES AS LONG", "BETWEEN", "DOUBT", "", "MOST OF ALL"}, n.Nodes, nodeRow)
	t.Least = n.Slow
	p.Tables = []report.PageTable{t}
	return p
}

func nodeRow(n *nodespeed.Node) []any {
	factor, between, doubt, verdict, worst := "", "", "", "", ""
	if n.Factor != nil {
		factor = fmt.Sprintf("%.2f", *n.Factor)
	}
	if n.Low != nil {
		between = fmt.Sprintf("%.2f and %.2f", *n.Low, *n.High)
	}
	if n.Doubt < 1 {
		doubt = fmt.Sprintf("%.1g", n.Doubt)
	}
	if n.Slow {
		verdict = "slow"
	}
	if len(n.Where) > 0 {
		x := &n.Where[0]
		worst = fmt.Sprintf("%s: %.2f (%s)", x.Words(), x.Factor, report.Plural(x.Runs, "run", "runs"))
	}
	return []any{n.Name, n.GPUType, n.Runs, factor, between, doubt, verdict, worst}
}
