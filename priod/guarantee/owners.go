package guarantee

import (
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// owners finds the shares that jobs draw on.
type owners struct {
	set   *Settings
	of    map[string][]int         // the shares of an account: its own, or those of the nearest account above it that has any
	nodes map[string]*cluster.Node // by name
}

func newOwners(s *cluster.Snapshot, set *Settings) *owners {
	o := &owners{set: set, of: map[string][]int{}, nodes: make(map[string]*cluster.Node, len(s.Nodes))}
	for i := range s.Nodes {
		o.nodes[s.Nodes[i].Name] = &s.Nodes[i]
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

// holder is the share that a running job uses: the first of its account that covers its first node; -1: none.
func (o *owners) holder(j *cluster.Job) int {
	shares := o.shares(j.Account)
	if len(shares) == 0 {
		return -1
	}
	n := o.node(j)
	for _, i := range shares {
		if s := &o.set.Shares[i]; n != nil && s.covers(n) || n == nil && s.GPUType == "" && len(s.Partitions) == 0 {
			return i
		}
	}
	return -1
}

// node is the first node of a running job; nil: it is not known.
func (o *owners) node(j *cluster.Job) *cluster.Node {
	n := o.nodes[j.NodeList]
	if n == nil {
		if hosts, err := slurmplug.ExpandHosts(j.NodeList); err == nil && len(hosts) > 0 {
			n = o.nodes[hosts[0]]
		}
	}
	return n
}

// candidates are the shares in which a waiting job may start.
func (o *owners) candidates(j *cluster.Job) (all []int) {
	for _, i := range o.shares(j.Account) {
		s := &o.set.Shares[i]
		if s.GPUType != "" && j.GPUType != "" && !slices.Contains(strings.Split(j.GPUType, ","), s.GPUType) {
			continue
		}
		if len(s.Partitions) > 0 && !slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return slices.Contains(s.Partitions, p) }) {
			continue
		}
		all = append(all, i)
	}
	return all
}
