package steer

import (
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/slurmplug"
)

// nodeView tells which GPU types have nodes for a job: nodes that are up, whatever runs
// on them now. It counts nodes that lack the feature of their type as gpuTypes does.
type nodeView struct {
	in    *inputs
	types *gpuTypes

	nodeMap *nodemap.Map
	kindsOf []placement.Types                              // by type, the kinds of its nodes in nodeMap
	gpus    int                                            // of all nodes
	up      *placement.Nodes                               // with nothing on them
	fits    map[string]*cluster.ByRequest[placement.Types] // by the nodes that jobs refuse
	without withoutHosts
	placed  []*cluster.Node // those that Decide sees, by its numbers
}

// withoutHosts is nodeView.up without the nodes of the host list that was last asked for: jobs that refuse nodes often refuse the same.
type withoutHosts struct {
	hosts string
	up    *placement.Nodes
}

func newNodeView(in *inputs, types *gpuTypes, nodes *nodemap.Map) nodeView {
	view := nodeView{in: in, types: types, nodeMap: nodes, fits: map[string]*cluster.ByRequest[placement.Types]{}}
	view.up = view.nodeMap.Up()
	for i := range in.snapshot.Nodes {
		n := &in.snapshot.Nodes[i]
		view.gpus += n.GPUs
		if in.usableForClaim(n) {
			if at, known := view.nodeMap.Index[n.Name]; known {
				view.up.SetDown(at, false)
			}
		}
	}
	view.kindsOf = make([]placement.Types, types.count())
	for kind, n := range view.nodeMap.Kinds {
		if t, known := types.ofNode(n); known {
			view.kindsOf[t] |= 1 << uint(kind)
		}
	}
	return view
}

// kinds are the kinds of nodes of some types.
func (view *nodeView) kinds(types placement.Types) (kinds placement.Types) {
	for t, some := range view.kindsOf {
		if types.Has(int32(t)) {
			kinds |= some
		}
	}
	return kinds
}

// fit is the types with enough usable nodes for a job, by its user's own request or another, and without the nodes that it refuses.
func (view *nodeView) fit(j *cluster.Job, own *request, excluded string) placement.Types {
	r := request{own.features, view.types.partitions.Starting(own.partitions, j)}
	asks := r.asked(j)
	key := asks.Asks(r.partitions)
	if view.fits[excluded] == nil {
		view.fits[excluded] = &cluster.ByRequest[placement.Types]{}
	}
	return view.fits[excluded].Get(&key, func() (types placement.Types) {
		nodes := view.upWithout(excluded)
		for t := range view.kindsOf {
			if nodes != nil && view.fitsOn(asks, t, nodes) {
				types |= 1 << uint(t)
			}
		}
		return types
	})
}

// fitsOn reports whether a job fits on nodes of one type. A constraint of its user's own that cannot be parsed is ignored.
func (view *nodeView) fitsOn(asks cluster.Job, t int, nodes *placement.Nodes) bool {
	kinds, parsed := view.nodeMap.Types(&asks)
	if !parsed {
		asks.Features = ""
		kinds, _ = view.nodeMap.Types(&asks)
	}
	kinds &= view.kindsOf[t]
	if kinds == 0 || asks.GPUs < asks.Nodes { // a node without a GPU: it is not known which
		return false
	}
	_, fits := nodes.Fit(view.nodeMap.Request(&asks, kinds), nil)
	return fits
}

// upWithout is the nodes that are up without those of a host list; nil when the list cannot be read.
func (view *nodeView) upWithout(hosts string) *placement.Nodes {
	if hosts == "" {
		return view.up
	}
	if last := &view.without; last.hosts != hosts {
		last.hosts, last.up = hosts, nil
		names, err := slurmplug.ExpandHosts(hosts)
		if err != nil {
			return nil
		}
		last.up = view.up.Clone()
		for _, name := range names {
			if at, known := view.nodeMap.Index[name]; known {
				last.up.SetDown(at, true)
			}
		}
	}
	return view.without.up
}

// typesOf are the types of the nodes of a host list; all types for an empty list and for one that cannot be read.
func (view *nodeView) typesOf(hosts string) (types placement.Types) {
	names, err := slurmplug.ExpandHosts(hosts)
	if hosts == "" || err != nil {
		return ^types
	}
	for _, name := range names {
		at, known := view.nodeMap.Index[name]
		for t := range view.kindsOf {
			if known && view.kindsOf[t].Has(view.nodeMap.Nodes.Type(at)) {
				types |= 1 << uint(t)
			}
		}
	}
	return types
}

// oneNodeHas reports whether one node that a job's own request allows has so much.
func (view *nodeView) oneNodeHas(j *pendingJob, least cluster.Least) bool {
	c := j.ownConstraint()
	for i := range view.in.snapshot.Nodes {
		n := &view.in.snapshot.Nodes[i]
		if n.GPUs >= least.GPUs && n.CPUs >= least.CPUs && n.MemMB >= least.MemMB && c.Allows(n.Features) && n.In(j.reach) {
			return true
		}
	}
	return false
}

// tasksAtOnce is how many tasks of an array the cluster could run at once, at least one.
func (view *nodeView) tasksAtOnce(j *cluster.Job) int {
	return max(min(j.TasksNow(), view.gpus/max(j.GPUs, 1)), 1)
}

// whyMixed says of the first node with several GPU types on which a job could run that no job is bound to it; "" when there is none.
func (view *nodeView) whyMixed(j *pendingJob) string {
	c := j.ownConstraint()
	for i := range view.in.snapshot.Nodes {
		n := &view.in.snapshot.Nodes[i]
		if n.MixedTypes && n.Usable && j.Nodes <= 1 && n.GPUs >= j.GPUs && n.CPUs >= j.CPUs && c.Allows(n.Features) && n.In(j.own.partitions) {
			return fmt.Sprintf("left open: it could run on %s, which has several GPU types: no job is steered there", n.Name)
		}
	}
	return ""
}
