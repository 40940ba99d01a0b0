package daemon

import (
	"context"
	"time"

	"slurmprio/priod/cycle"
	"slurmprio/priod/store"
)

const sampleEvery = time.Minute

// sampling takes one sample of the cluster for each minute; what Slurm is asked for it, and the store, alongside the cycles.
type sampling struct {
	background[struct{}]
	next    time.Time     // by the time that a process keeps
	longest time.Duration // cycle since the last sample
}

// sample takes one when it is time for it, for the curves of priod web.
func (d *Daemon) sample(ctx context.Context, r *cycle.Result, took time.Duration) {
	s := &d.sampling
	s.longest = max(s.longest, took)
	if busy, _, _ := s.busy(); busy || time.Now().Before(s.next) {
		return
	}
	x := store.SampleOf(&r.Snapshot, d.history, d.state.Waits.Causes())
	x.TookS = s.longest.Seconds()
	for i := range d.learning.speeds.slow.Nodes {
		if n := &d.learning.speeds.slow.Nodes[i]; n.Factor != nil {
			x.Slow[n.Name] = *n.Factor
		}
	}
	d.metrics.sampled(r.Snapshot.Nodes, x.Causes)
	s.next, s.longest = time.Now().Add(sampleEvery), 0
	slurm := d.slurm
	s.begin(func() (none struct{}) {
		var err error
		if x.Reservations, err = slurm.Reserved(ctx); err != nil {
			d.Log.Debug("reservations are not read", "error", err)
		}
		if err := d.Store.SaveSample(ctx, x); err != nil && ctx.Err() == nil {
			d.Log.Warn("the sample of this minute is not stored", "error", err)
		}
		return none
	})
}
