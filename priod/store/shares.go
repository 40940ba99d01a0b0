package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

// Share is what the allocation gave a job when its row was last written.
type Share struct {
	Cycle    int64         `json:"cycle"`
	At       time.Time     `json:"at"`       // the figures are of then
	Given    time.Time     `json:"given"`    // its times hold since then
	Since    time.Time     `json:"since"`    // fractions received count from then
	Priority float64       `json:"priority"` // as Gavel orders by; from plan.Untouched down: it had received nothing
	Types    []ShareOfType `json:"gpu_types"`
	Notes    []string      `json:"notes,omitempty"`
}

// ShareOfType is a job's on one GPU type.
type ShareOfType struct {
	GPUType   string       `json:"gpu_type"`
	Speed     float64      `json:"speed"` // relative: 1 on its fastest type; 0: it cannot run there
	Source    speed.Source `json:"source"`
	Factor    float64      `json:"within_factor"`
	Runs      int          `json:"runs"`                    // of its program there that history has
	Time      *float64     `json:"time_fraction,omitempty"` // allocated; nil: not yet
	Received  float64      `json:"received_fraction"`       // of the time that all jobs ran there since Share.Since
	ReceivedS float64      `json:"received_s"`              // in its life
	PromisedS float64      `json:"promised_s"`              // in its life, up to Share.Given
	OwedS     float64      `json:"owed_s"`                  // promised up to Share.At and not received
	RunS      *float64     `json:"run_s,omitempty"`         // that it would still run there; nil: it cannot
}

// compareShare covers what says how fast the job is, and its times. What grows
// with the time alone is not written each cycle: it follows from those.
func (s *Store) compareShare(e *entry, share *plan.Share, types []string) {
	shared := uint64(0)
	if share != nil {
		key := keyOf(share)
		if e.shared != 0 && e.share == key {
			return
		}
		if shared = s.stored.digester.share(share, types); shared == e.shared {
			e.share = key
		}
	}
	if shared != e.shared {
		s.changes.shares = append(s.changes.shares, change[entry, plan.Share]{e, share, shared})
	}
}

func keyOf(s *plan.Share) shareKey {
	return shareKey{s.Answers, unsafe.SliceData(s.Speed), unsafe.SliceData(s.Time), s.Given}
}

func (d *digester) share(s *plan.Share, types []string) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	maphash.WriteComparable(&h, millis(s.Given))
	maphash.WriteComparable(&h, s.Time != nil)
	for t, name := range types {
		a := &s.Answers.Speeds[t]
		time := 0.0
		if s.Time != nil {
			time = s.Time[t]
		}
		maphash.WriteComparable(&h, struct {
			name, source        string
			runs                int
			speed, factor, time float64
		}{name, string(a.Source), a.Runs, s.Speed[t], a.Factor, time})
	}
	for _, n := range s.Answers.Notes {
		maphash.WriteComparable(&h, n)
	}
	return h.Sum64() | 1
}

func (s *Store) saveShares(ctx context.Context, tx db.DBTX, number int64, seen *plan.Seen) error {
	texts := &shareTexts{of: map[speeds]*speedTexts{}}
	if seen.Plan.Shares != nil {
		texts.types = seen.Plan.Shares.Types
	}
	return eachRow(ctx, tx, s.changes.shares, func(to *statements, c *change[entry, plan.Share]) error {
		if c.now == nil { // it has none any more
			return to.add(db.DropShareText, &c.entry.row)
		}
		row := shareParams(c.now, texts.share(c.now), seen.Plan.Shares, c.entry.row, number, seen.Snapshot.At)
		return to.add(db.PutShareText, &row)
	})
}

func shareParams(s *plan.Share, types string, all *plan.Shares, row, cycle int64, at time.Time) db.PutShareParams {
	notes := "[]"
	if len(s.Answers.Notes) > 0 {
		if text, err := json.Marshal(s.Answers.Notes); err == nil {
			notes = string(text)
		}
	}
	return db.PutShareParams{
		Job: row, Cycle: cycle, AtMs: millis(at), GivenMs: millis(s.Given), SinceMs: millis(all.Since), Priority: s.Priority,
		Types: types, Notes: notes,
	}
}

