package evict

import (
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/slurmplug"
)

// Vet takes a closer look at a victim before it is recorded; "" lets it go.
func (e *Eviction) Vet(s Sight, set *Settings) preemption.Why {
	switch {
	case !e.isRun(&s) || s.State != cluster.Running:
		return preemption.IsLeaving
	case !set.Consents(&s.Job):
		return preemption.NoConsent
	case !s.CanRequeue:
		return Vetoed
	case s.Expedites:
		return Expedited
	case s.OnHold:
		return Held
	}
	return ""
}

// Vet takes a closer look at the TE job: who names nodes, or refuses those of
// the claim, gets no room made.
func (c *Claim) Vet(s Sight, excluded string) preemption.Why {
	refused, err := slurmplug.ExpandHosts(excluded)
	switch {
	case s.Gone || s.State != cluster.Pending:
		return Unhelpful
	case s.ReqNodes != "", excluded != "" && err != nil:
		return Constraint
	case slices.ContainsFunc(c.Nodes(), func(n string) bool { return slices.Contains(refused, n) }):
		return Constraint
	}
	return ""
}

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
