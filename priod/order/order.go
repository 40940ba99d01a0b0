// Package order puts the pending jobs of the configured partitions in order, and says
// which writes give them that order on Slurm.
//
// Trial-and-error (TE) jobs rank ahead of best-effort (BE) jobs, the two classes of
// FitGpp (Yabuuchi et al., OpML 2019). From first to last:
//
//   - TE jobs for which room is being made
//   - the other TE jobs, those within their accounts' shares first, in the order of the
//     time when they could first have run, within a budget for each user and account
//   - BE jobs to which others yield at the end of a round
//   - BE jobs within their accounts' shares
//   - BE jobs that priod evicted
//   - the other BE jobs, as Slurm itself orders them, or by what the allocation owes
//     them
//
// Files:
//   - rank.go: classes, budgets, and the order of TE jobs; overrun.go: TE jobs that ran
//     too long
//   - order.go: settings, and a plan with as few writes as possible
//   - shares.go: values of BE jobs by their allocation; standing.go: for how long these
//     stay in order if nothing happens
//   - step.go: how far values lie apart
//   - adopt.go: values that another host's priod wrote
//   - feature.go: how the order takes part in a cycle
package order

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Settings are all that decisions depend on besides the cluster.
type Settings struct {
	Top            int64 // highest value that priod writes
	Step           int64 // size of a step; 0: computed from the cluster
	NiceLimit      int64 // larger Nice values of users do not make a step larger
	WritesPerCycle int   // writes for one cycle; 0: no limit
	Peers          bool  // priods of other hosts may have written values, see Adopt
	Ranking        plan.Classes
	Order          Order        // of BE jobs
	Lead           plan.Lead    // in order owed: how much earlier jobs go that are nearly done
	Off            bool         // values are taken back; only jobs that priod evicted keep one
	Shares         *plan.Shares // what allocate.Ledger returned in this cycle; nil: nothing is allocated
}

// Order is the order of BE jobs among each other.
type Order string

// The orders.
const (
	SlurmOrder Order = "slurm" // as Slurm itself puts them
	OwedOrder  Order = "owed"  // by what the allocations promised and the job has not received, see Settings.Lead
)

// maxReverts is how often a job is written to again after another writer
// replaced its value by 0.
const maxReverts = 3

// Why a wanted value is not written, in Decision.Unmoved.
const (
	ForeignValue = "set by another program or an administrator; left alone until it is 0 again"
	KeepsGoing   = "reset by another program after each write; gave up after 3 attempts"
	WriteLimit   = "the writes of one cycle are used up; the rest follows in the next cycle"
)

// Decide makes one cycle's plan. It reads no clock and writes nothing.
func Decide(s *cluster.Snapshot, h *cluster.History, set Settings) plan.Plan {
	return newDecider(s, h, set).decide(set.Shares)
}

// newDecider ranks the jobs and reads what they hold, for which no shares are needed.
func newDecider(s *cluster.Snapshot, h *cluster.History, set Settings) *decider {
	d := &decider{s: s, h: h, set: set}
	r := newRanker(s, h, set.Ranking)
	d.verdicts, d.trials = r.all()
	d.te = r.admit(d.verdicts, d.trials)
	d.held = make([]plan.HeldValue, len(d.verdicts))
	for i := range d.verdicts {
		d.held[i] = plan.HeldBy(&s.Jobs[d.verdicts[i].Job], h)
	}
	return d
}

// again makes the plan after room began to be made for some jobs.
func (d *decider) again() plan.Plan {
	r := newRanker(d.s, d.h, d.set.Ranking)
	r.again(d.verdicts, d.trials)
	d.te = r.admit(d.verdicts, d.trials)
	return d.decide(d.set.Shares)
}

// decide makes the plan.
func (d *decider) decide(shares *plan.Shares) plan.Plan {
	d.set.Shares = shares
	s, set, verdicts, te := d.s, &d.set, d.verdicts, d.te
	d.foreign, d.quota = 0, plan.Quota{Most: set.WritesPerCycle}
	d.plan = plan.Plan{At: s.At, Band: d.band(), Shares: set.Shares}
	if set.Shares != nil {
		d.plan.Notes = slices.Clone(set.Shares.Notes)
	}
	d.plan.Decisions = make([]plan.Decision, len(verdicts))
	for i := range verdicts {
		d.plan.Decisions[i] = d.newDecision(&verdicts[i], d.held[i].Value)
	}
	if !set.Off {
		d.valueTE(verdicts, slices.Concat(d.claimed(), te))
	}
	shared, placed := d.valueByShare(verdicts)
	d.addWrites(te, shared, placed)
	d.addNotes()
	d.plan.MakeQueue(s)
	return d.plan
}

