package view

import (
	"cmp"

	"slurmprio/priod/plan"
)

// reasons are ranking's one-word reasons in the words of a sentence.
var reasons = map[plan.Reason]string{
	plan.TETag:      "its tag says type=te",
	plan.TEQOS:      "the configuration makes its QOS trial-and-error",
	plan.BETag:      "its tag says type=be",
	plan.BEQOS:      "the configuration makes its QOS best-effort",
	plan.TERule:     "a class rule of the site makes it trial-and-error",
	plan.BERule:     "a class rule of the site makes it best-effort",
	plan.BESite:     "untagged: the site agrees to evictions for it",
	plan.OptedOut:   "its tag says type=none: keeps Slurm's own order, and priod does nothing to it",
	plan.Untagged:   "untagged: keeps Slurm's own order",
	plan.BadTag:     "its tag is not valid, so it counts as untagged",
	plan.OverBudget: "TE requested, but above the TE budget: counts as BE",
	plan.Overrun:    "TE requested, but it has run longer than the TE limit: counts as BE",
	plan.Held:       "it is held: left alone",
	plan.Dependency: "it waits for another job: left alone",
	plan.Reserved:   "it runs in a reservation: left alone",
	plan.Foreign:    "not all of its partitions are in slurm.partitions: left alone",
	plan.Fragile:    "a write would break its request on this Slurm: left alone",
	plan.NotYet:     "not eligible yet (begin time)",
	plan.InShare:    "it is within its account's guaranteed share: it ranks ahead of other best-effort jobs, and jobs beyond their share leave for it",
	plan.Withheld:   "it is beyond its account's guaranteed share and could not leave in time for the owners",
	plan.Component:  "it follows the leader of its heterogeneous job",
	plan.Evicted:    "it was evicted for a TE job and ranks ahead of other best-effort jobs until it runs again",
	plan.Round:      "it is owed its GPU type: others yield to it at the end of a round, and it ranks ahead of other best-effort jobs until it starts",
}

// causes are why jobs wait, in a few words.
var causes = map[plan.Cause]string{
	plan.NotObserved: "not observed", plan.HeldBack: "held", plan.AfterJob: "after another job", plan.BeforeTime: "begin time not reached",
	plan.AtLimit: "limit of user or account", plan.NoLicence: "no licence free", plan.NoNode: "its nodes are down", plan.BeyondShare: "beyond its account's share", plan.ByOther: "Slurm's own reason",
	plan.Capacity: "too few GPUs free", plan.Fragmentation: "free GPUs do not fit", plan.Locality: "kept for a better place",
	plan.Precedence: "jobs before it", plan.Starting: "fits, starts next",
}

// CauseWords are a cause of waiting in a few words; "" is one that is not known.
func CauseWords(cause string) string {
	if cause == "" {
		return "not known"
	}
	return cmp.Or(causes[plan.Cause(cause)], cause)
}

// Reason is a decision's why in the words of a sentence.
func Reason(why string) string {
	if words, ok := reasons[plan.Reason(why)]; ok {
		return words
	}
	return why
}
