package evict

import (
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// See takes in the nodes of a cycle's snapshot.
func (j *Journal) SetNodes(nodes []cluster.Node) {
	j.nodes = nodes
}

// Allows tells whether a waiting job's constraint and what it prefers, which its owner
// can change at any time, still allow its claim's place. Named in a request that does
// not, these nodes would put the job into BadConstraints.
func (j *Journal) Allows(c *Claim, s *Sight) bool {
	constraint, err := slurmplug.ParseConstraint(s.Features)
	preferred, unread := slurmplug.ParseConstraint(s.Prefer)
	return err == nil && unread == nil && !slices.ContainsFunc(c.Nodes(), func(name string) bool {
		at := slices.IndexFunc(j.nodes, func(n cluster.Node) bool { return n.Name == name })
		return at >= 0 && !(constraint.Allows(j.nodes[at].Features) && preferred.Allows(j.nodes[at].Features))
	})
}

// refuses tells whether the job that waits does not want the claim's place any more.
func (n *transition) isUnwanted(c *Claim) bool {
	s, looked := n.Sights[c.Job]
	claim := *c
	return looked && s.State == cluster.Pending && n.whyUnwanted(&claim, &s) != ""
}
