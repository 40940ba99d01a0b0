package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/priod/undo/lines"
	"slurmprio/slurmplug"
)

// failureFile is failures.jsonl: the failures of jobs whose users agreed to requeues, and
// the nodes that were taken out of use, each turn appended and synced before its commands
// go out. With the database there it is only written; where that was lost, what was
// requeued how often comes from here.
type failureFile struct {
	lines.File
	count   int // of lines
	kept    int // when this process last replaced the file
	damaged int
	stale   bool // the database knows more
}

func failurePath(dir string) string { return filepath.Join(dir, "failures.jsonl") }

// failureLine is one line: rows as they are after a turn.
type failureLine struct {
	Failures []retry.Failure `json:"failures,omitempty"`
	Drained  []retry.Drained `json:"drained,omitempty"`
}

func (l *failureLine) sound() bool {
	return len(l.Failures)+len(l.Drained) > 0 && !slices.ContainsFunc(l.Failures, func(f retry.Failure) bool { return f.Number <= 0 || f.Job.ID == 0 || f.State == "" })
}

// agreed is what of a turn outlives the database.
func agreed(t *retry.Changes) *failureLine {
	l := &failureLine{Drained: t.Drained}
	for _, f := range t.Failures {
		if f.Retry != "" {
			l.Failures = append(l.Failures, f)
		}
	}
	return l
}

// openFailures reads the file of a state folder.
func openFailures(dir string) (*failureFile, *retry.Changes, error) {
	f, told := &failureFile{File: lines.File{Path: failurePath(dir)}}, &retry.Changes{}
	text, err := f.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("journal of failures: %w", cmp.Or(lines.Forbidden(f.Path), err))
	}
	for line := range f.Whole(text) { // of one that a crash cut off no command went out
		var l failureLine
		if json.Unmarshal(line, &l) != nil || !l.sound() {
			f.damaged++
		} else {
			told.Failures, told.Drained = append(told.Failures, l.Failures...), append(told.Drained, l.Drained...)
		}
		f.count++
	}
	return f, told, nil
}

// append adds a turn. After an error the file is as before.
func (f *failureFile) append(m *retry.Memory, t *retry.Changes) error {
	if err := f.add(m, t); err != nil {
		return fmt.Errorf("journal of failures: %w", err)
	}
	return nil
}

func (f *failureFile) add(m *retry.Memory, t *retry.Changes) error {
	if f.lost() || f.stale || f.damaged > 0 || f.count >= 1024+2*f.kept {
		if err := f.rewrite(m); err != nil {
			return err
		}
	}
	l := agreed(t)
	if len(l.Failures)+len(l.Drained) == 0 {
		return nil
	}
	text, err := lines.JSON([]*failureLine{l})
	if err == nil {
		err = f.Add(text)
	}
	if err == nil {
		f.count++
	}
	return err
}

// rewrite puts all that is remembered in place of the file. A damaged one is kept aside.
func (f *failureFile) rewrite(m *retry.Memory) error {
	if f.damaged > 0 && lines.Exists(f.Path) {
		if _, err := f.SetAside(); err != nil {
			return err
		}
	}
	all := agreed(&retry.Changes{Failures: m.Failures, Drained: m.Drained})
	var rows []failureLine
	for i := range all.Failures {
		rows = append(rows, failureLine{Failures: all.Failures[i : i+1]})
	}
	if len(all.Drained) > 0 {
		rows = append(rows, failureLine{Drained: all.Drained})
	}
	text, err := lines.JSON(rows)
	if err == nil {
		err = f.Replace(text)
	}
	if err == nil {
		f.count, f.kept, f.damaged, f.stale = len(rows), len(rows), 0, false
	}
	return err
}