// shareTexts makes the texts of shares on each GPU type. Jobs of the same program share their
// speeds, and most of them have the same times: that is put into text once.
type shareTexts struct {
	types []string
	of    map[speeds]*speedTexts
	text  []byte
}

// speeds are those of a program, by their places in memory.
type speeds struct {
	answers *speed.Answers
	speed   *float64
}

// speedTexts are, by GPU type, the beginnings of the texts of jobs with such speeds and times.
type speedTexts struct {
	time   []float64
	begins [][]byte
}

// share is the text for one job.
func (x *shareTexts) share(s *plan.Share) string {
	text := append(x.text[:0], '[')
	for t, begin := range x.begins(s) {
		if t > 0 {
			text = append(text, ',')
		}
		text = append(text, begin...)
		figures := [...]float64{s.Received[t], s.Seconds[t], s.Promised[t], s.Owed[t], s.Run[t]}
		n := len(figures) // without the last ones that say nothing: most types, of most jobs
		if none := figures[n-1]; math.IsInf(none, 0) || math.IsNaN(none) {
			for n--; n > 0 && figures[n-1] == 0; n-- {
			}
		}
		for _, x := range figures[:n] {
			text = appendNumber(append(text, ','), x)
		}
		text = append(text, ']')
	}
	x.text = append(text, ']')
	return string(x.text)
}

func (x *shareTexts) begins(s *plan.Share) [][]byte {
	key := speeds{s.Answers, unsafe.SliceData(s.Speed)}
	b := x.of[key]
	if b != nil && (b.time == nil) == (s.Time == nil) && slices.Equal(b.time, s.Time) {
		return b.begins
	}
	b = &speedTexts{time: s.Time, begins: make([][]byte, len(x.types))}
	x.of[key] = b
	for t, name := range x.types {
		a := &s.Answers.Speeds[t]
		text := append(appendText([]byte{'['}, name), ',')
		text = append(appendNumber(text, s.Speed[t]), ',')
		text = append(appendText(text, string(a.Source)), ',')
		text = append(appendNumber(text, a.Factor), ',')
		text = append(strconv.AppendInt(text, int64(a.Runs), 10), ',')
		if s.Time != nil {
			text = appendNumber(text, s.Time[t])
		} else {
			text = append(text, "null"...)
		}
		b.begins[t] = text
	}
	return b.begins
}

// appendNumber appends a number in JSON, null for one that JSON has not.
func appendNumber(to []byte, x float64) []byte {
	switch {
	case x == 0 && !math.Signbit(x):
		return append(to, '0')
	case math.IsInf(x, 0) || math.IsNaN(x):
		return append(to, "null"...)
	}
	return strconv.AppendFloat(to, x, 'g', -1, 64)
}

// typeRow is a share on one GPU type in its row.
type typeRow ShareOfType

// UnmarshalJSON reads what shareTexts made.
func (t *typeRow) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{
		&t.GPUType, &t.Speed, &t.Source, &t.Factor, &t.Runs, &t.Time, &t.Received, &t.ReceivedS, &t.PromisedS, &t.OwedS, &t.RunS,
	})
}

func shareOf(r *db.Share) (*Share, error) {
	var types []typeRow
	err := json.Unmarshal([]byte(r.Types), &types)
	return &Share{
		Cycle: r.Cycle, At: instant(r.AtMs), Given: instant(r.GivenMs), Since: instant(r.SinceMs), Priority: r.Priority, Notes: notesOf(r.Notes),
		Types: each(types, func(t *typeRow) ShareOfType { return ShareOfType(*t) }),
	}, err
}

// shareOfJob is what the allocation gave a job; nil when it has no share.
func (r *Reader) shareOfJob(ctx context.Context, tx db.DBTX, row int64) (*Share, error) {
	found, err := r.q.ShareOfJob(ctx, tx, row)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return shareOf(&found)
}

