// Package nodespeed says how fast each node is beside others of its GPU type, from the
// run times that accounting has, and names the nodes that are slow beyond doubt.
//
// Runs are compared with runs of the same program (the same workload, or user and job
// name) on as many GPUs of the same type and as many nodes: seconds, or seconds a step
// where somebody said the steps. Of a program's runs on the same nodes only the first of a
// day counts, because runs of one sweep are alike for reasons of their own.
//
// A node is asked whether its runs are slower than those of other nodes by more than
// Margin. Its runs are divided by 1+Margin and each is compared with each run of other
// nodes; the pairs in which the node's is still the slower one are counted in each program
// (Mann & Whitney 1947), weighted by 1 / (runs + 1) and added up (van Elteren 1960). Where
// nodes are equal any order of a program's runs is as likely as any other. That alone gives
// the moment generating function of the sum, and by Chernoff's inequality a bound on how
// likely so large a sum is, whatever the noise is like. A node may be slow for one
// program and not for others (Jain et al., PAL, SC'24), so each program with steps is
// also asked alone; one without is not: its user may have given it more work. Nor may one
// user's programs without steps decide, or one workload's.
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
// nodespeed.go does this, doubt.go holds the statistics.
package nodespeed

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
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
	Slow    bool      `json:"slow"`        // beyond doubt
	Where   []Program `json:"programs"`    // of a slow node, the slowest first
}

// Words names a program, for people.
func (p *Program) Words() string {
	who := cmp.Or(p.Workload, strings.TrimSpace(p.User+" "+p.Name))
	return fmt.Sprintf("%s on %d GPUs", who, p.GPUs)
}

// Program is what a slow node did to one program.
type Program struct {
	Workload string  `json:"workload,omitempty"`
	User     string  `json:"user,omitempty"`
	Name     string  `json:"job_name,omitempty"`
	GPUs     int     `json:"gpus"`
	Runs     int     `json:"runs"`
	Factor   float64 `json:"factor"`
}

// group is what runs are compared within.
type group struct {
	speed.Program
	steps   bool
	gpuType string
	nodes   int
}

func (g *group) compare(o *group) int {
	steps := func(g *group) int { return map[bool]int{true: 1}[g.steps] }
	return cmp.Or(g.Compare(o.Program), strings.Compare(g.gpuType, o.gpuType), steps(g)-steps(o), cmp.Compare(g.nodes, o.nodes))
}

// whose is who could make all runs of a group without steps slower, by giving them more work.
func (g *group) whose() string { return cmp.Or(g.User, "\x00"+g.Workload) }

// run is one that counts.
type run struct {
	group *runs
	log   float64 // of its seconds, or seconds a step
	nodes []*node
	of    *node // slow, and this run tells of it
	key   key
}

// key orders runs, whatever they took.
type key struct {
	nodes string
	day   int64
	start int64
	job   uint32
}

func (k key) compare(o key) int {
	return cmp.Or(strings.Compare(k.nodes, o.nodes), cmp.Compare(k.start, o.start), cmp.Compare(k.job, o.job))
}

// runs are those of one group.
type runs struct {
	group
	all  []*run
	logs []float64 // of those that tell of no slow node, sorted
}

type node struct {
	name, gpuType string
	runs          []*run // by group
	bound         float64
	slow          bool
}

// Find says how fast the nodes are that runs were on, the slow ones first. The order of the
// runs does not matter.
func Find(past []speed.Run) []Node {
	groups, nodes := gather(past)
	for {
		for _, g := range groups {
			g.sort()
		}
		var named []*node
		for _, n := range nodes {
			n.bound = n.doubt(nil)
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

// gather sorts runs into groups and to their nodes.
func gather(past []speed.Run) ([]*runs, []*node) {
	byGroup, byName := map[group]*runs{}, map[[2]string]*node{}
	hosts := map[string][]string{}
	for i := range past {
		p := &past[i]
		if len(p.Seconds) != 1 || !p.Program.Named() || p.Place.Nodes == "" {
			continue
		}
		names, known := hosts[p.Place.Nodes]
		if !known {
			names, _ = slurmplug.ExpandHosts(p.Place.Nodes) // none: a list that nobody understands
			hosts[p.Place.Nodes] = names
		}
		var g group
		var seconds float64
		for g.gpuType, seconds = range p.Seconds {
		}
		g.Program, g.steps, g.nodes = p.Program, p.Work > 0, len(names)
		log := math.Log(seconds)
		if g.steps {
			log -= math.Log(p.Work)
		}
		if len(names) == 0 || math.IsNaN(log) || math.IsInf(log, 0) {
			continue
		}
		if byGroup[g] == nil {
			byGroup[g] = &runs{group: g}
		}
		r := &run{group: byGroup[g], log: log, key: key{p.Place.Nodes, p.Place.Start.Unix() / 86400, p.Place.Start.UnixNano(), p.Place.Job}}
		for _, name := range names {
			at := [2]string{name, g.gpuType}
			if byName[at] == nil {
				byName[at] = &node{name: name, gpuType: g.gpuType}
			}
			r.nodes = append(r.nodes, byName[at])
		}
		r.group.all = append(r.group.all, r)
	}
	groups := slices.SortedFunc(maps.Values(byGroup), func(a, b *runs) int { return a.compare(&b.group) })
	for _, g := range groups {
		slices.SortFunc(g.all, func(a, b *run) int { return cmp.Or(a.key.compare(b.key), cmp.Compare(a.log, b.log)) })
		g.all = slices.CompactFunc(g.all, func(a, b *run) bool { return a.key.nodes == b.key.nodes && a.key.day == b.key.day })
		for _, r := range g.all {
			for _, n := range r.nodes {
				n.runs = append(n.runs, r)
			}
		}
	}
	nodes := slices.SortedFunc(maps.Values(byName), func(a, b *node) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.gpuType, b.gpuType))
	})
	return groups, nodes
}

