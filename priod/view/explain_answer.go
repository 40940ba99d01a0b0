package view

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/steer"
	"slurmprio/priod/store"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/prio"
)

// showAnswer tells in three lines why the job waits or what became of it, when it is expected to start, and what its
// user or an operator can do.
func (v *Explanation) showAnswer(line liner) {
	why, advice := v.answer()
	line("Why", "%s", why)
	if v.waits() {
		line("Start", "%s", v.startWords())
	}
	if advice != "" {
		line("Advice", "%s", advice)
	}
}

// answer is why the job waits or what became of it, and what can be done; "": nothing.
func (v *Explanation) answer() (why, advice string) {
	if !v.waits() {
		return v.past()
	}
	why, advice = v.pending()
	if v.Cycle.Hold != "" {
		why += "; priod writes nothing: " + v.Cycle.Hold
	}
	if v.Job.TagError != "" {
		advice = "correct the tag: " + v.Job.TagError
	}
	return why, advice
}

// past is what became of a job that does not wait.
func (v *Explanation) past() (why, advice string) {
	why = v.stateWords()
	over := v.Since == sinceEnded || v.Since == sinceGone || !v.Job.Left.IsZero() // whatever the last cycle saw
	if x := v.lastEviction(); x != nil && !over && !v.runsAgain(x) {
		return fmt.Sprintf("evicted for job %s of %s at %s, grace %s: %s", x.For, x.ForUser, report.Clock(x.Recorded), report.Seconds(x.GraceS), x.State), "it is requeued and ranks ahead of other best-effort jobs"
	}
	if v.Since == sinceStarted && v.Now.State == "RUNNING" {
		return fmt.Sprintf("runs; it started after the cycle of %s", report.Clock(v.Cycle.Until)), ""
	}
	if len(v.Stays) > 0 && !v.Stays[0].Closed && !over {
		stay := &v.Stays[0]
		where := ""
		if stay.GPUType != "" {
			where = " on " + stay.GPUType
		}
		return fmt.Sprintf("runs%s since %s as %s", where, report.Clock(stay.Start), v.ranAs(stay)), ""
	}
	if len(v.Failures) > 0 {
		f := &v.Failures[0]
		return fmt.Sprintf("failed at %s: %s (class %s)", report.Clock(f.End), cmp.Or(f.Means, "it failed"), f.Class), cmp.Or(f.Advice, "then: "+DoneAbout(f))
	}
	return why, ""
}

// runsAgain reports whether a job that was evicted is on GPUs again, before a cycle has closed the eviction.
func (v *Explanation) runsAgain(x *store.Eviction) bool {
	if v.Now != nil && v.Now.State == "RUNNING" && x.State == string(evict.Restored) {
		return true
	}
	return len(v.Stays) > 0 && !v.Stays[0].Closed && v.Stays[0].Start.After(x.Recorded)
}

// ranAs is as what a job runs: one that is left alone is neither class.
func (v *Explanation) ranAs(stay *store.Stay) string {
	if v.optedOut() {
		return "a job that priod leaves alone (type=none)"
	}
	return classes[stay.Class]
}

// optedOut reports whether the job's user wants priod to do nothing to it.
func (v *Explanation) optedOut() bool { return v.Job.Said.Type == jobtag.None }

// pending is why a waiting job waits.
func (v *Explanation) pending() (why, advice string) {
	id := v.Job.ID
	if victims, nodes, _ := v.room(); len(victims) > 0 {
		return fmt.Sprintf("room is being made on %s: %s", nodes, strings.Join(victims, ", ")), ""
	}
	span := v.cause()
	words := ""
	if span.Words != "" {
		words = ": " + span.Words
	}
	what := ""
	if span.What != "" {
		what = " (" + span.What + ")"
	}
	switch span.Cause {
	case plan.HeldBack:
		return "held" + what, fmt.Sprintf("scontrol release %s", id)
	case plan.AfterJob:
		if span.What == neverSatisfied {
			return "never starts: the job that it waits for did not end as it was to" + what, fmt.Sprintf("scancel %s; or scontrol update JobId=%[1]s Dependency= lets it start without", id)
		}
		return "waits for another job" + what, fmt.Sprintf("squeue -j %s -o %%E shows which", id)
	case plan.BeforeTime:
		return v.notEligible() + what, ""
	case plan.AtLimit:
		if d := v.Decision; d != nil && d.Why == string(plan.OverBudget) {
			return "above the TE budget: " + cmp.Or(d.Detail, v.Reason), v.budgetAdvice()
		}
		return "a limit is reached" + what + words, limitAdvice(span.What)
	case plan.NoLicence:
		return "no licence is free" + what, ""
	case plan.NoNode:
		why, advice = noNodeWords(span.What, id)
		return why + what + words, advice
	case plan.BeyondShare:
		return v.withheld()
	case plan.ByOther:
		return "Slurm's reason" + what + words, ""
	case plan.Starting:
		if when := v.when(); !when.Now {
			return "fits now, and jobs ahead of it in Slurm's queue may start there first", ""
		}
		return "fits now and starts in Slurm's next pass", ""
	case plan.Locality:
		return "waits for a better place" + what + words, ""
	case plan.Capacity, plan.Fragmentation, plan.Precedence:
		why = map[plan.Cause]string{plan.Capacity: "too few GPUs are free", plan.Fragmentation: "enough GPUs are free, but not in the shape that it requests", plan.Precedence: "jobs ahead of it get the free GPUs"}[span.Cause] + what + words
	default:
		why = v.reasonNow()
	}
	if d := v.Decision; d != nil && v.Since == "" { // else it is of an earlier wait
		if c := d.Choices.GPUType; c != nil && c.Why == string(steer.Waits) {
			why = d.Steer
		}
		if e := d.Choices.Eviction; e != nil {
			why += "; " + evict.Reason(e, d.At)
		}
		why += v.priceWords()
	}
	return why, v.advise()
}