// LoadShares returns what an earlier priod allocated, as if it had never stopped:
// what it promised stood while it was away.
func (s *Store) LoadShares(ctx context.Context) (*allocate.Ledger, error) {
	l, err := recall(ctx, s, func(tx db.DBTX) (*allocate.Ledger, error) { return ledgerOf(ctx, s.q, tx) })
	if l == nil {
		l = &allocate.Ledger{}
	}
	return l, err
}

// Ledger is what the daemon would load, for a dry run beside it.
func (r *Reader) Ledger(ctx context.Context) (*allocate.Ledger, error) {
	return one(ctx, r, func(tx *sql.Tx) (*allocate.Ledger, error) { return ledgerOf(ctx, r.q, tx) })
}

func ledgerOf(ctx context.Context, q *db.Queries, tx db.DBTX) (*allocate.Ledger, error) {
	shares, err := q.SharesInQueue(ctx, tx)
	if err != nil {
		return nil, err
	}
	intervals, err := q.IntervalsOfShares(ctx, tx)
	if err != nil {
		return nil, err
	}
	runs := map[cluster.JobID][]cluster.Stay{}
	for i := range intervals {
		id := jobID(intervals[i].ID, intervals[i].Task)
		runs[id] = append(runs[id], intervalOf(&intervals[i].Interval, id, 0))
	}
	l := &allocate.Ledger{}
	for i := range shares {
		r := &shares[i]
		s, err := shareOf(&r.Share)
		if err != nil {
			return nil, err
		}
		id := jobID(r.ID, r.Task)
		l.Restore(id, s.remembered(r, runs[id]))
	}
	return l, nil
}

func (s *Share) remembered(r *db.SharesInQueueRow, runs []cluster.Stay) allocate.Remembered {
	m := allocate.Remembered{User: r.User, Submit: instant(r.SubmitMs), Born: instant(r.FirstSubmitMs), Given: s.Given, Runs: runs}
	for _, t := range s.Types {
		m.Types, m.Speed, m.Promised = append(m.Types, t.GPUType), append(m.Speed, t.Speed), append(m.Promised, t.PromisedS)
		if t.Time != nil {
			m.Time = append(m.Time, *t.Time)
		}
	}
	return m
}

// TypeGiven is a completed run of a job that was given a GPU type.
type TypeGiven struct {
	User, Name string
	Tag        jobtag.Text
	GPUs       int
	GPUType    string // it ran there
	Start, End time.Time
	Types      []ShareOfType // as they were when it was last ranked
}

// TypesGivenSince are those runs that ended since a time, on the type that was given, as accounting has them.
func (r *Reader) TypesGivenSince(ctx context.Context, since time.Time) ([]TypeGiven, error) {
	rows, err := one(ctx, r, func(tx *sql.Tx) ([]db.TypesGivenSinceRow, error) { return r.q.TypesGivenSince(ctx, tx, millis(since)) })
	given := make([]TypeGiven, 0, len(rows))
	for i := range rows {
		x := &rows[i]
		if i+1 < len(rows) && rows[i+1].RawID == x.RawID && rows[i+1].StartMs == x.StartMs {
			continue // of an earlier row of the same job
		}
		share, unread := shareOf(&db.Share{Types: x.Types})
		if err = errors.Join(err, unread); err != nil {
			return nil, err
		}
		d, _ := decisionOf(&db.Decision{Choices: x.Choices}, cluster.JobID{})
		if choice := d.Choices.GPUType; choice == nil || choice.GPUType != x.GpuType {
			continue // it was taken back, or the type has got another name
		}
		given = append(given, TypeGiven{
			User: x.User, Name: x.Name, Tag: jobtag.Read(x.Tag), GPUs: int(x.Gpus), GPUType: x.GpuType, Start: instant(x.StartMs), End: instant(x.EndMs), Types: share.Types,
		})
	}
	return given, err
}

// GPUTypes are the types of the nodes as the last cycle saw them, sorted.
func (r *Reader) GPUTypes(ctx context.Context) (types []string, err error) {
	nodes, err := r.Nodes(ctx)
	for i := range nodes {
		if n := &nodes[i]; n.GPUs > 0 && n.GPUType != "" && !n.MixedTypes {
			types = append(types, n.GPUType)
		}
	}
	slices.Sort(types)
	return slices.Compact(types), err
}
