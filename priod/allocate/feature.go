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

// Plan sets the plan's Shares: what the allocation gives each job.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	if f.Ledger != nil {
		if c.Plan.Shares = f.Ledger.Allocate(c.Snapshot, c.History, f.Settings); c.Plan.Shares != nil {
			c.Plan.Until = f.Ledger.NextAt()
		}
	}
	return nil
}

// Act tells the ledger on which types jobs cannot run.
func (f *Feature) Act(_ context.Context, c *plan.Cycle) error {
	if f.Ledger != nil && c.RuledOut != nil {
		f.Ledger.Exclude(c.RuledOut)
	}
	return nil
}