// notEligible is why a job may not start yet: the hold, the pause after a requeue, or a begin time of its user's.
func (v *Explanation) notEligible() string {
	j := &v.Job
	until := ""
	if j.Eligible.After(j.Submit) {
		until = ", until " + report.Clock(j.Eligible)
	}
	switch held := j.Eligible.Sub(j.Submit); {
	case j.Restarts > 0:
		return "not eligible yet: Slurm's pause after a requeue is not over" + until
	case held > 0 && held <= prio.LongestHold && v.MaySteer:
		return "held for one cycle, so that priod can choose its GPU type" + until
	case held > 0 && held <= prio.LongestHold && len(j.Said.CPU)+len(j.Said.Mem) > 0:
		return "held for one cycle, so that priod can choose its size" + until
	}
	return "not eligible yet: its begin time is not over" + until
}

// withheld is why a job waits that may not borrow, and how it could.
func (v *Explanation) withheld() (why, advice string) {
	d := v.Decision
	if d == nil || d.Choices.Share == nil {
		return "beyond its account's guaranteed share", ""
	}
	s := d.Choices.Share
	if within := time.Duration(s.WithinS * float64(time.Second)); s.Stays != "lends-none" {
		advice = fmt.Sprintf("--prio-type be, with --prio-grace of at most %s, lets it borrow: it leaves for jobs of the owner, and is requeued", within)
	}
	return s.Words(), advice
}

// priceWords are what a TE job beyond its share costs, and what follows; "" of others.
func (v *Explanation) priceWords() string {
	d := v.Decision
	if d.Class != cluster.TE || !d.Choices.Budget.Beyond() {
		return ""
	}
	words := fmt.Sprintf("; over budget: %s (%s); ranks behind cheaper TE jobs", d.Choices.Budget.Words(), v.budgetKey)
	if v.mayLose > 0 {
		words += fmt.Sprintf(", may evict where that costs less than %.0f GPU-minutes", v.mayLose/60)
	}
	return words
}

// neverSatisfied is Slurm's reason of a job whose dependency cannot be met any more, and which stays in the
// queue all the same (without kill_invalid_depend).
const neverSatisfied = "DependencyNeverSatisfied"

// limitAdvice is what can be done about a limit, by Slurm's word for it.
func limitAdvice(what string) string {
	switch {
	case what == "JobArrayTaskLimit":
		return "other tasks of its array have to end: the % of --array says how many run at once"
	case strings.HasPrefix(what, "Partition"), strings.HasPrefix(what, "Invalid"), strings.HasSuffix(what, "NotAllowed"):
		return "it does not start as it is: scontrol show partition says what its partition allows"
	}
	return "jobs of the same user, account or QOS have to end; sacctmgr show qos, and sacctmgr show assoc, list the limits"
}

// noNodeWords are why no node takes a job, by Slurm's word for it, and what can be done.
func noNodeWords(what string, id cluster.JobID) (why, advice string) {
	switch what {
	case "BadConstraints", "Constraints", "none":
		return "no node satisfies its request", fmt.Sprintf("compare scontrol show job %s with sinfo -o '%%P %%N %%c %%m %%f %%G'", id)
	case "PartitionDown", "PartitionInactive":
		return "its partition starts no jobs", "scontrol show partition; or ask for another partition"
	case "Reservation":
		return "its reservation has not begun, or is full", "scontrol show reservation"
	case "ReservationDeleted":
		return "its reservation is gone", fmt.Sprintf("scontrol update JobId=%s ReservationName=", id)
	}
	return "its nodes are down, drained or reserved", "sinfo -R; or ask for other nodes"
}

// when is when the job is expected to start.
func (v *Explanation) when() When {
	_, _, free := v.room()
	return whenOf(v.Start, v.cause().Cause, free)
}

