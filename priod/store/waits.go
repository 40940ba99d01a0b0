package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/waits"
)

// noteWaits takes in which waits changed. They are told once, so they are kept until a
// commit succeeds, each once. It reports whether there are none. Those of a replay get their rows, which grow with each change, when
// they have ended, the others from EndReplay.
func (s *Store) noteWaits(changed func() []*plan.Wait) (none bool) {
	if changed != nil {
		for _, w := range changed() {
			if s.opts.Replay && w.Ended == plan.StillWaits {
				s.waitOpen(w)
			} else {
				s.unsaved.waits = append(s.unsaved.waits, w)
			}
		}
		s.unsaved.waits = byKey(s.unsaved.waits)
	}
	return len(s.unsaved.waits) == 0
}

func (s *Store) waitOpen(w *plan.Wait) {
	if s.stored.waits == nil {
		s.stored.waits = map[*plan.Wait]bool{}
	}
	s.stored.waits[w] = true
}

// forgetWaits says that the database holds none any more: those without an end are to be
// written again.
func (s *Store) forgetWaits() {
	s.unsaved.waits = byKey(slices.AppendSeq(s.unsaved.waits, maps.Keys(s.stored.waits)))
	s.stored.waits = nil
}

// byKey sorts waits, which may come twice, by the keys of their rows: what follows each other
// in a table is quicker to write.
func byKey(all []*plan.Wait) []*plan.Wait {
	slices.SortFunc(all, (*plan.Wait).Compare)
	return slices.Compact(all)
}

func (s *Store) saveWaits(ctx context.Context, tx db.DBTX) error {
	var spans []byte
	return eachRow(ctx, tx, s.unsaved.waits, func(to *statements, w **plan.Wait) error {
		spans = appendSpans(spans[:0], *w)
		row := waitParams(*w, string(spans))
		return to.add(db.PutWaitText, &row)
	})
}

// untilMS is when a wait ended, 0 for one that has not.
func untilMS(w *plan.Wait) int64 {
	if w.Ended == plan.StillWaits {
		return 0
	}
	return millis(w.Until)
}

func waitParams(w *plan.Wait, spans string) db.PutWaitParams {
	return db.PutWaitParams{
		ID: int64(w.Job.ID), Task: int64(w.Job.Task), SubmitMs: millis(w.Submit), UntilMs: untilMS(w), Ended: string(w.Ended),
		User: w.User, Account: w.Account, Partition: w.Partition,
		GpuType: w.GPUType, Gpus: int64(w.GPUs), Tasks: int64(w.Tasks), Pool: w.Pool, PoolGpus: int64(w.PoolGPUs),
		RoomMs: millis(w.RoomSince()), TornMs: w.Sum(plan.Fragmentation).Milliseconds(), Spans: spans,
	}
}

// savedWaits records that the waits have their rows.
func (s *Store) savedWaits() {
	for _, w := range s.unsaved.waits {
		if w.Ended == plan.StillWaits {
			s.waitOpen(w)
		} else {
			delete(s.stored.waits, w)
		}
	}
}

// Waits returns the waits that had no end when an earlier priod last looked, and when that
// was. It follows Load.
func (s *Store) Waits(ctx context.Context) (open []*plan.Wait, at time.Time, err error) {
	open, err = recall(ctx, s, func(tx db.DBTX) ([]*plan.Wait, error) {
		rows, err := s.q.OpenWaits(ctx, tx)
		return each(rows, waitOf), err
	})
	if err != nil {
		return nil, at, err
	}
	last, err := recall(ctx, s, func(tx db.DBTX) (int64, error) { return s.q.LastLook(ctx, tx) })
	if err != nil {
		return nil, at, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored.waits = map[*plan.Wait]bool{}
	for _, w := range open {
		s.stored.waits[w] = true
	}
	return open, instant(last), nil
}

// OpenWaits returns the waits that had no end when the daemon last looked, up to the begin
// of their last span.
func (r *Reader) OpenWaits(ctx context.Context) (open []*plan.Wait, err error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.Wait, error) { return r.q.OpenWaits(ctx, tx) }, waitOf)
}

func waitOf(r *db.Wait) *plan.Wait {
	w := &plan.Wait{
		Job: jobID(r.ID, r.Task), Submit: instant(r.SubmitMs), Until: instant(r.UntilMs), Ended: plan.WaitEnd(r.Ended), User: r.User, Account: r.Account,
		Partition: r.Partition, GPUType: r.GpuType, GPUs: int(r.Gpus), Tasks: int(r.Tasks), Pool: r.Pool, PoolGPUs: int(r.PoolGpus),
	}
	w.Spans = spansOf(r.Spans)
	if r.UntilMs == 0 {
		if w.Until = w.Submit; len(w.Spans) > 0 {
			w.Until = w.Spans[len(w.Spans)-1].From
		}
	}
	return w
}

// appendSpans appends a wait's parts as its row holds them, an array for each.
func appendSpans(text []byte, w *plan.Wait) []byte {
	text = append(text, '[')
	for i := range w.Spans {
		x, end := &w.Spans[i], untilMS(w)
		if i+1 < len(w.Spans) {
			end = millis(w.Spans[i+1].From)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendInt(append(text, '['), millis(x.From), 10), ',')
		text = append(strconv.AppendInt(text, end, 10), ',')
		for _, said := range []string{string(x.Cause), x.What, x.Words} {
			text = append(appendText(text, said), ',')
		}
		text = append(appendFits(text, x.Fits), ']')
	}
	return append(text, ']')
}

// appendText appends a text in JSON. Most texts are plain and need no more than quotes.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(text)
			if err != nil {
				return append(to, `""`...) // no text makes it fail
			}
			return append(to, quoted...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}

func appendFits(to []byte, f *plan.FitsNow) []byte {
	if f != nil {
		if text, err := json.Marshal(f); err == nil { // else the words still say it
			return append(to, text...)
		}
	}
	return append(to, "null"...)
}

// span is a part of a wait in its row.
type span struct {
	from, until        int64
	cause, what, words string
	fits               *plan.FitsNow
}

// UnmarshalJSON reads what spansText wrote.
func (s *span) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.from, &s.until, &s.cause, &s.what, &s.words, &s.fits})
}

func spansOf(text string) []plan.WaitSpan {
	var spans []span
	if err := json.Unmarshal([]byte(text), &spans); err != nil {
		return nil // spansText, or a migration, wrote it
	}
	return each(spans, func(s *span) plan.WaitSpan {
		return plan.WaitSpan{From: instant(s.from), Cause: plan.Cause(s.cause), What: s.what, Words: s.words, Fits: s.fits}
	})
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
