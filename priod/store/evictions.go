package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/priod/undo/lines"
	"slurmprio/slurmplug"
)

// LoadEvictions returns the journal of claims and evictions as an earlier priod
// left it, by the database or, where that lacks turns, by evictions.jsonl. The store
// follows it: SaveEvictions can rewrite it when the database is lost.
func (s *Store) LoadEvictions(ctx context.Context) (*evict.Journal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	err := s.sound(ctx, func() error {
		return s.transact(ctx, func(tx *sql.Tx) error { return s.loadEvictions(ctx, tx) })
	})
	return s.journal, err
}

func (s *Store) loadEvictions(ctx context.Context, tx db.DBTX) error {
	f, told, err := openEvictions(s.journals)
	if err != nil {
		return err
	}
	s.unreadable("the journal of evictions", f.damaged, f.Path)
	j, err := f.with(ctx, s.q, tx, told, s.opts.Now())
	if err != nil {
		return err
	}
	s.journal, s.evictions = j, f
	if f.stale && f.damaged == 0 {
		s.log.Warn("the journal of evictions lacks rows that the database has: rewritten", "file", f.Path)
	}
	if f.behind && !told.Blank() {
		s.log.Warn("the database lacks evictions that the journal has: they continue from the journal", "evictions", len(told.Evictions), "file", f.Path)
	}
	return nil
}

// keepEvictions rewrites the journal of evictions where necessary, once a
// snapshot tells the cluster's name.
func (s *Store) keepEvictions(ctx context.Context, cluster string) error {
	f := s.evictions
	switch {
	case f == nil: // no evictions are asked for
	case f.head.Cluster != "" && cluster != "" && f.head.Cluster != cluster:
		return s.refuseEvictions(ctx, f.head.Cluster, cluster)
	case f.stale:
		return f.rewrite(s.journal, cluster)
	case f.lost():
		if err := s.spoiledEvictions(); err != nil {
			return err
		}
		return f.rewrite(s.journal, cluster)
	}
	return nil
}

// spoiledEvictions keeps the file that replaced a journal that was deleted or
// changed while priod ran, and says so.
func (s *Store) spoiledEvictions() (err error) {
	if err := s.owns(); err != nil { // it may be the successor that changed it
		return err
	}
	f, aside := s.evictions, ""
	if lines.Exists(f.Path) {
		if aside, err = f.SetAside(); err != nil {
			return inJournal(err)
		}
	}
	s.mended("the journal of evictions was deleted or changed while priod ran: rewritten from memory, nothing is lost", "file", f.Path, "aside", aside)
	return nil
}

// catchUp gives a database that lacks evictions all that are known, once it has the
// jobs of a snapshot. What cannot be written now can be later: the journal has it.
func (s *Store) catchUp(ctx context.Context) {
	if s.evictions == nil || !s.evictions.behind || s.evictions.turn == 0 {
		return
	}
	if err := s.saveEvictions(context.WithoutCancel(ctx), &evict.Changes{}); err != nil {
		s.log.Warn("the evictions that the database lacks could not be written into it yet", "error", s.explain(err))
	}
}

// refuseEvictions gives up a cycle that rests on another cluster's journal.
func (s *Store) refuseEvictions(ctx context.Context, was, cluster string) error {
	f := s.evictions
	aside, err := f.SetAside()
	if err == nil {
		err = os.Remove(f.Path)
	}
	if err != nil {
		return fmt.Errorf("journal of evictions: %w", err)
	}
	stored, err := journalOf(ctx, s.q, s.db, s.opts.Now())
	if err != nil {
		return err
	}
	*s.journal = *stored // the daemon's, too
	s.evictions = &evictionFile{File: lines.File{Path: f.Path}, stale: !stored.Blank()}
	s.mended("the journal of evictions belongs to another cluster: set aside and ignored", "cluster", cluster, "its cluster", was, "aside", aside)
	return fmt.Errorf("%s was cluster %s's and this is %s: the next cycle decides without it", f.Path, was, cluster)
}

