package cycle

import (
	"context"
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
)

// Rounds end at the whole multiples of their length that lie between two cycles.
// Nothing of them is stored: a priod that was started, or in which they were
// switched on, waits for the next one.
type Rounds struct {
	Settings evict.RoundSettings

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

// endRound decides who yields to whom, if a round has ended: those that get a place
// stand before other BE jobs, so the order is decided once more. TE jobs come
// first: a cycle that makes room for them leaves the round to the next one.
func (set *Settings) endRound(ctx context.Context, h *cluster.History, result *Result, steered *steer.Steered) error {
	r, e, s := set.Rounds, &set.Evictions, &result.Snapshot
	if r == nil || e.Journal == nil || steered == nil {
		return nil
	}
	if !r.Settings.Enabled {
		*r = Rounds{Settings: r.Settings}
		return nil
	}
	ends := r.ends(s.At) || set.DryRun // which shows what would be, were it to end now
	owing := steered.Owing(r.Settings.Policy.Lead)
	if owing == nil || set.Hold != "" {
		r.due, r.told = false, nil
		return nil
	}
	if !ends || result.Choice != nil && !result.Choice.Turn.Empty() {
		r.annotate(&result.Plan)
		return nil
	}
	var round *evict.Round
	settled, err := e.vetted(ctx, s, func(vetoed map[cluster.JobID]preemption.Why) *evict.Turn {
		round = evict.EndRound(s, owing, e.Journal, &e.Settings, &r.Settings, vetoed)
		return &round.Turn
	})
	if err != nil {
		return fmt.Errorf("end the round: %w", err)
	}
	if !settled {
		r.annotate(&result.Plan)
		return nil // the next cycle ends it
	}
	r.due, r.told, result.Round = false, map[cluster.JobID]string{}, round
	for _, t := range round.Waiting {
		text := "at the end of the last round: " + evict.RoundReasonText(t.Why)
		r.told[t.Job] = text
		if array := slurmplug.Plain(t.Job.ID); r.told[array] == "" {
			r.told[array] = text
		}
	}
	if !round.Turn.Empty() {
		e.begin(&round.Turn, h)
		again := order.Decide(s, h, set.Decide)
		for i := range again.Decisions { // of the same jobs
			d, was := &again.Decisions[i], &result.Plan.Decisions[i]
			d.Steer, d.Detail = was.Steer, was.Detail
		}
		again.Notes = result.Plan.Notes
		again.Ask(steered.Actions)
		result.Plan = again
	}
	r.annotate(&result.Plan)
	return nil
}

// annotate puts into the plan, for explain, what the last round brought each job
// that still waits.
func (r *Rounds) annotate(p *plan.Plan) {
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if text := r.told[d.Job]; text != "" && d.Class == cluster.BE {
			if d.Detail != "" {
				text = d.Detail + "; " + text
			}
			d.Detail = text
		}
	}
}
