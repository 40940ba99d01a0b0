package placement

import (
	"cmp"
	"iter"
	"slices"
)

// Node is the size of one node.
type Node struct {
	Type    int32 // index of its GPU type
	Core    int32 // CPUs that are given out together, those of a core or a socket; 0: each by itself
	Threads int32 // of each core
	Socket  int32 // CPUs of each socket, where GPUs belong to sockets; else 0
	Crowded bool  // a job of it holds more CPUs than the part of its GPUs
	Amount
}

// Nodes is what is free on each node of a cluster.
type Nodes struct {
	mode   Mode
	size   []Node
	free   []Amount
	down   []bool
	rank   []int32 // of each node, in the order of its type
	byType []group
	named  *[]nodeSet // that requests name; see Among and Refused
	leaves *leaves    // nil: it is unknown which nodes hang on which switch

	own bool // debts are of each node alone; see Apart

	parts map[int32][]int32 // by part of a node with several GPU types, its other parts; nil: there are none

	raises  int     // how often there became more of something on a node
	source  *Nodes  // what is free here is that there, but for what was set since
	raised  int     // raises there, at that time
	lowered []int32 // the nodes on which there became less of something since

	scratch []Share
	sorted  []int32

	watched bool
	log     []change // the last ones, for the watches
	logged  int      // changes so far
}

// nodeSet is some nodes of a cluster.
type nodeSet struct {
	nodes []int32
	has   []bool // by node
}

func (s *nodeSet) holds(node int32) bool { return s != nil && s.has[node] }

// group is the nodes of one GPU type, or of a set of them for one search.
type group struct {
	types   Types
	nodes   []int32
	free    int // GPUs on nodes that are up
	owed    int // GPUs on nodes with fewer than none, in a view of the future
	largest int32
	sizes   []int32 // a node of each size, up to one more than maxSizes
	index   *index  // nil: none
	asked   int     // searches without one
}

// lacks reports whether there are too few GPUs of a type for a request. In a view of the future a node may have fewer
// than none, which is a debt of all nodes of the type, or of the node alone.
func (n *Nodes) lacks(t int, r Request) bool { return n.byType[t].lacks(n.own, r) }

func (g *group) lacks(own bool, r Request) bool {
	free := g.free
	if own {
		free += g.owed
	}
	return r.GPUs > 0 && free < int(r.GPUs)
}

// Apart has each node of a view of the future bear what is owed there: others do not have fewer GPUs for it.
func (n *Nodes) Apart() { n.own = true }

// maxSizes is up to how many sizes of nodes a search looks at each.
const maxSizes = 8

// New returns an empty cluster. In a pool the nodes of a type are merged into one, on which only GPUs count.
func New(mode Mode, nodes []Node) *Nodes {
	if mode == Pool {
		nodes = pools(nodes)
	}
	n := &Nodes{mode: mode, size: nodes, free: make([]Amount, len(nodes)), down: make([]bool, len(nodes)), rank: make([]int32, len(nodes)), named: &[]nodeSet{}}
	for i, node := range nodes {
		for int(node.Type) >= len(n.byType) {
			n.byType = append(n.byType, group{})
		}
		g := &n.byType[node.Type]
		g.types = 1 << uint(node.Type)
		n.rank[i] = int32(len(g.nodes))
		g.nodes = append(g.nodes, int32(i))
		if len(g.sizes) <= maxSizes && !slices.ContainsFunc(g.sizes, func(other int32) bool { return nodes[other] == node }) {
			g.sizes = append(g.sizes, int32(i))
		}
		g.free += int(node.GPUs)
		g.largest = max(g.largest, node.GPUs)
		n.free[i] = node.Amount
	}
	return n
}

func pools(nodes []Node) []Node {
	var merged []Node
	for _, node := range nodes {
		for int(node.Type) >= len(merged) {
			merged = append(merged, Node{Type: int32(len(merged)), Amount: Amount{CPUs: Plenty, MemMB: Plenty}})
		}
		merged[node.Type].GPUs += node.GPUs
	}
	return merged
}

// Join makes some nodes the parts of one machine with GPUs of several types: what a job takes of
// the CPUs and memory of one it takes of all.
func (n *Nodes) Join(parts []int32) {
	if n.parts == nil {
		n.parts = map[int32][]int32{}
	}
	for _, part := range parts {
		n.parts[part] = slices.DeleteFunc(slices.Clone(parts), func(other int32) bool { return other == part })
	}
}

