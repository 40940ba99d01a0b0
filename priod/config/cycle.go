package config

import (
	"slurmprio/priod/allocate"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/headroom"
	"slurmprio/priod/idle"
	"slurmprio/priod/locality"
	"slurmprio/priod/order"
	"slurmprio/priod/retry"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/waits"
	"slurmprio/priod/window"
	"slurmprio/priod/workload"
)

// Features are those of a cycle on this cluster, the daemon's and a simulation's alike.
// What more the daemon knows, such as what accounting teaches, is the caller's to add.
func (c *Config) Features(slurm cycle.Slurm, table *workload.Table, st *cycle.State) cycle.Settings {
	set := cycle.Settings{
		Consent:    c.ConsentRules(),
		Order:      order.Feature{Settings: c.Decide()},
		Allocation: allocate.Feature{Ledger: st.Ledger, Settings: c.AllocationSettings()},
	}
	set.Allocation.Settings.Table = table
	set.Evictions = c.Evictions(slurm, st)
	set.Guarantee = guarantee.Feature{Settings: c.Guarantees(&set.Evictions.Settings), Memory: st.Lending}
	st.Lending.Statement.Gap = c.WaitsGap()
	costs := set.Evictions
	set.Windows = window.Feature{Settings: c.WindowSettings(&set.Evictions.Settings), Slurm: slurm, Evictions: &costs}
	set.Headroom = headroom.Feature{Settings: c.HeadroomSettings(), Memory: st.Headroom, Slurm: slurm, Evictions: &costs}
	set.Steering = steer.Feature{Settings: c.Steer(), Memory: st.Steering, Slurm: slurm}
	sizes := c.Sizes()
	sizes.Table, sizes.Past, sizes.PastAt, sizes.Unread = table, st.Uses.Past, st.Uses.At, st.Uses.Unread
	st.Sizes.Set(sizes)
	set.Sizing = size.Feature{Sizes: st.Sizes, Slurm: slurm}
	set.Locality = locality.Feature{Settings: c.LocalitySettings(), Memory: st.Locality, Slurm: slurm}
	set.Refusals = locality.Refusals{Settings: c.RefusalSettings(), Memory: st.Refusals, Slurm: slurm}
	if c.Retry.Enabled {
		set.Retries = retry.Feature{Settings: c.Retries(), Slurm: slurm, Memory: st.Failures}
	}
	set.Idle = idle.Feature{Settings: c.Idle(), Slurm: slurm, Memory: st.Idle}
	set.Waits = waits.Feature{Tracker: st.Waits, Gap: c.WaitsGap()}
	return set
}

// Evictions are those of Features.
func (c *Config) Evictions(slurm cycle.Slurm, st *cycle.State) evict.Feature {
	return evict.Feature{Settings: c.Eviction(), Slurm: slurm, Journal: st.Journal, Vetoes: st.Vetoes, Rounds: st.Rounds}
}
