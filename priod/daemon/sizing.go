package daemon

import (
	"context"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/policy/sensitivity"
)

// useEvery is how often accounting is asked what programs used: a row for each
// step of the past days is a large read, and says much the same hours later.
const useEvery = 6 * time.Hour

// uses are what accounting taught of CPUs and memory, read beside the cycles.
type uses struct {
	past   sensitivity.Past
	at     time.Time             // past was learnt
	asked  time.Time             // accounting was, last
	answer chan sensitivity.Past // one is on its way; nil: none
}

// sizing is what this cycle needs to size waiting jobs.
func (d *Daemon) sizing(ctx context.Context, now time.Time) cycle.Sizing {
	set := d.Config.Sizes()
	set.Table = d.table
	if set.Enabled && d.Config.Speeds.History > 0 {
		d.learnUse(ctx, now)
		set.Past, set.PastAt = d.uses.past, d.uses.at
	}
	d.sizes.Set(set)
	return cycle.Sizing{Sizes: &d.sizes, Slurm: d.slurm}
}

// learnUse takes in what accounting has answered, and asks again when it is time. A
// single cycle (Once) ends before the answer is there.
func (d *Daemon) learnUse(ctx context.Context, now time.Time) {
	l := &d.uses
	select {
	case past, ok := <-l.answer:
		if l.answer = nil; ok {
			l.past, l.at = past, now
		}
	default:
	}
	if l.answer != nil || now.Sub(l.asked) < useEvery && !now.Before(l.asked) {
		return
	}
	l.asked, l.answer = now, make(chan sensitivity.Past, 1)
	go used(ctx, d, d.Config, now, l.answer)
}

// used reads accounting through a connection of its own; without an answer the
// channel is closed.
func used(ctx context.Context, d *Daemon, c *config.Config, now time.Time, answer chan<- sensitivity.Past) {
	defer close(answer)
	set := c.SpeedSettings()
	used, err := d.Connect(c).Used(ctx, now.Add(-time.Duration(c.Speeds.History)), now, set.Today)
	if err != nil {
		d.Log.Debug("accounting teaches nothing of CPUs and memory", "error", err)
		return
	}
	answer <- sensitivity.Learn(used.Runs, time.Duration(c.Speeds.Shortest))
}