// journalOf reads the journal as far as it is still of use.
func journalOf(ctx context.Context, q *db.Queries, tx db.DBTX, now time.Time) (*evict.Journal, error) {
	j, since := evict.NewJournal(), millis(now.Add(-evict.Memory))
	last, err := q.LastEvictionKeys(ctx, tx)
	if err != nil {
		return nil, err
	}
	j.LastClaim, j.LastEviction = last.Claim, last.Eviction
	claims, err := q.ClaimsAfter(ctx, tx, since)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		c := claimOf(&claims[i].Claim, jobID(claims[i].ID, claims[i].Task))
		c.User = claims[i].User
		j.Claims = append(j.Claims, c)
	}
	evictions, err := q.EvictionsAfter(ctx, tx, since)
	if err != nil {
		return nil, err
	}
	for i := range evictions {
		e := evictionOf(&evictions[i].Eviction, jobID(evictions[i].ID, evictions[i].Task))
		e.User = evictions[i].User
		j.Evictions = append(j.Evictions, e)
	}
	times, err := q.TimesEvicted(ctx, tx, since)
	for _, t := range times {
		j.Times[jobID(t.ID, t.Task)] = int(t.Times)
	}
	return j, err
}

// SaveEvictions appends the rows of a turn to evictions.jsonl and commits them, and
// what it is about to write into jobs' requests to the undo journal. After an error
// none of its commands may be sent.
func (s *Store) SaveEvictions(ctx context.Context, t *evict.Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if err := s.owns(); err != nil {
		return err
	}
	pins := s.pins(t)
	if len(pins) > 0 {
		if err := s.startActing(); err != nil {
			return err
		}
		defer s.stopActing()
		if err := s.undo.Append(pins); err != nil {
			return err
		}
	}
	f := s.evictions
	if f.lost() {
		if err := s.spoiledEvictions(); err != nil {
			return err
		}
	}
	if err := f.append(s.journal, t, s.stored.summary.Cluster); err != nil {
		return err
	}
	if err := s.owns(); err != nil { // the host that took over may have read the lines
		return err
	}
	err := s.sound(ctx, func() error { return s.saveEvictions(ctx, t) })
	if err != nil {
		err = errors.Join(err, f.takeBack())
	}
	return err
}

// pins are the undo lines of claims that name their place in the job's request,
// or take that back.
func (s *Store) pins(t *evict.Changes) (pins []*undo.Change) {
	for i := range t.Claims {
		c, was := &t.Claims[i], ""
		if old := s.journal.Claim(c.Number); old != nil {
			was = old.Pin
		}
		if c.Pin == was {
			continue
		}
		line := &undo.Change{Time: c.Changed.UTC(), Job: c.Job, User: c.User, Lever: slurmplug.ReqNodeList, From: slurmplug.Text(was), To: slurmplug.Text(c.Pin)}
		e := cmp.Or(s.stored.jobs[c.Job], s.stored.jobs[slurmplug.Plain(c.Job.ID)]) // a task that has no record yet is its array's
		if e != nil && e.named() {
			line.Submit = instant(e.submit)
		}
		pins = append(pins, line)
	}
	return pins
}

