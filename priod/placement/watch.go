package placement

import "slices"

// change is what happened to one node.
type change struct {
	node          int32
	before, after Amount // free; nothing is on a node that is down
}

// record keeps a change for the watches. One that missed more changes than there are nodes starts over.
func (n *Nodes) record(c change) {
	if len(n.log) > len(n.size) {
		n.log = n.log[:0]
	}
	n.log = append(n.log, c)
	n.logged++
}

// Watch knows whether a request may fit. Where the index does not say, it follows what is taken and released, so that asking
// again costs what has changed and not what there is.
type Watch struct {
	nodes   *Nodes
	request Request
	demands []demand // by type, and of each set of them that the request may mix; nil: not counted yet
	seen    int      // changes taken in
}

// Watch begins to watch for room for a request.
func (n *Nodes) Watch(r Request) *Watch {
	return &Watch{nodes: n, request: r}
}

// Request is what is watched for.
func (w *Watch) Request() Request { return w.request }

func (w *Watch) recount() {
	n := w.nodes
	v := n.viewOf(w.request, nil)
	n.watched = true
	w.demands = w.demands[:0]
	for t := range n.byType {
		g := &n.byType[t]
		if !w.request.Types.Has(int32(t)) {
			g = &group{}
		}
		w.demands = append(w.demands, n.counted(g, w.request, v))
	}
	for types := range n.sets(w.request) {
		g := n.together(types)
		w.demands = append(w.demands, n.counted(&g, w.request, v))
	}
	w.seen = n.logged
}

// counted is the demand on the nodes of a group.
func (n *Nodes) counted(g *group, r Request, v view) demand {
	if len(g.nodes) == 0 {
		return demand{request: r, pieces: 1}
	}
	d := n.demand(g, r)
	for _, node := range g.nodes {
		d.count(n.most(r, v.free(node), node), 1)
	}
	return d
}

func (w *Watch) shift(d []demand, c change) {
	n := w.nodes
	t := n.size[c.node].Type
	if !w.request.Types.Has(t) || n.off(w.request).holds(c.node) {
		return
	}
	before, after := n.most(w.request, c.before, c.node), n.most(w.request, c.after, c.node)
	count := func(d *demand) {
		d.count(before, -1)
		d.count(after, 1)
	}
	count(&d[t])
	at := len(n.byType)
	for types := range n.sets(w.request) {
		if types.Has(t) {
			count(&d[at])
		}
		at++
	}
}

// follow takes in what has changed.
func (w *Watch) follow() {
	n := w.nodes
	missed := n.logged - w.seen
	if w.demands == nil || missed > len(n.log) {
		w.recount()
		return
	}
	for _, c := range n.log[len(n.log)-missed:] {
		w.shift(w.demands, c)
	}
	w.seen = n.logged
}

// MayFit is false when the request does not fit. When it is true, Fit decides,
// which agrees unless a piece of the request is one without GPUs.
func (w *Watch) MayFit() bool {
	if holds, known := w.nodes.holdsOne(w.request, nil); known {
		return holds
	}
	w.follow()
	return slices.ContainsFunc(w.demands, func(d demand) bool { return d.met() })
}

// MayFitWithin is MayFit for Fit's second view, which gives less than the first only on the nodes of these shares.
func (w *Watch) MayFitWithin(within *Nodes, on []Share) bool {
	if holds, known := w.nodes.holdsOne(w.request, within); known {
		return holds
	}
	if !w.MayFit() {
		return false
	}
	w.follow()
	least, now := view{now: w.nodes, within: within}, view{now: w.nodes}
	demands := append(make([]demand, 0, 8), w.demands...)
	for _, s := range on {
		w.shift(demands, change{s.Node, now.free(s.Node), least.free(s.Node)})
	}
	return slices.ContainsFunc(demands, func(d demand) bool { return d.met() })
}
