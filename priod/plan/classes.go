package plan

import (
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Settings say which jobs are ranked and what TE may use.
type Classes struct {
	Partitions []string // ranked partitions; none named: all
	TEQOS      []string // QOS that make a job TE without a tag; one of a list is enough
	BEQOS      []string // QOS that make a job BE without a tag, if all of its list are such

	User     Budget            // of each user not named in Users
	Users    map[string]Budget // by user
	Account  Budget            // of each account not named in Accounts
	Accounts map[string]Budget // by account
}

// Class is what a job asks to be: by its tag, else by its QOS.
func (set *Classes) Class(tagType, qos string) cluster.Class {
	if tagType == "te" || tagType == "" && set.ByQOS(qos) == TEQOS {
		return cluster.TE
	}
	return cluster.BE
}

// ByQOS is what the QOS alone makes of a job: TEQOS, BEQOS, or Untagged. Since 24.11 a
// pending job may name several, which Slurm tries one after the other: it is TE if it
// may start in a QOS that makes it TE, and has agreed to what BE jobs agree to only if
// there is no other QOS that it may start in. Once it runs, Slurm shows the one.
func (set *Classes) ByQOS(list string) Reason {
	if len(set.TEQOS)+len(set.BEQOS) == 0 {
		return Untagged
	}
	all := true
	for qos := range slurmplug.EachQOS(list) {
		if slices.Contains(set.TEQOS, qos) {
			return TEQOS
		}
		all = all && slices.Contains(set.BEQOS, qos)
	}
	if all {
		return BEQOS
	}
	return Untagged
}

// Budget is the share of a user or an account for TE jobs; what they use beyond it has a price (see priod/order). A zero field
// has none.
type Budget struct {
	GPUs      int           // held at once
	Share     float64       // the same, as a part of the GPUs that the job can reach
	TimeLimit time.Duration // of a TE job
	GPUHours  float64       // received within cluster.UsePeriod
	HourShare float64       // the same, as a part of what these GPUs give in that time
}

// Counts reports whether the budget limits what jobs use together.
func (b Budget) Counts() bool { return b.GPUs > 0 || b.GPUHours > 0 || b.Share > 0 || b.HourShare > 0 }

// On is the budget of a job that can reach so many GPUs: a number takes the place of a part. A part of GPUs is
// rounded down, and never less than one node.
func (b Budget) On(r Reach) Budget {
	const rounding = 1e-9 // of a product that should be a whole number
	if b.Share > 0 && b.GPUs == 0 && r.GPUs > 0 {
		b.GPUs = max(int(b.Share*float64(r.GPUs)+rounding), r.Node, 1)
	}
	if b.HourShare > 0 && b.GPUHours == 0 && r.GPUs > 0 {
		b.GPUHours = b.HourShare * float64(r.GPUs) * cluster.UsePeriod.Hours()
	}
	return b
}

// Why says in one word why a job stands where it stands.
type Reason string

// The reasons, in the words that explain, queue and the store use.
const (
	TETag      Reason = "te"           // tagged type=te
	TEQOS      Reason = "te-qos"       // in a QOS that the configuration makes TE
	BETag      Reason = "be"           // tagged type=be
	BEQOS      Reason = "be-qos"       // in a QOS that the configuration makes BE
	TERule     Reason = "te-rule"      // a class rule of the configuration makes it TE
	BERule     Reason = "be-rule"      // a class rule makes it BE
	BESite     Reason = "be-site"      // says nothing, and the site agreed to evictions for it
	OptedOut   Reason = "none"         // tagged type=none: ranks with BE, and nothing else is done to it
	Untagged   Reason = "untagged"     // says nothing; ranks with BE
	BadTag     Reason = "bad-tag"      // the tag is not valid; ranks with BE
	OverBudget Reason = "over-budget"  // TE at more than Worth times its share; counts as BE
	Overrun    Reason = "overrun"      // TE that has run longer than TE jobs may; counts as BE
	Held       Reason = "held"         // left alone
	Dependency Reason = "dependency"   // left alone
	Reserved   Reason = "reservation"  // left alone
	Foreign    Reason = "partition"    // not in a ranked partition; left alone
	Fragile    Reason = "fragile"      // any update would break its request on this Slurm; left alone
	NotYet     Reason = "not-eligible" // begins later; left alone until then
	Component  Reason = "het"          // follows the leader of its heterogeneous job
	Evicted    Reason = "evicted"      // BE; priod evicted it, and it goes before other BE jobs
	InShare    Reason = "in-share"     // BE; within its account's guaranteed share, and it goes before other BE jobs
	Withheld   Reason = "withheld"     // beyond its account's guaranteed share, and it could not leave in time: it waits
	Round      Reason = "round"        // BE; others yield to it at the end of a round, and it goes before all BE jobs
)

// Started reports whether a job that is not ranked counts under the class of its decision: it started before a cycle saw it wait.
func (r Reason) Started() bool { return r == TETag || r == TEQOS || r == TERule || r == OverBudget }

// Reasons are all of them.
var Reasons = []Reason{
	TETag, TEQOS, BETag, BEQOS, TERule, BERule, BESite, OptedOut, Untagged, BadTag, OverBudget, Overrun, Held, Dependency, Reserved, Foreign, Fragile, NotYet, Component, Evicted, InShare, Withheld, Round,
}

// Alone says why a pending job is left alone, whatever its type; "" when it is ranked.
func (set *Classes) Alone(j *cluster.Job) Reason {
	switch {
	case !set.Ranks(j.Partition):
		return Foreign
	case j.Fragile != "":
		return Fragile
	case j.Held():
		return Held
	case j.Dependency:
		return Dependency
	case j.Reserved():
		return Reserved
	case j.HetOffset > 0:
		return Component
	}
	return ""
}

// Ranks reports whether jobs of these partitions are ranked: every one of them
// must be, because one priority serves them all.
func (set *Classes) Ranks(list string) bool {
	if len(set.Partitions) == 0 || slices.Contains(set.Partitions, list) {
		return true
	}
	if !strings.Contains(list, ",") {
		return false
	}
	for p := range strings.SplitSeq(list, ",") {
		if !slices.Contains(set.Partitions, p) {
			return false
		}
	}
	return true
}

// OfUser is the budget of a user, by name or of each.
func (set *Classes) OfUser(name string) Budget {
	if b, ok := set.Users[name]; ok {
		return b
	}
	return set.User.of(name)
}

// OfAccount is the budget of an account, by name or of each.
func (set *Classes) OfAccount(name string) Budget {
	if b, ok := set.Accounts[name]; ok {
		return b
	}
	return set.Account.of(name)
}

// of keeps jobs without an owner, in a trace that names no users or a Slurm without
// accounting, from sharing one budget.
func (b Budget) of(name string) Budget {
	if name == "" {
		return Budget{TimeLimit: b.TimeLimit}
	}
	return b
}

// Boundless reports whether no budget limits anything.
func (set *Classes) Boundless() bool {
	return set.User == (Budget{}) && set.Account == (Budget{}) && len(set.Users)+len(set.Accounts) == 0
}

// RunLimit is for how long jobs of a user and an account run as TE, in all of
// their runs together: Worth times the time limit that their share names; 0: as long as they like.
func (set *Classes) RunLimit(user, account string) time.Duration {
	if limit := lesser(set.OfUser(user).TimeLimit, set.OfAccount(account).TimeLimit); limit > 0 {
		return Worth*limit + EndSlack
	}
	return 0
}

// EndSlack is what Slurm may take to end a job at its time limit.
const EndSlack = 2 * time.Minute

// lesser is the lesser of two limits, of which 0 is none.
func lesser(a, b time.Duration) time.Duration {
	if a > 0 && (b <= 0 || a < b) {
		return a
	}
	return max(b, 0)
}
