package allocate

import (
	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

// Feature divides the time on the GPU types in each cycle; the zero value divides none.
type Feature struct {
	Ledger   *Ledger // what was allocated and received
	Settings Settings
}

// Begin begins to work out what the allocation gives each job; shares waits for that, and is nil where nothing is allocated.
func (f *Feature) Begin(c *plan.Cycle) (shares func() *plan.Shares) {
	if f.Ledger == nil || f.Settings.Policy == "" && f.Ledger.profiles == nil {
		return nil
	}
	c.ReadNodes()
	return plan.InBackground(c, func() *plan.Shares { return f.Ledger.allocate(c.Snapshot, c.History, f.Settings, c.Nodes) })
}

// Exclude tells the ledger on which types jobs cannot run; nil: nothing is known of that.
func (f *Feature) Exclude(out map[cluster.JobID]placement.Types) {
	if f.Ledger != nil && out != nil {
		f.Ledger.Exclude(out)
	}
}
