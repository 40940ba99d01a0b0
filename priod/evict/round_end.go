package evict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Rounds end at the whole multiples of their length that lie between two cycles.
// Nothing of them is stored: a priod that was started, or in which they were
// switched on, waits for the next one.
type Rounds struct {
	Settings RoundSettings

	last time.Time // the last cycle's
	due  bool      // a round has ended, and nobody was asked yet
	told map[cluster.JobID]string
}

// ends tells whether a round has ended by now.
func (r *Rounds) ends(now time.Time) bool {
	length := time.Duration(r.Settings.Policy.Round * float64(time.Second))
	if !r.last.IsZero() && now.Truncate(length).After(r.last.Truncate(length)) {
		r.due = true
	}
	r.last = now
	return r.due
}

// forRounds decides who yields to whom, if a round has ended: those that get a place
// stand before other BE jobs. TE jobs come first: a cycle that makes room for them leaves
// the round to the next one.
type forRounds struct{ *Feature }

func (e forRounds) Plan(ctx context.Context, c *plan.Cycle) error {
	if e.Journal == nil {
		return nil
	}
	var err error
	if e.Rounds != nil && c.Owing != nil && !e.failed {
		err = e.endRound(ctx, c)
		e.failed = err != nil
	}
	e.Vetoes.except(c.History)
	return err
}

func (e *Feature) endRound(ctx context.Context, c *plan.Cycle) error {
	r := e.Rounds
	if !r.Settings.Enabled {
		*r = Rounds{Settings: r.Settings}
		return nil
	}
	ends := r.ends(c.Snapshot.At) || c.DryRun // which shows what would be, were it to end now
	owing := c.Owing(r.Settings.Policy.Lead)
	if owing == nil || c.Paused != "" {
		r.due, r.told = false, nil
		return nil
	}
	defer func() { r.annotate(c.Plan) }()
	if !ends || e.Choice != nil && !e.Choice.Turn.Empty() {
		return nil
	}
	var round *Round
	settled, err := e.vetted(ctx, c.Snapshot, func(vetoed map[cluster.JobID]preemption.Why) *Turn {
		round = EndRound(c.Snapshot, owing, e.Journal, &e.Settings, &r.Settings, vetoed)
		return &round.Turn
	})
	if err != nil {
		return fmt.Errorf("end the round: %w", err)
	}
	if !settled {
		return nil // the next cycle ends it
	}
	r.due, r.told, e.Round = false, map[cluster.JobID]string{}, round
	for _, t := range round.Takers {
		text := "at the end of the last round: " + RoundWords(t.Why)
		r.told[t.Job] = text
		if array := slurmplug.Plain(t.Job.ID); r.told[array] == "" {
			r.told[array] = text
		}
	}
	e.begin(&round.Turn, c)
	return nil
}

// Heard does nothing: evictions are commands, and no writes of the plan.
func (forRounds) Heard(*plan.Cycle) {}

// Act begins what the round's end decided, and goes on with all evictions under way.
func (e forRounds) Act(ctx context.Context, c *plan.Cycle) error {
	if e.Journal == nil {
		return nil
	}
	var err error
	if e.Round != nil && !e.failed {
		err = e.save(ctx, &e.Round.Turn, "none was begun")
	}
	return errors.Join(err, e.Tend(ctx, c.Snapshot, c.Plan, c.Paused != ""))
}

// annotate puts into the plan, for explain, what the last round brought each job
// that still waits.
func (r *Rounds) annotate(p *plan.Plan) {
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if text := r.told[d.Job]; text != "" && d.Class == cluster.BE {
			d.Evict = text
		}
	}
}
