package virtual

import (
	"slices"

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

// line is jobs of which the first that does not fit blocks the others: those with GPUs are
// one, those without one for each partition whose nodes are known and one for the rest.
type line struct {
	kinds placement.Types // on which its jobs may run, as far as partitions say
	off   []int32         // nodes of these kinds on which they may not
	head  *job            // the first that does not fit, in this pass
}

// gpuLine is the line of jobs with GPUs. A line without GPUs has the name of its partition;
// where that is none of the nodes', "".
const gpuLine = "\x00"

// lineOf is the line of a job, made when the first of it comes.
func (e *engine) lineOf(j *job) *line {
	name := gpuLine
	if j.GPUs == 0 {
		if name = j.Partition; !slices.ContainsFunc(e.cluster.Nodes, func(g trace.NodeGroup) bool { return slices.Contains(g.Partitions, name) }) {
			name = ""
		}
	}
	l := e.lines[name]
	if l != nil {
		return l
	}
	l = &line{kinds: 1<<uint(len(e.types)) - 1}
	if name != gpuLine && name != "" {
		l.kinds = 0
		for i := range e.cluster.Nodes {
			if slices.Contains(e.cluster.Nodes[i].Partitions, name) {
				l.kinds |= 1 << uint(e.kinds.of[i])
			}
		}
		node := int32(0)
		for i := range e.cluster.Nodes {
			g := &e.cluster.Nodes[i]
			for range g.Count {
				if l.kinds.Has(e.kinds.of[i]) && !slices.Contains(g.Partitions, name) {
					l.off = append(l.off, node)
				}
				node++
			}
		}
	}
	e.lines[name] = l
	return l
}
