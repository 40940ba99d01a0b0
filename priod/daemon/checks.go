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

// checks are what priod check finds, looked for beside the cycles, one at a time: after the
// first cycle, after each reload, and then each hour. One asks Slurm as much as a poll does.
type checks struct {
	next    time.Time // by the time that a process keeps
	running chan struct{}
}

// check begins a check when it is time for one.
func (d *Daemon) check(ctx context.Context) {
	c := &d.checks
	if c.running != nil {
		select {
		case <-c.running:
			c.running = nil
		default:
		}
	}
	if d.Check == nil || c.running != nil || time.Now().Before(c.next) {
		return
	}
	c.next, c.running = time.Now().Add(checkEvery), make(chan struct{})
	cfg, now, done := d.Config, d.clock.now(), c.running
	go func() {
		defer close(done)
		looking, cancel := context.WithTimeout(ctx, checkPatience)
		defer cancel()
		found := store.Findings{At: now, Findings: d.Check(looking, cfg)}
		if ctx.Err() != nil {
			return // the daemon ends, and what could not be read says nothing
		}
		if err := d.Store.SaveFindings(ctx, &found); err != nil {
			d.Log.Warn("what priod check finds is not stored", "error", err)
			return
		}
		d.metrics.checked(&found)
	}()
}

// finish waits for a check that is under way: it uses the store.
func (c *checks) finish() {
	if c.running != nil {
		<-c.running
		c.running = nil
	}
}
