package nodespeed

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

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

// name is the program on any number of GPUs.
func (g *group) name() speed.Program {
	return speed.Program{Workload: g.Workload, User: g.User, Name: g.Name}
}

// whose are the users that could make all runs of a group without steps slower, by giving them more work.
func (g *group) whose() speed.Program { return speed.Program{Workload: g.Workload, User: g.User} }

// run is one that counts.
type run struct {
	group *runs
	log   float64   // of its seconds, or seconds a step
	until time.Time // before then no other one of the group on these nodes counts
	nodes []*node
	of    *node // slow, and this run tells of it
	key   key
}

// key orders runs, whatever they took.
type key struct {
	nodes string
	start time.Time
	job   uint32
}

func (k key) compare(o key) int {
	return cmp.Or(strings.Compare(k.nodes, o.nodes), k.start.Compare(o.start), cmp.Compare(k.job, o.job))
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
			names, _ = slurmplug.ExpandHosts(p.Place.Nodes) // none: a list that cannot be read
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
		r := &run{group: byGroup[g], log: log, key: key{p.Place.Nodes, p.Place.Start, p.Place.Job}}
		if r.until = p.Place.Start.Add(time.Duration(seconds * float64(time.Second))); !g.steps {
			r.until = p.Place.Start.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
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
		var last *run
		g.all = slices.DeleteFunc(g.all, func(r *run) bool {
			if last != nil && last.key.nodes == r.key.nodes && r.key.start.Before(last.until) {
				return true
			}
			last = r
			return false
		})
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

// sort remakes logs.
func (g *runs) sort() {
	g.logs = logsOf(g.all, func(r *run) bool { return r.of == nil })
	slices.Sort(g.logs)
}

// byGroup goes through a node's runs.
func (n *node) byGroup(yield func(*runs, []*run) bool) {
	for rest := n.runs; len(rest) > 0; {
		k := 1
		for k < len(rest) && rest[k].group == rest[0].group {
			k++
		}
		if !yield(rest[0].group, rest[:k]) {
			return
		}
		rest = rest[k:]
	}
}
