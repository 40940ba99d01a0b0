// Package cycle is one turn of the daemon: observe, decide, record, act,
// record. It has no ticker, reads no clock and knows no SQL, so that the
// simulator drives the very same Step.
package cycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Settings are what a cycle depends on.
type Settings struct {
	Decide order.Settings
	// DryRun observes, decides and records nothing: the plan is the result.
	DryRun bool
	// Hold says why nothing may be written now ("paused by ..."); "" when it may.
	Hold string
	// Ledger keeps what was allocated and received, by the settings of Allocation;
	// nil: nothing is allocated.
	Ledger     *allocate.Ledger
	Allocation allocate.AllocationSettings
	// Steering binds pending jobs to GPU types; the zero value binds none.
	Steering Steering
	// Sizing gives waiting jobs other sizes; the zero value gives none.
	Sizing Sizing
	// GiveBack lowers the memory of running jobs; the zero value lowers none.
	GiveBack GiveBack
	// Evictions make room for TE jobs; the zero value makes none.
	Evictions Evictions
	// Rounds end by Evictions and Steering; nil: none ever does.
	Rounds *Rounds
	// Stage, if set, is told when a stage begins: "observe", "decide",
	// "record", "act", "evict", "" at the end. The daemon takes times with it.
	Stage func(string)
}

// Recorder keeps what was seen, decided and written.
type Recorder interface {
	// Planned returns once everything in plan.Seen is safe: the actions that follow
	// can then be explained and undone even after a crash. On error nothing is
	// written to Slurm.
	Planned(context.Context, plan.Seen) error
	// Done takes in what became of the actions of the last Planned.
	Done(context.Context, []plan.Outcome) error
}

// Result is what one cycle did.
type Result struct {
	Snapshot  cluster.Snapshot
	Strangers []order.Stranger // values of another priod
	Plan      plan.Plan
	Outcomes  []plan.Outcome // nil when nothing was written
	Choice    *evict.Choice  // who leaves for whom; nil when that was not asked
	Round     *evict.Round   // who yields to whom; nil when no round ended
	Hold      string         // why nothing was written, although the plan may hold actions
}

// Step runs one cycle. An error of Observe or Planned means that nothing was
// written; an error of Done means that it was, and the Result says what. An
// error about evictions comes after everything else is done.
func Step(ctx context.Context, slurm plan.Slurm, rec Recorder, h *cluster.History, set Settings) (Result, error) {
	stage := set.Stage
	if stage == nil {
		stage = func(string) {}
	}
	defer stage("")

	stage("observe")
	snapshot, err := slurm.Observe(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("read Slurm: %w", err)
	}

	stage("decide")
	stays := h.Observe(&snapshot)
	result := Result{Snapshot: snapshot, Strangers: order.Strangers(&snapshot, h, set.Decide)}
	if set.Decide.Peers {
		order.Adopt(result.Strangers, &snapshot, h)
	}
	if set.Ledger != nil {
		set.Decide.Shares = set.Ledger.Allocate(&result.Snapshot, h, set.Allocation)
	}
	var evictErr error
	result.Plan, result.Choice, evictErr = set.decide(ctx, &result.Snapshot, h)
	if set.Hold != "" { // Slurm is asked about single jobs for what is to be written into them
		set.Steering.Slurm, set.Sizing.Sizes, set.GiveBack.Memory = nil, nil, nil
	}
	steered := set.Steering.steer(ctx, &result.Snapshot, h, &result.Plan, set.Decide.Shares, set.Evictions.Journal)
	if set.Ledger != nil && steered != nil {
		set.Ledger.Exclude(steered.RuledOut())
	}
	if evictErr == nil {
		evictErr = set.endRound(ctx, h, &result, steered)
	}
	set.Evictions.Vetoes.except(h)
	set.GiveBack.decide(ctx, &result.Snapshot, h, &result.Plan) // before sizes, which take what stands there for the users' own
	set.Sizing.decide(ctx, &result.Snapshot, h, &result.Plan)
	if set.DryRun {
		return result, evictErr
	}
	for i := range result.Plan.Decisions {
		if d := &result.Plan.Decisions[i]; d.Ranked {
			h.Counted[d.Job] = d.Class
		}
	}

	stage("record")
	seen := plan.Seen{Snapshot: &result.Snapshot, Stays: stays, Plan: &result.Plan, Hold: set.Hold}
	if err := rec.Planned(ctx, seen); err != nil {
		return result, fmt.Errorf("record the plan (nothing was written to Slurm): %w", err)
	}
	result.Hold = set.Hold
	if set.Hold == "" && len(result.Plan.Actions) > 0 {
		if err := act(ctx, slurm, rec, h, &result, stage); err != nil {
			return result, errors.Join(err, evictErr)
		}
		set.Steering.learn(result.Outcomes)
		set.GiveBack.learn(&result.Snapshot, result.Outcomes)
	}
	stage("evict")
	if evictErr == nil && result.Choice != nil {
		evictErr = set.Evictions.save(ctx, &result.Choice.Turn, "none was begun")
	}
	if evictErr == nil && result.Round != nil {
		evictErr = set.Evictions.save(ctx, &result.Round.Turn, "none was begun")
	}
	return result, errors.Join(evictErr, set.Evictions.Tend(ctx, &result.Snapshot, &result.Plan, set.Hold != ""))
}