// addWrites adds the writes of TE jobs, in their order, of BE jobs that the allocation counts (shared),
// and of the others. placed are the verdicts of shared.
func (d *decider) addWrites(te, shared []int, placed []bool) {
	var refused []int
	add := func(i int) {
		j := &d.s.Jobs[d.verdicts[i].Job]
		at := d.h.Refusal(j, j.ID, slurmplug.SiteFactor).At
		if !at.IsZero() && d.s.At.Sub(at).Abs() < refusedFor {
			refused = append(refused, i)
			return
		}
		d.addWrite(i, &d.verdicts[i])
	}
	for _, i := range slices.Concat(te, shared) {
		add(i)
	}
	for i := range d.verdicts {
		switch v := &d.verdicts[i]; {
		case placed != nil && placed[i]:
		case v.Ranked && v.Class == cluster.BE:
			add(i)
		case v.Why == plan.Foreign || v.Why == plan.Reserved:
			d.withdraw(&d.plan.Decisions[i], v)
		}
	}
	for _, i := range refused {
		d.addWrite(i, &d.verdicts[i])
	}
}

// refusedFor is how long the writes of a job that Slurm refused come after those of all others: under a
// limit of writes they would else take the others' place in each cycle.
const refusedFor = 10 * time.Minute

type decider struct {
	s        *cluster.Snapshot
	h        *cluster.History
	set      Settings
	verdicts []Verdict // and te are what Rank says
	te       []int
	trials   []int            // TE jobs before budgets
	held     []plan.HeldValue // by the jobs of the verdicts
	plan     plan.Plan
	narrow   bool // step goes by the factors in the queue, see stepFor
	foreign  int
	quota    plan.Quota
}

// band is where values may lie.
func (d *decider) band() plan.Band {
	step, top := d.step(), d.set.Top
	if d.narrow {
		top = below(d.s.Multifactor, top)
	}
	return plan.Band{Lo: step, Hi: top / step * step, Step: step}
}

// step is larger than all that Slurm's own factors and the users' Nice can change between
// two jobs. It is rounded up so that it rarely changes.
func (d *decider) step() int64 {
	step := d.set.Step
	if step <= 0 {
		lo, hi := int64(0), int64(0)
		for i := range d.s.Jobs {
			j := &d.s.Jobs[i]
			if j.State == cluster.Pending && j.Nice >= -d.set.NiceLimit && j.Nice <= d.set.NiceLimit {
				lo, hi = min(lo, j.Nice), max(hi, j.Nice)
			}
		}
		step, d.narrow = stepFor(d.s.Multifactor, hi-lo, d.set.Top)
	}
	return step
}

// roundUp returns the next number of the form 1, 2 or 5 times a power of ten.
func roundUp(n int64) int64 {
	for p := int64(1); ; p *= 10 {
		for _, m := range []int64{1, 2, 5} {
			if m*p >= n {
				return m * p
			}
		}
	}
}

// newDecision makes the decision of a verdict, with the values of BE jobs that go
// before others.
func (d *decider) newDecision(v *Verdict, now int64) plan.Decision {
	j := &d.s.Jobs[v.Job]
	dec := plan.Decision{
		Job: j.ID, Class: v.Class, Ranked: v.Ranked, Own: j.Priority - now,
		Why: string(v.Why), Detail: v.Detail, Since: v.Since, Choices: plan.Choices{Budget: v.Budget},
	}
	if v.Tasks > 0 {
		dec.Choices.Part = &plan.ArrayPart{First: v.Tasks, Of: j.TaskCount}
	}
	why := v.Why
	if d.set.Off && why != plan.Evicted {
		why = ""
	}
	switch why { // between the other BE jobs and the TE jobs
	case plan.Evicted:
		dec.Value = d.lowestAbove()
	case plan.InShare:
		dec.Value = d.lowestAbove() + d.plan.Band.Step
	case plan.Round:
		dec.Value = d.lowestAbove() + 2*d.plan.Band.Step
	}
	return dec
}

