package daemon

import (
	"context"
	"time"

	"slurmprio/priod/store"
)

const (
	checkEvery    = time.Hour
	checkPatience = 2 * time.Minute // that one check may take
)

// checks are what priod check finds, looked for alongside the cycles, one at a time: after the
// first cycle, after each reload, and then each hour. One asks Slurm as much as a poll does.
type checks struct {
	background[struct{}]
	next time.Time // by the time that a process keeps
}

// check begins a check when it is time for one.
func (d *Daemon) check(ctx context.Context) {
	c := &d.checks
	if busy, _, _ := c.busy(); d.Check == nil || busy || time.Now().Before(c.next) {
		return
	}
	c.next = time.Now().Add(checkEvery)
	cfg, now := d.Config, d.clock.now()
	c.begin(func() (none struct{}) {
		looking, cancel := context.WithTimeout(ctx, checkPatience)
		defer cancel()
		found := store.Findings{At: now, Findings: d.Check(looking, cfg)}
		if ctx.Err() != nil {
			return none // the daemon ends, and what could not be read says nothing
		}
		if err := d.Store.SaveFindings(ctx, &found); err != nil {
			d.Log.Warn("what priod check finds is not stored", "error", err)
			return none
		}
		d.metrics.checked(&found)
		return none
	})
}
