package evict

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Reasons of this package beside preemption's, for a TE job and for a candidate.
const (
	Unhelpful   preemption.Why = "slurm-waits"       // it waits for something that evictions cannot provide
	Constraint  preemption.Why = "constraint"        // it names nodes or features that leave no choice, or that priod cannot parse
	TooSoon     preemption.Why = "released-recently" // its last claim failed
	InVain      preemption.Why = "in-vain"           // a place was free for such a job, and it did not start: see lessonKey
	Cancelled   preemption.Why = "cancelled"         // its user's trials gave up their claims
	FailsSoon   preemption.Why = "fails-soon"        // two such jobs of its user failed at once, in a row
	Unseen      preemption.Why = "not-looked-at"
	Uncountable preemption.Why = "uncountable"    // it asks for something that is not counted: it is not known where it fits
	Elsewhere   preemption.Why = "fits-elsewhere" // on nodes that it does not prefer
	InParts     preemption.Why = "gpus-in-parts"  // it fits, and Slurm does not see it: see slurmplug.Config.AddsUpGPUs
	NoGPUs      preemption.Why = "no-gpus"
	LongGrace   preemption.Why = "grace-too-long" // Settings.MaxGrace
	WithinShare preemption.Why = "within-share"   // it uses GPUs that are guaranteed to its account
	Fragile     preemption.Why = "fragile"        // on this Slurm an update after its requeue would break its request
	Scattered   preemption.Why = "uneven"         // its share of each of its nodes is unknown
	Vetoed      preemption.Why = "not-requeueable"
	Expedited   preemption.Why = "expedited-requeue"
	Held        preemption.Why = "held"
	LaterTurn   preemption.Why = "later"         // maxTrials stand before it
	Uncounted   preemption.Why = "not-allocated" // at the end of a round: the allocation does not count it
	Unmovable   preemption.Why = "unmovable"     // of a gang's candidates: it has no other place, or opens no node
	TookOver    preemption.Why = "took-over"     // Settings.Since: another priod's victims may be in their grace
	NotYet      preemption.Why = "not-yet"       // moving others would cost more GPU time than the gang has waited
	NoTag       preemption.Why = "no-tag"        // of a gang
	Bound       preemption.Why = "names-nodes"   // a victim that has to move elsewhere
	OneNode     preemption.Why = "on-one-node"   // a waiting job that accepts no more nodes than one: room is not made in parts
	ArrayLimit  preemption.Why = "array-limit"   // as many tasks of its array run, or have a claim, as may run at a time
)

// texts say what became of a claimant, or why a candidate stays: of a TE job, and of others where that speaks of TE jobs.
var texts = map[Purpose]map[preemption.Why]string{ForTrial: {
	preemption.Evicts:     "jobs are evicted for it",
	preemption.Claimed:    "room is being made or held for it",
	preemption.Fits:       "it fits into GPUs that are free or being freed",
	preemption.Anyway:     "it starts soon enough without an eviction",
	preemption.Impossible: "no evictable jobs make room for it",
	preemption.CannotRun:  "it cannot run on any GPU type that it may have",
	preemption.Gang:       "only least-loss makes room over several nodes",
	preemption.GraceGPUs:  "preemption.grace_share is reached",
	preemption.PerHour:    "preemption.max_per_hour is reached",
	preemption.PerDay:     "preemption.loss_share is reached",
	preemption.PerOwner:   "its user has reached preemption.user_loss_share",
	Unhelpful:             "it waits for something that evictions cannot provide",
	Constraint:            "it requests nodes or features, and room is made only where the choice is open",
	TooSoon:               "room was made for it recently, and it did not start",
	InVain:                "room was made for such a job on such nodes in vain: the place was free, and Slurm did not start it",
	Cancelled:             "trials of its user were given up after jobs had been evicted for them",
	FailsSoon:             "two jobs of its user on as many GPUs failed within ten minutes of their start: no job leaves for the next one until one has run for ten minutes",
	Elsewhere:             "it fits on nodes that it does not prefer, where Slurm's backfill starts it",
	InParts:               "it fits on one node, which this Slurm does not see while another has a part of the GPUs free; --gpus-per-node is not subject to that",
	NoGPUs:                "it requests no GPUs",
	Unseen:                "Slurm has not looked at it yet, which shows whether a limit keeps it from starting",
	Uncountable:           "no job leaves for it, since priod does not count something that it asks for and cannot tell where it fits",
	TookOver:              "this priod took over recently, and victims of the other one may still be in their grace period",
	ArrayLimit:            "its array's task limit is reached (--array=...%N)",
	LaterTurn:             "1,000 TE jobs without a place are ahead of it",

	preemption.Victim:    "leaves",
	preemption.NoConsent: "its owner did not agree to evictions (no type=be)",
	preemption.IsLeaving: "is leaving already",
	preemption.Capped:    "has reached preemption.max_evictions",
	preemption.Young:     "started less than preemption.min_run ago",
	preemption.WrongType: "runs on nodes that the TE job cannot use",
	preemption.Late:      "the TE job starts anyway before this job would have left",
	preemption.NoRoom:    "its node would not have room even without all evictable jobs",
	preemption.Dearer:    "others cost less",
	WithinShare:          "uses GPUs that are guaranteed to its account",
	LongGrace:            "asks for more than preemption.max_grace",
	Held:                 "is held while it runs: put back into the queue it would not start again",
	Fragile:              "on this Slurm an update after its requeue would break its request",
	Scattered:            "its share of each of its nodes is unknown",
	Bound:                "names or excludes nodes: it may not fit elsewhere",
	Vetoed:               "cannot be requeued (--no-requeue, or no batch job)",
	Expedited:            "asked for an expedited requeue (--requeue=expedite): Slurm would hold it, or start it again before all others",
}, ForRound: {
	preemption.Evicts:     "others yield to it",
	preemption.Soon:       "it starts on its own within the next one",
	preemption.NotOwed:    "no job on its GPU type has had enough more than its share",
	preemption.NoGain:     "the jobs that had more have less work left, or the gain would not cover a checkpoint, a restart and a requeue",
	preemption.Impossible: "the jobs on its GPU type that may yield are too few or too small",
	preemption.Behind:     "TE jobs are waiting and would get the place first",
}, ForGang: {
	preemption.Evicts:     "other jobs move for it",
	preemption.Anyway:     "it starts soon enough without a move",
	preemption.Impossible: "no small evictable jobs that fit elsewhere make room for it",
	NotYet:                "moving others would cost more GPU time than it has waited for nodes of its shape",
	NoTag:                 "it has no valid tag: no job moves for it",
	Constraint:            "it requests nodes, few switches or features that leave no choice",
}}