// claimed are the BE jobs within their accounts' shares for which room is made: they rank ahead of TE jobs, or the place
// would go to one of these.
func (d *decider) claimed() (all []int) {
	for i := range d.verdicts {
		if v := &d.verdicts[i]; v.Why == plan.InShare && v.Class == cluster.BE && d.h.Claiming[d.s.Jobs[v.Job].FirstTask()] {
			all = append(all, i)
		}
	}
	return all
}

// valueTE gives TE jobs values that put them in exact order. When more TE jobs wait
// than half of the band's steps, the first get exact values and the others share the
// lowest step, in Slurm's own order, until the first have started.
func (d *decider) valueTE(verdicts []Verdict, te []int) {
	b := d.plan.Band
	b.Lo = d.lowestAbove()
	if slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Why == plan.Round || v.Why == plan.InShare }) {
		b.Lo += 2 * b.Step
	}
	exact := make([]int, 0, len(te))
	limit := b.Capacity() / 2
	for _, i := range te {
		if d.held[i].Foreign {
			continue
		}
		if len(exact) < limit {
			exact = append(exact, i)
			continue
		}
		d.plan.Decisions[i].Value = b.Lo
		d.plan.Decisions[i].Detail = "shares the lowest TE rank: more TE jobs wait than the band has ranks"
	}
	tiers := make([]plan.Tier, len(exact))
	for rank, i := range exact {
		if x := &d.held[i]; x.Known && verdicts[i].Tasks == 0 {
			tiers[rank] = plan.Tier{x.Value}
		}
	}
	values, renumbered := plan.Arrange(tiers, plan.Band{Lo: b.Lo + b.Step, Hi: b.Hi, Step: b.Step})
	for rank, i := range exact {
		d.plan.Decisions[i].Value = values[rank]
	}
	d.plan.Renumbered = renumbered
	if n := len(te); n > limit {
		d.plan.Note(plan.TESteps, n-limit, "%d TE jobs wait and the band has %d ranks: the rest share the lowest (priod check says how to widen it)", n, limit)
	}
}

// addWrite adds the action that changes the value that a job holds to the one in the
// decision of its verdict, the i-th.
func (d *decider) addWrite(i int, v *Verdict) {
	dec, j, x := &d.plan.Decisions[i], &d.s.Jobs[v.Job], &d.held[i]
	now, known, wrote, w := x.Value, x.Known, x.Wrote, d.h.Written[j.ID]
	switch {
	case known && now == dec.Value && v.Tasks == 0:
		return
	case !known && dec.Value == 0 && !wrote:
		return
	case x.Foreign:
		dec.Unmoved = ForeignValue
		d.foreign++
		return
	case wrote && w.Reverts >= maxReverts && (now == 0 || w.Value == dec.Value): // others took back the value that is wanted
		dec.Unmoved = KeepsGoing
		d.foreign++
		return
	case !d.quota.Take():
		dec.Unmoved = WriteLimit
		return
	}
	tasks := j.Tasks
	if v.Tasks > 0 {
		first, err := slurmplug.FirstTasks(j.Tasks, v.Tasks)
		if err != nil {
			dec.Unmoved = err.Error()
			return
		}
		tasks = first
	}
	d.addAction(plan.Rank(j, now, dec.Value), tasks, v.Tasks > 0, dec.Why)
}

// withdraw takes priod's value off a job that left the ranked queue: in its new
// partition it would rank ahead of all others.
func (d *decider) withdraw(dec *plan.Decision, v *Verdict) {
	j := &d.s.Jobs[v.Job]
	w, wrote := d.h.Written[j.ID]
	if !wrote || w.Value == 0 && w.Tried == 0 {
		return
	}
	if !d.quota.Take() {
		dec.Unmoved = WriteLimit
		return
	}
	if back, needed := plan.Restore(j, w); needed {
		d.addAction(back, j.Tasks, false, string(v.Why))
	}
}

func (d *decider) addAction(a plan.Action, tasks string, part bool, why string) {
	a.Tasks, a.Part, a.Reason = tasks, part, why
	d.plan.Actions = append(d.plan.Actions, a)
}

// addNotes notes what the plan leaves undone.
func (d *decider) addNotes() {
	if d.foreign > 0 {
		d.plan.Note(plan.ForeignValues, d.foreign, "%d jobs have a value that another program or an administrator wrote; left alone", d.foreign)
	}
	d.quota.Note(&d.plan, plan.WritesPerCycle, "writes")
}
