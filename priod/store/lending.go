package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"slurmprio/priod/guarantee"
	"slurmprio/priod/store/db"
)

// SaveStatement adds what became of shares since the last one. It may be called alongside the cycles.
func (s *Store) SaveStatement(ctx context.Context, t *guarantee.Taken) error {
	return s.note(ctx, func(tx db.DBTX) error {
		for i := range t.Hours {
			x := &t.Hours[i]
			accounts, err := json.Marshal(x.Accounts)
			if err != nil {
				return err
			}
			if err := s.q.AddShareHour(ctx, tx, db.AddShareHourParams{
				HourMs: millis(x.At), Account: x.Account, Accounts: string(accounts), Gpus: x.GPUs, EntitledS: x.Entitled, WithinS: x.Within,
				LentS: x.Lent, WantedS: x.Wanted, BorrowedS: x.Borrowed,
			}); err != nil {
				return err
			}
		}
		if err := s.q.DropOpenReturns(ctx, tx); err != nil {
			return err
		}
		for _, list := range [][]guarantee.Return{t.Ended, t.Open} {
			if err := every(list, func(x *guarantee.Return) error { return s.q.PutReturn(ctx, tx, returnParams(x)) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func returnParams(x *guarantee.Return) db.PutReturnParams {
	return db.PutReturnParams{
		ID: int64(x.Job.ID), Task: int64(x.Job.Task), SinceMs: millis(x.Since), UntilMs: millis(x.Until), Started: x.Started, Tasks: int64(x.Tasks),
		Account: x.Account, User: x.User, Gpus: x.GPUs, PromiseMs: x.Promise.Milliseconds(), Why: x.Why,
	}
}

func returnOf(x *db.ShareReturn) guarantee.Return {
	return guarantee.Return{
		Job: jobID(x.ID, x.Task), Since: instant(x.SinceMs), Until: instant(x.UntilMs), Started: x.Started, Tasks: int(x.Tasks),
		Account: x.Account, User: x.User, GPUs: x.Gpus, Promise: time.Duration(x.PromiseMs) * time.Millisecond, Why: x.Why,
	}
}

// OpenReturns returns the entitled jobs that waited when an earlier process last saved a statement. It follows Load.
func (s *Store) OpenReturns(ctx context.Context) ([]guarantee.Return, error) {
	return recall(ctx, s, func(tx db.DBTX) ([]guarantee.Return, error) {
		rows, err := s.q.OpenReturns(ctx, tx)
		return each(rows, returnOf), err
	})
}

// ShareHours returns the hours that had not ended at a time, the first to the last.
func (r *Reader) ShareHours(ctx context.Context, since time.Time) ([]guarantee.Hour, error) {
	query := func(tx *sql.Tx) ([]db.ShareHour, error) {
		return r.q.ShareHoursSince(ctx, tx, millis(since.Truncate(time.Hour)))
	}
	return list(ctx, r, query, func(x *db.ShareHour) guarantee.Hour {
		h := guarantee.Hour{At: instant(x.HourMs), Account: x.Account, GPUs: x.Gpus, Sums: guarantee.Sums{
			Entitled: x.EntitledS, Within: x.WithinS, Lent: x.LentS, Wanted: x.WantedS, Borrowed: x.BorrowedS,
		}}
		_ = json.Unmarshal([]byte(x.Accounts), &h.Accounts) // SaveStatement wrote it
		return h
	})
}

// Returns returns the waits of entitled jobs that had not ended at a time, by when they began.
func (r *Reader) Returns(ctx context.Context, since time.Time) ([]guarantee.Return, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.ShareReturn, error) { return r.q.ReturnsSince(ctx, tx, millis(since)) }, returnOf)
}
