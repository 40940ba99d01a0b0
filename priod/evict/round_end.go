package evict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// Rounds end at the whole multiples of their length that lie between two cycles.
// Nothing of them is stored: after a start of priod, or after rounds were switched on,
// the next multiple is the first end.
type Rounds struct {
	Settings RoundSettings

	lastCycle time.Time    // when the last cycle was
	due       bool         // a round has ended, and no cycle has dealt with it
	explained explanations // what the last round brought each job, in words
}

// Restore takes in when an earlier process had its last cycle: a round that ended since is dealt with.
func (r *Rounds) Restore(lastCycle time.Time) { r.lastCycle = lastCycle }

// hasEnded reports whether a round has ended by now and has not been dealt with.
func (r *Rounds) hasEnded(now time.Time) bool {
	length := r.length()
	if !r.lastCycle.IsZero() && now.Truncate(length).After(r.lastCycle.Truncate(length)) {
		r.due = true
	}
	r.lastCycle = now
	return r.due
}

func (r *Rounds) length() time.Duration {
	return time.Duration(r.Settings.Policy.Round * float64(time.Second))
}

// stands notes that the plan stands until the round ends, and not if an end is still to be
// decided on.
func (r *Rounds) stands(p *plan.Plan) {
	p.StandsUntil(r.lastCycle.Truncate(r.length()).Add(r.length()))
	if r.due {
		p.Stands(0)
	}
}

// forRounds decides at the end of a round which jobs yield to which: those that get a place
// rank ahead of other BE jobs. TE jobs and gangs come first: when a cycle makes room
// for them, the next one ends the round.
type forRounds struct {
	*Feature
	plan.PlanOnly
}

func (e forRounds) Plan(ctx context.Context, c *plan.Cycle) error {
	if e.Journal == nil {
		return nil
	}
	var err error
	if e.Rounds != nil && c.Owing != nil && !e.failed {
		err = e.endRound(ctx, c)
		e.failed = err != nil
	}
	e.Vetoes.forgetSized(c.History)
	return err
}

// endRound ends a round, if one has ended.
func (e *Feature) endRound(ctx context.Context, c *plan.Cycle) error {
	r := e.Rounds
	if !r.Settings.Enabled {
		*r = Rounds{Settings: r.Settings}
		return nil
	}
	ends := r.hasEnded(c.Snapshot.At) || c.DryRun // a dry run shows what a round would bring that ended now
	defer func() { r.stands(c.Plan) }()
	if c.Plan.Shares == nil || c.Paused != "" { // no job is owed anything
		r.due, r.explained = false, explanations{}
		return nil
	}
	defer func() { r.explained.annotate(c.Plan, func(d *plan.Decision) bool { return d.Class == cluster.BE }) }() // of jobs that still wait
	if !ends || e.Choice != nil && !e.Choice.Changes.Empty() || e.Moves != nil && !e.Moves.Changes.Empty() {
		return nil
	}
	owing := c.Owing(r.Settings.Policy.Lead)
	if owing == nil {
		return nil
	}
	var round *Round
	settled, err := e.withChecks(ctx, c.Snapshot, func(vetoed map[cluster.JobID]preemption.Why) *Changes {
		round = EndRound(c.Snapshot, c.Nodes(), e.holders(c), owing, e.Journal, &e.Settings, &r.Settings, vetoed)
		return &round.Changes
	})
	if err != nil {
		return fmt.Errorf("end the round: %w", err)
	}
	if !settled {
		return nil // the next cycle ends it
	}
	r.due, r.explained, e.Round = false, explanations{}, round
	for _, t := range round.Waiting {
		r.explained.add(t.Job, plan.EvictionChoice{For: string(ForRound), Why: string(t.Why)}, "at the end of the last round: "+RoundReasonText(t.Why))
	}
	e.begin(&round.Changes, c)
	return nil
}

// Act begins what the round's end decided, and continues with all evictions under way.
func (e forRounds) Act(ctx context.Context, c *plan.Cycle) error {
	if e.Journal == nil {
		return nil
	}
	var err error
	if e.Round != nil && !e.failed {
		err = e.save(ctx, &e.Round.Changes, "none was begun")
	}
	return errors.Join(err, e.Tend(ctx, c.Snapshot, c.Plan, c.Paused != ""))
}
