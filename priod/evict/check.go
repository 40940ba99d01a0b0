package evict

import (
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/slurmplug"
)

// Vet returns why a closer look rules a victim out before its eviction is recorded; "":
// it does not.
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

// Vet returns why a closer look rules a claim out: the waiting job names nodes itself,
// or excludes nodes of the claim, or does not wait any more; "": it does not.
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

// SetNodes tells the journal the nodes of a cycle's snapshot.
func (j *Journal) SetNodes(nodes []cluster.Node) {
	j.nodes = nodes
}

// Allows tells whether a waiting job's constraint and preference, which its owner can
// change at any time, still allow its claim's place. Pinned to nodes that they exclude,
// the job would get the reason BadConstraints and never start.
func (j *Journal) Allows(c *Claim, s *Sight) bool {
	constraint, err := slurmplug.ParseConstraint(s.Features)
	preferred, unread := slurmplug.ParseConstraint(s.Prefer)
	return err == nil && unread == nil && !slices.ContainsFunc(c.Nodes(), func(name string) bool {
		at := slices.IndexFunc(j.nodes, func(n cluster.Node) bool { return n.Name == name })
		return at >= 0 && !(constraint.Allows(j.nodes[at].Features) && preferred.Allows(j.nodes[at].Features))
	})
}
