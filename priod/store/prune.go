package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store/db"
)

// minRetention is what budgets and the shortest look back need.
const minRetention = 2 * cluster.UsePeriod

// pruneBatch is how many rows go in one transaction: a cycle never waits longer
// than one batch takes.
const pruneBatch = 200

// Prune drops what is older than the retention, and gives the space back to the
// disk. The daemon calls it between cycles.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	retention := s.opts.Retention
	s.mu.Unlock()
	if retention <= 0 {
		return nil
	}
	before := millis(now.Add(-max(retention, minRetention)))
	drops := []func(tx db.DBTX) (int64, error){
		olderThan(ctx, before, s.q.PruneJobs), olderThan(ctx, before, s.q.PruneIntervals), olderThan(ctx, before, s.q.PruneWrites),
		olderThan(ctx, before, s.q.PruneWaits), s.pruneDecisions(ctx, before), olderThan(ctx, before, s.q.PruneCycles),
		olderThan(ctx, before, s.q.PruneFailures), olderThan(ctx, before, s.q.PruneDrained), olderThan(ctx, before, s.q.PruneSamples),
		olderThan(ctx, before, s.q.PruneShareHours), olderThan(ctx, before, s.q.PruneReturns),
		olderThan(ctx, before, s.q.PruneJobChanges), olderThan(ctx, before, s.q.PruneNodeChanges),
		olderThan(ctx, before, s.q.PruneSpells),
	}
	dropped := int64(0)
	for _, drop := range drops {
		for n := int64(pruneBatch); n == pruneBatch; {
			if err := s.batch(ctx, func(tx db.DBTX) (err error) { n, err = drop(tx); return err }); err != nil {
				return fmt.Errorf("drop records older than the retention: %w", err)
			}
			dropped += n
		}
	}
	if err := s.vacuum(ctx); err != nil {
		return fmt.Errorf("give space back: %w", err)
	}
	if dropped > 0 {
		s.log.Debug("dropped records older than the retention", "rows", dropped)
	}
	return s.pruneAside(now)
}

// olderThan is one batch of a query that drops old rows.
func olderThan[P ~struct{ BeforeMs, Most int64 }](ctx context.Context, before int64, drop func(context.Context, db.DBTX, P) (int64, error)) func(tx db.DBTX) (int64, error) {
	return func(tx db.DBTX) (int64, error) {
		return drop(ctx, tx, P(struct{ BeforeMs, Most int64 }{before, pruneBatch}))
	}
}

// batch runs one transaction between two cycles.
func (s *Store) batch(ctx context.Context, run func(tx db.DBTX) error) error {
	err := ctx.Err()
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.intact(); err == nil {
		err = s.transact(ctx, func(tx *sql.Tx) error { return run(tx) })
	}
	if isBroken(err) {
		err = s.startAnew(ctx, err)
	}
	return s.explain(err)
}

// note is batch for what is only shown: nothing while history is not recorded, which is said elsewhere.
func (s *Store) note(ctx context.Context, run func(tx db.DBTX) error) error {
	if s.Unrecorded() != "" {
		return nil
	}
	return s.batch(ctx, run)
}

// pruneDecisions walks the old decisions once and keeps those that still hold.
func (s *Store) pruneDecisions(ctx context.Context, before int64) func(tx db.DBTX) (int64, error) {
	after := int64(0)
	return func(tx db.DBTX) (int64, error) {
		rows, err := s.q.OldDecisions(ctx, tx, db.OldDecisionsParams{After: after, BeforeMs: before, Most: pruneBatch})
		if err != nil {
			return 0, err
		}
		for _, r := range rows {
			if r.Replaced {
				if err := s.q.DropDecision(ctx, tx, r.Decision); err != nil {
					return 0, err
				}
			}
			after = r.Decision
		}
		return int64(len(rows)), nil
	}
}

// vacuum gives free pages back, some at a time.
func (s *Store) vacuum(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left, err := s.vacuumOnce(context.WithoutCancel(ctx))
		if err != nil || left == 0 {
			return err
		}
	}
}

func (s *Store) vacuumOnce(ctx context.Context) (left int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return 0, nil
	}
	// One page goes for each step of the statement, so its rows are read out.
	rows, err := s.db.QueryContext(ctx, "PRAGMA incremental_vacuum(500)")
	if err != nil {
		return 0, s.explain(err)
	}
	for rows.Next() {
	}
	if err := rows.Close(); err != nil {
		return 0, s.explain(err)
	}
	if err := rows.Err(); err != nil {
		return 0, s.explain(err)
	}
	err = s.db.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&left)
	return left, s.explain(err)
}

// pruneAside drops broken databases and damaged journals that were set aside
// longer ago than the retention.
func (s *Store) pruneAside(now time.Time) error {
	err := s.pruneAsideIn(s.dir, now)
	if s.shares() && s.owns() == nil {
		err = errors.Join(err, s.pruneAsideIn(s.journals, now))
	}
	return err
}

func (s *Store) pruneAsideIn(dir string, now time.Time) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !strings.Contains(f.Name(), ".broken-") || now.Sub(info.ModTime()) < s.opts.Retention {
			continue
		}
		path := filepath.Join(dir, f.Name())
		s.log.Info("dropped a file that was set aside", "file", path)
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
