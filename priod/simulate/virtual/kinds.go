package virtual

import (
	"slices"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// kinds tell nodes apart by what runs on them: those without GPUs that share partitions, directly or by way of others, are of
// one kind, then those of each GPU type. So a job without GPUs that may run anywhere takes nodes without GPUs first.
type kinds struct {
	names  []string // "" for nodes without GPUs
	others int      // how many have no GPUs, the first ones
	of     []int32  // by group of the cluster's nodes
}

// kindsOf tells the nodes of a cluster apart. Where that makes too many kinds, nodes without GPUs are all of one.
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
