package placement

// pieces is how many nodes a job without GPUs takes.
func (r Request) pieces() int32 { return max(r.Nodes, 1) }

// piece is what each node gives a job without GPUs: an equal part of its CPUs, one at least, and of its memory, where that is open the
// share of these CPUs. It takes CPUs also of a node on which they do not count, so that it never lies on one that is down.
func (n *Nodes) piece(r Request, node int32) Amount {
	size, pieces := n.size[node], int64(r.pieces())
	part := func(whole int64) int64 { return (whole + pieces - 1) / pieces }
	a := Amount{CPUs: int32(max(part(int64(r.CPUs)), 1))}
	switch {
	case size.MemMB >= Plenty:
	case r.MemMB > 0:
		a.MemMB = part(r.MemMB)
	case size.CPUs < Plenty:
		a.MemMB = size.MemMB * int64(a.CPUs) / int64(size.CPUs)
	}
	return n.allocated(a, r, node)
}

// apart puts the pieces of a job without GPUs on the first nodes with room for one.
func (n *Nodes) apart(g *group, r Request, v view) bool {
	for _, node := range g.nodes {
		need := n.piece(r, node)
		if !v.free(node).Holds(need) {
			continue
		}
		n.scratch = append(n.scratch, Share{node, need})
		if len(n.scratch) == int(r.pieces()) {
			return true
		}
	}
	return false
}
