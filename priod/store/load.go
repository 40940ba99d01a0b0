package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// Load returns what an earlier priod knew, as if it had never stopped. Writes
// whose outcome it did not take down count as tried. The store follows the
// returned History: it must be the one that the cycles use.
func (s *Store) Load(ctx context.Context) (*cluster.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	err := s.sound(ctx, func() error { return s.load(ctx) })
	if s.lack(err); err != nil {
		s.unread = true
		l := s.newLoader(nil)
		l.journal()
		s.know(l)
	}
	return s.history, s.rewriteUndo()
}

func (s *Store) load(ctx context.Context) error {
	if s.voids {
		if _, err := s.voidQueue(ctx); err != nil {
			return err
		}
	}
	err := s.transact(ctx, func(tx *sql.Tx) error {
		l := s.newLoader(tx)
		if err := l.all(ctx); err != nil {
			return err
		}
		s.know(l)
		for id := range l.tried {
			s.compareHistory(s.stored.entry(id))
		}
		if len(l.tried) > 0 {
			s.log.Warn("writes of the last run have no outcome: they count as tried", "jobs", len(l.tried))
		}
		return cmp.Or(s.putHistories(ctx, tx), s.q.DoubtWrites(ctx, tx, crashed))
	})
	if err == nil {
		s.historySaved()
		s.unread = false
	}
	return err
}

func (s *Store) newLoader(tx db.DBTX) *loader {
	l := &loader{q: s.q, tx: tx, undo: s.undo, void: s.void, history: cluster.NewHistory()}
	l.stored.reset()
	return l
}

// know takes over what was loaded.
func (s *Store) know(l *loader) {
	s.history, s.stored, s.unsaved = l.history, l.stored, unsaved{}
	s.history.Remember(s.former)
	s.changes.reset()
}

func (s *Store) former(j *cluster.Job) (cluster.Written, map[slurmplug.Lever]cluster.Requested) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.undo.Former(j)
}

// rewriteUndo adds to a journal that was deleted or cut off what the
// database knows.
func (s *Store) rewriteUndo() error {
	lost := s.undo.Lacking(s.history)
	if len(lost) == 0 {
		return nil
	}
	if err := s.startActing(); err != nil {
		return err
	}
	defer s.stopActing()
	s.log.Warn("the undo journal lacks changes that the database has: added", "changes", len(lost), "file", s.file.Path())
	for _, c := range lost {
		if e := s.stored.jobs[c.Job]; e != nil && e.named() {
			c.User, c.Submit = e.user.Value(), instant(e.submit)
		}
	}
	return s.undo.Append(lost)
}

// loader reads History, and what the database holds, from one transaction.
type loader struct {
	q       *db.Queries
	tx      db.DBTX
	undo    *undo.Journal
	void    void
	history *cluster.History
	stored  stored
	until   time.Time        // the last poll
	rows    map[int64]*entry // by row of jobs
	tried   map[cluster.JobID]bool
}

func (l *loader) all(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		l.cycle, l.jobs, l.decisions, l.shares, l.nodes, l.remembered, l.intervals, l.asked, l.planned,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	l.journal()
	return nil
}

func (l *loader) cycle(ctx context.Context) error {
	last, err := l.q.LastKeys(ctx, l.tx)
	l.stored.row, l.stored.cycle, l.stored.write, l.until = last.Job, last.Cycle, last.Write, instant(last.UntilMs)
	return err
}

func (l *loader) jobs(ctx context.Context) error {
	jobs, err := l.q.JobsInQueue(ctx, l.tx)
	if err != nil {
		return err
	}
	l.rows = make(map[int64]*entry, len(jobs))
	for i := range jobs {
		j := jobOf(&jobs[i])
		e := l.stored.entry(j.ID)
		e.row, e.seen = jobs[i].Job, l.stored.digester.job(&j)
		e.identify(j.User, j.Submit)
		e.since = eligibleSince(&j, l.until)
		l.rows[e.row] = e
		l.history.Saw(&j)
		l.remember(e)
		if _, requests := l.undo.Former(&j); requests != nil {
			l.history.Requests[j.ID] = requests
		}
	}
	return nil
}

