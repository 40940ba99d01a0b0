package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/retry"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// turns is the part of the journal that tells of claims and evictions. With evictions on, the daemon's own evict.Journal is
// what it holds.
type turns struct{ journal *evict.Journal }

// turn is a record: rows as they are after it. Those of a file that was rewritten repeat all rows that are still of use.
type turn struct {
	Claims       []evict.Claim         `json:"claims,omitempty"`
	Evictions    []evict.Eviction      `json:"evictions,omitempty"`
	Times        map[cluster.JobID]int `json:"times,omitempty"` // how often each job was signalled until now
	LastClaim    int64                 `json:"last_claim,omitempty"`
	LastEviction int64                 `json:"last_eviction,omitempty"`
}

// Clear, Take and Records are those of a journal.Part.
func (p *turns) Clear() { p.journal = evict.NewJournal() }

func (p *turns) Take(kind string, body []byte) (bool, error) {
	if kind != journal.Turn {
		return false, nil
	}
	var t turn
	if err := json.Unmarshal(body, &t); err != nil || !t.sound() {
		return true, journal.ErrUnsound
	}
	for i := range t.Claims {
		p.journal.Update(&evict.Changes{Claims: t.Claims[i : i+1]})
		inOrder(p.journal.Claims, func(c evict.Claim) int64 { return c.Number })
	}
	for i := range t.Evictions {
		p.journal.Update(&evict.Changes{Evictions: t.Evictions[i : i+1]})
		inOrder(p.journal.Evictions, func(e evict.Eviction) int64 { return e.Number })
	}
	for id, n := range t.Times {
		p.journal.Times[id] = n
	}
	p.journal.LastClaim, p.journal.LastEviction = max(p.journal.LastClaim, t.LastClaim), max(p.journal.LastEviction, t.LastEviction)
	return true, nil
}

// inOrder moves the last row to its place by number, as a search expects: an edited file may tell it late.
func inOrder[R any](rows []R, number func(R) int64) {
	for i := len(rows) - 1; i > 0 && number(rows[i]) < number(rows[i-1]); i-- {
		rows[i], rows[i-1] = rows[i-1], rows[i]
	}
}

// sound reports whether a record can be what priod wrote.
func (t *turn) sound() bool {
	return !slices.ContainsFunc(t.Claims, func(c evict.Claim) bool { return c.Number <= 0 || c.Job.ID == 0 || c.State == "" }) &&
		!slices.ContainsFunc(t.Evictions, func(e evict.Eviction) bool {
			return e.Number <= 0 || e.Job.ID == 0 || !slices.Contains(evict.States, e.State)
		})
}

func (p *turns) Records() (all []journal.Record) {
	j := p.journal
	add := func(t turn) { all = append(all, journal.Record{Kind: journal.Turn, Body: t}) }
	for i := range j.Claims {
		add(turn{Claims: j.Claims[i : i+1]})
	}
	for i := range j.Evictions {
		add(turn{Evictions: j.Evictions[i : i+1]})
	}
	if len(j.Times) > 0 || j.LastClaim+j.LastEviction > 0 {
		add(turn{Times: j.Times, LastClaim: j.LastClaim, LastEviction: j.LastEviction})
	}
	return all
}

// LoadEvictions returns what the journal tells of claims and evictions. The store follows it: it is the one that evictions use.
// New rows get numbers that the database has not given yet.
func (s *Store) LoadEvictions(ctx context.Context) (*evict.Journal, error) {
	last, err := recall(ctx, s, func(tx db.DBTX) (db.LastEvictionKeysRow, error) { return s.q.LastEvictionKeys(ctx, tx) })
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.turns.journal
	j.LastClaim, j.LastEviction = max(j.LastClaim, last.Claim), max(j.LastEviction, last.Eviction)
	s.behind = !j.Blank()
	return j, nil
}

