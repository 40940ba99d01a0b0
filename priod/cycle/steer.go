package cycle

import (
	"context"
	"fmt"
	"maps"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/plan"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
)

// Steering binds pending jobs to GPU types, by what the Ledger allocates.
type Steering struct {
	Settings steer.Settings
	Memory   *steer.Memory // nil: nobody is steered
	Slurm    interface {   // nil: nobody is looked at, and nobody bound
		// Places reads what pending jobs say of their nodes, given Slurm's own
		// ids. Jobs that are gone, or whose record cannot be believed, are left out.
		Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]Place, error)
	}
}

// Place is what a pending job says of its nodes.
type Place = steer.Place

// steer adds to the plan what binds jobs, after a closer look at each. nil: nobody
// is steered. What the journal still pins is not taken for its user's own word.
func (g *Steering) steer(
	ctx context.Context, s *cluster.Snapshot, h *cluster.History, p *plan.Plan, shares *plan.Shares, j *evict.Journal,
) *steer.Steered {
	if g.Memory == nil {
		return nil
	}
	steered := g.Memory.Steer(s, h, p, shares, g.Settings)
	var places map[cluster.JobID]steer.Place
	if unseen := steered.Unseen(); len(unseen) > 0 && g.Slurm != nil {
		var err error
		if places, err = g.Slurm.Places(ctx, unseen); err != nil {
			p.Notes = append(p.Notes, fmt.Sprintf("some jobs are not steered in this cycle: %.300s", err))
		}
	}
	maps.DeleteFunc(places, func(id cluster.JobID, _ Place) bool { return j.Pins(id) }) // Tend takes it out: the next cycle looks
	steered.Vet(places)
	p.Ask(steered.Actions)
	return steered
}

// learn keeps from trying again at once what Slurm did not take.
func (g *Steering) learn(outcomes []plan.Outcome) {
	for i := range outcomes {
		if o := &outcomes[i]; g.Memory != nil && o.Lever == slurmplug.Features && o.Status == slurmplug.Refused {
			for _, id := range o.Jobs() {
				g.Memory.Refused(id, o.Message, g.Settings.Rule.Cycles)
			}
		}
	}
}
