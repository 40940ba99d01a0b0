package placement

// index finds nodes of one type without a look at each: a tree over them in
// their order, in which every inner one knows what the nodes below have free.
type index struct {
	leaves int   // a power of two
	tree   []sum // the root is 1, the children of i are 2i and 2i + 1
}

// sum is an upper bound of what each of some nodes has free.
type sum struct {
	gpus  uint64 // bit k: one of them has k free GPUs
	cpus  int32
	memMB int64
}

// maxIndexed is the largest node that an index can tell from smaller ones.
const maxIndexed = 63

func (a Amount) sum() sum {
	return sum{1 << uint(max(a.GPUs, 0)), a.CPUs, a.MemMB}
}

func newIndex(n *Nodes, g *group) *index {
	x := &index{leaves: 1}
	for x.leaves < len(g.nodes) {
		x.leaves *= 2
	}
	x.tree = make([]sum, 2*x.leaves)
	v := view{now: n}
	for i, node := range g.nodes {
		x.tree[x.leaves+i] = v.free(node).sum()
	}
	for i := x.leaves - 1; i > 0; i-- {
		x.add(i)
	}
	return x
}

func (x *index) add(i int) {
	a, b := &x.tree[2*i], &x.tree[2*i+1]
	x.tree[i] = sum{a.gpus | b.gpus, max(a.cpus, b.cpus), max(a.memMB, b.memMB)}
}

// set notes what the node at a place of the order has free now.
func (x *index) set(place int32, free Amount) {
	i := x.leaves + int(place)
	x.tree[i] = free.sum()
	for i /= 2; i > 0; i /= 2 {
		x.add(i)
	}
}

// first is the first place below i with one of these numbers of free GPUs, as
// bits, and at least so much of the rest, that is accepted; -1: none.
func (x *index) first(i int, gpus uint64, least Amount, accept func(place int) bool) int {
	if s := &x.tree[i]; s.gpus&gpus == 0 || s.cpus < least.CPUs || s.memMB < least.MemMB {
		return -1
	}
	if i >= x.leaves {
		if accept(i - x.leaves) {
			return i - x.leaves
		}
		return -1
	}
	if place := x.first(2*i, gpus, least, accept); place >= 0 {
		return place
	}
	return x.first(2*i+1, gpus, least, accept)
}

// indexFrom is how many searches a view has to be asked for until an index pays, given that it is void as soon as the view is rebuilt.
const indexFrom = 3

// search returns the index of a type when it is worth one.
func (n *Nodes) search(g *group) *index {
	if g.index == nil && g.largest <= maxIndexed {
		if g.asked++; g.asked >= indexFrom {
			g.index = newIndex(n, g)
		}
	}
	return g.index
}

// forget voids the index.
func (g *group) forget() { g.index, g.asked = nil, 0 }

// least is a lower bound of what so many of a request's GPUs take of any node.
func (n *Nodes) least(g *group, r Request, gpus int32) Amount {
	if len(g.sizes) > maxSizes {
		least := Amount{GPUs: gpus}
		if r.GPUs == 0 {
			least.CPUs = n.piece(r, g.nodes[0]).CPUs
		}
		return least
	}
	least := n.need(r, gpus, g.sizes[0])
	for _, node := range g.sizes[1:] {
		least = least.least(n.need(r, gpus, node))
	}
	return least
}

// fullest is what single looks for: of the nodes with room the one with fewest free GPUs, the first of those; -1: none.
func (n *Nodes) fullest(x *index, g *group, r Request, gpus int32, v view) int32 {
	least := n.least(g, r, gpus)
	best, most := int32(-1), g.largest
	for k := gpus; k <= g.largest && best < 0; k++ {
		place := x.first(1, 1<<uint(k), least, func(place int) bool {
			node := g.nodes[place]
			return v.free(node).Holds(n.need(r, gpus, node)) && !n.chosen(node)
		})
		if place >= 0 {
			best, most = g.nodes[place], k
		}
	}
	if v.within == nil {
		return best
	}
	// The index goes by what is free now: within, these nodes may have fewer GPUs.
	for _, node := range v.within.lowered {
		free := v.free(node)
		if !n.has(g, node) || !free.Holds(n.need(r, gpus, node)) || n.chosen(node) {
			continue
		}
		if best < 0 || free.GPUs < most || free.GPUs == most && n.rank[node] < n.rank[best] {
			best, most = node, free.GPUs
		}
	}
	return best
}

// below reports whether lowered names all nodes with less here than there.
func (n *Nodes) below(there *Nodes) bool { return n.source == there && n.raised == there.raises }

// holdsOne says whether some node holds the whole request. It does not know
// when there is no index, or the request need not lie on one node.
func (n *Nodes) holdsOne(r Request, within *Nodes) (holds, known bool) {
	if n.mode == Pool || r.Nodes > 1 || r.On < 0 {
		return false, false
	}
	known = true
	for t := range n.byType {
		g := &n.byType[t]
		if !r.Types.Has(int32(t)) || n.lacks(t, r) || within != nil && within.lacks(t, r) {
			continue
		}
		if g.index == nil {
			return false, false
		}
		v := n.viewOf(r, within)
		if r.GPUs <= g.largest && g.index.first(1, ^uint64(0)<<uint(r.GPUs), n.least(g, r, r.GPUs), func(place int) bool {
			node := g.nodes[place]
			return v.free(node).Holds(n.need(r, r.GPUs, node))
		}) >= 0 {
			return true, true
		}
		known = known && n.oneNode(g, r)
	}
	for range n.sets(r) {
		return false, false
	}
	return false, known
}

// onOneNode reports whether a request can lie on one node only, whatever the type.
func (n *Nodes) onOneNode(r Request) bool {
	for t := range n.byType {
		if r.Types.Has(int32(t)) && !n.oneNode(&n.byType[t], r) {
			return false
		}
	}
	return true
}

// oneNode reports whether a request can lie on one node only, of this type.
func (n *Nodes) oneNode(g *group, r Request) bool {
	return r.On >= 0 && (r.Nodes == 1 || r.Nodes == 0 && r.GPUs == 0 || r.On > 0 || n.mode == Pool || n.mode == Consolidated && r.Nodes == 0 && r.GPUs <= g.largest)
}
