package order

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Verdict is what Rank says about one job.
type Verdict struct {
	Job    int // index into Snapshot.Jobs
	Class  cluster.Class
	Ranked bool // false: priod leaves it alone
	Why    plan.Reason
	Detail string            // a sentence for people, "" when Why says it all
	Budget *plan.BudgetLimit // what the job exceeds; nil: nothing
	Since  time.Time
	// Tasks is how many tasks of an unsplit array count as TE, when the others exceed
	// the budget, or for how many tasks of a BE array others yield; 0: all of the record.
	Tasks int
}

// Rank returns a verdict for each pending job, each running TE job that overran and each that started before a cycle
// saw it, in the order of the snapshot, and the indices of the verdicts of TE jobs, first to last.
func Rank(s *cluster.Snapshot, h *cluster.History, set plan.Classes) (verdicts []Verdict, te []int) {
	r := newRanker(s, h, set)
	verdicts, te = r.all()
	return verdicts, r.admit(verdicts, te)
}

func newRanker(s *cluster.Snapshot, h *cluster.History, set plan.Classes) *ranker {
	r := &ranker{s: s, h: h, set: set, charges: cluster.NewCharges(s)}
	r.use = teUseOf(s, h, &r.set)
	return r
}

// all are the verdicts and the TE jobs, in the order of the snapshot and before budgets.
func (r *ranker) all() (verdicts []Verdict, te []int) {
	verdicts = make([]Verdict, 0, len(r.s.Jobs))
	unseen := r.admitUnseen()
	for i := range r.s.Jobs {
		if r.s.Jobs[i].State != cluster.Pending {
			if why := r.overrunsNow(&r.s.Jobs[i]); why != "" {
				verdicts = append(verdicts, Verdict{Job: i, Why: plan.Overrun, Detail: why})
			} else if v, is := unseen[i]; is {
				verdicts = append(verdicts, v)
			}
			continue
		}
		v := r.verdict(i)
		if v.Ranked && v.Class == cluster.TE {
			te = append(te, len(verdicts))
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, te
}

// verdict is that about a pending job, which stands at this place in the snapshot, before budgets.
func (r *ranker) verdict(i int) Verdict {
	j := &r.s.Jobs[i]
	v := r.classify(j)
	v.Job = i
	v.Since = r.h.FirstEligible.Get(j.ID)
	if v.Ranked && v.Since.IsZero() {
		v.Ranked, v.Why = false, plan.NotYet
	}
	if v.Ranked && v.Class == cluster.TE {
		if why := r.overranBefore(j); why != "" {
			v.Class, v.Why, v.Detail = cluster.BE, plan.Overrun, why
		}
	}
	if v.Ranked && v.Class == cluster.BE {
		switch {
		case r.h.Claiming[j.ID]:
			v.Why = plan.Round
		case len(r.h.Claiming) > 0 && r.h.Claiming[j.FirstTask()]:
			v.Why, v.Tasks = plan.Round, 1
		case r.h.Returning[j.ID]:
			v.Why = plan.Evicted
		}
	}
	return v
}

// again brings verdicts up to date after room began to be made for some jobs: those of TE jobs, te
// before budgets, and of BE jobs to which others yield.
func (r *ranker) again(verdicts []Verdict, te []int) {
	r.admitUnseen() // what they hold of the budgets, as before
	for _, i := range te {
		verdicts[i] = r.verdict(verdicts[i].Job)
	}
	for i := range verdicts {
		v := &verdicts[i]
		if j := &r.s.Jobs[v.Job]; v.Ranked && (v.Why == plan.Round || r.h.Claiming[j.ID] || j.Tasks != "" && r.h.Claiming[j.FirstTask()]) {
			*v = r.verdict(v.Job)
		}
	}
}

// sortTE returns TE jobs, indices of verdicts, in their order: those for which room is being made
// first, then by the time when they could first have run.
func sortTE(te []int, verdicts []Verdict, s *cluster.Snapshot, h *cluster.History) []int {
	type key struct { // small, because tens of thousands are moved about
		later   bool
		since   int64
		id      cluster.JobID
		verdict int
	}
	keys := make([]key, len(te))
	for k, i := range te {
		j := &s.Jobs[verdicts[i].Job]
		keys[k] = key{!h.Claiming[j.ID], verdicts[i].Since.UnixNano(), idOrder(j), i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		switch {
		case a.later != b.later && b.later:
			return -1
		case a.later != b.later:
			return 1
		case a.since != b.since:
			return cmp.Compare(a.since, b.since)
		}
		return a.id.Compare(b.id)
	})
	sorted := make([]int, len(te))
	for k := range keys {
		sorted[k] = keys[k].verdict
	}
	return sorted
}

// idOrder orders jobs that could run from the same time on by their ids. An unsplit
// array stands where its first task stands, so that tasks that are split off it keep
// their place.
func idOrder(j *cluster.Job) cluster.JobID {
	id := j.ID
	for i := 0; i < len(j.Tasks) && '0' <= j.Tasks[i] && j.Tasks[i] <= '9'; i++ {
		id.Task = max(id.Task, 0)*10 + int32(j.Tasks[i]-'0')
	}
	return id
}

type ranker struct {
	s       *cluster.Snapshot
	h       *cluster.History
	set     plan.Classes
	use     func() *teUse
	charges *cluster.Charges
	reach   map[string]plan.Reach // by list of partitions; see reachOf
	beyond  map[demand]refusal    // of the jobs so far: many are refused in the same words
}

// demand is all that the words of a refusal depend on.
type demand struct {
	limit, of, name  string
	held, most, asks float64
	plain            bool // asks is what the job asks for
}

type refusal struct {
	limit *plan.BudgetLimit
	why   string
}

// refuse returns the refusal of a demand, which is put into words once.
func (r *ranker) refuse(d demand, words func() refusal) (*plan.BudgetLimit, string) {
	no, known := r.beyond[d]
	if !known {
		no = words()
		if r.beyond == nil {
			r.beyond = map[demand]refusal{}
		}
		r.beyond[d] = no
	}
	return no.limit, no.why
}

func (r *ranker) classify(j *cluster.Job) Verdict {
	switch why := r.set.Alone(j); why {
	case "":
	case plan.Fragile:
		return Verdict{Why: why, Detail: j.Fragile}
	default:
		return Verdict{Why: why}
	}
	switch {
	case j.TagErr != "":
		return Verdict{Ranked: true, Why: plan.BadTag, Detail: j.TagErr}
	case j.Tag.Type == jobtag.None:
		return Verdict{Ranked: true, Why: plan.OptedOut}
	case j.Site != nil && j.Site.Class != "":
		v := Verdict{Ranked: true, Why: plan.BERule, Detail: "class rule " + j.Site.Class}
		if j.Tag.Type == "te" {
			v.Class, v.Why = cluster.TE, plan.TERule
		}
		return v
	case j.Tag.Type == "te":
		return Verdict{Ranked: true, Class: cluster.TE, Why: plan.TETag}
	case j.Tag.Type == "be":
		return Verdict{Ranked: true, Why: plan.BETag}
	}
	switch why := r.set.ByQOS(j.QOS); why {
	case plan.TEQOS:
		return Verdict{Ranked: true, Class: cluster.TE, Why: why, Detail: "QOS " + j.QOS}
	case plan.BEQOS:
		return Verdict{Ranked: true, Why: why, Detail: "QOS " + j.QOS}
	}
	if j.Site != nil && j.Site.Evict {
		return Verdict{Ranked: true, Why: plan.BESite, Detail: "the site's consent for " + j.Site.Consent}
	}
	return Verdict{Ranked: true, Why: plan.Untagged}
}

// admit goes through the TE jobs in their order, and makes those BE that exceed the
// budget of their user or account. Admitted pending jobs count as if they ran, so that
// many small trials at once cannot all go first. A job that room alone cannot start takes
// only what the others leave, whatever its place; of an array's tasks those count that may
// run at a time.
func (r *ranker) admit(verdicts []Verdict, te []int) []int {
	te = sortTE(te, verdicts, r.s, r.h)
	if r.set.Boundless() {
		return te
	}
	arrays := map[uint32]int{} // tasks admitted so far, of arrays with a limit
	for _, stuck := range []bool{false, true} {
		for _, i := range te {
			if v := &verdicts[i]; r.stuck(&r.s.Jobs[v.Job]) == stuck {
				r.admitOne(v, arrays)
			}
		}
	}
	return slices.DeleteFunc(te, func(i int) bool { return verdicts[i].Class != cluster.TE })
}

// stuck reports whether Slurm says that something else than room keeps a job from starting, now and in the next minute.
// Where room is being made for it, it says so of the nodes that are kept for it.
func (r *ranker) stuck(j *cluster.Job) bool {
	return !j.WantsRoom() && !j.Begins(r.s.At) && !r.h.Claiming[j.ID] && !(len(r.h.Claiming) > 0 && r.h.Claiming[j.FirstTask()])
}

// admitOne decides about one TE job, after those before it.
func (r *ranker) admitOne(v *Verdict, arrays map[uint32]int) {
	j := &r.s.Jobs[v.Job]
	holders, counted := r.holders(j)
	tasks, fit, reason := j.TasksNow(), max(j.TasksNow(), 1), ""
	if j.AtOnce > 0 {
		tasks = max(min(tasks, j.AtOnce-j.ArrayRuns-arrays[j.ID.ID]), 0)
		fit = max(tasks, 1)
	}
	for k := range holders {
		if limit, why := r.admits(&holders[k], j, tasks); limit != nil && limit.Tasks < fit {
			fit, reason, v.Budget = limit.Tasks, why, limit
		}
	}
	if fit == 0 {
		v.Class, v.Why, v.Detail = cluster.BE, plan.OverBudget, reason
		return
	}
	if fit < tasks {
		v.Tasks = fit
		v.Detail = fmt.Sprintf("the first %d of %d tasks; for the others: %s", fit, j.TaskCount, reason)
	}
	fit = min(fit, tasks)
	if j.AtOnce > 0 {
		arrays[j.ID.ID] += fit
	}
	if counted {
		r.use().hold(j, float64(fit)*r.charge(j))
	}
}

// admitUnseen are the verdicts on running TE jobs that started before a cycle saw them wait, by their places in the
// snapshot: in the order of their starts each is TE within what the budgets leave, and else BE, as if it had waited.
func (r *ranker) admitUnseen() map[int]Verdict {
	if r.set.Boundless() {
		return nil
	}
	var unseen []int
	for i := range r.s.Jobs {
		j := &r.s.Jobs[i]
		if j.State != cluster.Running || r.set.Class(j.Tag.Type, j.QOS) != cluster.TE {
			continue
		}
		if _, ranked := r.h.Counted.Find(j.ID); ranked || r.overrunsNow(j) != "" {
			continue
		}
		if v := r.classify(j); v.Ranked && v.Class == cluster.TE {
			unseen = append(unseen, i)
			if r.h.ClassOf(j) == cluster.TE {
				r.use().hold(j, -r.charge(j))
			}
		}
	}
	slices.SortFunc(unseen, func(a, b int) int {
		x, y := &r.s.Jobs[a], &r.s.Jobs[b]
		return cmp.Or(x.Start.Compare(y.Start), x.ID.Compare(y.ID))
	})
	verdicts := make(map[int]Verdict, len(unseen))
	for _, i := range unseen {
		j := &r.s.Jobs[i]
		v := r.classify(j)
		v.Job, v.Ranked, v.Since = i, false, r.h.FirstEligible.Get(j.ID)
		holders, _ := r.holders(j)
		for k := range holders {
			if limit, why := r.admits(&holders[k], j, 1); limit != nil && v.Budget == nil {
				v.Class, v.Why, v.Detail, v.Budget = cluster.BE, plan.OverBudget, why, limit
			}
		}
		if v.Class == cluster.TE {
			r.use().hold(j, r.charge(j))
		}
		verdicts[i] = v
	}
	return verdicts
}

// holders are the user and the account on whose budgets a job draws, and whether these count GPUs.
func (r *ranker) holders(j *cluster.Job) (both [2]budgetHolder, counted bool) {
	user := budgetHolder{of: "user", name: j.User, budget: r.on(r.set.OfUser(j.User), j)}
	acct := budgetHolder{of: "account", name: j.Account, budget: r.on(r.set.OfAccount(j.Account), j)}
	if counted = user.budget.Counts() || acct.budget.Counts(); counted {
		user.use, acct.use = r.use().users[j.User], r.use().accounts[j.Account]
	}
	return [2]budgetHolder{user, acct}, counted
}

// on is a budget on what a job can reach.
func (r *ranker) on(b plan.Budget, j *cluster.Job) plan.Budget {
	if b.Share == 0 && b.HourShare == 0 {
		return b
	}
	return b.On(r.reachOf(r.h.Reaches(j)))
}

// reachOf is what jobs of one or more partitions can reach.
func (r *ranker) reachOf(partitions string) plan.Reach {
	known, is := r.reach[partitions]
	if !is {
		if r.reach == nil {
			r.reach = map[string]plan.Reach{}
		}
		known = plan.ReachOf(r.s.Nodes, partitions)
		r.reach[partitions] = known
	}
	return known
}

// budgetHolder is a user or an account, on whose budget a TE job draws.
type budgetHolder struct {
	of     string // user, account
	name   string
	budget plan.Budget
	use    cluster.Use
}

// admits returns what keeps so many tasks of the record, or some of them, from the budget,
// also in words; nil when nothing does.
func (r *ranker) admits(a *budgetHolder, j *cluster.Job, tasks int) (limit *plan.BudgetLimit, why string) {
	limited := func(by string, allowed float64) *plan.BudgetLimit {
		return &plan.BudgetLimit{Of: a.of, Name: a.name, Limit: by, Allowed: allowed}
	}
	if l := a.budget.TimeLimit; l > 0 && (j.TimeLimit == slurmplug.Unlimited || j.TimeLimit > l) {
		return r.refuse(demand{limit: "time_limit_s", of: a.of, name: a.name, most: l.Seconds(), asks: j.TimeLimit.Seconds()}, func() refusal {
			return refusal{limited("time_limit_s", l.Seconds()), fmt.Sprintf("time limit %s is above the %s allowed for TE jobs of %s %s", limitText(j.TimeLimit), l, a.of, a.name)}
		})
	}
	if l := a.budget.GPUHours; l > 0 && a.use.GPUSeconds/3600 >= l {
		// The hours used are left out: they change with every poll, and the text would be
		// stored each time.
		return r.refuse(demand{limit: "gpu_hours", of: a.of, name: a.name}, func() refusal {
			return refusal{limited("gpu_hours", l), fmt.Sprintf("%s %s has used up its %.1f TE GPU-hours within %s", a.of, a.name, l, cluster.UsePeriod)}
		})
	}
	l, gpus := a.budget.GPUs, r.charge(j)
	if l == 0 || gpus == 0 {
		return nil, ""
	}
	n := int(max(float64(l)-a.use.GPUs, 0) / gpus)
	if n >= tasks {
		return nil, ""
	}
	plain := float64(j.GPUs) == gpus
	return r.refuse(demand{"gpus", a.of, a.name, a.use.GPUs, float64(l), gpus, plain}, func() refusal {
		limit := limited("gpus", float64(l))
		limit.Used, limit.Tasks = a.use.GPUs, n
		wants, held := "wants "+gpusText(gpus), gpusText(a.use.GPUs+float64(n)*gpus)
		if !plain {
			wants = "takes " + gpusText(gpus)
		}
		switch {
		case gpus > float64(l):
			return refusal{limit, fmt.Sprintf("this job %s GPUs, more than the budget of %s %s: %d TE GPUs at a time", wants, a.of, a.name, l)}
		case n > 0:
			return refusal{limit, fmt.Sprintf("with these %s %s holds or is next for %s TE GPUs of %d, and each %s", a.of, a.name, held, l, wants)}
		}
		return refusal{limit, fmt.Sprintf("%s %s holds or is next for %s TE GPUs of %d, and this job %s", a.of, a.name, held, l, wants)}
	})
}

// charge is what one task of a job takes, in GPUs (cluster.Charges): of one that runs what it was charged when it started.
func (r *ranker) charge(j *cluster.Job) float64 {
	if j.State != cluster.Pending {
		if held, runs := r.h.Charged(j.ID); runs {
			return held
		}
	}
	return r.charges.Of(j)
}

// gpusText is a number of GPUs, with two places at most.
func gpusText(gpus float64) string { return strconv.FormatFloat(math.Round(100*gpus)/100, 'f', -1, 64) }

func limitText(d time.Duration) string {
	if d == slurmplug.Unlimited {
		return "UNLIMITED"
	}
	return d.String()
}
