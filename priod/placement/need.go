package placement

// Need is what a piece of a job with so many GPUs takes of a node.
func (n *Nodes) Need(r Request, gpus, node int32) Amount {
	if n.mode == Pool {
		return Amount{GPUs: gpus}
	}
	return n.need(r, gpus, node)
}

// Largest is the most GPUs that one node of a type has; 0 for a type that the
// cluster does not have.
func (n *Nodes) Largest(t int32) int32 {
	if int(t) >= len(n.byType) {
		return 0
	}
	return n.byType[t].largest
}