// room is which jobs leave for this one, where, and when the last one is to have left.
func (v *Explanation) room() (victims []string, nodes string, free time.Time) {
	for i := range v.Evictions {
		x := &v.Evictions[i]
		if x.For == v.Job.ID && (x.ClaimState == string(evict.Planned) || x.ClaimState == string(evict.Holding)) {
			victims, nodes = append(victims, fmt.Sprintf("job %s %s", x.Victim, x.State)), x.Nodes
			free = cluster.Later(free, leftBy(x))
		}
	}
	return victims, nodes, free
}

// cause is the last cause of the present wait; zero: none is known.
func (v *Explanation) cause() spanView {
	if len(v.Waits) > 0 && v.Waits[0].Ended == "" && len(v.Waits[0].Spans) > 0 {
		return v.Waits[0].Spans[len(v.Waits[0].Spans)-1]
	}
	return spanView{}
}

// reasonNow is what the last cycle decided of the job, else Slurm's reason.
func (v *Explanation) reasonNow() string {
	switch d := v.Decision; {
	case d != nil && !d.Ranked && v.Reason != "":
		return v.Reason
	case v.Now != nil && v.Now.Reason != "" && v.Now.Reason != "None":
		return "Slurm's reason: " + v.Now.Reason
	case d == nil:
		return "no cycle has seen it yet"
	}
	return "waits for its turn"
}

// advise is what shortens the wait of a job that waits for room.
func (v *Explanation) advise() string {
	var all []string
	d := v.Decision
	switch {
	case d != nil && d.Why == string(plan.OverBudget):
		all = append(all, v.budgetAdvice())
	case d != nil && d.Why == string(plan.Untagged) && v.Steering:
		all = append(all, "--prio-workload or --prio-speed lets priod choose the GPU type")
	}
	if v.Moment.IsZero() {
		all = append(all, fmt.Sprintf("priod eta %s shows what would start it sooner", v.Job.ID))
	}
	return strings.Join(all, "; ")
}

// budgetAdvice is what a job above its TE budget can wait for, or ask for.
func (v *Explanation) budgetAdvice() string {
	b := v.Decision.Choices.Budget
	advice := "it counts as TE once earlier TE jobs of the same user or account end"
	switch {
	case b == nil:
		return advice
	case b.Never() && b.Limit == "time_limit_s":
		advice = fmt.Sprintf("it counts as TE with a time limit of %s or less", report.Seconds(plan.Worth*b.Allowed))
	case b.Never():
		advice = "it counts as TE with fewer GPUs or a shorter time limit"
	case b.Limit == "gpu_hours":
		advice = fmt.Sprintf("it counts as TE once fewer than %.1f GPU-hours of the last day were used", plan.Worth*b.Allowed)
	}
	if v.budgetKey != "" {
		advice += " (" + v.budgetKey + ")"
	}
	return advice
}

// startWords are when the job is expected to start.
func (v *Explanation) startWords() string {
	when := v.when()
	unknown := "not known: what it waits for has no time"
	if cause := v.cause().Cause; !v.Moment.IsZero() {
		unknown = "not known at that time"
	} else if cause == "" || cause.ForRoom() {
		unknown = fmt.Sprintf("not planned yet; priod eta %s plans it now", v.Job.ID)
	}
	all := []string{cmp.Or(when.Words(), unknown)}
	if v.Now != nil && !v.Now.Start.IsZero() {
		all = append(all, "Slurm's backfill expects "+report.Clock(v.Now.Start))
		if !when.Known() {
			all = all[1:]
		}
	}
	return strings.Join(all, "; ")
}

// telling leaves out the shares of a job that say nothing: no time allocated, none received.
func telling(t *store.ShareOfType) bool {
	return t.RunS != nil && t.Time != nil && (*t.Time > 0 || t.ReceivedS > 0 || math.Abs(t.OwedS) >= leastOwed)
}

// leastOwed is what is told of time owed, s: cycles promise and count at different moments.
const leastOwed = 60

// owedWords are what a job received of a type and is owed there, and of one that waits its run there; "": nothing.
func (v *Explanation) owedWords(t *store.ShareOfType) string {
	var parts []string
	if t.ReceivedS > 0 {
		parts = append(parts, fmt.Sprintf("received %s there", report.Seconds(t.ReceivedS)))
	}
	switch {
	case t.OwedS >= leastOwed:
		parts = append(parts, report.Seconds(t.OwedS)+" owed")
	case t.OwedS <= -leastOwed:
		parts = append(parts, report.Seconds(-t.OwedS)+" more than was promised")
	}
	if v.waits() && *t.RunS < (300*24*time.Hour).Seconds() {
		parts = append(parts, "it would run "+report.Seconds(*t.RunS))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}