// catchUp gives a database that may lack evictions and failures all that are known, once it has the jobs of a snapshot. What
// cannot be written now can be later: the journal has it.
func (s *Store) catchUp(ctx context.Context) {
	if !s.behind {
		return
	}
	j, m := s.turns.journal, s.failures.memory
	all := &evict.Changes{Claims: j.Claims}
	for _, e := range j.Evictions {
		if j.Claim(e.Claim) != nil { // else both ended long ago
			all.Evictions = append(all.Evictions, e)
		}
	}
	err := s.saveEvictions(ctx, all)
	if err == nil {
		err = s.saveFailures(ctx, &retry.Changes{Failures: m.Failures, Drained: m.Drained})
	}
	if s.behind = err != nil; s.behind {
		s.log.Warn("the evictions and failures that the database lacks could not be written into it yet", "error", s.explain(err))
	}
}

// tell writes rows that stand in the journal into the database, too, or leaves that to catchUp.
func (s *Store) tell(ctx context.Context, save func() error) {
	if s.behind || s.unrecorded != nil {
		s.behind = true
		return
	}
	err := s.intact()
	if err == nil {
		err = save()
	}
	if isBroken(err) {
		err = s.startAnew(ctx, err)
	}
	s.behind = s.behind || err != nil
	s.lack(err)
}

// SaveEvictions appends the rows of a turn, and what it is about to write into jobs' requests, to the journal. After an error
// none of its commands may be sent.
func (s *Store) SaveEvictions(ctx context.Context, t *evict.Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	lines := func() []*undo.Change { return s.pins(t) }
	return s.saveTurn(ctx, lines, journal.Record{Kind: journal.Turn, Body: turn{Claims: t.Claims, Evictions: t.Evictions}}, func() error { return s.saveEvictions(ctx, t) })
}

// saveTurn appends to the journal what a turn is about to write into jobs' requests, and its record, and then saves its rows.
func (s *Store) saveTurn(ctx context.Context, lines func() []*undo.Change, record journal.Record, save func() error) error {
	if err := s.owns(); err != nil {
		return err
	}
	if err := s.keepJournal(); err != nil {
		return err
	}
	if written := lines(); len(written) > 0 {
		if err := s.startActing(); err != nil {
			return err
		}
		defer s.stopActing()
		if err := s.undo.Append(written); err != nil {
			return err
		}
	}
	if err := cmp.Or(s.file.Append(record), s.owns()); err != nil { // the host that took over may have read the record
		return err
	}
	s.tell(ctx, save)
	return nil
}

// pins are the undo lines of claims that name their place in the job's request,
// or take that back.
func (s *Store) pins(t *evict.Changes) (pins []*undo.Change) {
	for i := range t.Claims {
		c, was := &t.Claims[i], ""
		if old := s.turns.journal.Claim(c.Number); old != nil {
			was = old.Pin
		}
		if c.Pin == was {
			continue
		}
		line := &undo.Change{Time: c.Changed.UTC(), Job: c.Job, User: c.User, Lever: slurmplug.ReqNodeList, From: slurmplug.Text(was), To: slurmplug.Text(c.Pin)}
		line.Submit = s.stored.identity(c.Job).Submit()
		pins = append(pins, line)
	}
	return pins
}

func (s *Store) saveEvictions(ctx context.Context, t *evict.Changes) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if err := every(t.Claims, func(c *evict.Claim) error { return s.saveClaim(ctx, tx, c) }); err != nil {
			return err
		}
		return every(t.Evictions, func(e *evict.Eviction) error { return s.saveEviction(ctx, tx, e) })
	})
}

func (s *Store) saveClaim(ctx context.Context, tx db.DBTX, c *evict.Claim) error {
	shares, err := json.Marshal(c.Shares)
	if err != nil {
		return err
	}
	n, err := s.q.UpdateClaim(ctx, tx, db.UpdateClaimParams{
		Claim: c.Number, Shares: string(shares), State: string(c.State), Reason: c.Reason, ChangedMs: millis(c.Changed), Pin: c.Pin,
		Resv: c.Resv, ResvMs: millis(c.ResvAt), RoomMs: millis(c.Room), EndedMs: millis(c.Ended),
	})
	if err != nil || n > 0 {
		return err
	}
	job, err := s.jobRow(ctx, tx, &cluster.Job{ID: c.Job, RawID: c.RawID, User: c.User, GPUs: c.GPUs}, c.At)
	if err != nil {
		return err
	}
	return s.q.AddClaim(ctx, tx, db.AddClaimParams{
		Claim: c.Number, Job: job, Cycle: s.stored.number(), State: string(c.State), Reason: c.Reason,
		NodeList: slurmplug.CompactHosts(c.Nodes()), AtMs: millis(c.At), ChangedMs: millis(c.Changed), RawID: int64(c.RawID),
		Gpus: int64(c.GPUs), Shares: string(shares), WaitMs: c.Wait.Milliseconds(), Pin: c.Pin,
		Resv: c.Resv, ResvMs: millis(c.ResvAt), RoomMs: millis(c.Room), EndedMs: millis(c.Ended), Purpose: string(c.Purpose),
	})
}

