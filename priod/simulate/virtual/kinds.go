package virtual

import (
	"slices"
	"strings"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// kinds tell nodes apart by what runs on them: those without GPUs that share partitions,
// directly or by way of others, are of one kind, then those of each GPU type. So a job
// without GPUs that may run anywhere takes nodes without GPUs first.
type kinds struct {
	names  []string // "" for nodes without GPUs
	others int      // how many have no GPUs, the first ones
	of     []int32  // by group of the cluster's nodes
}

// kindsOf tells the nodes of a cluster apart. Where that makes too many kinds, nodes without
// GPUs are all of one.
func kindsOf(c trace.Cluster) kinds {
	types := c.Types()
	var others [][]int // groups without GPUs, by kind
	for i := range c.Nodes {
		if c.Nodes[i].GPUs > 0 {
			continue
		}
		groups := []int{i}
		others = slices.DeleteFunc(others, func(kind []int) bool {
			same := slices.ContainsFunc(kind, func(k int) bool { return sharePartitions(&c.Nodes[i], &c.Nodes[k]) })
			if same {
				groups = append(groups, kind...)
			}
			return same
		})
		others = append(others, groups)
	}
	if len(others) > 1 && len(others)+len(types) > placement.MaxTypes {
		others = [][]int{slices.Concat(others...)}
	}
	k := kinds{names: append(make([]string, len(others)), types...), others: len(others), of: make([]int32, len(c.Nodes))}
	for kind, groups := range others {
		for _, i := range groups {
			k.of[i] = int32(kind)
		}
	}
	for i := range c.Nodes {
		if g := &c.Nodes[i]; g.GPUs > 0 {
			k.of[i] = int32(len(others) + slices.Index(types, g.GPUType))
		}
	}
	return k
}

func sharePartitions(a, b *trace.NodeGroup) bool {
	return len(a.Partitions)+len(b.Partitions) == 0 ||
		slices.ContainsFunc(a.Partitions, func(p string) bool { return slices.Contains(b.Partitions, p) })
}

// queuePart is a partition as the scheduler sees it: its first job that does not fit blocks the others there. Jobs
// that name none share one of all nodes, those with GPUs and those without apart.
type queuePart struct {
	name  string
	kinds placement.Types // of its nodes
	off   []int32         // nodes of these kinds that are not in it
	head  *job            // the first job that does not fit, in this pass
}

// line is the jobs with one list of partitions.
type line struct {
	parts []*queuePart    // in the order of the list
	kinds placement.Types // of the nodes of any of these
	off   int32           // nodes of these kinds that are in none of them, as of a request
}

// gpuLine is the line of jobs with GPUs that name no partition, or run on a cluster that is not divided. Other lines
// have their lists of partitions as names; that of jobs without GPUs that name no partition of the nodes, "".
const gpuLine = "\x00"

// lineOf is the line of a job, made when the first of it comes.
func (e *engine) lineOf(j *job) *line {
	name := gpuLine
	if j.GPUs == 0 || j.Partition != "" && e.divided {
		name = j.Partition
	}
	parts := e.partsOf(name)
	if len(parts) == 0 && j.GPUs == 0 {
		name = ""
	}
	if l := e.lines[name]; l != nil {
		return l
	}
	l := &line{parts: parts}
	if name == gpuLine || name == "" {
		l.parts = []*queuePart{{kinds: 1<<uint(len(e.types)) - 1}}
	}
	var off []int32
	for i, p := range l.parts {
		if l.kinds |= p.kinds; i == 0 {
			off = p.off
		}
	}
	if len(l.parts) > 1 {
		off = e.outside(l.kinds, func(g *trace.NodeGroup) bool {
			return slices.ContainsFunc(l.parts, func(p *queuePart) bool { return slices.Contains(g.Partitions, p.name) })
		})
	}
	l.off = e.nodes.Refused(off)
	e.lines[name] = l
	return l
}

// partsOf are the partitions of a list that nodes are in.
func (e *engine) partsOf(list string) (parts []*queuePart) {
	for name := range strings.SplitSeq(list, ",") {
		if p := e.partOf(name); p != nil && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// partOf is the partition of a name; nil: no node is in it.
func (e *engine) partOf(name string) *queuePart {
	if p, known := e.parts[name]; known {
		return p
	}
	in := func(g *trace.NodeGroup) bool { return slices.Contains(g.Partitions, name) }
	p := &queuePart{name: name}
	for i := range e.cluster.Nodes {
		if in(&e.cluster.Nodes[i]) {
			p.kinds |= 1 << uint(e.kinds.of[i])
		}
	}
	if p.off = e.outside(p.kinds, in); p.kinds == 0 {
		p = nil
	}
	e.parts[name] = p
	return p
}

// outside are the nodes of these kinds that are not of such groups.
func (e *engine) outside(kinds placement.Types, in func(*trace.NodeGroup) bool) (off []int32) {
	node := int32(0)
	for i := range e.cluster.Nodes {
		g := &e.cluster.Nodes[i]
		for range g.Count {
			if kinds.Has(e.kinds.of[i]) && !in(g) {
				off = append(off, node)
			}
			node++
		}
	}
	return off
}

// in is a request, of a job of this line, in one of its partitions.
func (e *engine) in(r placement.Request, l *line, p *queuePart) placement.Request {
	if len(l.parts) == 1 {
		return r
	}
	if r.Types &= p.kinds; len(p.off) > 0 {
		off := slices.Concat(p.off, e.nodes.Off(r))
		slices.Sort(off)
		r.Off = e.nodes.Refused(slices.Compact(off))
	}
	return r
}

// fitsEmpty reports whether the empty cluster holds a job in one of its partitions.
func (e *engine) fitsEmpty(j *job) bool {
	return slices.ContainsFunc(j.line.parts, func(p *queuePart) bool {
		_, fits := e.empty.Fit(e.in(j.request, j.line, p), nil)
		return fits
	})
}
