package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/window"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Waiting is a pending job with the last part of its wait.
type Waiting struct {
	Queued
	Now *plan.WaitSpan // nil: no wait of it is stored
}

// Pending returns some of the waiting jobs of a user, of all users when it is "", in the
// order of their last stored priorities, and how many there are.
func (r *Reader) Pending(ctx context.Context, user string, skip, most int) (page []Waiting, all int, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		n, err := r.q.CountPending(ctx, tx, user)
		if err != nil {
			return err
		}
		rows, err := r.q.PendingPage(ctx, tx, db.PendingPageParams{User: user, Skip: int64(skip), Most: int64(most)})
		if err != nil {
			return err
		}
		page, all = make([]Waiting, len(rows)), int(n)
		for i := range rows {
			if page[i], err = r.waiting(ctx, tx, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return page, all, err
}

// WaitingKey is by what a waiting job is found in the queue.
type WaitingKey struct {
	row int64

	User, Account, Partition, GPUType string
	Class                             string // te, be, or - of one that priod does not rank
	Cause                             plan.Cause
	GPUs                              int
	Starts                            time.Time // as half of such jobs start; zero: not known
}

// PendingKeys returns those of all waiting jobs, in the order of their last stored priorities.
func (r *Reader) PendingKeys(ctx context.Context) ([]WaitingKey, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.PendingKeysRow, error) { return r.q.PendingKeys(ctx, tx) }, func(x *db.PendingKeysRow) WaitingKey {
		return WaitingKey{row: x.Job, User: x.User, Account: x.Account, Partition: x.Partition, GPUType: x.GpuType, Class: x.Class, Cause: plan.Cause(x.Cause), GPUs: int(x.Gpus), Starts: instant(x.MedianMs)}
	})
}

// PendingOf returns the waiting jobs of keys; those that have left since are missing.
func (r *Reader) PendingOf(ctx context.Context, keys []WaitingKey) (page []Waiting, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		page = make([]Waiting, 0, len(keys))
		for i := range keys {
			row, err := r.q.PendingRow(ctx, tx, keys[i].row)
			if errors.Is(err, sql.ErrNoRows) || err == nil && (row.LeftMs != 0 || row.State != cluster.Pending.String()) {
				continue
			}
			if err != nil {
				return err
			}
			w, err := r.waiting(ctx, tx, &row)
			if err != nil {
				return err
			}
			page = append(page, w)
		}
		return nil
	})
	return page, err
}

// waiting is a waiting job with its last decision, what it waits for and when it is expected to start.
func (r *Reader) waiting(ctx context.Context, tx *sql.Tx, row *db.Job) (w Waiting, err error) {
	w.Job, w.Moment = showJob(row), r.at
	if w.Now, err = r.waitsFor(ctx, tx, w.Job.ID); err != nil {
		return w, err
	}
	if w.Start, err = r.startOf(ctx, tx, row); err != nil {
		return w, err
	}
	d, err := r.q.LastDecision(ctx, tx, row.Job)
	switch {
	case err == nil:
		w.Decision = showDecision(&d, w.Job.ID)
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	}
	return w, err
}

// waitsFor is the last part of a job's wait that has no end.
func (r *Reader) waitsFor(ctx context.Context, tx *sql.Tx, id cluster.JobID) (*plan.WaitSpan, error) {
	last, err := r.q.WaitsOfJob(ctx, tx, db.WaitsOfJobParams{ID: int64(id.ID), Task: int64(id.Task), Most: 1})
	if err != nil || len(last) == 0 || last[0].UntilMs != 0 {
		return nil, err
	}
	spans := spansOf(last[0].Spans)
	if len(spans) == 0 {
		return nil, nil
	}
	return &spans[len(spans)-1], nil
}

// Nodes returns the nodes as the last cycle saw them, by name.
func (r *Reader) Nodes(ctx context.Context) ([]cluster.Node, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.Node, error) { return r.q.AllNodes(ctx, tx) }, nodeOf)
}

// Holder is a job that holds nodes.
type Holder struct {
	Job                      cluster.JobID
	User, Account, Partition string
	GPUs                     int
	GPUType                  string
	Nodes                    string // as a host list
	Start                    time.Time
	Limit                    time.Duration // 0: none
	Tag                      jobtag.Text
	Class                    string      // te or be, as it counted when it started; "": not seen to start
	End                      ExpectedEnd // zero: not known
	UntilWindow              bool        // it has its time limit by priod, and leaves before a window
}

