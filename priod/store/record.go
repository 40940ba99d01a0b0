package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// Planned is the status of a write that has not gone out, or whose outcome
// is not recorded yet.
const Planned slurmplug.Status = "planned"

// Why a write's outcome is not known.
const (
	noOutcome = "no outcome was reported"
	crashed   = "priod ended before the outcome was known"
)

// unsaved is what was told once and has no row yet.
type unsaved struct {
	closed []endedStay
	ended  []*entry     // jobs whose id another one has now
	writes []*openWrite // without a row, or with one that lacks the outcome
	waits  []*plan.Wait // by key
}

// maxUnsaved is how many writes wait for rows at most, while the database cannot be written.
const maxUnsaved = 100_000

// openWrite is one that was decided on, and what became of it.
type openWrite struct {
	action  plan.Action
	entry   *entry
	at      time.Time
	row     int64 // 0: it has none yet
	status  slurmplug.Status
	message string
}

// observed is what Observed does meanwhile, for the most of which it holds Store.mu.
type observed struct {
	snapshot *cluster.Snapshot
	compared chan struct{} // closed once changes tell what changed of jobs and nodes
	ended    chan struct{} // closed at the end, where mu passes to Planned
	passed   atomic.Bool   // to Planned, or at the end to all
	saved    bool          // the database holds what saveSeen wrote
	failed   error         // another program held the database for as long as a transaction waits
}

// Observed begins to record what a poll showed, while the cycle decides: jobs, nodes, and stays
// on GPUs that began or ended, for which it waits. Planned waits for that, and records what was
// not recorded here. It follows the History that Load returned.
func (s *Store) Observed(ctx context.Context, snap *cluster.Snapshot, stays func() []cluster.Stay) {
	s.mu.Lock()
	digester, none := s.stored.digester, s.history == nil
	s.mu.Unlock()
	if none {
		return
	}
	o := &observed{snapshot: snap, compared: make(chan struct{}), ended: make(chan struct{})}
	s.observed = o
	go func() {
		digests, stays := digester.jobs(snap), stays() // History asks the store for stays
		s.mu.Lock()
		defer func() {
			if o.passed.CompareAndSwap(false, true) {
				s.keepSaved(o)
				s.mu.Unlock()
			} else {
				close(o.ended)
			}
		}()
		s.noteStays(snap, stays)
		s.compareSeen(snap, digests)
		close(o.compared)
		if s.changes.sawNone() && len(s.unsaved.closed)+len(s.unsaved.ended) == 0 || s.intact() != nil || s.unread {
			return
		}
		ctx := context.WithoutCancel(ctx)
		err := s.transact(ctx, func(tx *sql.Tx) error { return s.saveSeen(ctx, tx, snap.At) })
		if o.saved = err == nil; isLocked(err) { // any other error Planned meets in the same way
			o.failed = err
		}
	}()
}

// compareBesideObserved takes Store.mu, and compares what the cycle decided while Observed still
// writes what it saw. It reports whether it did: where Observed has ended there is no hurry.
// The error is Observed's, of a locked database.
func (s *Store) compareBesideObserved(seen *plan.Seen) (compared bool, failed error) {
	o := s.observed
	if s.observed = nil; o == nil || o.snapshot != seen.Snapshot {
		s.mu.Lock()
		return false, nil
	}
	if !o.passed.CompareAndSwap(false, true) {
		s.mu.Lock()
		return false, o.failed
	}
	<-o.compared
	s.disownOthers()
	s.compareDecided(seen)
	<-o.ended
	s.keepSaved(o)
	return true, o.failed
}

// keepSaved records what Observed wrote.
func (s *Store) keepSaved(o *observed) {
	if o.saved {
		s.savedSeen()
		s.changes.saw = true
	}
}

