package order

import (
	"slices"

	"slurmprio/priod/plan"
)

// Feature makes the order of the queue in each cycle.
type Feature struct {
	Settings Settings

	// PeerValues waits for the values of another priod that the cycle found; nil: it did not look.
	PeerValues func() []PeerValue

	ranked *decider // in this cycle
	notes  int      // of the plan that are the order's
}

// Rank decides the order, and makes the plan's decisions. shares waits for what the allocation gives each job; nil: nothing is
// allocated.
func (f *Feature) Rank(c *plan.Cycle, shares func() *plan.Shares) {
	if f.Settings.Peers {
		found := FindPeerValues(c.Snapshot, c.History, f.Settings)
		f.PeerValues = func() []PeerValue { return found }
		Adopt(found, c.Snapshot, c.History)
	}
	set := f.Settings
	d := newDecider(c.Snapshot, c.History, set)
	if shares != nil {
		set.Shares = shares()
	}
	if set.Off {
		set.Shares = nil
	}
	*c.Plan = d.decide(set.Shares)
	if set.Shares != nil {
		c.Plan.StandsUntil(set.Shares.Until)
	}
	if !f.Settings.Peers { // nothing here depends on them
		f.PeerValues = plan.InBackground(c, func() []PeerValue { return FindPeerValues(c.Snapshot, c.History, f.Settings) })
	}
	f.ranked, f.notes = d, len(c.Plan.Notes)
}

// Again remakes the order after room began to be made for some jobs (History.Claiming). What the stages since have planned
// stays.
func (f *Feature) Again(c *plan.Cycle) {
	again := f.ranked.again()
	for i := range again.Decisions { // of the same jobs
		d, was := &again.Decisions[i], &c.Plan.Decisions[i]
		d.Steer, d.Size, d.Locality = was.Steer, was.Size, was.Locality
		budget, part := d.Choices.Budget, d.Choices.Part
		d.Choices = was.Choices
		d.Choices.Budget, d.Choices.Part = budget, part
	}
	again.Ask(slices.DeleteFunc(c.Plan.Actions, func(a plan.Action) bool { return a.Lever.Ranks() }))
	kept := c.Plan.Notes[f.notes:]
	f.notes = len(again.Notes)
	again.StandsUntil(c.Plan.Until)
	again.Notes = append(again.Notes, kept...)
	*c.Plan = again
}
