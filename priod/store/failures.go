package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// failures is the part of the journal that tells of jobs that failed and of nodes that were taken out of use. Once loaded, the
// daemon's own retry.Memory is what it holds.
type failures struct{ memory *retry.Memory }

// failureTurn is a record: rows as they are after a turn.
type failureTurn struct {
	Failures []retry.Failure `json:"failures,omitempty"`
	Drained  []retry.Drained `json:"drained,omitempty"`
}

// Clear, Take and Records are those of a journal.Part.
func (p *failures) Clear() { p.memory = retry.NewMemory() }

func (p *failures) Take(kind string, body []byte) (bool, error) {
	if kind != journal.Failure {
		return false, nil
	}
	var t failureTurn
	if json.Unmarshal(body, &t) != nil || slices.ContainsFunc(t.Failures, func(f retry.Failure) bool { return f.Number <= 0 || f.Job.ID == 0 || f.State == "" }) {
		return true, journal.ErrUnsound
	}
	p.memory.Update(&retry.Changes{Failures: t.Failures, Drained: t.Drained})
	return true, nil
}

func (p *failures) Records() (all []journal.Record) {
	for i := range p.memory.Failures {
		all = append(all, journal.Record{Kind: journal.Failure, Body: failureTurn{Failures: p.memory.Failures[i : i+1]}})
	}
	if len(p.memory.Drained) > 0 {
		all = append(all, journal.Record{Kind: journal.Failure, Body: failureTurn{Drained: p.memory.Drained}})
	}
	return all
}

// LoadFailures returns what the journal tells of failures. The store follows it. New rows get numbers that the database has
// not given yet.
func (s *Store) LoadFailures(ctx context.Context) (*retry.Memory, error) {
	last, err := recall(ctx, s, func(tx db.DBTX) (int64, error) { return s.q.LastFailure(ctx, tx) })
	if err != nil {
		return nil, err
	}
	queue, err := recall(ctx, s, func(tx db.DBTX) ([]cluster.Job, error) {
		rows, err := s.q.JobsInQueue(ctx, tx)
		return each(rows, jobOf), err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.failures.memory
	m.Last = max(m.Last, last)
	limits := map[cluster.JobID]cluster.Requested{}
	for id, requests := range s.undo.Requests() {
		if r, written := requests[slurmplug.TimeLimit]; written {
			limits[id] = r
		}
	}
	m.Recall(queue, limits)
	return m, nil
}

func failuresSince(ctx context.Context, q *db.Queries, tx db.DBTX, since time.Time) (t retry.Changes, err error) {
	rows, err := q.FailuresSince(ctx, tx, millis(since))
	if err != nil {
		return t, err
	}
	if t.Failures, err = bodies[retry.Failure](rows); err != nil {
		return t, err
	}
	nodes, err := q.DrainedSince(ctx, tx, millis(since))
	for _, d := range nodes {
		t.Drained = append(t.Drained, retry.Drained{Node: d.Node, Class: d.Class, At: instant(d.AtMs)})
	}
	return t, err
}

// SaveFailures appends rows, and the nodes that jobs are about to be told to refuse, to the journal. After an error no command may be sent.
func (s *Store) SaveFailures(ctx context.Context, t *retry.Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	lines := func() []*undo.Change { return s.refused(t) }
	return s.saveTurn(ctx, lines, journal.Record{Kind: journal.Failure, Body: failureTurn(*t)}, func() error { return s.saveFailures(ctx, t) })
}

func (s *Store) saveFailures(ctx context.Context, t *retry.Changes) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		for i := range t.Failures {
			row := &t.Failures[i]
			body, err := json.Marshal(row)
			if err != nil {
				return err
			}
			if err := s.q.PutFailure(ctx, tx, db.PutFailureParams{
				Failure: row.Number, ID: int64(row.Job.ID), Task: int64(row.Job.Task), AtMs: millis(row.At), Class: row.Class, Body: string(body),
			}); err != nil {
				return err
			}
		}
		return every(t.Drained, func(d *retry.Drained) error {
			return s.q.PutDrained(ctx, tx, db.PutDrainedParams{Node: d.Node, AtMs: millis(d.At), Class: d.Class})
		})
	})
}

// refused are the undo lines of jobs that are to refuse other nodes than their users said.
func (s *Store) refused(t *retry.Changes) (refused []*undo.Change) {
	for i := range t.Failures {
		f := &t.Failures[i]
		was := f.Own
		if old := s.failures.memory.Failure(f.Number); old != nil && old.Exclude != "" {
			was = old.Exclude
		}
		to := cmp.Or(f.Exclude, f.Own)
		if plan.SameHosts(was, to) {
			continue
		}
		refused = append(refused, &undo.Change{
			Time: f.At.UTC(), Job: f.Job, User: f.User, Lever: slurmplug.ExcNodeList,
			Was: slurmplug.Text(f.Own), From: slurmplug.Text(was), To: slurmplug.Text(to),
		})
	}
	return refused
}

// FailuresOf returns the latest failures of a job, or of an array's tasks, last first.
func (r *Reader) FailuresOf(ctx context.Context, id cluster.JobID, most int) ([]retry.Failure, error) {
	return one(ctx, r, func(tx *sql.Tx) ([]retry.Failure, error) {
		rows, err := r.q.FailuresOfJob(ctx, tx, db.FailuresOfJobParams{ID: int64(id.ID), Task: int64(id.Task), Most: int64(most)})
		if err != nil {
			return nil, err
		}
		return bodies[retry.Failure](rows)
	})
}

// FailuresSince returns those seen since a time, first to last, and the nodes that were
// taken out of use.
func (r *Reader) FailuresSince(ctx context.Context, since time.Time) (retry.Changes, error) {
	return one(ctx, r, func(tx *sql.Tx) (retry.Changes, error) { return failuresSince(ctx, r.q, tx, since) })
}

// CountNodes is how many nodes the last snapshot had.
func (r *Reader) CountNodes(ctx context.Context) (int, error) {
	n, err := one(ctx, r, func(tx *sql.Tx) (int64, error) { return r.q.CountNodes(ctx, tx) })
	return int(n), err
}
