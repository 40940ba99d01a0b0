package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store/db"
)

// Findings are what the daemon's last check found of this Slurm and its configuration.
type Findings struct {
	At       time.Time `json:"at,omitzero"` // zero: it has not looked yet
	Findings []Finding `json:"findings"`
}

// Finding is one thing that it looked at: see live.Finding.
type Finding struct {
	Level string `json:"level"` // PASS, WARN, FAIL
	Name  string `json:"name"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Count counts the findings of a level.
func (f *Findings) Count(level string) (n int) {
	for i := range f.Findings {
		if f.Findings[i].Level == level {
			n++
		}
	}
	return n
}

// SaveFindings replaces what an earlier check found. It may be called alongside the cycles.
func (s *Store) SaveFindings(ctx context.Context, f *Findings) error {
	return s.note(ctx, func(tx db.DBTX) error {
		if err := s.q.DropFindings(ctx, tx); err != nil {
			return err
		}
		n := int64(0)
		return every(f.Findings, func(x *Finding) error {
			n++
			return s.q.AddFinding(ctx, tx, db.AddFindingParams{Finding: n, AtMs: millis(f.At), Level: x.Level, Name: x.Name, Words: x.Text, Fix: x.Fix})
		})
	})
}

// Findings returns what the daemon's last check found.
func (r *Reader) Findings(ctx context.Context) (f Findings, err error) {
	f.Findings, err = list(ctx, r, func(tx *sql.Tx) ([]db.Finding, error) { return r.q.AllFindings(ctx, tx) }, func(x *db.Finding) Finding {
		f.At = instant(x.AtMs)
		return Finding{Level: x.Level, Name: x.Name, Text: x.Words, Fix: x.Fix}
	})
	return f, err
}

// ExpectedStart is when a waiting job would start by the time limits of those before it: see
// forecast.Queue.
type ExpectedStart struct {
	At      time.Time `json:"start"`   // of its first task, if it is an array; before Planned: now
	Planned time.Time `json:"planned"` // it was last planned, or was off by little since

	// By what past jobs ran: half of the draws start it by the one, nine of ten by the other; zero: not enough is known.
	Median time.Time `json:"median,omitzero"`
	P90    time.Time `json:"p90,omitzero"`
	Raw    time.Time `json:"-"` // P90 before it was fitted to earlier promises; zero: nothing is promised

	// The earliest and the latest Median that was said of the job so far.
	Least time.Time `json:"median_least,omitzero"`
	Most  time.Time `json:"median_most,omitzero"`

	RunS float64 `json:"run_s,omitempty"` // half of such jobs run no longer; 0: not known

	Moment time.Time `json:"-"` // as of which it was read; zero: now
}

// Now is the time as of which it was read.
func (x *ExpectedStart) Now() time.Time {
	if x == nil {
		return time.Now()
	}
	return AsOf(x.Moment)
}

// ExpectedEnd is when a running job is expected to end, by what past jobs ran: half of such jobs by the one, nine of ten by the other.
type ExpectedEnd struct{ Median, P90 time.Time }

// Promise is what was first said of a job, and what came of it.
type Promise struct {
	Job                      cluster.JobID
	User, Account, Partition string
	GPUs                     int
	At                       time.Time
	Limits, Median, P90, Raw time.Time // as ExpectedStart has them
	Start                    time.Time // zero: it has not started
	Left                     time.Time // zero: it is in the queue
}

// late is what a start may be later than was said, as polls are that far apart.
const late = 30 * time.Second

// Held reports whether the job started by the time that was said for nine of ten; scored is false where that is not known yet, or
// it left without a start that was seen.
func (p *Promise) Held(until time.Time) (held, scored bool) {
	if !p.Start.IsZero() {
		return !p.Start.After(p.P90.Add(late)), true
	}
	return false, p.Left.IsZero() && until.After(p.P90.Add(late)) // it still waits
}

// PromisesSince returns what was first said of each job since a time, the oldest first.
func (r *Reader) PromisesSince(ctx context.Context, since time.Time) ([]Promise, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.PromisesSinceRow, error) { return r.q.PromisesSince(ctx, tx, millis(since)) }, promiseOf)
}

// PromisesSince is that of Reader. It may be called alongside the cycles.
func (s *Store) PromisesSince(ctx context.Context, since time.Time) (promises []Promise, err error) {
	err = s.batch(ctx, func(tx db.DBTX) error {
		rows, err := s.q.PromisesSince(ctx, tx, millis(since))
		promises = each(rows, promiseOf)
		return err
	})
	return promises, err
}

func promiseOf(x *db.PromisesSinceRow) Promise {
	return Promise{
		Job: jobID(x.ID, x.Task), User: x.User, Account: x.Account, Partition: x.Partition, GPUs: int(x.Gpus), At: instant(x.AtMs),
		Limits: instant(x.LimitsMs), Median: instant(x.MedianMs), P90: instant(x.P90Ms), Raw: instant(x.RawMs), Start: instant(x.BeganMs), Left: instant(x.LeftMs),
	}
}

// SaveStarts takes in when waiting jobs would start, as planned at a time. A row is written
// only where that has moved by a minute, and by a tenth of what was left until then. It may
// be called alongside the cycles.
func (s *Store) SaveStarts(ctx context.Context, at time.Time, starts map[cluster.JobID]ExpectedStart) error {
	return s.note(ctx, func(tx db.DBTX) error {
		stored, err := s.q.AllStarts(ctx, tx)
		if err != nil {
			return err
		}
		was := make(map[int64]*db.Start, len(stored))
		for i := range stored {
			was[stored[i].Job] = &stored[i]
		}
		for id, start := range starts {
			e := s.stored.jobs[id]
			if e == nil || e.seen == 0 {
				continue // it has left, or has no row yet
			}
			old := was[e.row]
			delete(was, e.row)
			if !start.Raw.IsZero() && (old == nil || old.MedianMs == 0) {
				if err := s.q.AddPromise(ctx, tx, db.AddPromiseParams{
					Job: e.row, AtMs: millis(at), LimitsMs: millis(start.At), MedianMs: millis(start.Median), P90Ms: millis(start.P90), RawMs: millis(start.Raw),
				}); err != nil {
					return err
				}
			}
			if old != nil && !moved(instant(old.StartMs), start.At, at) && (old.MedianMs == 0) == start.Median.IsZero() &&
				!moved(instant(old.MedianMs), start.Median, at) && !moved(instant(old.P90Ms), start.P90, at) {
				continue
			}
			row := db.PutStartParams{Job: e.row, AtMs: millis(at), StartMs: millis(start.At), MedianMs: millis(start.Median), P90Ms: millis(start.P90), RunMs: int64(1000 * start.RunS)}
			if row.LeastMs, row.MostMs = row.MedianMs, row.MedianMs; old != nil && old.LeastMs != 0 {
				row.LeastMs, row.MostMs = old.LeastMs, old.MostMs
				if row.MedianMs != 0 {
					row.LeastMs, row.MostMs = min(old.LeastMs, row.MedianMs), max(old.MostMs, row.MedianMs)
				}
			}
			if err := s.q.PutStart(ctx, tx, row); err != nil {
				return err
			}
		}
		for row := range was {
			if err := s.q.DropStart(ctx, tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// SaveEnds takes in when running jobs are expected to end, as SaveStarts does starts.
func (s *Store) SaveEnds(ctx context.Context, at time.Time, ends map[cluster.JobID]ExpectedEnd) error {
	return s.note(ctx, func(tx db.DBTX) error {
		stored, err := s.q.AllEnds(ctx, tx)
		if err != nil {
			return err
		}
		was := make(map[int64]db.End, len(stored))
		for _, x := range stored {
			was[x.Job] = x
		}
		for id, end := range ends {
			e := s.stored.jobs[id]
			if e == nil || e.seen == 0 {
				continue
			}
			old, known := was[e.row]
			delete(was, e.row)
			if known && !moved(instant(old.MedianMs), end.Median, at) && !moved(instant(old.P90Ms), end.P90, at) {
				continue
			}
			if err := s.q.PutEnd(ctx, tx, db.PutEndParams{Job: e.row, MedianMs: millis(end.Median), P90Ms: millis(end.P90)}); err != nil {
				return err
			}
		}
		for row := range was {
			if err := s.q.DropEnd(ctx, tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// moved reports whether an expected start differs by more than it is worth to write.
func moved(was, is, now time.Time) bool {
	was, is = cluster.Later(was, now), cluster.Later(is, now)
	return is.Sub(was).Abs() > max(time.Minute, was.Sub(now)/10)
}

// startOf is when a job is expected to start; nil: not known.
func (r *Reader) startOf(ctx context.Context, tx *sql.Tx, row *db.Job) (*ExpectedStart, error) {
	if row.LeftMs != 0 || row.State != cluster.Pending.String() {
		return nil, nil
	}
	x, err := r.q.StartOf(ctx, tx, row.Job)
	if err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return nil, err
	}
	return r.showStart(&x), nil
}

func (r *Reader) showStart(x *db.Start) *ExpectedStart {
	return &ExpectedStart{
		At: instant(x.StartMs), Planned: instant(x.AtMs), Moment: r.at, Median: instant(x.MedianMs), P90: instant(x.P90Ms),
		Least: instant(x.LeastMs), Most: instant(x.MostMs), RunS: float64(x.RunMs) / 1000,
	}
}
