package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
)

// Waiting is a pending job with the last part of its wait.
type Waiting struct {
	Queued
	Now *plan.WaitSpan // nil: no wait of it is stored
}

// Pending returns some of the waiting jobs of a user, of everybody when it is "", in the
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
			page[i].Job = showJob(&rows[i])
			if page[i].Now, err = r.waitsFor(ctx, tx, page[i].Job.ID); err != nil {
				return err
			}
			if page[i].Start, err = r.startOf(ctx, tx, &rows[i]); err != nil {
				return err
			}
			d, err := r.q.LastDecision(ctx, tx, rows[i].Job)
			switch {
			case err == nil:
				page[i].Decision = showDecision(&d, page[i].Job.ID)
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
		}
		return nil
	})
	return page, all, err
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
	Job           cluster.JobID
	User, Account string
	GPUs          int
	Nodes         string // as a host list
	Start         time.Time
	Limit         time.Duration // 0: none
	Tag           string
}

// Holders returns the jobs that hold nodes.
func (r *Reader) Holders(ctx context.Context) ([]Holder, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.HoldersRow, error) { return r.q.Holders(ctx, tx) }, func(x *db.HoldersRow) Holder {
		return Holder{Job: jobID(x.ID, x.Task), User: x.User, Account: x.Account, GPUs: int(x.Gpus), Nodes: x.NodeList, Start: instant(x.StartMs), Limit: max(time.Duration(x.TimeLimitMs)*time.Millisecond, 0), Tag: x.Tag}
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
	Stays     []cluster.Stay // on GPUs, that had not ended then; of each, only type, number and times
	Starts    []FirstStart
	Writes    []Count
	Evictions []Count
}

// FirstStart is the first run of a job.
type FirstStart struct {
	Class         cluster.Class
	Submit, Start time.Time
}

// Count is how often something happened in the time that begins at From.
type Count struct {
	From time.Time
	N    int
}

// Activity returns what happened since a time, writes and evictions counted by bins of
// such a length.
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
			s := cluster.Stay{GPUType: x.GpuType, GPUs: int(x.Gpus), Start: instant(x.StartMs), End: instant(x.EndMs), Closed: x.Closed}
			if !s.Closed {
				s.End = instant(max(x.EndMs, last.UntilMs))
			}
			return s
		})
		starts, err := r.q.FirstStarts(ctx, tx, from)
		if err != nil {
			return err
		}
		a.Starts = each(starts, func(x *db.FirstStartsRow) FirstStart {
			return FirstStart{classOf(x.Class), instant(x.FirstSubmitMs), instant(x.StartMs)}
		})
		writes, err := r.q.WritesByTime(ctx, tx, db.WritesByTimeParams{BinMs: width, SinceMs: from})
		if err != nil {
			return err
		}
		a.Writes = each(writes, func(x *db.WritesByTimeRow) Count { return Count{instant(x.Bin * width), int(x.Writes)} })
		evictions, err := r.q.EvictionsByTime(ctx, tx, db.EvictionsByTimeParams{BinMs: width, SinceMs: from})
		a.Evictions = each(evictions, func(x *db.EvictionsByTimeRow) Count { return Count{instant(x.Bin * width), int(x.Evictions)} })
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil // no cycle yet
	}
	return a, err
}
