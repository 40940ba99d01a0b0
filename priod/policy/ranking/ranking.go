// Package ranking orders the pending jobs of the configured partitions:
// trial-and-error (TE) before best-effort (BE); inside TE first come first
// served by the time a job could first have run, within a budget for each
// user and account; inside BE those first to which others yield at the end of a
// round, then those that priod evicted, then the order that Slurm itself gives. TE
// jobs for which room is being made come first of all.
//
// It is pure: a snapshot, a history and settings in, an order with its reasons
// out. The classes are those of FitGpp (Yabuuchi et al., OpML'19).
package ranking

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Settings say which jobs are ranked and what TE may use.
type Settings struct {
	Partitions []string // ranked partitions; none named: all
	TEQOS      []string // QOS that make a job TE without a tag; one of a list is enough
	BEQOS      []string // QOS that make a job BE without a tag, if all of its list are such

	User     Budget            // of each user not named in Users
	Users    map[string]Budget // by user
	Account  Budget            // of each account not named in Accounts
	Accounts map[string]Budget // by account
}

// Class is what a job asks to be: by its tag, else by its QOS.
func (set *Settings) Class(tagType, qos string) cluster.Class {
	if tagType == "te" || tagType == "" && set.ByQOS(qos) == TEQOS {
		return cluster.TE
	}
	return cluster.BE
}