func (s *Store) saveEviction(ctx context.Context, tx db.DBTX, e *evict.Eviction) error {
	n, err := s.q.UpdateEviction(ctx, tx, db.UpdateEvictionParams{
		Eviction: e.Number, State: string(e.State), Reason: e.Reason, CostPaid: e.Paid, How: string(e.How),
		ExitCode: int64(e.ExitCode), ExitSignal: int64(e.ExitSignal), Tries: int64(e.Tries),
		SignalledMs: millis(e.SignalledAt), LeftMs: millis(e.LeftAt), RequeuedMs: millis(e.RequeuedAt),
		RestoredMs: millis(e.RestoredAt), EndedMs: millis(e.Ended),
	})
	if err != nil || n > 0 {
		return err
	}
	job, err := s.jobRow(ctx, tx, &cluster.Job{
		ID: e.Job, RawID: e.RawID, User: e.User, GPUs: e.GPUs, Start: e.Start, Restarts: e.Restarts,
	}, e.At)
	if err != nil {
		return err
	}
	return s.q.AddEviction(ctx, tx, db.AddEvictionParams{
		Eviction: e.Number, Claim: e.Claim, Job: job, RawID: int64(e.RawID), StartMs: millis(e.Start), Restarts: int64(e.Restarts),
		Gpus: int64(e.GPUs), Signal: e.Signal, GraceMs: e.Grace.Milliseconds(), EligibleMs: millis(e.Eligible),
		UnsavedMs: e.Unsaved.Milliseconds(), RestartMs: e.Restart.Milliseconds(), CostPromised: e.Promised, CostPaid: e.Paid,
		State: string(e.State), Reason: e.Reason, How: string(e.How), ExitCode: int64(e.ExitCode), ExitSignal: int64(e.ExitSignal),
		Tries: int64(e.Tries), RecordedMs: millis(e.At), SignalledMs: millis(e.SignalledAt), LeftMs: millis(e.LeftAt),
		RequeuedMs: millis(e.RequeuedAt), RestoredMs: millis(e.RestoredAt), EndedMs: millis(e.Ended),
	})
}

// jobRow is the row of a job that the last snapshot showed; a task that is still
// part of its array's record, or a job of which a new database knows nothing,
// gets a row of what is known.
func (s *Store) jobRow(ctx context.Context, tx db.DBTX, j *cluster.Job, at time.Time) (int64, error) {
	if e := s.stored.jobs[j.ID]; e != nil && e.seen != 0 {
		return e.row, nil
	}
	former, err := s.q.FormerJob(ctx, tx, db.FormerJobParams{ID: int64(j.ID.ID), Task: int64(j.ID.Task), User: j.User, Restarts: math.MaxInt64})
	if !errors.Is(err, sql.ErrNoRows) {
		return former, err
	}
	s.stored.row++
	j.TaskCount, j.Submit = 1, at
	params := jobParams(j, s.stored.row, at)
	params.LeftMs = params.AtMs
	return s.stored.row, s.q.PutJob(ctx, tx, params)
}