// Planned appends the writes that a cycle is about to make to the journal, and records what it saw and decided in the
// database. It follows the History that Load returned. After an error nothing may be written to Slurm. That the database cannot be
// written is no error: the plan gets a note, and a later call records what this one could not.
func (s *Store) Planned(ctx context.Context, seen plan.Seen) (err error) {
	compared, failed := s.compareBesideObserved(&seen)
	defer s.mu.Unlock()
	if s.history == nil {
		return errors.New("store: Planned needs the History that Load returns")
	}
	s.stopActing()
	s.doubt()
	s.noteStays(seen.Snapshot, seen.Stays)
	if s.changes.of != seen.Snapshot {
		s.compareSeen(seen.Snapshot, s.stored.digester.jobs(seen.Snapshot))
		compared = false
	}
	if !compared {
		s.disownOthers()
		s.compareDecided(&seen)
	}
	defer func() { // lets go of the snapshot before the next one is read
		s.changes.reset()
		s.noted = nil
	}()
	if err := s.owns(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.keepJournal(); err != nil {
		return err
	}
	if err := s.keepCluster(seen.Snapshot.Cluster); err != nil {
		return err
	}
	if err := s.tidyJournal(); err != nil {
		return err
	}
	if seen.Hold == "" && len(seen.Plan.Actions) > 0 {
		if err := s.prepare(&seen); err != nil {
			s.stopActing()
			return err
		}
	} else if s.undo.Noticed() {
		if err := s.undo.Append(nil, s.changes.known...); err != nil {
			return err
		}
	}
	s.record(context.WithoutCancel(ctx), &seen, failed)
	return nil
}

// prepare keeps others from changing jobs until Done, and appends the writes to come to the journal.
func (s *Store) prepare(seen *plan.Seen) error {
	if err := s.startActing(); err != nil {
		return err
	}
	if hold, err := s.hold(); err != nil {
		return err
	} else if hold != "" {
		return fmt.Errorf("%w, since it began priod was %s", ErrGaveWay, hold)
	}
	if err := s.noticeReset(); err != nil {
		return err
	}
	at := seen.Snapshot.At
	writes, lines := make([]*openWrite, len(seen.Plan.Actions)), make([]*undo.Change, len(seen.Plan.Actions))
	for i, a := range seen.Plan.Actions {
		e := s.stored.jobs[a.Job]
		if e == nil || e.poll != s.stored.poll {
			return fmt.Errorf("the plan changes job %s, which the snapshot does not hold", a.Job)
		}
		writes[i] = &openWrite{action: a, entry: e, at: at, status: Planned}
		lines[i] = s.undo.Line(a, &seen.Snapshot.Jobs[e.at], at)
		lines[i].User, lines[i].Submit = e.who.User(), e.who.Submit()
	}
	if err := cmp.Or(s.undo.Append(lines, s.changes.known...), s.owns()); err != nil { // the host that took over may have read the lines
		return err
	}
	s.unsaved.writes = append(s.unsaved.writes, writes...)
	if over := len(s.unsaved.writes) - maxUnsaved; over > 0 {
		s.log.Warn("the database misses writes for good: too many wait until it can be written", "writes", over)
		s.unsaved.writes = slices.Delete(s.unsaved.writes, 0, over)
	}
	return nil
}

// record brings the database up to date, unless that has failed already: a second wait would delay the cycle as long again.
func (s *Store) record(ctx context.Context, seen *plan.Seen, failed error) {
	err := cmp.Or(s.intact(), failed)
	again := func() {
		s.compareSeen(seen.Snapshot, s.stored.digester.jobs(seen.Snapshot))
		s.compareDecided(seen)
	}
	if err == nil && s.unread {
		if err = s.endUnread(ctx); err == nil {
			again()
		}
	}
	if err == nil {
		err = s.save(ctx, seen)
	}
	if isBroken(err) {
		if err = s.startAnew(ctx, err); err == nil {
			again()
			err = s.save(ctx, seen)
		}
	}
	if err == nil {
		s.catchUp(ctx)
	}
	if s.lack(err); err != nil {
		seen.Plan.Note(plan.HistoryUnrecorded, 1, "history is not recorded: %s", s.unrecorded)
	}
}

// doubt marks the writes of a cycle that never came to Done.
func (s *Store) doubt() {
	for _, w := range s.unsaved.writes {
		if w.status == Planned {
			w.status, w.message = slurmplug.Unknown, noOutcome
		}
	}
}

// disownOthers drops from the journal what is of earlier jobs whose ids are in use again; History has dropped it already.
func (s *Store) disownOthers() {
	others := s.changes.others
	if len(others) == 0 {
		return
	}
	for _, j := range others {
		s.undo.Disown(j)
	}
	s.log.Warn("job ids are in use again: what was known of the earlier jobs is dropped", "jobs", len(others), "first", others[0].ID)
}

// keepJournal takes in what priod reset appended to the journal, and writes one that was deleted or spoiled again from memory;
// also in a cycle that writes nothing, because reset needs it at any time.
func (s *Store) keepJournal() error {
	if err := s.keepLock(); err != nil {
		return err
	}
	err := s.file.Follow()
	if !errors.Is(err, journal.ErrLost) {
		return err
	}
	if err := s.owns(); err != nil { // it may be the successor that replaced it
		return err
	}
	aside, err := s.file.Restore()
	if err != nil {
		return err
	}
	s.mended("the journal was deleted or changed while priod ran: rewritten from memory, nothing is lost", "file", s.file.Path(), "aside", aside)
	return nil
}

// keepCluster gives up a cycle that rests on another cluster's evictions, once a snapshot tells the cluster's name.
func (s *Store) keepCluster(cluster string) error {
	was := s.file.Cluster()
	if cluster == "" || cluster == was {
		return nil
	}
	s.file.Of(cluster)
	if was == "" {
		return nil
	}
	*s.turns.journal = *evict.NewJournal() // the daemon's, too
	aside, err := s.file.Restore()
	if err != nil {
		return err
	}
	s.mended("the journal belongs to another cluster: its evictions are ignored", "cluster", cluster, "its cluster", was, "aside", aside)
	return fmt.Errorf("%s was cluster %s's and this is %s: the next cycle decides without its evictions", s.file.Path(), was, cluster)
}

// tidyJournal writes a long or damaged journal anew, without what is of jobs that are gone.
func (s *Store) tidyJournal() error {
	if !s.file.Long() && s.file.Damaged() == 0 {
		return nil
	}
	present := s.stored.present()
	s.undo.Forget(func(id uint32) bool { return !present(id) })
	return s.file.Rewrite()
}

// noticeReset gives up a cycle whose values another process took back.
func (s *Store) noticeReset() error {
	noticed, values, err := s.undo.NoticeReset(s.history)
	if err != nil || !noticed {
		return err
	}
	return fmt.Errorf("%w, a reset took place: %d values count as reverted and the next cycle decides again", ErrGaveWay, values)
}

// save is one transaction. A context that ends would cost the connection.
func (s *Store) save(ctx context.Context, seen *plan.Seen) error {
	at, number := seen.Snapshot.At, s.stored.number()+1
	if s.quiet() && s.noteWaits(seen.Waits) {
		err := s.q.ExtendCycle(ctx, s.rows(), db.ExtendCycleParams{UntilMs: millis(at), Journal: s.file.Number(), Cycle: s.stored.cycle})
		if err == nil {
			s.stored.polls++
		}
		return err
	}
	err := s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.saveSeen(ctx, tx, at); err != nil {
			return err
		}
		if err := s.saveDecided(ctx, tx, number, seen); err != nil {
			return err
		}
		row := s.changes.summary
		row.Cycle, row.AtMs, row.Span, row.Journal = number, millis(at), seen.Snapshot.Multifactor.Span, s.file.Number()
		if err := s.q.AddCycle(ctx, tx, row); err != nil {
			return err
		}
		return s.saveWrites(ctx, tx, number)
	})
	if err == nil {
		s.committed(number)
	}
	return err
}

