package evict

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// Feature makes room for TE jobs and for gangs, and at the end of a round for jobs that are owed
// their GPUs. It takes part in a cycle four times, see Parts. The zero value makes
// none.
type Feature struct {
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
	// Now is the clock by which graces and holds end. It runs on while commands are sent;
	// nil: the system's.
	Now func() time.Time

	// What the cycle decided.
	Choice *Choice // which jobs leave for which; nil when that was not asked
	Moves  *Moves  // which jobs move for gangs; nil when that was not asked
	Round  *Round  // which jobs yield to which; nil when no round ended
	failed bool    // an error occurred: no eviction is begun in this cycle

	held func() *Holders // waits for the jobs that hold GPUs; nil: not begun
}

// Parts returns what evictions do in a cycle: before the order is made, after it for TE
// jobs and for gangs, and after jobs were given GPU types.
func (e *Feature) Parts() (earlier, trials, gangs, rounds plan.Feature) {
	return earlierPlaces{Feature: e}, forTrials{Feature: e}, forGangs{Feature: e}, forRounds{Feature: e}
}

// earlierPlaces marks the jobs for which earlier cycles made room: they stand before
// others.
type earlierPlaces struct {
	*Feature
	plan.PlanOnly
}

func (e earlierPlaces) Plan(ctx context.Context, c *plan.Cycle) error {
	e.Choice, e.Moves, e.Round, e.failed, e.held = nil, nil, nil, false, nil
	if e.Journal == nil {
		return nil
	}
	e.Journal.SetNodes(c.Snapshot.Nodes)
	e.Journal.memShared = c.Snapshot.MemShared
	e.Journal.Forget(c.Snapshot.At, func(id cluster.JobID) bool {
		return slices.ContainsFunc(c.Snapshot.Jobs, func(j cluster.Job) bool { return j.ID == id })
	})
	err := error(nil)
	if !c.DryRun {
		err = e.unpinUnsatisfied(ctx, c.Snapshot, c.Paused != "")
		e.failed = err != nil
	}
	if t := e.Journal.refuted(c.Snapshot); !c.DryRun && err == nil {
		err = e.save(ctx, &t, "its lesson stands")
		e.failed = err != nil
	}
	e.Journal.noteLessons(c.Plan, c.Snapshot.At)
	e.Journal.MarkHistory(c.History, c.Snapshot.At)
	if c.Paused == "" && (e.Settings.Enabled || e.Settings.Defrag) {
		e.findHolders(c)
	}
	return err
}

// findHolders begins to look for the jobs that hold GPUs.
func (e *Feature) findHolders(c *plan.Cycle) {
	e.held = plan.InBackgroundLazily(c, func() *Holders { return FindHolders(c.Snapshot, c.Nodes(), e.Journal, &e.Settings) })
}

// holders are the jobs that hold GPUs in this cycle.
func (e *Feature) holders(c *plan.Cycle) *Holders {
	if e.held == nil {
		e.findHolders(c)
	}
	return e.held()
}

// forTrials chooses the jobs that leave for TE jobs.
type forTrials struct {
	*Feature
	plan.PlanOnly
}

func (e forTrials) Plan(ctx context.Context, c *plan.Cycle) error {
	waits := func(d plan.Decision) bool { return d.Ranked && d.Class == cluster.TE }
	if e.Journal == nil || e.failed || !e.Settings.Enabled || c.Paused != "" || !slices.ContainsFunc(c.Plan.Decisions, waits) {
		return nil
	}
	choice, err := e.chooseVictims(ctx, c)
	if err != nil {
		e.failed = true
		return err
	}
	e.begin(&choice.Changes, c)
	choice.Annotate(c.Plan)
	e.Choice = choice
	return nil
}

func (e forTrials) Act(ctx context.Context, _ *plan.Cycle) error {
	if e.Choice == nil || e.failed {
		return nil
	}
	err := e.save(ctx, &e.Choice.Changes, "none was begun")
	e.failed = err != nil
	return err
}

// begin numbers the rows of new claims. The cycle makes the order again with their jobs first.
func (e *Feature) begin(t *Changes, c *plan.Cycle) {
	if t.Empty() {
		return
	}
	e.Journal.Number(t)
	for i := range t.Claims {
		c.History.Claiming[t.Claims[i].Job] = true
	}
}

// chooseVictims decides which jobs leave for TE jobs.
func (e *Feature) chooseVictims(ctx context.Context, c *plan.Cycle) (*Choice, error) {
	var choice *Choice
	_, err := e.withChecks(ctx, c.Snapshot, func(vetoed map[cluster.JobID]preemption.Why) *Changes {
		choice = Choose(c.Snapshot, c.Nodes(), e.holders(c), c.Plan, e.Journal, &e.Settings, vetoed)
		return &choice.Changes
	})
	return choice, err
}
