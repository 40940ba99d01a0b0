package daemon

import (
	"context"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/expect"
)

const (
	expectEvery = time.Minute // and no more often than costs a fiftieth of a core
	expectShare = 50
)

// expecting plans when the first jobs of the queue start, alongside the cycles, one plan at a time.
type expecting struct {
	background[time.Duration]           // what one took
	next                      time.Time // by the time that a process keeps
}

// expect begins a plan when it is time for one.
func (d *Daemon) expect(ctx context.Context, r *cycle.Result) {
	e := &d.expecting
	busy, took, over := e.busy()
	if over {
		e.next = cluster.Later(e.next, time.Now().Add(expectShare*took))
	}
	if busy || time.Now().Before(e.next) {
		return
	}
	e.next = time.Now().Add(expectEvery)
	s, order := expect.Planned(r)
	past, fit := d.learning.speeds.past, d.learning.speeds.fit
	e.begin(func() time.Duration {
		began := time.Now()
		starts, ends := expect.Of(s, order, expect.Learn(s, past), fit)
		d.metrics.starting(starts, s.At)
		if err := errors.Join(d.Store.SaveStarts(ctx, s.At, starts), d.Store.SaveEnds(ctx, s.At, ends)); err != nil && ctx.Err() == nil {
			d.Log.Warn("when jobs are expected to start is not stored", "error", err)
		}
		return time.Since(began)
	})
}