// quiet reports whether the last row of cycles can stand for this one too, unless waits changed.
func (s *Store) quiet() bool {
	u := &s.unsaved
	return s.changes.none() && len(u.closed)+len(u.ended)+len(u.writes) == 0 && s.stored.summary == s.changes.summary
}

// saveSeen writes jobs, nodes and intervals.
func (s *Store) saveSeen(ctx context.Context, tx *sql.Tx, at time.Time) error {
	c := &s.changes
	err := eachRow(ctx, tx, c.jobs, func(to *statements, j *change[entry, cluster.Job]) error {
		row := jobParams(j.now, j.entry.row, at)
		return to.add(db.PutJobText, &row)
	})
	if err != nil {
		return err
	}
	err = eachRow(ctx, tx, c.open, func(to *statements, e **entry) error {
		row := intervalParams(&(*e).open.Stay, (*e).row, (*e).open.running)
		return to.add(db.PutIntervalText, &row)
	})
	if err != nil {
		return err
	}
	err = eachRow(ctx, tx, c.nodes, func(to *statements, n *change[nodeEntry, cluster.Node]) error {
		row := nodeParams(n.now, at)
		return to.add(db.PutNodeText, &row)
	})
	if err != nil {
		return err
	}
	for _, list := range [][]*entry{c.left, s.unsaved.ended} {
		for _, e := range list {
			if e.seen != 0 {
				if err := s.q.JobLeft(ctx, tx, db.JobLeftParams{AtMs: millis(at), Job: e.row}); err != nil {
					return err
				}
			}
			if e.known != 0 {
				if err := s.q.DropHistory(ctx, tx, dropParams(e)); err != nil {
					return err
				}
			}
		}
	}
	for i := range s.unsaved.closed {
		if err := s.saveClosed(ctx, tx, &s.unsaved.closed[i], at); err != nil {
			return err
		}
	}
	return every(c.nodesLeft, func(name *string) error { return s.q.DropNode(ctx, tx, *name) })
}