func (l *loader) decisions(ctx context.Context) error {
	decisions, err := l.q.DecisionsInQueue(ctx, l.tx)
	for i := range decisions {
		if e := l.rows[decisions[i].Job]; e != nil {
			d := decisionOf(&decisions[i], e.id)
			e.decided = l.stored.digester.decision(&d, decisions[i].Counted)
			e.since, e.counted = decisions[i].SinceMs, decisions[i].Counted
			l.remember(e)
		}
	}
	return err
}

// remember restores since when a job could run, and the class under which it was last ranked.
func (l *loader) remember(e *entry) {
	l.history.FirstEligible.Delete(e.id)
	if e.since != 0 {
		l.history.FirstEligible.Set(e.id, instant(e.since))
	}
	l.history.Counted.Delete(e.id)
	if e.counted != "" {
		l.history.Counted.Set(e.id, classOf(e.counted))
	}
}

// shares that are stored: the first cycle rewrites them.
func (l *loader) shares(ctx context.Context) error {
	rows, err := l.q.SharedInQueue(ctx, l.tx)
	for _, row := range rows {
		if e := l.rows[row]; e != nil {
			e.shared = 2 // no digest is even
		}
	}
	return err
}

func (l *loader) nodes(ctx context.Context) error {
	nodes, err := l.q.AllNodes(ctx, l.tx)
	for i := range nodes {
		n := nodeOf(&nodes[i])
		l.stored.nodes[n.Name] = &nodeEntry{seen: l.stored.digester.node(&n)}
	}
	return err
}

// remembered restores History's maps.
func (l *loader) remembered(ctx context.Context) error {
	rows, err := l.q.AllHistory(ctx, l.tx)
	if err != nil {
		return err
	}
	for i := range rows {
		r, id := &rows[i], jobID(rows[i].ID, rows[i].Task)
		e := l.stored.entry(id)
		e.known = digest(&l.stored.digester, db.PutHistoryParams(*r))
		l.remember(&entry{id: id, since: r.FirstEligibleMs, counted: r.Counted})
		if w := writtenOf(r); w.Lever != "" && !l.undo.WasTakenBack(id, w.Lever, w.At) {
			w.Older = l.undo.Older(id)
			l.history.Written[id] = w
		}
	}
	return nil
}