// OtherParts are the other parts of a node with several GPU types.
func (n *Nodes) OtherParts(node int32) []int32 { return n.parts[node] }

// Len is the number of nodes.
func (n *Nodes) Len() int { return len(n.size) }

// Type is the index of a node's GPU type.
func (n *Nodes) Type(node int32) int32 { return n.size[node].Type }

// FreeGPUs counts the free GPUs of one type on nodes that are up; 0 for a type that the cluster does not have.
func (n *Nodes) FreeGPUs(t int32) int {
	if int(t) >= len(n.byType) {
		return 0
	}
	return n.byType[t].free
}

// CopyFree makes what is free here equal to what is free there, for two views of one cluster.
func (n *Nodes) CopyFree(from *Nodes) {
	copy(n.free, from.free)
	copy(n.down, from.down)
	for t := range n.byType {
		n.byType[t].free, n.byType[t].owed = from.byType[t].free, from.byType[t].owed
		n.byType[t].forget()
	}
	n.source, n.raised, n.lowered = from, from.raises, n.lowered[:0]
	n.log = n.log[:0]
	n.logged++
}

// Clone returns a second view of the cluster, which then changes by itself.
func (n *Nodes) Clone() *Nodes {
	c := *n
	c.free, c.down = slices.Clone(n.free), slices.Clone(n.down)
	c.byType = slices.Clone(n.byType)
	for t := range c.byType {
		c.byType[t].forget()
	}
	c.source, c.lowered = nil, nil
	c.scratch, c.sorted = nil, nil
	c.watched, c.log = false, nil
	return &c
}

// Take gives the shares to a job. A view of the future may fall below zero.
func (n *Nodes) Take(shares []Share) {
	for _, s := range shares {
		n.set(s.Node, n.free[s.Node].Minus(s.Amount), n.down[s.Node])
		for _, other := range n.parts[s.Node] {
			n.set(other, n.free[other].Minus(s.BesideGPUs()), n.down[other])
		}
	}
}

// Release gives back what Take took.
func (n *Nodes) Release(shares []Share) {
	for _, s := range shares {
		n.set(s.Node, n.free[s.Node].Plus(s.Amount), n.down[s.Node])
		for _, other := range n.parts[s.Node] {
			n.set(other, n.free[other].Plus(s.BesideGPUs()), n.down[other])
		}
	}
}

// SetDown takes a node out of service, or puts it back.
func (n *Nodes) SetDown(node int32, down bool) { n.set(node, n.free[node], down) }

func (n *Nodes) set(node int32, free Amount, down bool) {
	v := view{now: n}
	before := v.free(node)
	n.free[node], n.down[node] = free, down
	after := v.free(node)
	g := &n.byType[n.size[node].Type]
	g.free += int(after.GPUs - before.GPUs)
	g.owed += int(max(-after.GPUs, 0) - max(-before.GPUs, 0))
	if g.index != nil {
		g.index.set(n.rank[node], after)
	}
	if !before.Holds(after) {
		n.raises++
	}
	if n.source != nil && !after.Holds(before) {
		n.lowered = append(n.lowered, node)
	}
	if n.watched {
		n.record(change{node, before, after})
	}
}

// Down reports whether a node is out of service.
func (n *Nodes) Down(node int32) bool { return n.down[node] }

// Fit finds a place for a request in what is free here and, unless within is nil, there too. Of several types it takes the
// first of the cluster's order that has room, as Slurm does. The shares are valid until the next call.
func (n *Nodes) Fit(r Request, within *Nodes) ([]Share, bool) {
	for t := range n.byType {
		g := &n.byType[t]
		if !r.Types.Has(int32(t)) || n.lacks(t, r) || within != nil && within.lacks(t, r) {
			continue
		}
		n.scratch = n.scratch[:0]
		if n.place(g, r, n.viewOf(r, within)) {
			return n.scratch, true
		}
	}
	for types := range n.sets(r) {
		g := n.together(types)
		if n.scratch = n.scratch[:0]; !g.lacks(n.own, r) && n.place(&g, r, n.viewOf(r, within)) {
			return n.scratch, true
		}
	}
	return nil, false
}

// sets are those sets of types that a request may mix.
func (n *Nodes) sets(r Request) iter.Seq[Types] {
	return func(yield func(Types) bool) {
		for _, types := range r.Together {
			if types &= r.Types; types&(types-1) != 0 && r.Nodes != 1 && r.On <= 0 && n.mode != Pool && !yield(types) {
				return
			}
		}
	}
}

