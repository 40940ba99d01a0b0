package daemon

import (
	"context"
	"time"

	"slurmprio/priod/guarantee"
)

// stating stores what became of guaranteed shares once a minute, alongside the cycles; its result is what could not be stored.
type stating struct {
	background[*guarantee.Taken]
	next   time.Time // by the time that a process keeps
	stored bool      // the store holds jobs that wait
}

// resumeStatement takes in which entitled jobs waited when an earlier process last looked.
func (d *Daemon) resumeStatement(ctx context.Context, at time.Time) error {
	open, err := d.Store.OpenReturns(ctx)
	if err != nil {
		return err
	}
	d.state.Lending.Restore(open, at)
	d.stating.stored = len(open) > 0
	return nil
}

// account stores the statement when it is time for it.
func (d *Daemon) account(ctx context.Context) {
	s := &d.stating
	busy, left, _ := s.busy()
	d.putBack(left)
	if busy || time.Now().Before(s.next) {
		return
	}
	s.next = time.Now().Add(sampleEvery)
	if save := d.saveStatement(ctx); save != nil {
		s.begin(save)
	}
}

// lastStatement stores what the daemon knows as it ends.
func (d *Daemon) lastStatement(ctx context.Context) {
	if d.stating.running != nil {
		d.putBack(<-d.stating.running)
		d.stating.running = nil
	}
	if save := d.saveStatement(context.WithoutCancel(ctx)); save != nil {
		save()
	}
}

func (d *Daemon) putBack(left *guarantee.Taken) {
	if left != nil {
		d.state.Lending.Statement.PutBack(left)
	}
}

// saveStatement takes the statement, and returns what stores it; nil: there is nothing to store.
func (d *Daemon) saveStatement(ctx context.Context) func() *guarantee.Taken {
	t := d.state.Lending.Statement.Take()
	if len(t.Hours)+len(t.Ended)+len(t.Open) == 0 && !d.stating.stored {
		return nil
	}
	d.stating.stored = len(t.Open) > 0
	return func() *guarantee.Taken {
		if err := d.Store.SaveStatement(ctx, t); err != nil {
			if ctx.Err() == nil {
				d.Log.Warn("what became of shares in this minute is not stored yet", "error", err)
			}
			return t
		}
		return nil
	}
}
