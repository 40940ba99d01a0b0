package cycle

import "slurmprio/priod/order"

// OrdersTEAlone reports whether cycles do nothing but put TE jobs first: then BE jobs take part in
// nothing, and cycles without a waiting TE job write nothing.
func (set *Settings) OrdersTEAlone() bool {
	o, e := &set.Order.Settings, &set.Evictions
	moves := e.Journal != nil && (e.Settings.Enabled || e.Settings.Defrag || e.Rounds != nil && e.Settings.Rounds.Enabled)
	shares := set.Allocation.Ledger != nil && set.Allocation.Settings.Policy != ""
	places := set.Locality.Settings.Enabled || set.Refusals.Settings.Enabled
	sizes := set.Steering.Settings.Enabled || set.Sizing.Sizes.Enabled()
	reads := set.Retries.Memory != nil || set.Waits.Tracker != nil
	decides := len(set.Consent.Classes)+len(set.Consent.Tables) > 0
	windows := set.Windows.Settings.Enabled
	return !(windows || decides || moves || shares || places || sizes || reads) && o.Order == order.SlurmOrder && !o.Peers
}
