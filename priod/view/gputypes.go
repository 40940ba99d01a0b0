package view

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
)

// TypeUse is what there is of one GPU type.
type TypeUse struct {
	GPUType  string `json:"gpu_type"` // "" on nodes without a type
	Nodes    int    `json:"nodes"`
	GPUs     int    `json:"gpus"`
	InUse    int    `json:"in_use"`
	Free     int    `json:"free"`     // of usable nodes, with CPUs and memory beside them
	Stranded int    `json:"stranded"` // free, and no job can start there
	Down     int    `json:"down"`     // free, of nodes that are down, drained or reserved
}

// Parts are the widths of a bar of 100: in use, free, stranded.
func (t *TypeUse) Parts() [3]int {
	n := max(t.GPUs, 1)
	return [3]int{100 * t.InUse / n, 100 * t.Free / n, 100 * t.Stranded / n}
}

// ByType sums the nodes up by GPU type, the one with the most GPUs first.
func ByType(all []cluster.Node) []*TypeUse {
	uses := map[string]*TypeUse{}
	for i := range all {
		n := &all[i]
		if n.GPUs == 0 {
			continue
		}
		t := groupOf(uses, n.GPUType, TypeUse{GPUType: n.GPUType})
		free := max(n.GPUs-n.GPUsUsed, 0)
		t.Nodes, t.GPUs, t.InUse = t.Nodes+1, t.GPUs+n.GPUs, t.InUse+min(n.GPUsUsed, n.GPUs)
		switch {
		case !n.Usable:
			t.Down += free
		case n.Stranded() != "":
			t.Stranded += free
		default:
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