// LoadFailures returns what earlier processes knew of failures, by the database and, where
// that lacks some, by failures.jsonl. The store follows it.
func (s *Store) LoadFailures(ctx context.Context) (*retry.Memory, error) {
	f, told, err := openFailures(s.journals)
	if err != nil {
		return nil, err
	}
	s.unreadable("the journal of failures", f.damaged, f.Path)
	var stored retry.Changes
	var queue []cluster.Job
	err = s.batch(ctx, func(tx db.DBTX) (err error) {
		if stored, err = failuresSince(ctx, s.q, tx, s.opts.Now().Add(-retry.Keep)); err != nil {
			return err
		}
		rows, err := s.q.JobsInQueue(ctx, tx)
		for i := range rows {
			queue = append(queue, jobOf(&rows[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, inFile := retry.NewMemory(), retry.NewMemory()
	inFile.Update(told)
	m.Update(joined(told, &stored))
	m.Recall(queue)
	for _, row := range agreed(&retry.Changes{Failures: m.Failures}).Failures {
		there := inFile.Failure(row.Number)
		f.stale = f.stale || there == nil || further(&row, there)
	}
	s.failed, s.failures = m, f
	if f.stale && f.damaged == 0 {
		s.log.Warn("the journal of failures lacks rows that the database has: rewritten", "file", f.Path)
	}
	return m, nil
}

// joined are the failures that a file tells and those of a database, or of another file, by
// run: of each run the row that is further along. The file gives the numbers; those that
// have none there, or one that another run has, get the next ones.
func joined(file, other *retry.Changes) *retry.Changes {
	type run struct {
		job      cluster.JobID
		start    int64
		restarts int
	}
	var all retry.Changes
	at, taken, last := map[run]int{}, map[int64]bool{}, int64(0)
	for _, rows := range [][]retry.Failure{file.Failures, other.Failures} {
		for _, row := range rows {
			key := run{row.Job, millis(row.Start), row.Restarts}
			if i, known := at[key]; known {
				if !further(&all.Failures[i], &row) {
					row.Number = all.Failures[i].Number
					all.Failures[i] = row
				}
				continue
			}
			if taken[row.Number] {
				row.Number = 0 // see below
			}
			at[key] = len(all.Failures)
			all.Failures = append(all.Failures, row)
			taken[row.Number], last = true, max(last, row.Number)
		}
	}
	for i := range all.Failures {
		if row := &all.Failures[i]; row.Number == 0 {
			last++
			row.Number = last
		}
	}
	slices.SortFunc(all.Failures, func(a, b retry.Failure) int { return cmp.Compare(a.Number, b.Number) })
	all.Drained = slices.Concat(other.Drained, file.Drained)
	slices.SortFunc(all.Drained, func(a, b retry.Drained) int {
		return cmp.Or(cmp.Compare(millis(a.At), millis(b.At)), cmp.Compare(a.Node, b.Node))
	})
	all.Drained = slices.CompactFunc(all.Drained, func(a, b retry.Drained) bool { return a.Node == b.Node && millis(a.At) == millis(b.At) })
	return &all
}

// further reports whether a row of a run is further along than another one of the same run.
func further(a, b *retry.Failure) bool {
	rank := func(f *retry.Failure) int {
		return slices.Index([]retry.State{retry.Delayed, retry.Recorded, retry.Requeued, retry.Noted}, f.State)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Tries, b.Tries), a.Requeued.Compare(b.Requeued)) > 0
}

// keepFailures rewrites the journal of failures when it was deleted or damaged, or lacks
// what the database knows: the next process, or another host's, goes by it.
func (s *Store) keepFailures() error {
	f := s.failures
	if f == nil || !f.stale && !f.lost() {
		return nil
	}
	if f.lost() {
		aside := ""
		if lines.Exists(f.Path) {
			var err error
			if aside, err = f.SetAside(); err != nil {
				return fmt.Errorf("journal of failures: %w", err)
			}
		}
		s.mended("the journal of failures was deleted or changed while priod ran: rewritten from memory, nothing is lost", "file", f.Path, "aside", aside)
	}
	if err := f.rewrite(s.failed); err != nil {
		return fmt.Errorf("journal of failures: %w", err)
	}
	return nil
}

// lost reports whether the file was deleted or changed by others.
func (f *failureFile) lost() bool {
	if f.Info == nil {
		return false
	}
	now, err := os.Stat(f.Path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !f.Unchanged(now)
}

func failuresSince(ctx context.Context, q *db.Queries, tx db.DBTX, since time.Time) (t retry.Changes, err error) {
	rows, err := q.FailuresSince(ctx, tx, millis(since))
	if err != nil {
		return t, err
	}
	if t.Failures, err = failuresOf(rows); err != nil {
		return t, err
	}
	nodes, err := q.DrainedSince(ctx, tx, millis(since))
	for _, d := range nodes {
		t.Drained = append(t.Drained, retry.Drained{Node: d.Node, Class: d.Class, At: instant(d.AtMs)})
	}
	return t, err
}

func failuresOf(rows []string) ([]retry.Failure, error) {
	all := make([]retry.Failure, len(rows))
	for i, body := range rows {
		if err := json.Unmarshal([]byte(body), &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// SaveFailures appends rows to failures.jsonl and commits them, and the nodes that jobs are
// about to be told to refuse to the undo journal. After an error no command may be sent.
func (s *Store) SaveFailures(ctx context.Context, t *retry.Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if err := s.owns(); err != nil {
		return err
	}
	if refused := s.refused(t); len(refused) > 0 {
		if err := s.startActing(); err != nil {
			return err
		}
		defer s.stopActing()
		if err := s.undo.Append(refused); err != nil {
			return err
		}
	}
	if err := cmp.Or(s.failures.append(s.failed, t), s.owns()); err != nil {
		return err
	}
	return s.sound(ctx, func() error { return s.saveFailures(ctx, t) })
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
		if old := s.failed.Failure(f.Number); old != nil && old.Exclude != "" {
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
		return failuresOf(rows)
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
