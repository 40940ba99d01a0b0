package report

import "slurmprio/priod/policy/ranking"

// reasons are ranking's one-word reasons in the words of a sentence.
var reasons = map[ranking.Why]string{
	ranking.TETag:      "its tag says type=te",
	ranking.TEQOS:      "the configuration makes its QOS trial-and-error",
	ranking.BETag:      "its tag says type=be",
	ranking.BEQOS:      "the configuration makes its QOS best-effort",
	ranking.Untagged:   "neither its tag nor its QOS makes it one or the other: it ranks with best-effort jobs, in Slurm's own order",
	ranking.BadTag:     "its tag is not valid, so it counts as untagged",
	ranking.OverBudget: "it asked to be TE, but exceeds the TE budget and counts as BE until there is room",
	ranking.Overrun:    "it asked to be TE, but has run longer than a TE job may and counts as BE",
	ranking.Held:       "it is held: left alone",
	ranking.Dependency: "it waits for another job: left alone",
	ranking.Reserved:   "it runs in a reservation: left alone",
	ranking.Foreign:    "it names a partition that slurm.partitions does not list: left alone",
	ranking.NotYet:     "it begins later: left alone until then",
	ranking.Component:  "it follows the leader of its heterogeneous job",
	ranking.Evicted:    "it was evicted for a TE job and goes before other best-effort jobs until it runs again",
	ranking.Round:      "it is owed its GPU type: others yield to it at the end of a round, and it goes before other best-effort jobs until it starts",
}

// Reason is a decision's why in the words of a sentence.
func Reason(why string) string {
	if words, ok := reasons[ranking.Why(why)]; ok {
		return words
	}
	return why
}