// Eviction is one victim's one run, and the claim that it made room for.
type Eviction struct {
	Number        int64         `json:"eviction"`
	Victim        cluster.JobID `json:"victim"`
	VictimUser    string        `json:"victim_user"`
	VictimAccount string        `json:"victim_account"`
	VictimTag     string        `json:"victim_tag,omitempty"`
	For           cluster.JobID `json:"for"` // the job that it made room for
	ForUser       string        `json:"for_user"`
	ForAccount    string        `json:"for_account"`
	State         string        `json:"state"`
	Reason        string        `json:"reason,omitempty"`
	How           string        `json:"how,omitempty"` // it left
	GPUs          int           `json:"gpus"`
	Signal        string        `json:"signal,omitempty"`
	GraceS        float64       `json:"grace_s"`
	TookS         *float64      `json:"took_s"` // from the signal until it had left
	Promised      float64       `json:"cost_promised_gpu_s"`
	Paid          *float64      `json:"cost_paid_gpu_s"`
	ExitCode      int           `json:"exit_code"`
	ExitSignal    int           `json:"exit_signal"`
	Start         time.Time     `json:"start"` // of the run
	Recorded      time.Time     `json:"recorded"`
	Signalled     time.Time     `json:"signalled,omitzero"`
	Left          time.Time     `json:"left,omitzero"`
	Requeued      time.Time     `json:"requeued,omitzero"`
	Restored      time.Time     `json:"restored,omitzero"`
	Ended         time.Time     `json:"ended,omitzero"`
	Claim         int64         `json:"claim"`
	Purpose       string        `json:"purpose"` // te, round, gang, window
	ClaimState    string        `json:"claim_state"`
	ClaimReason   string        `json:"claim_reason,omitempty"`
	Nodes         string        `json:"node_list"`
	WaitS         float64       `json:"wait_promised_s"` // of that job, until the last victim has left
	Room          time.Time     `json:"room,omitzero"`   // the last victim had left
	ClaimEnded    time.Time     `json:"claim_ended,omitzero"`
}

// Evictions returns those under way and the latest others.
func (r *Reader) Evictions(ctx context.Context, most int) ([]Eviction, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.RecentEvictionsRow, error) { return r.q.RecentEvictions(ctx, tx, int64(most)) }, showEviction)
}

// EvictionsSince returns those recorded since a time, first to last.
func (r *Reader) EvictionsSince(ctx context.Context, since time.Time) ([]Eviction, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.EvictionsSinceRow, error) { return r.q.EvictionsSince(ctx, tx, millis(since)) }, showEviction)
}

// EvictionsOf returns those of a job's own runs and those on its behalf.
func (r *Reader) EvictionsOf(ctx context.Context, id cluster.JobID, most int) ([]Eviction, error) {
	of := db.EvictionsOfJobParams{ID: int64(id.ID), Task: int64(id.Task), Most: int64(most)}
	return list(ctx, r, func(tx *sql.Tx) ([]db.EvictionsOfJobRow, error) { return r.q.EvictionsOfJob(ctx, tx, of) }, showEviction)
}

// showEviction takes a row of any of the queries, which all select the same.
func showEviction[R db.RecentEvictionsRow | db.EvictionsSinceRow | db.EvictionsOfJobRow](row *R) Eviction {
	r := db.RecentEvictionsRow(*row)
	e, c := &r.Eviction, &r.Claim
	show := Eviction{
		Number: e.Eviction, Victim: jobID(r.VictimID, r.VictimTask), VictimUser: r.VictimUser, VictimAccount: r.VictimAccount, VictimTag: r.VictimTag,
		For: jobID(r.TeID, r.TeTask), ForUser: r.TeUser, ForAccount: r.TeAccount, State: e.State, Reason: e.Reason, How: e.How, GPUs: int(e.Gpus),
		Signal: e.Signal, GraceS: inSeconds(e.GraceMs), Promised: e.CostPromised, ExitCode: int(e.ExitCode), ExitSignal: int(e.ExitSignal),
		Start: instant(e.StartMs), Recorded: instant(e.RecordedMs), Signalled: instant(e.SignalledMs), Left: instant(e.LeftMs), Requeued: instant(e.RequeuedMs),
		Restored: instant(e.RestoredMs), Ended: instant(e.EndedMs), Claim: c.Claim, Purpose: c.Purpose, ClaimState: c.State, ClaimReason: c.Reason,
		Nodes: c.NodeList, WaitS: inSeconds(c.WaitMs), Room: instant(c.RoomMs), ClaimEnded: instant(c.EndedMs),
	}
	if e.LeftMs > 0 {
		took, paid := inSeconds(e.LeftMs-e.SignalledMs), e.CostPaid
		show.TookS, show.Paid = &took, &paid
	}
	return show
}

func inSeconds(ms int64) float64 { return float64(ms) / 1000 }