func (s *Store) saveEvictions(ctx context.Context, t *evict.Changes) error {
	f, turns := s.evictions, []*evict.Changes{t}
	if f.behind {
		all := &evict.Changes{Claims: s.journal.Claims}
		for _, e := range s.journal.Evictions {
			if s.journal.Claim(e.Claim) != nil { // else both ended long ago
				all.Evictions = append(all.Evictions, e)
			}
		}
		turns = []*evict.Changes{all, t}
	}
	err := s.transact(ctx, func(tx *sql.Tx) error {
		for _, t := range turns {
			if err := every(t.Claims, func(c *evict.Claim) error { return s.saveClaim(ctx, tx, c) }); err != nil {
				return err
			}
			if err := every(t.Evictions, func(e *evict.Eviction) error { return s.saveEviction(ctx, tx, e) }); err != nil {
				return err
			}
		}
		return s.q.PutEvictionTurn(ctx, tx, db.PutEvictionTurnParams{Journal: f.head.Journal, Turn: f.turn})
	})
	f.behind = f.behind && err != nil
	return err
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
		Claim: c.Number, Job: job, Cycle: s.stored.cycle, State: string(c.State), Reason: c.Reason,
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

func claimOf(r *db.Claim, id cluster.JobID) evict.Claim {
	c := evict.Claim{
		Number: r.Claim, Purpose: evict.Purpose(r.Purpose), Job: id, RawID: uint32(r.RawID), GPUs: int(r.Gpus), Wait: time.Duration(r.WaitMs) * time.Millisecond,
		State: evict.ClaimState(r.State), Reason: r.Reason, Pin: r.Pin, Resv: r.Resv, ResvAt: instant(r.ResvMs),
		At: instant(r.AtMs), Changed: instant(r.ChangedMs), Room: instant(r.RoomMs), Ended: instant(r.EndedMs),
	}
	_ = json.Unmarshal([]byte(r.Shares), &c.Shares) // saveClaim wrote it
	return c
}

func evictionOf(r *db.Eviction, id cluster.JobID) evict.Eviction {
	return evict.Eviction{
		Number: r.Eviction, Claim: r.Claim, Job: id, RawID: uint32(r.RawID), Start: instant(r.StartMs), Restarts: int(r.Restarts),
		GPUs: int(r.Gpus), Signal: r.Signal, Grace: time.Duration(r.GraceMs) * time.Millisecond, Eligible: instant(r.EligibleMs),
		Unsaved: time.Duration(r.UnsavedMs) * time.Millisecond, Restart: time.Duration(r.RestartMs) * time.Millisecond,
		Promised: r.CostPromised, Paid: r.CostPaid, State: evict.State(r.State), Reason: r.Reason, How: evict.How(r.How),
		ExitCode: int(r.ExitCode), ExitSignal: int(r.ExitSignal), Tries: int(r.Tries),
		At: instant(r.RecordedMs), SignalledAt: instant(r.SignalledMs), LeftAt: instant(r.LeftMs),
		RequeuedAt: instant(r.RequeuedMs), RestoredAt: instant(r.RestoredMs), Ended: instant(r.EndedMs),
	}
}

// OpenEvictions returns the journal that the daemon of a state folder, and of a folder of
// journals, would load, also where its database is gone, and changes nothing.
func OpenEvictions(ctx context.Context, dir, journals string) (*evict.Journal, error) {
	f, told, err := openEvictions(journals)
	if err != nil || !lines.Exists(databasePath(dir)) {
		return told, err
	}
	r, err := OpenReader(ctx, dir)
	if err == nil {
		defer r.Close()
		err = r.view(ctx, func(tx *sql.Tx) (err error) {
			told, err = f.with(ctx, r.q, tx, told, time.Now())
			return err
		})
	}
	if err != nil && !told.Blank() {
		return told, nil
	}
	return told, err
}

// with is the journal to continue with, from the file and the database.
func (f *evictionFile) with(ctx context.Context, q *db.Queries, tx db.DBTX, told *evict.Journal, now time.Time) (*evict.Journal, error) {
	stored, err := journalOf(ctx, q, tx, now)
	if err != nil {
		return told, err
	}
	turn, err := q.EvictionTurn(ctx, tx, f.head.Journal)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return told, err
	}
	return f.reconcile(told, stored, turn), nil
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
	Recorded      time.Time     `json:"recorded"`
	Signalled     time.Time     `json:"signalled,omitzero"`
	Left          time.Time     `json:"left,omitzero"`
	Requeued      time.Time     `json:"requeued,omitzero"`
	Restored      time.Time     `json:"restored,omitzero"`
	Ended         time.Time     `json:"ended,omitzero"`
	Claim         int64         `json:"claim"`
	Purpose       string        `json:"purpose"` // te, round, gang
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
		Recorded: instant(e.RecordedMs), Signalled: instant(e.SignalledMs), Left: instant(e.LeftMs), Requeued: instant(e.RequeuedMs),
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
