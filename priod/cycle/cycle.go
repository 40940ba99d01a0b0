// Package cycle is one turn of the daemon: observe, decide, record, act,
// record. It has no ticker, reads no clock and knows no SQL, so that the
// simulator drives the very same Step.
package cycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/consent"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/headroom"
	"slurmprio/priod/idle"
	"slurmprio/priod/locality"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/waits"
	"slurmprio/priod/window"
)

// Settings are what a cycle depends on.
type Settings struct {
	// DryRun observes, decides and records nothing: the plan is the result.
	DryRun bool
	// Hold says why nothing may be written now ("paused by ..."); "" when it may.
	Hold string
	// Off has each feature take back what it wrote and begin nothing, as a trial wants it in some of its blocks.
	// Evicted jobs come back ahead of others all the same.
	Off bool
	// Trial are notes about a trial.
	Trial []plan.Note
	// Stage, if set, is told when a stage begins: "observe", "decide",
	// "record", "act", "evict", "" at the end. The daemon takes times with it.
	Stage func(string)

	// Consent completes what jobs say of themselves, before any feature sees them.
	Consent consent.Rules
	// Guarantee says which jobs stand within the GPUs that are guaranteed to their accounts.
	Guarantee guarantee.Feature
	// Idle says which running jobs hold GPUs and do not work.
	Idle idle.Feature

	// What the features need. The zero value of each takes no part.
	Allocation allocate.Feature
	Order      order.Feature
	Headroom   headroom.Feature
	Evictions  evict.Feature
	Steering   steer.Feature
	Sizing     size.Feature
	Locality   locality.Feature
	Refusals   locality.Refusals
	Retries    retry.Feature
	Waits      waits.Feature
	Windows    window.Feature
}

// decide has the stages plan in turn: what each needs of another is there then.
func (set *Settings) decide(ctx context.Context, c *plan.Cycle) (failed error) {
	run := func(features ...plan.Feature) {
		for _, f := range features {
			failed = errors.Join(failed, f.Plan(ctx, c))
		}
	}
	shares := set.Allocation.Begin(c) // in the background, until the order needs them
	set.Retries.Begin(c)              // which jobs left the queue: in the background, until sizes are given
	run(&set.Idle)                    // what is not known of running jobs
	run(&set.Evictions)               // jobs with a claim rank ahead of others of the order
	set.Order.Rank(c, shares)         // SiteFactor of each job
	set.Waits.Begin(c)                // from here on a core would be idle
	set.Steering.Prepare(c)
	room := func(purposes ...evict.Purpose) {
		claims := len(c.History.Claiming)
		if run(set.Evictions.For(purposes...)); len(c.History.Claiming) > claims {
			set.Order.Again(c)
		}
	}
	run(&set.Headroom)                  // nodes kept for TE jobs, by their class; TE jobs that find room there need no evictions
	room(evict.ForTrial, evict.ForGang) // for TE jobs, by their order, and for gangs on what they left
	run(&set.Steering)                  // GPU types of pending jobs; not of those with a claim
	room(evict.ForRound)                // yields at the end of a round, to jobs of the types that steering gave
	set.Retries.Join()                  // what follows changes jobs of the snapshot
	run(
		&set.Sizing,    // CPUs and memory, on the types that steering gave
		&set.Locality,  // few switches, with the sizes
		&set.Refusals,  // no slow nodes
		&set.Guarantee, // jobs that may not borrow wait
		&set.Windows,   // jobs that run until maintenance, and that leave before it
	)
	return failed
}

// act does what is no write into a job: signals, requeues, reservations. What failed comes last: it waits for no place.
func (set *Settings) act(ctx context.Context, c *plan.Cycle) (failed error) {
	set.Allocation.Exclude(set.Steering.RuledOut) // from the next allocation on
	for _, f := range []plan.Feature{&set.Evictions, &set.Headroom, &set.Retries, &set.Idle} {
		failed = errors.Join(failed, f.Act(ctx, c))
	}
	return failed
}

// Recorder keeps what was seen, decided and written.
type Recorder interface {
	// Observed may begin to keep what a poll showed, and the stays that began or ended since
	// the last one, while the cycle decides; stays waits for these, and is called once at most.
	// It only reads the snapshot. A Planned of the same snapshot follows.
	Observed(ctx context.Context, s *cluster.Snapshot, stays func() []cluster.Stay)
	// Planned returns once everything in plan.Seen is safe: the actions that follow
	// can then be explained and undone even after a crash. On error nothing is
	// written to Slurm.
	Planned(context.Context, plan.Seen) error
	// Done takes in what became of the actions of the last Planned.
	Done(context.Context, []plan.Outcome) error
}