// Text returns in words what became of a claimant, or why a candidate stays.
func Text(purpose Purpose, why preemption.Why) string {
	return cmp.Or(texts[purpose][why], texts[ForTrial][why], string(why))
}

// Reason says in words why others leave for a job or not, as was decided at a time, with when that may change and what it is about.
func Reason(x *plan.EvictionChoice, at time.Time) string {
	words := Text(Purpose(x.For), preemption.Why(x.Why))
	if !x.Opens.IsZero() {
		layout := "15:04"
		if x.Opens.Sub(at) > 12*time.Hour {
			layout = "Jan 2 15:04"
		}
		words += ", until " + x.Opens.Local().Format(layout) + " at the earliest"
	}
	if x.What != "" {
		words += ": " + x.What
	}
	if x.Vain != (plan.VainRoom{}) {
		words += " (" + x.Vain.Words() + ")"
	}
	return words
}

// Words are Reason, with what the job was asked as.
func Words(x *plan.EvictionChoice, at time.Time) string {
	for _, k := range kinds {
		if k.purpose == Purpose(x.For) {
			return k.prefix + Reason(x, at)
		}
	}
	return Reason(x, at)
}

// explain is what was decided for each claimant.
func (c *Choice) explain() (said explanations) {
	for i := range c.Claimants {
		said.add(c.Claimants[i].Job, c.Claimants[i].choice(c.For))
	}
	return said
}

// choice is what became of a claimant.
func (x *Claimant) choice(purpose Purpose) *plan.EvictionChoice {
	choice := &plan.EvictionChoice{For: string(purpose), Why: string(x.Why), What: x.What, Opens: x.Opens}
	if x.vain != nil && (x.Why == InVain || x.Why == preemption.Impossible) {
		choice.Vain = x.vain.room()
	}
	return choice
}

// explanations are what became of jobs.
type explanations struct {
	cluster.JobMap[*plan.EvictionChoice]
}

// add takes in what became of a job. Of an array it stands for what became of its first task.
func (e *explanations) add(job cluster.JobID, choice *plan.EvictionChoice) {
	e.Set(job, choice)
	if array := slurmplug.Plain(job.ID); e.Get(array) == nil {
		e.Set(array, choice)
	}
}

// annotate adds them to the decisions of these classes.
func (e *explanations) annotate(p *plan.Plan, classes []cluster.Class) {
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !slices.Contains(classes, d.Class) && !d.GetsRoom() {
			continue
		}
		if x, said := e.Find(d.Job); said {
			d.Choices.Eviction = x
		}
	}
}