// ByQOS is what the QOS alone makes of a job: TEQOS, BEQOS, or Untagged. Since 24.11 a
// pending job may name several, which Slurm tries one after the other: it is TE if it
// may start in a QOS that makes it TE, and has agreed to what BE jobs agree to only if
// there is no other QOS that it may start in. Once it runs, Slurm shows the one.
func (set *Settings) ByQOS(list string) Why {
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

// Budget limits trial-and-error use; a zero field limits nothing.
type Budget struct {
	GPUs      int           // held at once
	TimeLimit time.Duration // longest time limit of a TE job
	GPUHours  float64       // received within cluster.UsePeriod
}

// Why says in one word why a job stands where it stands.
type Why string

// The reasons, in the words that explain, queue and the store use.
const (
	TETag      Why = "te"           // tagged type=te
	TEQOS      Why = "te-qos"       // in a QOS that the configuration makes TE
	BETag      Why = "be"           // tagged type=be
	BEQOS      Why = "be-qos"       // in a QOS that the configuration makes BE
	Untagged   Why = "untagged"     // says nothing; ranks with BE
	BadTag     Why = "bad-tag"      // the tag is not valid; ranks with BE
	OverBudget Why = "over-budget"  // TE above the budget; counts as BE
	Overrun    Why = "overrun"      // TE that has run longer than TE jobs may; counts as BE
	Held       Why = "held"         // left alone
	Dependency Why = "dependency"   // left alone
	Reserved   Why = "reservation"  // left alone
	Foreign    Why = "partition"    // not in a ranked partition; left alone
	NotYet     Why = "not-eligible" // begins later; left alone until then
	Component  Why = "het"          // follows the leader of its heterogeneous job
	Evicted    Why = "evicted"      // BE; priod evicted it, and it goes before other BE jobs
	Round      Why = "round"        // BE; others yield to it at the end of a round, and it goes before all BE jobs
)

// Reasons are all of them.
var Reasons = []Why{
	TETag, TEQOS, BETag, BEQOS, Untagged, BadTag, OverBudget, Overrun, Held, Dependency, Reserved, Foreign, NotYet, Component, Evicted, Round,
}

// Verdict is what ranking says about one pending job.
type Verdict struct {
	Job    int // index into Snapshot.Jobs
	Class  cluster.Class
	Ranked bool // false: left alone
	Why    Why
	Detail string // words for a person, "" when Why says it all
	Since  time.Time
	// Tasks is how many tasks of an unsplit array count as TE, the others exceed
	// the budget, or for how many of a BE one others yield. Zero: all of the record.
	Tasks int
}

// Rank gives one verdict for each pending job and each running TE job that
// overran, in the order of the snapshot, and the TE verdicts' indices, first to
// last.
func Rank(s *cluster.Snapshot, h *cluster.History, set Settings) (verdicts []Verdict, te []int) {
	r := ranker{set: set, use: useOf(s, h, &set)}
	verdicts = make([]Verdict, 0, len(s.Jobs))
	for i := range s.Jobs {
		if s.Jobs[i].State != cluster.Pending {
			if why := r.runsOver(&s.Jobs[i]); why != "" {
				verdicts = append(verdicts, Verdict{Job: i, Why: Overrun, Detail: why})
			}
			continue
		}
		v := r.classify(&s.Jobs[i])
		v.Job = i
		v.Since = h.FirstEligible[s.Jobs[i].ID]
		if v.Ranked && v.Since.IsZero() {
			v.Ranked, v.Class, v.Why = false, cluster.BE, NotYet
		}
		if v.Ranked && v.Class == cluster.TE {
			if why := r.ranOver(&s.Jobs[i]); why != "" {
				v.Class, v.Why, v.Detail = cluster.BE, Overrun, why
			}
		}
		if v.Ranked && v.Class == cluster.TE {
			te = append(te, len(verdicts))
		}
		if v.Ranked && v.Class == cluster.BE {
			switch id := s.Jobs[i].ID; {
			case h.Claiming[id]:
				v.Why = Round
			case len(h.Claiming) > 0 && h.Claiming[s.Jobs[i].FirstTask()]:
				v.Why, v.Tasks = Round, 1
			case h.Returning[id]:
				v.Why = Evicted
			}
		}
		verdicts = append(verdicts, v)
	}
	slices.SortFunc(te, func(a, b int) int {
		v, w := &verdicts[a], &verdicts[b]
		if x, y := h.Claiming[s.Jobs[v.Job].ID], h.Claiming[s.Jobs[w.Job].ID]; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(v.Since.Compare(w.Since), turn(&s.Jobs[v.Job]).Compare(turn(&s.Jobs[w.Job])))
	})
	return verdicts, r.admit(s, verdicts, te)
}

// turn orders jobs that could run from the same time on: by id, an unsplit
// array where its first task stands, so that tasks split off it keep their turn.
func turn(j *cluster.Job) cluster.JobID {
	id := j.ID
	for i := 0; i < len(j.Tasks) && '0' <= j.Tasks[i] && j.Tasks[i] <= '9'; i++ {
		id.Task = max(id.Task, 0)*10 + int32(j.Tasks[i]-'0')
	}
	return id
}

type ranker struct {
	set Settings
	use func() use
}

func (r *ranker) classify(j *cluster.Job) Verdict {
	if why := r.set.Alone(j); why != "" {
		return Verdict{Why: why}
	}
	switch {
	case j.TagErr != "":
		return Verdict{Ranked: true, Why: BadTag, Detail: j.TagErr}
	case j.Tag.Type == "te":
		return Verdict{Ranked: true, Class: cluster.TE, Why: TETag}
	case j.Tag.Type == "be":
		return Verdict{Ranked: true, Why: BETag}
	}
	switch why := r.set.ByQOS(j.QOS); why {
	case TEQOS:
		return Verdict{Ranked: true, Class: cluster.TE, Why: why, Detail: "QOS " + j.QOS}
	case BEQOS:
		return Verdict{Ranked: true, Why: why, Detail: "QOS " + j.QOS}
	}
	return Verdict{Ranked: true, Why: Untagged}
}

// Alone says why a pending job is left alone, whatever its type; "" when it is ranked.
func (set *Settings) Alone(j *cluster.Job) Why {
	switch {
	case !set.Ranks(j.Partition):
		return Foreign
	case j.Held():
		return Held
	case j.Dependency:
		return Dependency
	case j.Reservation != "":
		return Reserved
	case j.HetOffset > 0:
		return Component
	}
	return ""
}

// Ranks tells whether jobs of these partitions are ranked: every one of them
// must be, because one priority serves them all.
func (set *Settings) Ranks(list string) bool {
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

// admit goes through the TE jobs in their order and turns those that exceed
// the budget of their user or account into BE. Admitted pending jobs count as
// if they ran, so that a flood of small trials cannot jump the queue at once.
func (r *ranker) admit(s *cluster.Snapshot, verdicts []Verdict, te []int) []int {
	set := &r.set
	if set.boundless() {
		return te
	}
	users, accounts := r.use().users, r.use().accounts
	admitted := te[:0]
	for _, i := range te {
		v := &verdicts[i]
		j := &s.Jobs[v.Job]
		user := account{name: "user " + j.User, budget: set.ofUser(j.User), use: users[j.User]}
		acct := account{name: "account " + j.Account, budget: set.ofAccount(j.Account), use: accounts[j.Account]}
		tasks := max(j.TaskCount, 1)
		fit, reason := tasks, ""
		for _, a := range []account{user, acct} {
			if n, why := a.admits(j); n < fit {
				fit, reason = n, why
			}
		}
		if fit == 0 {
			v.Class, v.Why, v.Detail = cluster.BE, OverBudget, reason
			continue
		}
		if fit < tasks {
			v.Tasks = fit
			v.Detail = fmt.Sprintf("the first %d of %d tasks; for the others: %s", fit, tasks, reason)
		}
		user.use.GPUs += fit * j.GPUs
		acct.use.GPUs += fit * j.GPUs
		users[j.User], accounts[j.Account] = user.use, acct.use
		admitted = append(admitted, i)
	}
	return admitted
}

func (set *Settings) ofUser(name string) Budget {
	if b, ok := set.Users[name]; ok {
		return b
	}
	return set.User.of(name)
}

func (set *Settings) ofAccount(name string) Budget {
	if b, ok := set.Accounts[name]; ok {
		return b
	}
	return set.Account.of(name)
}

// of keeps jobs of nobody, in a trace that names no users or a Slurm without
// accounting, from sharing one purse.
func (b Budget) of(name string) Budget {
	if name == "" {
		return Budget{TimeLimit: b.TimeLimit}
	}
	return b
}

// account is one purse that a TE job draws on: a user's or an account's.
type account struct {
	name   string
	budget Budget
	use    cluster.Use
}

// admits says how many of the record's tasks still fit, and what stops more.
func (a account) admits(j *cluster.Job) (tasks int, why string) {
	tasks = max(j.TaskCount, 1)
	if l := a.budget.TimeLimit; l > 0 && (j.TimeLimit == slurmplug.Unlimited || j.TimeLimit > l) {
		return 0, fmt.Sprintf("time limit %s is above the %s that TE jobs of %s may ask for", limitText(j.TimeLimit), l, a.name)
	}
	if l := a.budget.GPUHours; l > 0 && a.use.GPUSeconds/3600 >= l {
		// Without the figure, which moves with every poll: it would be stored each time.
		return 0, fmt.Sprintf("%s has used up its %.1f TE GPU-hours within %s", a.name, l, cluster.UsePeriod)
	}
	if l := a.budget.GPUs; l > 0 && j.GPUs > 0 {
		if n := max(l-a.use.GPUs, 0) / j.GPUs; n < tasks {
			return n, fmt.Sprintf("%s holds or is next for %d TE GPUs of %d, and this job wants %d", a.name, a.use.GPUs, l, j.GPUs)
		}
	}
	return tasks, ""
}

func limitText(d time.Duration) string {
	if d == slurmplug.Unlimited {
		return "UNLIMITED"
	}
	return d.String()
}
