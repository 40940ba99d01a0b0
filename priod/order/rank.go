package order

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug/jobtag"
)

// Verdict is what Rank says about one job.
type Verdict struct {
	Job    int // index into Snapshot.Jobs
	Class  cluster.Class
	Ranked bool // false: priod leaves it alone
	Why    plan.Reason
	Detail string            // a sentence for people, "" when Why says it all
	Budget *plan.BudgetLimit // the share that its start would use most of; nil: all of it is within the shares
	Since  time.Time
	// Tasks is how many tasks of an unsplit array stand here, when the others cost more, or
	// for how many tasks of a BE array others yield; 0: all of the record.
	Tasks int
}

func newRanker(s *cluster.Snapshot, h *cluster.History, set plan.Classes) *ranker {
	r := &ranker{s: s, h: h, set: set, charged: cluster.NewCharges(s)}
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
	if v.Ranked && j.Right == cluster.Withheld {
		v.Ranked, v.Why = false, plan.Withheld
	}
	if v.Ranked && v.Since.IsZero() {
		v.Ranked, v.Why = false, plan.NotYet
	}
	if v.Ranked && v.Class == cluster.TE {
		if why := r.overranBefore(j); why != "" {
			v.Class, v.Why, v.Detail = cluster.BE, plan.Overrun, why
		}
	}
	if v.Ranked && v.Class == cluster.BE {
		switch v.Tasks = j.RightTasks; {
		case j.Right == cluster.Entitled:
			v.Why = plan.InShare
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
// first, then those within their accounts' shares, then by the level of their price, then by the time when they could first have run.
func sortTE(te []int, verdicts []Verdict, s *cluster.Snapshot, h *cluster.History) []int {
	type key struct { // small, because tens of thousands are moved about
		turn    int
		level   int
		since   int64
		id      cluster.JobID
		verdict int
	}
	keys := make([]key, len(te))
	for k, i := range te {
		j := &s.Jobs[verdicts[i].Job]
		turn := 2
		switch {
		case h.Claiming[j.ID]:
			turn = 0
		case j.Right == cluster.Entitled:
			turn = 1
		}
		keys[k] = key{turn, level(verdicts[i].Budget.Factor()), verdicts[i].Since.UnixNano(), idOrder(j), i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		switch {
		case a.turn != b.turn:
			return cmp.Compare(a.turn, b.turn)
		case a.level != b.level:
			return cmp.Compare(a.level, b.level)
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
	charged *cluster.Charges
	reach   map[string]plan.Reach // by list of partitions; see reachOf
	scratch []charge              // of price
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
				r.use().hold(j, -r.charge(j), 0)
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
		gpus, seconds := r.weigh(j)
		if r.price(&v, j, gpus, seconds); v.Class == cluster.TE {
			r.use().hold(j, r.charge(j), 0)
		}
		verdicts[i] = v
	}
	return verdicts
}

// charge is what one task of a job takes, in GPUs (cluster.Charges): of one that runs what it was charged when it started.
func (r *ranker) charge(j *cluster.Job) float64 {
	if j.State != cluster.Pending {
		if held, runs := r.h.Charged(j.ID); runs {
			return held
		}
	}
	return r.charged.Of(j)
}
