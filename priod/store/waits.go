package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/waits"
)

// noteWaits takes in which waits changed. They are told once, so they are kept until a
// commit succeeds.
func (s *Store) noteWaits(changed func() []*plan.Wait) {
	if changed == nil {
		return
	}
	if s.unsaved.waits == nil {
		s.unsaved.waits = map[*plan.Wait]bool{}
	}
	for _, w := range changed() {
		s.unsaved.waits[w] = true
	}
}

// forgetWaits says that the database holds none any more: those without an end are to be
// written again.
func (s *Store) forgetWaits() {
	if s.unsaved.waits == nil {
		s.unsaved.waits = map[*plan.Wait]bool{}
	}
	maps.Copy(s.unsaved.waits, s.stored.waits)
	s.stored.waits = nil
}

func (s *Store) saveWaits(ctx context.Context, tx *sql.Tx) error {
	// In the order of their keys: what follows each other in a table is quicker to write.
	for _, w := range slices.SortedFunc(maps.Keys(s.unsaved.waits), func(a, b *plan.Wait) int {
		return cmp.Or(a.Job.Compare(b.Job), a.Submit.Compare(b.Submit))
	}) {
		if err := s.saveWait(ctx, tx, w); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) saveWait(ctx context.Context, tx *sql.Tx, w *plan.Wait) error {
	id, task, submit, until := int64(w.Job.ID), int64(w.Job.Task), millis(w.Submit), int64(0)
	if w.Ended != plan.StillWaits {
		until = millis(w.Until)
	}
	err := s.q.PutWait(ctx, tx, db.PutWaitParams{
		ID: id, Task: task, SubmitMs: submit, UntilMs: until, Ended: string(w.Ended), User: w.User, Account: w.Account, Partition: w.Partition,
		GpuType: w.GPUType, Gpus: int64(w.GPUs), Tasks: int64(w.Tasks), Pool: w.Pool, PoolGpus: int64(w.PoolGPUs),
		RoomMs: millis(w.RoomSince()), TornMs: w.By()[plan.Fragmentation].Milliseconds(),
	})
	if err != nil {
		return err
	}
	if err := s.q.DropSpans(ctx, tx, db.DropSpansParams{ID: id, Task: task, SubmitMs: submit}); err != nil {
		return err
	}
	for i, x := range w.Spans {
		end := until
		if i+1 < len(w.Spans) {
			end = millis(w.Spans[i+1].From)
		}
		err := s.q.AddSpan(ctx, tx, db.AddSpanParams{
			ID: id, Task: task, SubmitMs: submit, FromMs: millis(x.From), UntilMs: end, Cause: string(x.Cause), What: x.What, Words: x.Words, Fits: fitsText(x.Fits),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// savedWaits takes note that the waits have their rows.
func (s *Store) savedWaits() {
	if s.stored.waits == nil {
		s.stored.waits = map[*plan.Wait]bool{}
	}
	for w := range s.unsaved.waits {
		if w.Ended == plan.StillWaits {
			s.stored.waits[w] = true
		} else {
			delete(s.stored.waits, w)
		}
	}
}

// Waits returns the waits that had no end when an earlier priod last looked, and when that
// was. It follows Load.
func (s *Store) Waits(ctx context.Context) (open []*plan.Wait, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := s.q.OpenWaits(ctx, s.db)
	if err != nil {
		return nil, at, s.explain(err)
	}
	spans, err := s.q.SpansOfOpenWaits(ctx, s.db)
	if err != nil {
		return nil, at, s.explain(err)
	}
	last, err := s.q.LastLook(ctx, s.db)
	if err != nil {
		return nil, at, s.explain(err)
	}
	s.stored.waits = map[*plan.Wait]bool{}
	open = openWaits(rows, spans)
	for _, w := range open {
		s.stored.waits[w] = true
	}
	return open, instant(last), nil
}

// openWaits joins waits and their spans, which have the same order.
func openWaits(rows []db.Wait, spans []db.WaitSpan) (open []*plan.Wait) {
	for i := range rows {
		w := waitOf(&rows[i])
		for len(spans) > 0 && spans[0].ID == rows[i].ID && spans[0].Task == rows[i].Task && spans[0].SubmitMs == rows[i].SubmitMs {
			w.Spans = append(w.Spans, spanOf(&spans[0]))
			w.Until, spans = w.Spans[len(w.Spans)-1].From, spans[1:]
		}
		open = append(open, w)
	}
	return open
}

// OpenWaits returns the waits that had no end when the daemon last looked, up to the begin
// of their last span.
func (r *Reader) OpenWaits(ctx context.Context) (open []*plan.Wait, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		rows, err := r.q.OpenWaits(ctx, tx)
		if err != nil {
			return err
		}
		spans, err := r.q.SpansOfOpenWaits(ctx, tx)
		open = openWaits(rows, spans)
		return err
	})
	return open, err
}

func waitOf(r *db.Wait) *plan.Wait {
	w := &plan.Wait{
		Job: jobID(r.ID, r.Task), Submit: instant(r.SubmitMs), Until: instant(r.UntilMs), Ended: plan.WaitEnd(r.Ended), User: r.User, Account: r.Account,
		Partition: r.Partition, GPUType: r.GpuType, GPUs: int(r.Gpus), Tasks: int(r.Tasks), Pool: r.Pool, PoolGPUs: int(r.PoolGpus),
	}
	if r.UntilMs == 0 {
		w.Until = w.Submit
	}
	return w
}

func spanOf(r *db.WaitSpan) plan.WaitSpan {
	s := plan.WaitSpan{From: instant(r.FromMs), Cause: plan.Cause(r.Cause), What: r.What, Words: r.Words}
	if r.Fits != "" {
		_ = json.Unmarshal([]byte(r.Fits), &s.Fits) // fitsText wrote it
	}
	return s
}

func fitsText(f *plan.FitsNow) string {
	if f == nil {
		return ""
	}
	text, err := json.Marshal(f)
	if err != nil {
		return "" // the words still say it
	}
	return string(text)
}

// WaitsOf returns a job's waits since its submission, the last one first. One without an
// end is shown up to now.
func (r *Reader) WaitsOf(ctx context.Context, id cluster.JobID, since, now time.Time, most int) (all []*plan.Wait, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		all = nil
		rows, err := r.q.WaitsOfJob(ctx, tx, db.WaitsOfJobParams{ID: int64(id.ID), Task: int64(id.Task), SinceMs: millis(since), Most: int64(most)})
		if err != nil {
			return err
		}
		for i := range rows {
			w := waitOf(&rows[i])
			spans, err := r.q.SpansOfWait(ctx, tx, db.SpansOfWaitParams{ID: rows[i].ID, Task: rows[i].Task, SubmitMs: rows[i].SubmitMs})
			if err != nil {
				return err
			}
			for k := range spans {
				w.Spans = append(w.Spans, spanOf(&spans[k]))
			}
			if w.Ended == plan.StillWaits {
				w.Until = now
			}
			all = append(all, w)
		}
		return nil
	})
	return all, err
}

// Waited is what jobs that have this in common waited for one cause.
type Waited struct {
	Waiters
	Cause plan.Cause
	What  string
	Wait  time.Duration // of all of them
}

// Waiters are jobs that waited and have this in common.
type Waiters struct {
	User, Account, Partition, GPUType string
	GPUs                              int
	Jobs, Started                     int
}

// WaitsSince sums up what jobs waited within a time; one without an end counts up to now.
func (r *Reader) WaitsSince(ctx context.Context, since, now time.Time) (waited []Waited, waiters []Waiters, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		sums, err := r.q.WaitsSince(ctx, tx, db.WaitsSinceParams{SinceMs: millis(since), NowMs: millis(now)})
		if err != nil {
			return err
		}
		counts, err := r.q.WaitersSince(ctx, tx, millis(since))
		if err != nil {
			return err
		}
		waited = each(sums, func(x *db.WaitsSinceRow) Waited {
			return Waited{
				Waiters: Waiters{User: x.User, Account: x.Account, Partition: x.Partition, GPUType: x.GpuType, GPUs: int(x.Gpus)},
				Cause:   plan.Cause(x.Cause), What: x.What, Wait: time.Duration(x.WaitMs) * time.Millisecond,
			}
		})
		waiters = each(counts, func(x *db.WaitersSinceRow) Waiters {
			return Waiters{
				User: x.User, Account: x.Account, Partition: x.Partition, GPUType: x.GpuType, GPUs: int(x.Gpus), Jobs: int(x.Jobs), Started: int(x.Started),
			}
		})
		return nil
	})
	return waited, waiters, err
}

// WaitedRun is a run and the wait before it.
type WaitedRun struct {
	waits.Run
	User     string
	PoolGPUs int
}

// RunsSince returns the runs that began within a time after a wait that was seen.
func (r *Reader) RunsSince(ctx context.Context, since time.Time) ([]WaitedRun, error) {
	query := func(tx *sql.Tx) ([]db.RunsSinceRow, error) { return r.q.RunsSince(ctx, tx, millis(since)) }
	return list(ctx, r, query, func(x *db.RunsSinceRow) WaitedRun {
		return WaitedRun{User: x.User, PoolGPUs: int(x.PoolGpus), Run: waits.Run{
			Job: jobID(x.ID, x.Task), Pool: x.Pool, GPUs: int(x.Gpus), Since: instant(x.RoomMs),
			Start: instant(x.StartMs), End: instant(x.EndMs), Torn: time.Duration(x.TornMs) * time.Millisecond,
		}}
	})
}