// together is the nodes of several types, in the cluster's order.
func (n *Nodes) together(types Types) group {
	all := group{types: types, asked: noIndex}
	for t := range n.byType {
		if g := &n.byType[t]; types.Has(int32(t)) {
			all.nodes, all.sizes = append(all.nodes, g.nodes...), append(all.sizes, g.sizes...)
			all.free, all.owed, all.largest = all.free+g.free, all.owed+g.owed, max(all.largest, g.largest)
		}
	}
	slices.Sort(all.nodes)
	return all
}

// has reports whether a node is of the group's types.
func (n *Nodes) has(g *group, node int32) bool { return g.types.Has(n.size[node].Type) }

// view is what may be taken of each node.
type view struct {
	now, within *Nodes
	off         *nodeSet // nothing of these
	noGPUs      bool     // asked for: fewer than none are none
}

// viewOf is what a request may take, here and, unless within is nil, there too.
func (n *Nodes) viewOf(r Request, within *Nodes) view { return view{n, within, n.off(r), r.GPUs == 0} }

func (v view) free(node int32) (free Amount) {
	switch {
	case v.now.down[node], v.off.holds(node):
		return Amount{}
	case v.within == nil:
		free = v.now.free[node]
	case v.within.down[node]:
		return Amount{}
	default:
		free = v.now.free[node].least(v.within.free[node])
	}
	if v.noGPUs {
		free.GPUs = max(free.GPUs, 0)
	}
	return free
}

func (n *Nodes) place(g *group, r Request, v view) bool {
	switch {
	case n.mode == Pool:
		n.scratch = append(n.scratch, Share{g.nodes[0], Amount{GPUs: r.GPUs}})
		return v.free(g.nodes[0]).GPUs >= r.GPUs
	case r.On > 0:
		node := r.On - 1
		need := n.need(r, r.GPUs, node)
		n.scratch = append(n.scratch, Share{node, need})
		return n.has(g, node) && v.free(node).Holds(need)
	case r.On < 0:
		return n.among(g, r, (*n.named)[-r.On-1].nodes, v)
	case r.GPUs == 0 && r.Nodes > 1:
		return n.apart(g, r, v)
	case r.Nodes <= 1 && r.GPUs <= g.largest && n.single(g, r, r.GPUs, v):
		return true
	case r.Nodes == 1, r.GPUs == 0, r.Most == 1:
		return false
	case n.leaves != nil:
		return n.onFewSwitches(g, r, v) && n.onFew(r)
	}
	return n.several(g, r, v) && n.onFew(r)
}

// onFew reports whether a place is on no more nodes than a request accepts.
func (n *Nodes) onFew(r Request) bool { return r.Most == 0 || len(n.scratch) <= int(r.Most) }

// several places a job on more than one node, or on as many as it takes.
func (n *Nodes) several(g *group, r Request, v view) bool {
	switch {
	case r.Nodes > 1:
		return n.roomFor(g, r, v) && n.evenly(g, r, v)
	case n.mode == Consolidated:
		return r.GPUs > g.largest && n.whole(g, r, v)
	}
	return n.roomFor(g, r, v) && n.spread(g, r, v)
}

// need is what a piece of a job with so many GPUs takes of a node.
func (n *Nodes) need(r Request, gpus, node int32) Amount {
	if r.GPUs == 0 {
		return n.piece(r, node)
	}
	size := n.size[node]
	a := Amount{GPUs: gpus}
	part := func(asked, has int64) int64 {
		switch {
		case has >= Plenty:
			return 0
		case asked > 0:
			return (asked*int64(gpus) + int64(r.GPUs) - 1) / int64(r.GPUs)
		}
		return has * int64(gpus) / int64(size.GPUs)
	}
	a.CPUs = int32(part(int64(r.CPUs), int64(size.CPUs)))
	a.MemMB = part(r.MemMB, size.MemMB)
	a = n.allocated(a, r, node)
	a.CPUs = max(a.CPUs, onSockets(r, &size, gpus))
	return a
}

