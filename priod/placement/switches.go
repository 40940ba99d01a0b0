package placement

import (
	"cmp"
	"slices"
)

// leaves are the leaf switches of a cluster.
type leaves struct {
	of    []int32   // by node, from 0
	nodes [][]int32 // by switch
}

// SetLeaves says on which leaf switch each node hangs, by a number from 0. From then on a job of several nodes is placed on as
// few switches as have room for it, as Slurm does with a tree of switches; before, switches do not count. Not in a pool.
func (n *Nodes) SetLeaves(of []int32) {
	if n.mode == Pool || len(of) != len(n.size) {
		return
	}
	n.leaves = &leaves{of: of}
	for node, leaf := range of {
		for int(leaf) >= len(n.leaves.nodes) {
			n.leaves.nodes = append(n.leaves.nodes, nil)
		}
		n.leaves.nodes[leaf] = append(n.leaves.nodes[leaf], int32(node))
	}
}

// Leaves counts the leaf switches under some shares; 0 where they are unknown.
func (n *Nodes) Leaves(shares []Share) int {
	if n.leaves == nil {
		return 0
	}
	var seen []int32
	for _, s := range shares {
		if leaf := n.leaves.of[s.Node]; !slices.Contains(seen, leaf) {
			seen = append(seen, leaf)
		}
	}
	return len(seen)
}

// room is a leaf switch, and how many of a request's GPUs its nodes hold.
type room struct {
	leaf int32
	gpus int
}

// onFewSwitches places a job of several nodes on one switch by best fit, else on the two
// with most room, the three and so on, up to as many as it accepts.
func (n *Nodes) onFewSwitches(g *group, r Request, v view) bool {
	if !n.roomFor(g, r, v) {
		return false
	}
	var rooms []room
	for leaf, nodes := range n.leaves.nodes {
		x := room{leaf: int32(leaf)}
		for _, node := range nodes {
			if n.has(g, node) {
				x.gpus += int(n.most(r, v.free(node), node))
			}
		}
		if x.gpus > 0 {
			rooms = append(rooms, x)
		}
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return cmp.Compare(b.gpus, a.gpus) })
	for i := range slices.Backward(rooms) { // the fullest first
		if rooms[i].gpus >= int(r.GPUs) && n.under(g, r, v, rooms[i:i+1]) {
			return true
		}
	}
	sum := 0
	for k := range rooms {
		if sum += rooms[k].gpus; k > 0 && sum >= int(r.GPUs) && n.under(g, r, v, rooms[:k+1]) {
			// It may lie on fewer: whole nodes are not always where most GPUs are.
			return r.Switches == 0 || n.Leaves(n.scratch) <= int(r.Switches)
		}
	}
	return false
}

// noIndex keeps a group that lives for one search from being indexed.
const noIndex = -1 << 30

// under places a job on the nodes of some switches.
func (n *Nodes) under(g *group, r Request, v view, rooms []room) bool {
	part := group{types: g.types, largest: g.largest, sizes: g.sizes, asked: noIndex}
	for _, node := range g.nodes {
		if slices.ContainsFunc(rooms, func(x room) bool { return x.leaf == n.leaves.of[node] }) {
			part.nodes = append(part.nodes, node)
		}
	}
	n.scratch = n.scratch[:0]
	return n.several(&part, r, v)
}
