package placement

// demand says by counting whether a request fits on the nodes of one type: enough nodes hold a piece of it each or, in pieces
// of any size, all of it together. Where no such count meets it, no place is worth looking for.
type demand struct {
	request        Request
	large, small   int32 // GPUs of a piece
	larges, pieces int   // how many large ones, and of both together; no pieces: any size

	holdLarge, holdSmall, gpus int // of the nodes counted
}

func (n *Nodes) demand(g *group, r Request) demand {
	d := demand{request: r, large: r.GPUs, small: r.GPUs, pieces: 1}
	switch {
	case r.GPUs == 0 && n.mode != Pool: // in pieces, of which a node holds one or none
		d.large, d.small, d.pieces = 1, 1, int(r.pieces())
	case n.mode == Pool || r.Nodes == 1:
	case r.Nodes > 1:
		d.small = r.GPUs / r.Nodes
		d.large, d.larges, d.pieces = d.small+1, int(r.GPUs%r.Nodes), int(r.Nodes)
	case n.mode == Packed:
		d.pieces = 0
	case r.GPUs > g.largest:
		d.large, d.larges, d.pieces = g.largest, int(r.GPUs/g.largest), int(r.GPUs/g.largest)
		if d.small = r.GPUs % g.largest; d.small > 0 {
			d.pieces++
		}
	}
	return d
}

// count adds or, times -1, takes away a node that holds so many of the GPUs.
func (d *demand) count(gpus int32, times int) {
	d.gpus += times * int(gpus)
	if gpus >= d.large {
		d.holdLarge += times
	}
	if gpus >= d.small {
		d.holdSmall += times
	}
}

func (d *demand) met() bool {
	if d.pieces == 0 {
		return d.gpus >= int(d.request.GPUs)
	}
	return d.holdLarge >= d.larges && d.holdSmall >= d.pieces
}

// most is how many GPUs of a request a node holds, with what goes with them; of a request without GPUs 1 where it holds a piece.
func (n *Nodes) most(r Request, free Amount, node int32) int32 {
	if r.GPUs == 0 && n.mode != Pool {
		if free.GPUs = max(free.GPUs, 0); free.Holds(n.piece(r, node)) {
			return 1
		}
		return 0
	}
	gpus := int64(min(free.GPUs, r.GPUs))
	if gpus <= 0 || r.Whole && n.mode != Pool && !free.Holds(n.all(node)) {
		return 0
	}
	size := &n.size[node]
	part := func(asked, free, has int64) { // the inverse of need
		switch {
		case has >= Plenty || asked == 0 && has == 0:
		case asked > 0:
			gpus = min(gpus, free*int64(r.GPUs)/asked)
		default:
			gpus = min(gpus, ((free+1)*int64(size.GPUs)-1)/has)
		}
	}
	part(int64(r.CPUs), int64(free.CPUs), int64(size.CPUs))
	part(r.MemMB, free.MemMB, size.MemMB)
	for gpus > 0 && !free.Holds(n.Need(r, int32(gpus), node)) { // whole tasks and cores take more
		gpus--
	}
	return int32(max(gpus, 0))
}

// roomFor reports whether the counts meet a request.
func (n *Nodes) roomFor(g *group, r Request, v view) bool {
	d := n.demand(g, r)
	for _, node := range g.nodes {
		d.count(n.most(r, v.free(node), node), 1)
		if d.met() {
			return true
		}
	}
	return false
}
