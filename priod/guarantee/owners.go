package guarantee

import (
	"slices"

	"slurmprio/priod/cluster"
)

// owners finds the shares that jobs draw on.
type owners struct {
	set    *Settings
	pools  *pools
	of     map[string][]int // the shares of an account: its own, or those of the nearest account above it that has any
	covers []cover          // of each share
}

func newOwners(set *Settings, p *pools) *owners {
	o := &owners{set: set, pools: p, of: map[string][]int{}}
	for i := range set.Shares {
		o.covers = append(o.covers, p.where(set.Shares[i].covers))
	}
	return o
}

// maxAbove bounds the walk up a tree of accounts that is no tree.
const maxAbove = 64

// shares are those of an account.
func (o *owners) shares(account string) []int {
	if found, known := o.of[account]; known {
		return found
	}
	var found []int
	for at, n := account, 0; at != "" && len(found) == 0 && n < maxAbove; at, n = o.set.Parents[at], n+1 {
		for i := range o.set.Shares {
			if o.set.Shares[i].Account == at {
				found = append(found, i)
			}
		}
	}
	o.of[account] = found
	return found
}

// covers reports whether a share may lie on a node.
func (s *Share) covers(n *cluster.Node) bool {
	if s.GPUType != "" && n.GPUType != s.GPUType {
		return false
	}
	return len(s.Partitions) == 0 || slices.ContainsFunc(s.Partitions, n.In)
}

// holder is the share that a running job uses: the first of its account that covers all kinds of its nodes; -1: none.
func (o *owners) holder(j *cluster.Job) int {
	shares := o.shares(j.Account)
	if len(shares) == 0 {
		return -1
	}
	on := o.pools.on(j)
	for _, i := range shares {
		if s := &o.set.Shares[i]; on&^o.covers[i] == 0 && (on != 0 || s.GPUType == "" && len(s.Partitions) == 0) {
			return i
		}
	}
	return -1
}

// candidates are the shares in which a waiting job may start.
func (o *owners) candidates(j *cluster.Job) (all []int) {
	shares := o.shares(j.Account)
	if len(shares) == 0 {
		return nil
	}
	reach := o.pools.reach(j)
	for _, i := range shares {
		if reach&o.covers[i] != 0 {
			all = append(all, i)
		}
	}
	return all
}