// saveClosed writes an interval that ended. Its job may have left long ago, when
// accounting tells of the run, or have come and gone while the database could
// not be written; without a row of its own it gets one of what the interval tells.
func (s *Store) saveClosed(ctx context.Context, tx db.DBTX, i *endedStay, at time.Time) error {
	e := i.entry
	if e.seen != 0 || e.poll == s.stored.poll {
		return s.q.PutInterval(ctx, tx, intervalParams(&i.Stay, e.row, false))
	}
	row, err := s.q.JobOfRun(ctx, tx, db.JobOfRunParams{
		ID: int64(e.id.ID), Task: int64(e.id.Task), User: i.User, StartMs: millis(i.Start),
	})
	if errors.Is(err, sql.ErrNoRows) {
		if i.row == 0 {
			s.stored.row++
			i.row = s.stored.row
		}
		row = i.row
		params := jobParams(&cluster.Job{
			ID: e.id, TaskCount: 1, User: i.User, Account: i.Account, GPUs: i.GPUs, GPUType: i.GPUType,
			Submit: i.Start, Start: i.Start, Restarts: i.Restarts,
		}, row, at)
		params.LeftMs = params.AtMs
		err = s.q.PutJob(ctx, tx, params)
	}
	if err != nil {
		return err
	}
	return s.q.PutInterval(ctx, tx, intervalParams(&i.Stay, row, false))
}

// saveDecided writes decisions, shares, waits and what History holds.
func (s *Store) saveDecided(ctx context.Context, tx db.DBTX, number int64, seen *plan.Seen) error {
	if err := s.putHistories(ctx, tx); err != nil {
		return err
	}
	err := eachRow(ctx, tx, s.changes.decisions, func(to *statements, d *change[entry, plan.Decision]) error {
		row := decisionParams(d.now, d.entry.counted, d.entry.row, number, seen.Snapshot.At)
		row.Choices = choicesText(&d.now.Choices)
		return to.add(db.AddDecisionText, &row)
	})
	if err != nil {
		return err
	}
	if err := s.saveShares(ctx, tx, number, seen); err != nil {
		return err
	}
	s.noteWaits(seen.Waits) // the last, as they are found out meanwhile
	return s.saveWaits(ctx, tx)
}

// putHistories brings table history to what History holds.
func (s *Store) putHistories(ctx context.Context, tx db.DBTX) error {
	return eachRow(ctx, tx, s.changes.history, func(to *statements, k *change[entry, cluster.History]) error {
		if row, known := historyParams(k.now, k.entry); known {
			return to.add(db.PutHistoryText, &row)
		}
		row := dropParams(k.entry)
		return to.add(db.DropHistoryText, &row)
	})
}

// historySaved records that putHistories' rows were committed.
func (s *Store) historySaved() {
	for _, k := range s.changes.history {
		k.entry.known = k.digest
	}
}

// dropParams are those of DropHistory for a job.
func dropParams(e *entry) db.DropHistoryParams {
	return db.DropHistoryParams{ID: int64(e.id.ID), Task: int64(e.id.Task)}
}

// saveWrites writes the rows of the writes to come, and what became of those before. One to a job that left before the
// database knew it gets none.
func (s *Store) saveWrites(ctx context.Context, tx db.DBTX, cycle int64) error {
	var rows, ends statements
	next := s.stored.write
	for _, w := range s.unsaved.writes {
		if w.row > s.stored.write {
			w.row = 0 // that was not committed
		}
		if e := w.entry; w.row == 0 && (e.seen != 0 || e.due == s.stored.poll) {
			next++
			w.row = next
			err := rows.add(db.AddWriteText, &db.AddWriteParams{
				Write: w.row, Job: e.row, Cycle: cycle, AtMs: millis(w.at), Tasks: w.action.Tasks, Part: w.action.Part, Lever: string(w.action.Lever),
				Before: w.action.Before.String(), After: w.action.After.String(), UserNice: w.action.UserNice.String(), Reason: w.action.Reason,
			})
			if err != nil {
				return err
			}
		}
		if w.row != 0 && w.status != Planned {
			if err := ends.add(db.EndWriteText, &db.EndWriteParams{Status: string(w.status), Message: w.message, Write: w.row}); err != nil {
				return err
			}
		}
	}
	return cmp.Or(rows.run(ctx, tx), ends.run(ctx, tx))
}

