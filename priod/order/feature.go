package order

import (
	"context"
	"slices"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature makes the order of the queue in each cycle.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Memory   *Memory // nil: each cycle starts over

	// PeerValues waits for the values of another priod that the cycle found; nil: it did not look.
	PeerValues func() []PeerValue
}

// Plan decides the order, and makes the plan's decisions. Features after it may have the
// order made again (Reorder).
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	if f.Settings.Peers {
		found := FindPeerValues(c.Snapshot, c.History, f.Settings)
		f.PeerValues = func() []PeerValue { return found }
		Adopt(found, c.Snapshot, c.History)
	}
	set := f.Settings
	d := newDecider(c.Snapshot, c.History, set)
	d.refused = f.Memory.since(c.Snapshot.At)
	if c.Shares != nil {
		set.Shares = c.Shares()
	}
	*c.Plan = d.decide(set.Shares)
	if set.Shares != nil {
		c.Plan.StandsUntil(set.Shares.Until)
	}
	if !f.Settings.Peers { // nothing here depends on them
		f.PeerValues = plan.InBackground(c, func() []PeerValue { return FindPeerValues(c.Snapshot, c.History, f.Settings) })
	}
	notes := len(c.Plan.Notes)
	c.Reorder = func() {
		again := d.again()
		for i := range again.Decisions { // of the same jobs
			d, was := &again.Decisions[i], &c.Plan.Decisions[i]
			d.Steer, d.Evict, d.Size, d.Locality = was.Steer, was.Evict, was.Size, was.Locality
			budget := d.Choices.Budget
			d.Choices = was.Choices
			d.Choices.Budget = budget
		}
		again.Ask(slices.DeleteFunc(c.Plan.Actions, func(a plan.Action) bool { return a.Lever.Ranks() }))
		kept := c.Plan.Notes[notes:]
		notes = len(again.Notes)
		again.StandsUntil(c.Plan.Until)
		again.Notes = append(again.Notes, kept...)
		*c.Plan = again
	}
	return nil
}

// Heard remembers the values that were sent, because the next snapshot need not show
// them.
func (f *Feature) Heard(c *plan.Cycle) {
	h := c.History
	for _, o := range c.Outcomes {
		if !o.Lever.Ranks() {
			continue
		}
		for _, id := range o.Jobs() {
			if old, known := h.Written[id]; known && old.Lever == o.Lever {
				h.Written[id] = old.Holding(o.Before.Number(), c.Snapshot.At)
			}
			w := Effect(o.Action, h)
			w.At = c.Snapshot.At
			switch o.Status {
			case slurmplug.Applied:
				h.Wrote(id, w, isTakenBack(o.Action, h.Written[id]))
			case slurmplug.Unknown:
				h.Try(id, w)
			case slurmplug.Refused:
				f.Memory.refuse(id, c.Snapshot.At)
			}
		}
	}
}