func (l *loader) intervals(ctx context.Context) error {
	last, err := l.q.LastCycle(ctx, l.tx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	l.stored.summary = summaryOf(&last)
	open, err := l.q.OpenIntervals(ctx, l.tx)
	if err != nil {
		return err
	}
	for i := range open {
		r := &open[i]
		interval := intervalOf(&r.Interval, jobID(r.ID, r.Task), last.UntilMs)
		l.history.Restore(interval)
		if e := l.rows[r.Interval.Job]; e != nil {
			e.open = &openStay{Stay: interval, running: r.Interval.Running, saved: true}
		}
	}
	until := min(last.UntilMs, millis(time.Now())) // the clock may have been ahead
	closed, err := l.q.ClosedIntervals(ctx, l.tx, until-cluster.UsePeriod.Milliseconds())
	for i := range closed {
		r := &closed[i]
		l.history.Restore(intervalOf(&r.Interval, jobID(r.ID, r.Task), last.UntilMs))
	}
	return err
}

// asked takes in what was written into requests: the database knows what became
// of it, the journal what was there first when the database was started over.
func (l *loader) asked(ctx context.Context) error {
	writes, err := l.q.RequestWrites(ctx, l.tx)
	if err != nil {
		return err
	}
	told := cluster.NewHistory()
	for i := range writes {
		r := &writes[i]
		a := actionOf(&r.Write, jobID(r.ID, r.JobTask))
		if r.Write.Cycle <= l.void.After {
			continue // another host's priod has written since, says the journal
		}
		at := instant(r.Write.AtMs)
		status := slurmplug.Status(r.Write.Status)
		sure, doubt := status == slurmplug.Applied, status == slurmplug.Unknown || status == Planned
		for _, id := range a.Jobs() {
			if l.undo.WasTakenBack(id, a.Lever, at) {
				continue
			}
			if a.Lever == slurmplug.Size && l.thisRun(id, at) {
				switch {
				case status == slurmplug.Refused:
					l.history.SizeRefused(id, r.Write.Message, at)
				case sure || doubt:
					l.history.Sized(id, a.Reason == plan.SizeRests, a.Reason == plan.SizeAhead, at)
				}
			}
			if !sure && !doubt {
				continue
			}
			was := a.Before
			before, known := told.Requests[id][a.Lever]
			if !known { // a task that was split off since
				before, known = told.Requests[slurmplug.Plain(id.ID)][a.Lever]
			}
			if known && !before.Theirs(a.Before) {
				was = before.Was
			}
			told.Asked(id, a.Lever, was, a.After, sure, at)
		}
	}
	for id, requests := range told.Requests {
		journalled := l.journalled(id)
		for lever, r := range requests {
			if known, journal := journalled[lever]; journal {
				r = together(r, known)
			}
			l.history.SetRequest(id, lever, r)
		}
	}
	return nil
}

// together is what the database and the journal tell about one field: what was written last,
// and what was there first, where one of the two took a value of priod's for the user's.
func together(r, known cluster.Requested) cluster.Requested {
	if r.Was == known.Was {
		return r
	}
	last, first := r, known
	if !r.At.After(known.At) {
		last, first = known, r
	}
	was := last.Was
	switch {
	case known.Ours(r.Was):
		if was = known.Was; !known.Ours(r.Value) { // written over what the journal tells, whatever the clocks said
			last, first = r, known
		}
	case r.Ours(known.Was):
		was = r.Was
	}
	if was != last.Was {
		last.Was, last.Older = was, slices.Concat(first.Older, []slurmplug.Value{first.Value}, last.Older)
	}
	return last
}

// journalled is what the journal told about the request of a job, or of a task that has no
// record in the database yet: the last write has split it off its array.
func (l *loader) journalled(id cluster.JobID) map[slurmplug.Lever]cluster.Requested {
	array := l.stored.jobs[slurmplug.Plain(id.ID)]
	if l.history.Requests[id] != nil || array == nil || !array.named() {
		return l.history.Requests[id]
	}
	_, requests := l.undo.Former(&cluster.Job{ID: id, User: array.user.Value(), Submit: instant(array.submit)})
	return requests
}

// thisRun reports whether a job has not been put back into the queue since a time, as far
// as its record tells: what became of a size then says nothing about the next run.
func (l *loader) thisRun(id cluster.JobID, at time.Time) bool {
	e := l.stored.jobs[id]
	return e == nil || !at.Before(instant(e.submit))
}

// planned takes in the writes that a crash left without an outcome.
func (l *loader) planned(ctx context.Context) error {
	writes, err := l.q.PlannedWrites(ctx, l.tx)
	if err != nil {
		return err
	}
	l.tried = map[cluster.JobID]bool{}
	for i := range writes {
		r := &writes[i]
		a := actionOf(&r.Write, jobID(r.ID, r.JobTask))
		if !a.Lever.Ranks() {
			continue // asked has it
		}
		for _, id := range a.Jobs() {
			if l.undo.WasTakenBack(id, a.Lever, instant(r.Write.AtMs)) {
				continue
			}
			w := order.Effect(a, l.history)
			w.At = instant(r.Write.AtMs)
			l.history.Try(id, w)
			l.tried[id] = true
		}
	}
	return nil
}

// journal stands in for a database that is lost, or void after a take-over.
func (l *loader) journal() {
	if l.stored.cycle != 0 && !l.void.Now {
		return
	}
	l.undo.Recall(l.history, func(id cluster.JobID, c *undo.Change) { l.stored.entry(id).identify(c.User, c.Submit) })
}

func summaryOf(r *db.Cycle) db.AddCycleParams {
	return db.AddCycleParams{
		Cluster: r.Cluster, Mode: r.Mode, BandLo: r.BandLo, BandHi: r.BandHi, BandStep: r.BandStep,
		Jobs: r.Jobs, Pending: r.Pending, Running: r.Running, Nodes: r.Nodes, Ranked: r.Ranked, Te: r.Te,
		Actions: r.Actions, Renumbered: r.Renumbered, Hold: r.Hold, Notes: r.Notes,
	}
}

func notesOf(text string) []string {
	var notes []string
	_ = json.Unmarshal([]byte(text), &notes) // summarize wrote it
	return notes
}