// decide plans the order, and who leaves for whom: TE jobs that get room made
// stand before the others, so the order is decided once more.
func (set *Settings) decide(ctx context.Context, s *cluster.Snapshot, h *cluster.History) (plan.Plan, *evict.Choice, error) {
	e := &set.Evictions
	if e.Journal == nil {
		return order.Decide(s, h, set.Decide), nil, nil
	}
	e.Journal.See(s.Nodes)
	freed := error(nil)
	if !set.DryRun {
		freed = e.free(ctx, s, set.Hold != "")
	}
	e.Journal.Mark(h)
	p := order.Decide(s, h, set.Decide)
	waits := slices.ContainsFunc(p.Decisions, func(d plan.Decision) bool { return d.Ranked && d.Class == cluster.TE })
	if !e.Settings.Enabled || set.Hold != "" || !waits {
		return p, nil, freed
	}
	choice, err := e.choose(ctx, s, &p)
	if err = errors.Join(freed, err); err != nil {
		return p, nil, err
	}
	if !choice.Turn.Empty() {
		e.begin(&choice.Turn, h)
		p = order.Decide(s, h, set.Decide)
	}
	choice.Annotate(&p)
	return p, choice, nil
}

// begin numbers the rows of new claims, and marks their jobs.
func (e *Evictions) begin(t *evict.Turn, h *cluster.History) {
	e.Journal.Number(t)
	for i := range t.Claims {
		h.Claiming[t.Claims[i].Job] = true
	}
}

// act writes the plan and takes down what became of it.
func act(ctx context.Context, slurm plan.Slurm, rec Recorder, h *cluster.History, result *Result, stage func(string)) error {
	stage("act")
	ctx = context.WithoutCancel(ctx) // a recorded plan is carried through
	result.Outcomes = slurm.Apply(ctx, result.Plan.Actions)
	remember(h, result)

	stage("record")
	if err := rec.Done(ctx, result.Outcomes); err != nil {
		return fmt.Errorf("record the outcomes: %w", err)
	}
	return nil
}

// remember keeps what was sent, because the next snapshot need not show it.
func remember(h *cluster.History, r *Result) {
	for _, o := range r.Outcomes {
		for _, id := range o.Jobs() {
			if !o.Lever.Ranks() {
				rememberSize(h, id, &o, r.Snapshot.At)
				if o.Status == slurmplug.Applied || o.Status == slurmplug.Unknown {
					h.Asked(id, o.Lever, o.Was, o.After, o.Status == slurmplug.Applied, r.Snapshot.At)
				}
				continue
			}
			if old, known := h.Written[id]; known && old.Lever == o.Lever {
				before, _ := strconv.ParseInt(o.Before, 10, 64) // decide wrote it
				h.Written[id] = old.Holding(before, r.Snapshot.At)
			}
			w := order.Effect(o.Action, h)
			w.At = r.Snapshot.At
			switch o.Status {
			case slurmplug.Applied:
				h.Wrote(id, w, order.TakenBack(o.Action, h.Written[id]))
			case slurmplug.Unknown:
				h.Try(id, w)
			}
		}
	}
}
