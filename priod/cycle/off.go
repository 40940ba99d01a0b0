package cycle

import (
	"slurmprio/priod/order"
	"slurmprio/priod/retry"
)

// switchOff makes these settings those of a priod in which each feature is off: what it wrote it takes back then. What is
// only learned or counted goes on.
func (set *Settings) switchOff() {
	set.Watch()
	set.Guarantee.Settings.Shares = nil
	set.Order.Settings.Off = true
	set.Idle.Settings.Do = nil
	set.Retries = retry.Feature{}
}

// Watch makes these settings those of a priod that plans nothing beyond the classes of jobs.
func (set *Settings) Watch() {
	set.Order.Settings.Order = order.SlurmOrder
	set.Headroom.Settings.Enabled = false
	e := &set.Evictions.Settings
	e.Enabled, e.Defrag, e.Rounds.Enabled = false, false, false
	set.Steering.Settings.Enabled = false
	set.Locality.Settings.Enabled, set.Refusals.Settings.Enabled = false, false
	set.Windows.Settings.Enabled = false
}