// savedWrites records that saveWrites' rows were committed.
func (s *Store) savedWrites() {
	missed, last := 0, s.stored.write
	s.unsaved.writes = slices.DeleteFunc(s.unsaved.writes, func(w *openWrite) bool {
		if w.row == 0 {
			missed++
		}
		last = max(last, w.row)
		return w.row == 0 || w.status != Planned
	})
	if s.stored.write = last; missed > 0 {
		s.log.Warn("the database misses writes to jobs that left while it could not be written", "writes", missed)
	}
}

// savedSeen records that the database holds what saveSeen wrote.
func (s *Store) savedSeen() {
	h, c := &s.stored, &s.changes
	for _, e := range c.left {
		delete(h.jobs, e.id)
	}
	for _, j := range c.jobs {
		j.entry.seen = j.digest
	}
	for _, e := range c.open {
		e.open.saved = true
	}
	for _, n := range c.nodes {
		n.entry.seen = n.digest
	}
	for _, name := range c.nodesLeft {
		delete(h.nodes, name)
	}
	c.jobs, c.left, c.open, c.nodes, c.nodesLeft = empty(c.jobs), empty(c.left), empty(c.open), empty(c.nodes), empty(c.nodesLeft)
	s.unsaved.closed, s.unsaved.ended = nil, nil
}

// committed records what the database holds now.
func (s *Store) committed(number int64) {
	h, c := &s.stored, &s.changes
	s.savedSeen()
	s.historySaved()
	for _, d := range c.decisions {
		d.entry.decided = d.digest
	}
	for _, x := range c.shares {
		x.entry.shared = x.digest
	}
	s.savedWaits()
	s.savedWrites()
	h.cycle, h.polls, h.summary = number, 1, c.summary
	s.unsaved = unsaved{writes: s.unsaved.writes}
}

// Cycle is the number of the last cycle that was recorded; 0: there was none.
func (s *Store) Cycle() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored.number()
}

// EndReplay ends each row of cycles where the next one begins, since cycles that would change nothing are left out of a replay, and
// gives waits without an end their rows.
func (s *Store) EndReplay(ctx context.Context) error {
	return s.batch(ctx, func(tx db.DBTX) error {
		s.forgetWaits()
		return cmp.Or(s.q.ExtendCycles(ctx, tx), s.saveWaits(ctx, tx))
	})
}

// Done appends to the journal what History took in of the writes of the last Planned, and stores what became of them. Where the
// database cannot be written, a later cycle stores it.
func (s *Store) Done(ctx context.Context, outcomes []plan.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.stopActing()
	s.match(outcomes)
	s.changes.reset()
	var known []*undo.Known
	for i := range outcomes {
		for _, id := range outcomes[i].Jobs() {
			s.compareHistory(s.stored.entry(id))
			known = append(known, s.known(id))
		}
	}
	if s.owns() == nil { // else the host that took over tells of the jobs
		if err := s.undo.Append(nil, known...); err != nil {
			return err
		}
	}
	if s.unrecorded != nil {
		return nil
	}
	err := s.intact()
	if err == nil {
		ctx := context.WithoutCancel(ctx)
		err = s.transact(ctx, func(tx *sql.Tx) error {
			return cmp.Or(s.saveWrites(ctx, tx, s.stored.number()), s.putHistories(ctx, tx))
		})
	}
	switch {
	case err == nil:
		s.historySaved()
		s.savedWrites()
	case isBroken(err):
		err = s.startAnew(ctx, err) // the next cycle writes what History holds
	}
	s.lack(err)
	return nil
}

// match takes in outcomes; a write without one is in doubt.
func (s *Store) match(outcomes []plan.Outcome) {
	planned := map[plan.Action]*openWrite{}
	for _, w := range s.unsaved.writes {
		if w.status == Planned {
			planned[w.action] = w
		}
	}
	for i := range outcomes {
		o := &outcomes[i]
		if w := planned[o.Action]; w != nil {
			w.status, w.message = o.Status, o.Message
			delete(planned, o.Action)
		} else {
			s.log.Error("an outcome of a write that was not planned", "job", o.Job.String(), "lever", o.Lever)
		}
	}
	s.doubt()
}
