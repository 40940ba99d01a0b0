package report

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
)

// TypeUse is what there is of one GPU type.
type TypeUse struct {
	GPUType string `json:"gpu_type"` // "" on nodes without a type
	Nodes   int    `json:"nodes"`
	GPUs    int    `json:"gpus"`
	InUse   int    `json:"in_use"`
	Free    int    `json:"free"`    // of usable nodes, with CPUs and memory beside them
	Useless int    `json:"useless"` // free, and no job can start there
}

// Parts are the widths of a bar of 100: in use, free, useless.
func (t *TypeUse) Parts() [3]int {
	n := max(t.GPUs, 1)
	return [3]int{100 * t.InUse / n, 100 * t.Free / n, 100 * t.Useless / n}
}

// Useless says why free GPUs of a node can start no job; "" where they can, or none is free.
func Useless(n *cluster.Node) string {
	switch {
	case n.GPUs <= n.GPUsUsed:
		return ""
	case !n.Usable:
		return "the node is " + n.State
	case n.CPUs > 0 && n.CPUsUsed >= n.CPUs:
		return "no CPU is free beside them"
	case n.MemMB > 0 && n.MemUsedMB >= n.MemMB:
		return "no memory is free beside them"
	}
	return ""
}

// ByType sums the nodes up by GPU type, the one with the most GPUs first.
func ByType(all []cluster.Node) []*TypeUse {
	uses := map[string]*TypeUse{}
	for i := range all {
		n := &all[i]
		if n.GPUs == 0 {
			continue
		}
		t := uses[n.GPUType]
		if t == nil {
			t = &TypeUse{GPUType: n.GPUType}
			uses[n.GPUType] = t
		}
		free := max(n.GPUs-n.GPUsUsed, 0)
		t.Nodes, t.GPUs, t.InUse = t.Nodes+1, t.GPUs+n.GPUs, t.InUse+min(n.GPUsUsed, n.GPUs)
		if Useless(n) != "" {
			t.Useless += free
		} else {
			t.Free += free
		}
	}
	types := []*TypeUse{}
	for _, t := range uses {
		types = append(types, t)
	}
	slices.SortFunc(types, func(a, b *TypeUse) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.GPUType, b.GPUType))
	})
	return types
}
