package idle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Feature finds the running jobs that do not work before a cycle plans, and does about them what the site wants. The zero
// value looks at nothing.
type Feature struct {
	Settings Settings
	Slurm    interface {
		plan.Leaving
		plan.Working
	}
	Memory   *Memory // nil: nothing is looked at
	Recorder interface {
		// SaveSpells returns once the spells are safe; on error no command is sent.
		SaveSpells(context.Context, []*Spell) error
	}
	OnChange func(*Spell) // is called with each spell that was found, acted on or ended; may be nil
}

// Classify sets the Idle of each job of a snapshot.
func (f *Feature) Classify(ctx context.Context, s *cluster.Snapshot) {
	if f.Memory == nil || !f.Settings.Enabled {
		return
	}
	var signs map[cluster.JobID][]cluster.Sign
	if m := f.Memory; m.due(s.At, &f.Settings) {
		signs, m.unread = f.Slurm.Signs(ctx, s, m.wanted)
	}
	f.Memory.Observe(s, signs, &f.Settings)
	if !slices.Contains(f.Settings.Do, Victim) {
		for i := range s.Jobs {
			s.Jobs[i].Idle = false
		}
	}
}

// Plan notes what cannot be read: others go by cluster.Job.Idle.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	if f.Memory != nil && f.Memory.unread != nil {
		c.Plan.Note(plan.IdleUnread, 1, "idle: what jobs do is not read: %s", strings.ReplaceAll(f.Memory.unread.Error(), "\n", "; "))
	}
	return nil
}

// Act saves the spells that began or ended, and does what is due about those that last.
func (f *Feature) Act(ctx context.Context, c *plan.Cycle) error {
	m := f.Memory
	if m == nil || !f.Settings.Enabled || c.DryRun {
		return nil
	}
	var rows []*Spell
	open := m.open()
	for _, r := range open {
		if !r.kept {
			rows = append(rows, r.spell)
		}
	}
	for _, s := range m.ended {
		if s.How == Ended && c.Evicted != nil && c.Evicted(s.Job, s.Start) {
			s.How = Evicted
		}
		if s.teaches(&f.Settings) {
			rows = append(rows, s)
		}
	}
	if f.save(ctx, rows) == nil { // else the next cycle tries again; that history is not recorded is said elsewhere
		m.ended = nil
		for _, r := range open {
			r.kept = true
		}
	}
	if err := f.act(ctx, c, open); err != nil {
		return fmt.Errorf("idle jobs: %w", err)
	}
	return nil
}

func (f *Feature) save(ctx context.Context, rows []*Spell) error {
	if len(rows) == 0 {
		return nil
	}
	if f.Recorder != nil {
		if err := f.Recorder.SaveSpells(ctx, rows); err != nil {
			return fmt.Errorf("record them (no command was sent): %w", err)
		}
	}
	for _, s := range rows {
		if f.OnChange != nil {
			f.OnChange(s)
		}
	}
	return nil
}
