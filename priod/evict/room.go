package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// Feature makes room for waiting jobs. Its own part of a cycle comes before the order is made: jobs for which earlier cycles made room
// stand before others. When the order is there, For asks each kind of claimants. The zero value makes none.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Slurm    plan.Leaving
	Journal  *Journal // what the Recorder has saved; nil: no job is ever evicted
	Recorder interface {
		// SaveEvictions returns once the rows are safe; on error no command is sent.
		SaveEvictions(context.Context, *Changes) error
	}
	OnChange func(Event) // is called with each row that changed; may be nil
	Vetoes   Vetoes      // kept from one cycle to the next; nil: every cycle looks closer at all
	Rounds   *Rounds     // nil: no round ever ends
	// Now is the clock by which graces and holds end. It runs on while commands are sent; nil: the system's.
	Now func() time.Time

	Choices Choices // what this cycle decided

	failed bool            // an error occurred: no eviction is begun in this cycle
	held   func() *Holders // waits for the jobs that hold GPUs; nil: not begun
}

// Choices are those of a cycle: of each kind of claimants that was asked. Changes has one of them at most.
type Choices []*Choice

// Of is the choice for a purpose; nil: it was not asked.
func (all Choices) Of(purpose Purpose) *Choice {
	if at := slices.IndexFunc(all, func(c *Choice) bool { return c.For == purpose }); at >= 0 {
		return all[at]
	}
	return nil
}

// Plan takes in what became of earlier evictions, and marks the jobs for which they made room.
func (e *Feature) Plan(ctx context.Context, c *plan.Cycle) error {
	e.Choices, e.failed, e.held = nil, false, nil
	if e.Journal == nil {
		return nil
	}
	e.Journal.nodes = c.Snapshot.Nodes
	e.Journal.memShared = c.Snapshot.MemShared
	e.Journal.Forget(c.Snapshot.At, func(id cluster.JobID) bool {
		return slices.ContainsFunc(c.Snapshot.Jobs, func(j cluster.Job) bool { return j.ID == id })
	})
	err := error(nil)
	if !c.DryRun {
		err = e.unpinUnsatisfied(ctx, c.Snapshot, c.Paused != "")
		if refuted := e.Journal.refuted(c.Snapshot); err == nil {
			err = e.save(ctx, &refuted, "its lesson stands")
		}
		e.failed = err != nil
	}
	e.Journal.noteLessons(c.Plan, c.Snapshot.At)
	e.Journal.MarkHistory(c.History, c.Snapshot.At)
	if c.Paused == "" && (e.Settings.Enabled || e.Settings.Defrag) {
		e.findHolders(c)
	}
	return err
}

// Act begins what was chosen, and takes all evictions under way as far as they go.
func (e *Feature) Act(ctx context.Context, c *plan.Cycle) error {
	if e.Journal == nil {
		return nil
	}
	err := error(nil)
	for _, choice := range e.Choices {
		if !e.failed {
			err = errors.Join(err, e.save(ctx, &choice.Changes, "none was begun"))
		}
	}
	return errors.Join(err, e.vacate(ctx, c), e.Tend(ctx, c.Snapshot, c.Plan, c.Paused != "" || c.Off))
}

// findHolders begins to look for the jobs that hold GPUs.
func (e *Feature) findHolders(c *plan.Cycle) {
	e.held = plan.InBackgroundLazily(c, func() *Holders { return FindHolders(c.Snapshot, c.Nodes(), e.Journal, &e.Settings) })
}

// For is the part of a cycle in which room is made for the claimants of these purposes.
func (e *Feature) For(purposes ...Purpose) plan.Feature {
	return turn{evictions: e, purposes: purposes}
}

type turn struct {
	plan.PlanOnly
	evictions *Feature
	purposes  []Purpose
}

// Plan asks the kinds of claimants in turn. When a cycle makes room for one kind, the next cycle asks those behind it.
func (t turn) Plan(ctx context.Context, c *plan.Cycle) error {
	e := t.evictions
	for _, k := range kinds {
		if e.Journal == nil || e.failed || !slices.Contains(t.purposes, k.purpose) {
			continue
		}
		q := Question{Snapshot: c.Snapshot, Plan: c.Plan, Journal: e.Journal, Settings: &e.Settings, Fragmented: c.Fragmented, FailedQuickly: c.FailedQuickly}
		begun := slices.ContainsFunc(e.Choices, func(x *Choice) bool { return !x.Changes.Empty() })
		if k.due(e, c, &q) && !begun {
			if err := e.makeRoom(ctx, c, k, q); err != nil {
				e.failed = true
				return fmt.Errorf("%s: %w", k.task, err)
			}
		}
		if k.purpose == ForRound && e.Rounds != nil {
			e.Rounds.explained.annotate(c.Plan, k.classes) // of jobs that still wait
			if l := e.Settings.Rounds.Length; e.Settings.Rounds.Enabled && c.Owing != nil {
				c.Plan.StandsUntil(e.Rounds.lastCycle.Truncate(l).Add(l))
				if e.Rounds.due {
					c.Plan.Stands(0)
				}
			}
		}
	}
	return nil
}

// makeRoom chooses the jobs that leave for one kind of claimants. The cycle makes the order again with those first that get room.
func (e *Feature) makeRoom(ctx context.Context, c *plan.Cycle, k kind, q Question) error {
	if e.held == nil {
		e.findHolders(c)
	}
	q.Nodes, q.Holders = c.Nodes(), e.held()
	choice, settled, err := e.choose(ctx, k, q)
	e.Vetoes.forgetSized(c.History)
	if err != nil {
		return err
	}
	if !settled && k.purpose != ForTrial {
		return nil // the next cycle asks again, and knows which were ruled out
	}
	if !choice.Changes.Empty() {
		e.Journal.Number(&choice.Changes)
		for i := range choice.Changes.Claims {
			c.History.Claiming[choice.Changes.Claims[i].Job] = true
		}
	}
	e.Choices = append(e.Choices, choice)
	for _, x := range choice.Claimants {
		if until := choice.patientUntil(x.job); k.purpose == ForTrial && x.Why == preemption.Anyway && until.After(c.Snapshot.At) {
			c.Plan.StandsUntil(until)
		}
		if x.Why == NotYet {
			c.Plan.Stands(x.Cost/float64(x.GPUs) - x.Waited)
		}
	}
	said := choice.explain()
	if k.purpose == ForRound {
		e.Rounds.due, e.Rounds.explained = false, said
		return nil
	}
	said.annotate(c.Plan, k.classes)
	return nil
}

// maxChoices is how often a cycle chooses at most.
const maxChoices = 4

// choose chooses, looks closer at the chosen jobs, and chooses again without those that the closer look rules out, until none is ruled
// out. It returns false when that takes too many choices: no job leaves then, and the next cycle knows the jobs that were ruled out.
func (e *Feature) choose(ctx context.Context, k kind, q Question) (*Choice, bool, error) {
	q.Vetoed = e.Vetoes.current(q.Snapshot.At)
	for range maxChoices {
		choice, before := choose(k, q), len(q.Vetoed)
		if err := e.check(ctx, q.Snapshot, &choice.Changes, q.Vetoed); err != nil {
			return nil, false, err
		}
		if len(q.Vetoed) == before {
			return choice, true, nil
		}
		e.Vetoes.add(q.Vetoed, q.Snapshot.At)
	}
	choice := choose(k, q)
	choice.Changes = Changes{}
	return choice, false, nil
}
