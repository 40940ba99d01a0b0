package allocate

import (
	"context"

	"slurmprio/priod/plan"
)

// Feature divides the time on the GPU types in each cycle; nil divides none.
type Feature struct {
	Ledger   *Ledger // what was allocated and received
	Settings AllocationSettings
}

// Plan says what the allocation gives each job, Plan.Shares.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	if f.Ledger != nil {
		c.Plan.Shares = f.Ledger.Allocate(c.Snapshot, c.History, f.Settings)
	}
	return nil
}

// Heard does nothing.
func (f *Feature) Heard(*plan.Cycle) {}

// Act takes in on which types jobs cannot run.
func (f *Feature) Act(_ context.Context, c *plan.Cycle) error {
	if f.Ledger != nil && c.RuledOut != nil {
		f.Ledger.Exclude(c.RuledOut)
	}
	return nil
}
