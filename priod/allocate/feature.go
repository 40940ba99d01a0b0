package allocate

import (
	"context"

	"slurmprio/priod/plan"
)

// Feature divides the time on the GPU types in each cycle; the zero value divides none.
type Feature struct {
	plan.PlanOnly
	Ledger   *Ledger // what was allocated and received
	Settings Settings
}

// Plan begins to work out what the allocation gives each job: the cycle's Shares.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	if f.Ledger == nil || f.Settings.Policy == "" && f.Ledger.profiles == nil {
		return nil
	}
	c.ReadNodes()
	c.Shares = plan.InBackground(c, func() *plan.Shares { return f.Ledger.allocate(c.Snapshot, c.History, f.Settings, c.Nodes) })
	return nil
}

// Act tells the ledger on which types jobs cannot run.
func (f *Feature) Act(_ context.Context, c *plan.Cycle) error {
	if f.Ledger != nil && c.RuledOut != nil {
		f.Ledger.Exclude(c.RuledOut)
	}
	return nil
}