// sort makes logs anew.
func (g *runs) sort() {
	g.logs = g.logs[:0]
	for _, r := range g.all {
		if r.of == nil {
			g.logs = append(g.logs, r.log)
		}
	}
	slices.Sort(g.logs)
}

// doubt bounds the log of how likely the node's runs are, were it not slow, times the
// number of questions asked. Runs that other shares are passed over.
func (n *node) doubt(other *node) float64 {
	var parts []part
	var of []*runs
	for i := 0; i < len(n.runs); {
		g := n.runs[i].group
		var own, counted []float64
		for ; i < len(n.runs) && n.runs[i].group == g; i++ {
			if r := n.runs[i]; r.of == nil {
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
		asked := map[string]bool{}
		for _, g := range of {
			if who := g.whose(); !g.steps && !asked[who] {
				asked[who] = true
				best = max(best, bound(parts, func(i int) bool { return of[i].steps || of[i].whose() != who }))
			}
		}
	}
	for i, g := range of {
		if g.steps {
			questions++
			best = min(best, bound(parts[i:i+1], nil))
		}
	}
	return min(best+math.Log(float64(questions)), 0)
}

// alone tells whether a node is beyond doubt without any one of the nodes with which it
// shares runs, and none of these is clearer.
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

// tell sums up what was found.
func tell(groups []*runs, nodes []*node) []Node {
	typical := make(map[*runs]float64, len(groups))
	for _, g := range groups {
		logs := g.logs
		if len(logs) == 0 {
			for _, r := range g.all {
				logs = append(logs, r.log)
			}
			slices.Sort(logs)
		}
		typical[g] = median(logs)
	}
	all := make([]Node, 0, len(nodes))
	for _, n := range nodes {
		told := Node{Name: n.name, GPUType: n.gpuType, Slow: n.slow, Where: []Program{}}
		var rest []float64
		for i := 0; i < len(n.runs); {
			g, of := n.runs[i].group, []float64(nil)
			for ; i < len(n.runs) && n.runs[i].group == g; i++ {
				if r := n.runs[i]; n.slow && r.of == n || r.of == nil {
					of = append(of, r.log-typical[g])
				}
			}
			rest = append(rest, of...)
			if slices.Sort(of); n.slow && len(of) > 0 {
				told.Where = append(told.Where, Program{g.Workload, g.User, g.Name, g.GPUs, len(of), math.Exp(median(of))})
			}
		}
		slices.Sort(rest)
		if told.Runs = len(rest); told.Runs > 0 {
			told.Factor = factor(median(rest))
			if k := within(told.Runs); k >= 0 {
				told.Low, told.High = factor(rest[k]), factor(rest[told.Runs-1-k])
			}
		}
		slices.SortStableFunc(told.Where, func(a, b Program) int { return cmp.Compare(b.Factor, a.Factor) })
		all = append(all, told)
	}
	slices.SortStableFunc(all, func(a, b Node) int {
		first := func(n *Node) int { return map[bool]int{true: -1}[n.Slow] }
		return cmp.Or(first(&a)-first(&b), cmp.Compare(slowest(&b), slowest(&a)))
	})
	return all
}

// slowest is what nodes are listed by.
func slowest(n *Node) float64 {
	switch {
	case len(n.Where) > 0:
		return n.Where[0].Factor
	case n.Factor != nil:
		return *n.Factor
	}
	return 0
}

func factor(log float64) *float64 {
	f := math.Exp(log)
	return &f
}
