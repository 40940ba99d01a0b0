package daemon

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/live"
	"slurmprio/priod/workload/sensitivity"
)

// useEvery is how often accounting is asked what programs used: a row for each
// step of the past days is a large read, and says much the same hours later.
const useEvery = 6 * time.Hour

// uses are what accounting taught of CPUs and memory, read alongside the cycles.
type uses struct {
	background[pastUses]
	past  sensitivity.Past
	at    time.Time // past was learnt
	asked time.Time // accounting was, last
}

// unread reports whether the first answer of accounting is still to come.
func (l *uses) unread() bool { return l.asked.IsZero() || l.at.IsZero() && l.running != nil }

// pastUses is what accounting answers.
type pastUses struct {
	sensitivity.Past
	err error
}

// readUse brings up to date what the sizes of waiting jobs rest on.
func (d *Daemon) readUse(ctx context.Context, now time.Time) {
	switch {
	case !d.Config.Sizing.Enabled || d.Config.Speeds.History == 0:
	case d.watching:
		d.learnUse(ctx, now)
	case d.single && d.learning.uses.asked.IsZero(): // it ends before an answer would be there
		d.learning.uses = uses{asked: now, at: now, past: UsesKnown(ctx, d.slurm, d.Config, now, d.Log)}
	}
}

// usesKnown is what this cycle sizes waiting jobs by.
func (d *Daemon) usesKnown() cycle.Uses {
	if !d.Config.Sizing.Enabled || d.Config.Speeds.History == 0 {
		return cycle.Uses{}
	}
	return cycle.Uses{Past: d.learning.uses.past, At: d.learning.uses.at, Unread: !d.single && d.learning.uses.unread()}
}

// learnUse takes in what accounting has answered, and asks again when it is time.
func (d *Daemon) learnUse(ctx context.Context, now time.Time) {
	l := &d.learning.uses
	busy, a, over := l.busy()
	if over {
		d.metrics.trouble.read(readUses, a.err)
		if a.err != nil {
			d.Log.Warn("CPU and memory use was not learned from accounting; what is known stays", "error", a.err)
		} else {
			l.past, l.at = a.Past, now
		}
	}
	if busy || now.Sub(l.asked) < useEvery && !now.Before(l.asked) {
		return
	}
	l.asked = now
	slurm, c := d.Connect(d.Config), d.Config // a connection of its own, alongside the cycles'
	l.begin(func() pastUses {
		past, err := used(ctx, slurm, c, now)
		return pastUses{past, err}
	})
}

// UsesKnown is what the sizes of a single cycle rest on beside tags and workloads,
// read at once: nil where they are not asked for, or accounting cannot be read, which
// is logged.
func UsesKnown(ctx context.Context, slurm UseReader, c *config.Config, now time.Time, log hclog.Logger) sensitivity.Past {
	if !c.Sizing.Enabled || c.Speeds.History == 0 {
		return nil
	}
	past, err := used(ctx, slurm, c, now)
	if err != nil {
		log.Warn("CPU and memory use was not learned from accounting", "error", err)
	}
	return past
}

// UseReader reads accounting as live.Cluster does.
type UseReader interface {
	Used(ctx context.Context, since, until time.Time, today func(string) string) (*live.Used, error)
}

// used reads what programs used within the history that speeds are learnt from.
func used(ctx context.Context, slurm UseReader, c *config.Config, now time.Time) (sensitivity.Past, error) {
	set := c.SpeedSettings()
	used, err := slurm.Used(ctx, now.Add(-time.Duration(c.Speeds.History)), now, set.Today)
	if err != nil {
		return nil, err
	}
	return sensitivity.Learn(used.Stays, c.Constants.ShortestRun), nil
}
