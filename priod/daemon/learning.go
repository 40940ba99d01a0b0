package daemon

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug/jobtag"
)

// learning is what accounting tells beside the polls, and when it was asked.
type learning struct {
	filled   time.Time // up to when past runs were read
	asked    time.Time // when that was last tried
	speeds   speedLearner
	uses     uses
	accounts accountShares
}

const (
	fillEvery = 5 * time.Minute
	// fillOverlap reads a little twice, because slurmdbd hears of ends late.
	fillOverlap = 10 * time.Minute
)

// fill reads what accounting knows up to now since the last time: runs that no
// poll saw, exact ends, first eligible times. Without accounting priod goes on
// with what its polls see.
func (d *Daemon) fill(ctx context.Context, now time.Time) {
	if !d.learning.asked.IsZero() && time.Since(d.learning.asked) < fillEvery {
		return
	}
	d.learning.asked = time.Now()
	since := now.Add(-cluster.UsePeriod)
	if last := d.learning.filled.Add(-fillOverlap); last.After(since) {
		since = last
	}
	past, err := d.slurm.Past(ctx, since, now)
	count(d.metrics.accounting, err)
	if err != nil {
		d.Log.Warn("accounting cannot be read; TE budgets count what the polls see", "error", err)
		return
	}
	d.learning.filled = now
	past = slices.DeleteFunc(past, func(p cluster.PastStay) bool {
		return p.End.After(now.Add(stepLimit)) // dated by a clock that was ahead
	})
	ranking := d.Config.Decide().Ranking
	for i := range past {
		tag, _ := jobtag.Parse(past[i].Tag) // one that is not valid says nothing
		past[i].Class = ranking.Class(tag.Type, past[i].QOS)
	}
	d.history.Fill(past)
}
