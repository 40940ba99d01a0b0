package guarantee

import (
	"math"
	"strings"

	"slurmprio/priod/cluster"
)

// uses are GPUs that jobs hold now, by the kinds of nodes that differ in which shares may lie on them.
type uses struct {
	kinds   map[string]int // by their type and partitions
	of      map[string]int // the kind of a node, by its name
	first   []*cluster.Node
	gpus    []float64   // in service
	shares  [][]float64 // by share and kind
	outside []float64   // by jobs that no share of their account covers
}

func newUses(s *cluster.Snapshot, shares int) *uses {
	u := &uses{kinds: map[string]int{}, of: make(map[string]int, len(s.Nodes)), shares: make([][]float64, shares)}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		key := n.GPUType + "\n" + strings.Join(n.Partitions, ",")
		kind, known := u.kinds[key]
		if !known {
			kind = len(u.first)
			u.kinds[key] = kind
			u.first, u.gpus = append(u.first, n), append(u.gpus, 0)
		}
		if u.of[n.Name] = kind; n.Usable {
			u.gpus[kind] += float64(n.GPUs)
		}
	}
	u.outside = make([]float64, len(u.first))
	for k := range u.shares {
		u.shares[k] = make([]float64, len(u.first))
	}
	return u
}

// use notes what a running job holds.
func (d *decider) use(j *cluster.Job, share int, gpus float64) {
	kind := 0
	if n := d.owners.node(j); n != nil {
		kind = d.uses.of[n.Name]
	}
	on := d.uses.outside
	if share >= 0 {
		d.result.Shares[share].Used += gpus
		on = d.uses.shares[share]
	} else if all := d.owners.shares(j.Account); len(all) > 0 {
		d.result.Shares[all[0]].Outside += gpus
	}
	if kind < len(on) { // there are nodes
		on[kind] += gpus
	}
}

// lend finds how much of each share others use. On each kind of nodes that is what is used beyond shares and beyond what no
// account owns there, as far as shares are not used; of the shares that may lie there, each lends in proportion to what of it
// is not used. A share that may lie on several kinds lies on each by its part of their GPUs.
func (d *decider) lend() {
	u := d.uses
	n := len(u.first)
	owned, idle, borrowed, parts := make([]float64, n), make([]float64, n), make([]float64, n), make([][]float64, len(d.result.Shares))
	copy(borrowed, u.outside)
	for k := range d.result.Shares {
		x := &d.result.Shares[k]
		parts[k] = make([]float64, n)
		sum := 0.0
		for kind, node := range u.first {
			if x.Share.covers(node) {
				sum += u.gpus[kind]
			}
		}
		for kind, node := range u.first {
			if x.Share.covers(node) && sum > 0 {
				parts[k][kind] = u.gpus[kind] / sum
			}
			owned[kind] += x.Owned * parts[k][kind]
			idle[kind] += x.rest() * parts[k][kind]
			if x.Used > x.Owned {
				borrowed[kind] += (x.Used - x.Owned) * u.shares[k][kind] / x.Used
			}
		}
	}
	for kind := range n {
		lent := math.Min(borrowed[kind]-max(u.gpus[kind]-owned[kind], 0), idle[kind])
		for k := range d.result.Shares {
			if x := &d.result.Shares[k]; lent > 0 {
				x.LentOut += lent * x.rest() * parts[k][kind] / idle[kind]
			}
		}
	}
}

// rest is what of a share its account does not use.
func (s *State) rest() float64 { return max(s.Owned-s.Used, 0) }
