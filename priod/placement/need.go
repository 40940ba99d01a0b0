package placement

// Need is what a piece of a job with so many GPUs takes of a node.
func (n *Nodes) Need(r Request, gpus, node int32) Amount {
	if n.mode == Pool {
		return Amount{GPUs: gpus}
	}
	return n.need(r, gpus, node)
}

// Takes is how many GPUs of one type a request takes on nodes with nothing on them: all
// of the smallest ones that hold it where it takes whole nodes.
func (n *Nodes) Takes(r Request, t int32) int32 {
	largest := n.Largest(t)
	if !r.Whole || largest == 0 {
		return r.GPUs
	}
	nodes := max(r.Nodes, (r.GPUs+largest-1)/largest, 1)
	piece, least := (r.GPUs+nodes-1)/nodes, largest
	for _, node := range n.byType[t].sizes {
		if size := n.size[node]; size.GPUs >= piece && size.Holds(n.need(r, piece, node)) {
			least = min(least, size.GPUs)
		}
	}
	return max(nodes*least, r.GPUs)
}

// Largest is the most GPUs that one node of a type has; 0 for a type that the cluster does not have.
func (n *Nodes) Largest(t int32) int32 {
	if int(t) >= len(n.byType) {
		return 0
	}
	return n.byType[t].largest
}
