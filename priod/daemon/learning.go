package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/expect"
	"slurmprio/priod/locality"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/runtimes"
)

// learning is what accounting tells beside the polls, and when it was asked.
type learning struct {
	filled   time.Time // up to when past runs were read
	asked    time.Time // when that was last tried
	speeds   speedLearner
	uses     uses
	accounts accountTree
}

const (
	fillEvery = 5 * time.Minute
	// fillOverlap reads a little twice, because slurmdbd hears of ends late.
	fillOverlap = 10 * time.Minute
)

// fill reads what accounting knows up to now since the last time: runs that no
// poll saw, exact ends, first eligible times. Without accounting priod continues
// with what its polls see.
func (d *Daemon) fill(ctx context.Context, now time.Time) {
	if !d.learning.asked.IsZero() && time.Since(d.learning.asked) < fillEvery {
		return
	}
	d.learning.asked = time.Now()
	since := cluster.Later(now.Add(-cluster.UsePeriod), d.learning.filled.Add(-fillOverlap))
	past, err := d.slurm.Past(ctx, since, now)
	count(d.metrics.accounting, err)
	d.metrics.trouble.read(readRuns, err)
	if err != nil {
		d.Log.Warn("accounting cannot be read; TE budgets count only what polls see", "error", err)
		return
	}
	d.learning.filled = now
	past = slices.DeleteFunc(past, func(p cluster.PastStay) bool {
		return p.End.After(now.Add(stepLimit)) // dated by a clock that was ahead
	})
	ranking := d.Config.Decide().Ranking
	for i := range past {
		past[i].Class = ranking.Class(past[i].Tag.Type, past[i].QOS)
	}
	d.history.Fill(past)
}

// Accounting is read in pieces, each time
// from where the last reading ended.
const (
	// readAtOnce is how much of accounting one command reads.
	readAtOnce = 24 * time.Hour
	// readTwice is read again, because slurmdbd hears of ends late.
	readTwice = time.Hour
	// firstReading is how long a new daemon leaves accounting alone.
	firstReading = time.Minute
)

// speedLearner reads accounting and learns speeds from it, alongside the cycles, one reading at a time.
type speedLearner struct {
	background[lesson]
	next    time.Time // reading, by the time that a process keeps
	last    store.Lessons
	slow    locality.SlowNodes
	past    []runtimes.Run // the last ones, that run times are learned from
	fit     float64        // see FitOf
	trouble string         // so that it is logged once
}

type lesson struct {
	store.Lessons
	slow     locality.SlowNodes
	past     []runtimes.Run
	promises []store.Promise
	err      error
}

// resume takes up what an earlier process learned; anew: not all that is needed of it was kept.
func (c *speedLearner) resume(l store.Lessons, every time.Duration, anew bool, now time.Time) {
	c.last = l
	c.next = time.Now().Add(min(every, firstReading))
	if since := now.Sub(l.At); since >= 0 && since < every && !anew {
		c.next = time.Now().Add(max(every-since, min(every, firstReading)))
	}
}

// learn begins a reading when it is time for one, and takes in one that is over.
func (d *Daemon) learn(ctx context.Context) {
	c := &d.learning.speeds
	every := d.Config.Constants.LearnEvery
	busy, l, over := c.busy()
	if over {
		c.next = time.Now().Add(every)
		d.learned(l)
	}
	if busy || over {
		return
	}
	if d.Config.Speeds.History == 0 || time.Now().Before(c.next) {
		return
	}
	cfg, slurm, table, now := d.Config, d.slurm, d.table, d.clock.now()
	c.begin(func() lesson { return learnSpeeds(ctx, cfg, slurm, d.Store, table, now) })
}

func (d *Daemon) learned(l lesson) {
	c := &d.learning.speeds
	count(d.metrics.accounting, l.err)
	d.metrics.trouble.read(readSpeeds, l.err)
	if l.err != nil {
		if l.err.Error() != c.trouble {
			c.trouble = l.err.Error()
			d.Log.Warn("speeds were not learned from accounting; known ones stay", "error", l.err)
		}
		return
	}
	c.trouble, c.last, c.slow, c.past, c.fit = "", l.Lessons, l.slow, l.past, expect.FitOf(l.promises, d.clock.now())
	d.metrics.promised(l.promises, d.clock.now())
	d.Log.Debug("learned speeds from accounting", "jobs", l.Runs)
}

// learnSpeeds reads what is new in accounting and learns from all that is not too old.
func learnSpeeds(ctx context.Context, cfg *config.Config, slurm Slurm, st Store, table *workload.Table, now time.Time) (l lesson) {
	oldest := now.Add(-time.Duration(cfg.Speeds.History))
	if l.err = readStays(ctx, cfg, slurm, st, oldest, now); l.err != nil {
		return l
	}
	stays, err := st.StaysSince(ctx, oldest)
	if err != nil {
		return lesson{err: err}
	}
	l.Lessons = Lessons(stays, cfg, table, now)
	if cfg.Locality.SlowNodes {
		l.slow = cfg.SlowNodes(stays, table)
	}
	l.past = runtimes.Past(stays)
	slices.SortFunc(l.past, func(a, b runtimes.Run) int { return a.End.Compare(b.End) })
	l.past = l.past[max(len(l.past)-expect.PastRuns, 0):]
	if l.promises, err = st.PromisesSince(ctx, now.Add(-expect.ScoredFor)); err != nil {
		return lesson{err: err}
	}
	if l.err = ctx.Err(); l.err == nil {
		l.err = st.SaveLessons(ctx, l.Knowledge, l.Runs, l.At)
	}
	return l
}

// readStays takes in what is new in accounting.
func readStays(ctx context.Context, cfg *config.Config, slurm Slurm, st Store, oldest, now time.Time) error {
	last, err := st.Lessons(ctx)
	if err != nil {
		return err
	}
	from := oldest
	if since := last.Read.Add(-readTwice); since.After(oldest) && !last.Read.After(now) {
		from = since
	}
	for from.Before(now) {
		until := cluster.Earlier(from.Add(readAtOnce), now)
		stays, err := slurm.Stays(ctx, from, until, cfg.Steps())
		if err != nil {
			return fmt.Errorf("read accounting: %w", err)
		}
		if err := st.SaveStays(ctx, stays, until); err != nil {
			return err
		}
		from = until
	}
	return nil
}

// Lessons are what runs teach that accounting knows, read up to now.
func Lessons(stays []cluster.PastStay, cfg *config.Config, table *workload.Table, now time.Time) store.Lessons {
	learned, runs := cfg.Knowledge(stays, table)
	return store.Lessons{Read: now, At: now, Runs: runs, Knowledge: learned}
}