// Holders returns the jobs that hold nodes.
func (r *Reader) Holders(ctx context.Context) ([]Holder, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.HoldersRow, error) { return r.q.Holders(ctx, tx, window.FitsBefore) }, func(x *db.HoldersRow) Holder {
		written, err := slurmplug.ParseTimeLimit(x.WrittenLimit)
		return Holder{
			Job: jobID(x.ID, x.Task), User: x.User, Account: x.Account, Partition: x.Partition, GPUs: int(x.Gpus), GPUType: x.GpuType, Nodes: x.NodeList, Start: instant(x.StartMs),
			Limit: max(time.Duration(x.TimeLimitMs)*time.Millisecond, 0), Tag: jobtag.Read(x.Tag), Class: x.Class, End: ExpectedEnd{instant(x.MedianMs), instant(x.P90Ms)},
			UntilWindow: x.WrittenLimit != "" && err == nil && limitMS(written) == x.TimeLimitMs,
		}
	})
}

// JobShare is what the allocation gave a job of the queue.
type JobShare struct {
	Job     cluster.JobID `json:"job"`
	User    string        `json:"user"`
	Account string        `json:"account"`
	Share
}

// Shares returns some of the jobs that the allocation counts, those that are owed most
// first, and how many there are.
func (r *Reader) Shares(ctx context.Context, skip, most int) (page []JobShare, all int, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		n, err := r.q.CountShares(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := r.q.SharesPage(ctx, tx, db.SharesPageParams{Skip: int64(skip), Most: int64(most)})
		page, all = make([]JobShare, len(rows)), int(n)
		for i := range rows {
			s, failed := shareOf(&rows[i].Share)
			if failed != nil {
				return failed
			}
			page[i] = JobShare{jobID(rows[i].ID, rows[i].Task), rows[i].User, rows[i].Account, *s}
		}
		return err
	})
	return page, all, err
}

// Activity is what happened since a time.
type Activity struct {
	Stays  []cluster.Stay // on GPUs, that had not ended then; of each, all but its job
	Starts []FirstStart
	Writes []Count
}

// FirstStart is the first run of a job.
type FirstStart struct {
	User, Account string
	Class         cluster.Class
	Ready, Start  time.Time // Ready: as in JobTimes
}

// FirstStarts returns the first runs that began since a time.
func (r *Reader) FirstStarts(ctx context.Context, since time.Time) ([]FirstStart, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.FirstStartsRow, error) { return r.q.FirstStarts(ctx, tx, millis(since)) }, firstStartOf)
}

func firstStartOf(x *db.FirstStartsRow) FirstStart {
	return FirstStart{x.User, x.Account, classOf(x.Class), readyOf(x.FirstSubmitMs, x.EligibleMs, x.SinceMs, x.StartMs), instant(x.StartMs)}
}

// Count is how often something happened in the time that begins at From.
type Count struct {
	From time.Time
	N    int
}

// Activity returns what happened since a time, writes counted by bins of such a length.
func (r *Reader) Activity(ctx context.Context, since time.Time, bin time.Duration) (a Activity, err error) {
	from, width := millis(since), bin.Milliseconds()
	err = r.view(ctx, func(tx *sql.Tx) error {
		last, err := r.q.LastCycle(ctx, tx)
		if err != nil {
			return err
		}
		stays, err := r.q.StaysOverlapping(ctx, tx, from)
		if err != nil {
			return err
		}
		a.Stays = each(stays, func(x *db.StaysOverlappingRow) cluster.Stay {
			s := cluster.Stay{GPUType: x.GpuType, GPUs: int(x.Gpus), User: x.User, Account: x.Account, Class: classOf(x.Class), Start: instant(x.StartMs), End: instant(x.EndMs), Closed: x.Closed}
			if !s.Closed {
				s.End = instant(max(x.EndMs, last.UntilMs))
			}
			return s
		})
		starts, err := r.q.FirstStarts(ctx, tx, from)
		if err != nil {
			return err
		}
		a.Starts = each(starts, firstStartOf)
		writes, err := r.q.WritesByTime(ctx, tx, db.WritesByTimeParams{BinMs: width, SinceMs: from})
		if err != nil {
			return err
		}
		a.Writes = each(writes, func(x *db.WritesByTimeRow) Count { return Count{instant(x.Bin * width), int(x.Writes)} })
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil // no cycle yet
	}
	return a, err
}
