package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
)

// Load returns what an earlier priod knew, as if it had never stopped. Writes
// whose outcome it did not take down count as tried. The store follows the
// returned History: it must be the one that the cycles use. What the journal tells of jobs that the database does not know, History
// asks for when it sees them.
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
		s.know(s.newLoader(nil))
	}
	return s.history, nil
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
		if behind := s.file.Behind(l.seen); behind != "" {
			s.log.Error("the journal is not the one that the database saw", "why", behind)
		}
		return s.q.DoubtWrites(ctx, tx, crashed)
	})
	if err == nil {
		s.unread = false
	}
	return err
}

func (s *Store) newLoader(tx db.DBTX) *loader {
	l := &loader{q: s.q, tx: tx, undo: s.undo, history: cluster.NewHistory()}
	l.stored.reset()
	return l
}

// know takes over what was loaded.
func (s *Store) know(l *loader) {
	if l.doubted > 0 {
		s.log.Warn("writes of the last run have no outcome: they count as tried", "jobs", l.doubted)
	}
	s.history, s.stored, s.unsaved = l.history, l.stored, unsaved{}
	s.history.Remember(s.recall)
	s.changes.reset()
}

// recall has History remember what priod wrote into a job that it does not know.
func (s *Store) recall(j *cluster.Job, inherits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo.Recall(s.history, j, inherits)
}

// loader reads History, and what the database holds, from one transaction.
type loader struct {
	q       *db.Queries
	tx      db.DBTX
	undo    *undo.Journal
	history *cluster.History
	stored  stored
	until   time.Time        // the last poll
	rows    map[int64]*entry // by row of jobs
	seen    int64            // records of the journal
	doubted int              // jobs with a write whose outcome is not known
}

func (l *loader) all(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		l.cycle, l.jobs, l.decisions, l.shares, l.nodes, l.remembered, l.intervals,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) cycle(ctx context.Context) error {
	last, err := l.q.LastKeys(ctx, l.tx)
	l.stored.row, l.stored.cycle, l.stored.polls, l.stored.write = last.Job, last.Cycle, last.Polls, last.Write
	l.until, l.seen = instant(last.UntilMs), last.Journal
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
		e.who = cluster.Identify(j.User, j.Submit)
		e.since = eligibleSince(&j, l.until)
		l.rows[e.row] = e
		l.history.Saw(&j)
		l.remember(e)
		if l.undo.Recall(l.history, &j, true) {
			l.doubted++
		}
	}
	for id := range l.history.Written {
		l.stored.entry(id)
	}
	for id := range l.history.Requests {
		l.stored.entry(id)
	}
	return nil
}

func (l *loader) decisions(ctx context.Context) error {
	decisions, err := l.q.DecisionsInQueue(ctx, l.tx)
	for i := range decisions {
		if e := l.rows[decisions[i].Job]; e != nil {
			d, _ := decisionOf(&decisions[i], e.id)
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

// remembered restores what the last decisions do not tell of jobs.
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