// Result is what one cycle did.
type Result struct {
	Snapshot   cluster.Snapshot
	PeerValues []order.PeerValue // values of another priod
	Plan       plan.Plan
	Outcomes   []plan.Outcome // nil when nothing was written
	Room       evict.Choices  // which jobs leave for which
	Hold       string         // why nothing was written, although the plan may hold actions
}

// connect gives a cycle what features know and others ask.
func (set *Settings) connect(c *plan.Cycle) {
	if t := set.Waits.Tracker; t != nil {
		c.ReadNodes()
		c.Fragmented = func(id cluster.JobID) time.Duration { return t.Fragmented(id, c.Snapshot.At) }
		set.Refusals.Waited = t.Waited
	}
	if j := set.Evictions.Journal; j != nil {
		c.Pinned, c.Evicted = j.Pins, j.Evicted
	}
	if m := set.Retries.Memory; m != nil {
		if r := &set.Retries.Settings; set.Refusals.Settings.Enabled && r.Rules != nil {
			for _, x := range retry.Suspects(r, m.Failures, m.Drained, len(c.Snapshot.Nodes), c.Snapshot.At) {
				set.Refusals.Slow.Failing = append(set.Refusals.Slow.Failing, x.Node)
			}
		}
		c.FailedQuickly = func(j *cluster.Job) int { return m.Quick(&set.Retries.Settings, c.History, j, c.Snapshot.At) }
	}
}

// Step runs one cycle. An error of Observe or Planned means that nothing was
// written; an error of Done means that it was, and the Result says what. An
// error of a feature comes after everything else is done.
func Step(ctx context.Context, slurm plan.Slurm, rec Recorder, h *cluster.History, set Settings) (Result, error) {
	stage := set.Stage
	if stage == nil {
		stage = func(string) {}
	}
	defer stage("")

	if set.Off {
		set.switchOff()
	}
	stage("observe")
	snapshot, err := slurm.Observe(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("read Slurm: %w", err)
	}

	h.KeepTags(&snapshot)
	set.Consent.Apply(&snapshot, h)
	if !set.DryRun {
		set.Idle.Classify(ctx, &snapshot)
	}
	set.Guarantee.Classify(&snapshot, h)

	stage("decide")
	result := Result{Snapshot: snapshot}
	c := &plan.Cycle{Snapshot: &result.Snapshot, History: h, Plan: &result.Plan, Paused: set.Hold, Off: set.Off, DryRun: set.DryRun}
	set.connect(c)
	stays := make(chan []cluster.Stay, 1)
	if !set.DryRun {
		rec.Observed(ctx, c.Snapshot, func() []cluster.Stay { return <-stays })
	}
	c.Stays = h.Observe(c.Snapshot)
	stays <- c.Stays
	failed := set.decide(ctx, c)
	c.Join()
	c.Plan.Notes = append(c.Plan.Notes, set.Trial...)
	c.NoteNodes()
	c.NoteUnread()
	// Why jobs wait changes nothing in the plan: the recorder looks at that meanwhile.
	looked := plan.Concurrently(c.Snapshot, func() error { set.Waits.Look(c); return nil })
	defer looked()
	result.PeerValues, result.Room = set.Order.PeerValues(), set.Evictions.Choices
	if set.DryRun {
		return result, failed
	}
	for i := range result.Plan.Decisions {
		if d := &result.Plan.Decisions[i]; d.Ranked || plan.Reason(d.Why).Started() {
			h.Counted.Set(d.Job, d.Class)
		}
	}

	stage("record")
	seen := plan.Seen{Snapshot: c.Snapshot, Stays: c.Stays, Plan: c.Plan, Hold: set.Hold}
	if t := set.Waits.Tracker; t != nil {
		seen.Waits = func() []*plan.Wait {
			looked()
			return t.Changed()
		}
	}
	if err := rec.Planned(ctx, seen); err != nil {
		return result, fmt.Errorf("record the plan (nothing was written to Slurm): %w", err)
	}
	looked()
	result.Hold = set.Hold
	if set.Hold == "" && len(result.Plan.Actions) > 0 {
		stage("act")
		ctx := context.WithoutCancel(ctx) // a recorded plan is carried through
		result.Outcomes = slurm.Apply(ctx, result.Plan.Actions)
		c.Outcomes = result.Outcomes
		plan.Hear(c)
		stage("record")
		if err := rec.Done(ctx, result.Outcomes); err != nil {
			return result, errors.Join(fmt.Errorf("record the outcomes: %w", err), failed)
		}
	}
	stage("evict")
	return result, errors.Join(failed, set.act(ctx, c))
}