// onSockets is how many CPUs of a node have to be free for each GPU of a piece to have those of one socket. Where no job holds more
// than the part of its GPUs, each free GPU has its part. Else it is not known which are in use: of each socket but one there may be as
// many free as are too few for one more GPU, and with BySocket each socket has to have a free one.
func onSockets(r Request, size *Node, gpus int32) (cpus int32) {
	c := r.GPUCPUs
	if c == 0 || size.Socket == 0 || !size.Crowded && c*size.GPUs <= size.CPUs {
		return 0
	}
	sockets := (size.CPUs + size.Socket - 1) / size.Socket // with cores kept for the system one has fewer
	if gpus > sockets*(size.Socket/c) {
		return size.CPUs + 1
	}
	cpus = min(gpus*c+(sockets-1)*(c-1), size.CPUs)
	if r.BySocket && size.Crowded {
		cpus = max(cpus, (sockets-1)*size.Socket+1)
	}
	return cpus
}

// allocated is what Slurm allocates of a node for a piece of a request: whole tasks on whole cores, with the memory of the CPUs that this
// adds, what each node gives, and all of a node that the job has to itself (select/cons_tres/job_test.c, _allocate_sc).
func (n *Nodes) allocated(a Amount, r Request, node int32) Amount {
	size := &n.size[node]
	if r.CPUs > 0 && size.CPUs < Plenty && a.CPUs > 0 {
		core := max(size.Core, 1)
		a.CPUs = max(roundUp(a.CPUs, r.TaskCPUs), r.NodeCPUs)
		if r.OneThread {
			a.CPUs *= max(size.Threads, 1)
		}
		a.CPUs = roundUp(a.CPUs, core)
		a.MemMB = r.memory(a)
	}
	if r.Whole {
		a = a.most(n.all(node))
		a.MemMB = r.memory(a)
	}
	a.Others = r.Others
	for k := range a.Others {
		if r.CPUsIn&(1<<k) != 0 { // of a whole node, all of them (22.05.8, 26.05.5)
			a.Others[k] = int64(a.CPUs)
		}
	}
	switch {
	case size.MemMB >= Plenty:
	case r.AllMem:
		a.MemMB = size.MemMB
	default:
		a.MemMB = max(a.MemMB, r.NodeMemMB)
	}
	return a
}

// memory is a piece's memory with the CPUs that Slurm gives it, in MB: what it has, or its CPUs' part of the job's.
func (r *Request) memory(a Amount) int64 {
	if !r.MemByCPU || r.CPUs == 0 || a.MemMB == 0 {
		return a.MemMB
	}
	return (r.MemMB*int64(a.CPUs) + int64(r.CPUs) - 1) / int64(r.CPUs)
}

func roundUp(n, to int32) int32 {
	if to < 2 {
		return n
	}
	return (n + to - 1) / to * to
}

// all is the GPUs and CPUs of a node, where they count: a job that has them has it to itself.
func (n *Nodes) all(node int32) Amount {
	size := n.size[node]
	if size.CPUs >= Plenty {
		size.CPUs = 0
	}
	return Amount{GPUs: size.GPUs, CPUs: size.CPUs}
}

// single finds the node that is fullest afterwards and not yet in use for this job.
func (n *Nodes) single(g *group, r Request, gpus int32, v view) bool {
	if v.within == nil || v.within.below(n) {
		if x := n.search(g); x != nil {
			best := n.fullest(x, g, r, gpus, v)
			if best >= 0 {
				n.scratch = append(n.scratch, Share{best, n.need(r, gpus, best)})
			}
			return best >= 0
		}
	}
	best, left := int32(-1), int32(0)
	for _, node := range g.nodes {
		free := v.free(node)
		if rest := free.GPUs - gpus; rest < 0 || best >= 0 && rest >= left || !free.Holds(n.need(r, gpus, node)) || n.chosen(node) {
			continue
		}
		best, left = node, free.GPUs-gpus
		if left == 0 {
			break
		}
	}
	if best >= 0 {
		n.scratch = append(n.scratch, Share{best, n.need(r, gpus, best)})
	}
	return best >= 0
}

func (n *Nodes) chosen(node int32) bool {
	return slices.ContainsFunc(n.scratch, func(s Share) bool { return s.Node == node })
}

// evenly takes exactly as many nodes as the job names, GPUs as even as they go.
func (n *Nodes) evenly(g *group, r Request, v view) bool {
	each, more := r.GPUs/r.Nodes, r.GPUs%r.Nodes
	for i := range r.Nodes {
		gpus := each
		if i < more {
			gpus++
		}
		if !n.single(g, r, gpus, v) {
			return false
		}
	}
	return true
}

