// Package nodespeed says how fast each node is beside others of its GPU type, from the
// run times that accounting has, and names the nodes that are slow beyond doubt.
//
// Runs are compared with runs of the same program (the same workload, or user and job
// name) on as many GPUs of the same type and as many nodes: seconds, or seconds a step
// where the steps are told. Of a program's runs on the same nodes that overlap only the
// first counts, because runs of one sweep are alike for reasons of their own; without steps,
// only the first of a day.
//
// A node is asked whether its runs are slower than those of other nodes by more than
// Margin. Its runs are divided by 1+Margin and each is compared with each run of other
// nodes; the pairs in which the node's is still the slower one are counted in each program
// (Mann & Whitney 1947), weighted by 1 / (runs + 1) and added up (van Elteren 1960). Where
// nodes are equal any order of a program's runs is as likely as any other. That alone gives
// the moment generating function of the sum, and by Chernoff's inequality a bound on how
// likely so large a sum is, whatever the noise is like. A node may be slow for one
// program and not for others (Jain et al., PAL, SC'24), so each program with steps, on any
// number of GPUs, is also asked alone; one without is not: its user may have given it more
// work. Nor may one user's programs without steps decide, or one workload's.
//
// A node is slow beyond doubt if the bound is below Risk, divided by the number of nodes
// and of questions asked of this one (Bonferroni): of a hundred looks at equal nodes, however
// many, at most one names any.
//
// A gang is as slow as its slowest node, so its run accuses all of them. Of nodes that
// share runs the one with the lowest bound is named first, if its runs without any one of
// the others still put it beyond doubt; all its runs are taken away, and the rest is looked
// at again. Nodes that never ran apart cannot be told from each other, and none is named.
//
// gather.go sorts the runs, nodespeed.go names nodes, doubt.go holds the statistics, tell.go
// sums up.
package nodespeed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/workload/speed"
)

const (
	// Margin is how much longer than elsewhere runs may take on a node that is not slow.
	Margin = 0.05
	// Risk is how likely one look may name any node though all are equal.
	Risk = 0.01
)

// Node is one node beside others of its type.
type Node struct {
	Name    string    `json:"node"`
	GPUType string    `json:"gpu_type"`
	Runs    int       `json:"runs"`        // that tell of this node alone
	Factor  *float64  `json:"factor"`      // times as long as typical, the median of its runs; nil: nothing tells
	Low     *float64  `json:"factor_low"`  // the median lies between Low and High in 19 cases of 20;
	High    *float64  `json:"factor_high"` // nil: too few runs
	Doubt   float64   `json:"doubt"`       // bounds how likely chance would have shown as much on any node
	Slow    bool      `json:"slow"`        // beyond doubt: below Risk, and no other node can be meant
	Where   []Program `json:"programs"`    // of a slow node all, the slowest first; of others the one that says most against it
}

// Words names a program, for people.
func (p *Program) Words() string {
	who := cmp.Or(p.Workload, strings.TrimSpace(p.User+" "+p.Name))
	return fmt.Sprintf("%s on %d GPUs", who, p.GPUs)
}

// Program is what a node did to one program.
type Program struct {
	Workload string  `json:"workload,omitempty"`
	User     string  `json:"user,omitempty"`
	Name     string  `json:"job_name,omitempty"`
	GPUs     int     `json:"gpus"`
	Runs     int     `json:"runs"`
	Factor   float64 `json:"factor"`
}

// Find says how fast the nodes are that runs were on, the slow ones first. The order of the runs does not matter.
func Find(past []speed.Run) []Node {
	groups, nodes := gather(past)
	for {
		for _, g := range groups {
			g.sort()
		}
		var named []*node
		for _, n := range nodes {
			if !n.slow {
				n.bound = n.doubt(nil)
			}
		}
		enough := math.Log(Risk / float64(len(nodes)))
		for _, n := range nodes {
			if !n.slow && n.bound < enough && n.alone(enough) {
				named = append(named, n)
			}
		}
		if len(named) == 0 {
			break
		}
		for _, n := range named {
			n.slow = true
			for _, r := range n.runs {
				if r.of == nil {
					r.of = n
				}
			}
		}
	}
	return tell(groups, nodes)
}

// doubt bounds the log of how likely the node's runs are, were it not slow, times the
// number of questions asked. Runs that other shares are passed over.
func (n *node) doubt(other *node) float64 {
	var parts []part
	var of []*runs
	for g, all := range n.byGroup {
		var own, counted []float64
		for _, r := range all {
			if r.of == nil {
				own = append(own, r.log)
				if other == nil || !slices.Contains(r.nodes, other) {
					counted = append(counted, r.log)
				}
			}
		}
		if p := compare(g.logs, own, counted); p.own > 0 && p.others > 0 {
			parts, of = append(parts, p), append(of, g)
		}
	}
	best, questions := bound(parts, nil), 1
	if best < 0 { // it has to hold without any one user's programs that have no steps
		for who := range each(of, func(g *runs) (speed.Program, bool) { return g.whose(), !g.steps }) {
			best = max(best, bound(parts, func(i int) bool { return of[i].steps || of[i].whose() != who }))
		}
	}
	for name := range each(of, func(g *runs) (speed.Program, bool) { return g.name(), g.steps }) {
		questions++
		best = min(best, bound(parts, func(i int) bool { return of[i].steps && of[i].name() == name }))
	}
	return min(best+math.Log(float64(questions)), 0)
}

// each is what groups are called, where that counts, each name once.
func each(of []*runs, called func(*runs) (speed.Program, bool)) map[speed.Program]bool {
	names := map[speed.Program]bool{}
	for _, g := range of {
		if name, counts := called(g); counts {
			names[name] = true
		}
	}
	return names
}

// alone reports whether a node is beyond doubt without any one of the nodes with which it shares runs, and none of these is clearer.
func (n *node) alone(enough float64) bool {
	asked := map[*node]bool{n: true}
	for _, r := range n.runs {
		if r.of != nil {
			continue
		}
		for _, other := range r.nodes {
			if !asked[other] {
				asked[other] = true
				if other.bound < n.bound || n.doubt(other) >= enough {
					return false
				}
			}
		}
	}
	return true
}
