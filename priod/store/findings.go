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

// SaveFindings replaces what an earlier check found. It may be called beside the cycles.
func (s *Store) SaveFindings(ctx context.Context, f *Findings) error {
	return s.batch(ctx, func(tx db.DBTX) error {
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
// advise.Starts.
type ExpectedStart struct {
	At      time.Time `json:"start"`   // of its first task, if it is an array; before Planned: now
	Planned time.Time `json:"planned"` // it was last planned, or was off by little since
}

// SaveStarts takes in when waiting jobs would start, as planned at a time. A row is written
// only where that has moved by a minute, and by a tenth of what was left until then. It may
// be called beside the cycles.
func (s *Store) SaveStarts(ctx context.Context, at time.Time, starts map[cluster.JobID]time.Time) error {
	return s.batch(ctx, func(tx db.DBTX) error {
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
			if old != nil && !moved(instant(old.StartMs), start, at) {
				continue
			}
			if err := s.q.PutStart(ctx, tx, db.PutStartParams{Job: e.row, AtMs: millis(at), StartMs: millis(start)}); err != nil {
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

// moved tells whether an expected start differs by more than it is worth to write.
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
	return &ExpectedStart{At: instant(x.StartMs), Planned: instant(x.AtMs)}, nil
}