// Among is the On of requests that have to lie on all of these nodes together, of one
// type, and on no other; also for other views of the cluster.
func (n *Nodes) Among(nodes []int32) int32 {
	if len(nodes) == 1 {
		return nodes[0] + 1
	}
	return -n.numbered(nodes)
}

// Refused is the Off of requests that may lie on none of these nodes; also for other views of the cluster.
func (n *Nodes) Refused(nodes []int32) int32 {
	if len(nodes) == 0 {
		return 0
	}
	return n.numbered(nodes)
}

// numbered is the number of a set of nodes, from 1.
func (n *Nodes) numbered(nodes []int32) int32 {
	at := slices.IndexFunc(*n.named, func(set nodeSet) bool { return slices.Equal(set.nodes, nodes) })
	if at < 0 {
		at = len(*n.named)
		set := nodeSet{slices.Clone(nodes), make([]bool, len(n.size))}
		for _, node := range nodes {
			set.has[node] = true
		}
		*n.named = append(*n.named, set)
	}
	return int32(at) + 1
}

// Off are the nodes on which a request may not lie.
func (n *Nodes) Off(r Request) []int32 {
	if r.Off == 0 {
		return nil
	}
	return (*n.named)[r.Off-1].nodes
}

func (n *Nodes) off(r Request) *nodeSet {
	if r.Off == 0 {
		return nil
	}
	return &(*n.named)[r.Off-1]
}

// Named are the nodes on which a request has to lie; none: it may lie anywhere.
func (n *Nodes) Named(r Request) []int32 {
	switch {
	case r.On > 0:
		return []int32{r.On - 1}
	case r.On < 0:
		return (*n.named)[-r.On-1].nodes
	}
	return nil
}

// among takes GPUs of a set of nodes, as even as they go where the job names how many nodes, else of each as many as it holds
// and leaves one for each of the others: 22.05 uses all nodes of a ReqNodeList, 24.11 and 26.05 as few as they need.
func (n *Nodes) among(g *group, r Request, set []int32, v view) bool {
	if r.Nodes > 1 && int(r.Nodes) != len(set) {
		return false
	}
	left := r.GPUs
	for i, node := range set {
		gpus := min(n.most(r, v.free(node), node), left-int32(len(set)-1-i))
		if r.Nodes > 1 {
			even := (r.GPUs + int32(len(set)-1-i)) / r.Nodes
			if gpus < even {
				return false
			}
			gpus = even
		}
		if !n.has(g, node) || gpus < 1 {
			return false
		}
		n.scratch = append(n.scratch, Share{node, n.need(r, gpus, node)})
		left -= gpus
	}
	return left == 0
}

// whole takes idle nodes in full, and one by best fit for what is left.
func (n *Nodes) whole(g *group, r Request, v view) bool {
	left := r.GPUs
	for _, node := range g.nodes {
		size := n.size[node].GPUs
		if size != g.largest || left < size {
			continue
		}
		if free := v.free(node); free.GPUs == size && free.Holds(n.need(r, size, node)) {
			n.scratch = append(n.scratch, Share{node, n.need(r, size, node)})
			left -= size
		}
	}
	return left == 0 || left < g.largest && n.single(g, r, left, v)
}

// spread takes the emptiest nodes, the last one by best fit.
func (n *Nodes) spread(g *group, r Request, v view) bool {
	n.sorted = n.sorted[:0]
	for _, node := range g.nodes {
		if v.free(node).GPUs > 0 {
			n.sorted = append(n.sorted, node)
		}
	}
	slices.SortStableFunc(n.sorted, func(a, b int32) int { return cmp.Compare(v.free(b).GPUs, v.free(a).GPUs) })
	left := r.GPUs
	for _, node := range n.sorted {
		if left <= g.largest && n.single(g, r, left, v) {
			return true
		}
		free := v.free(node)
		if gpus := min(n.most(r, free, node), left); gpus > 0 {
			n.scratch = append(n.scratch, Share{node, n.need(r, gpus, node)})
			left -= gpus
		}
		if left == 0 {
			return true
		}
	}
	return false
}

// Hold reports whether the shares are free.
func (n *Nodes) Hold(shares []Share) bool {
	return !slices.ContainsFunc(shares, func(s Share) bool { return n.down[s.Node] || !n.free[s.Node].Holds(s.Amount) })
}

// FreeOn is what is free on a node.
func (n *Nodes) FreeOn(node int32) Amount { return n.free[node] }

// Size is what a node has.
func (n *Nodes) Size(node int32) Amount { return n.size[node].Amount }
