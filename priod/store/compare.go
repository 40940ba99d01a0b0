package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// changes are what a cycle has to write: the difference between what it saw
// and what the database holds.
type changes struct {
	jobs      []change[entry, cluster.Job]
	left      []*entry
	open      []*entry // whose open interval's row is out of date
	history   []change[entry, cluster.History]
	known     []*undo.Known // that the journal does not tell yet
	unsplit   []*entry      // tasks that a write was to split off their array, and which are no records of the queue
	decisions []change[entry, plan.Decision]
	shares    []change[entry, plan.Share]
	nodes     []change[nodeEntry, cluster.Node]
	nodesLeft []string
	others    []*cluster.Job    // whose ids meant others before
	summary   db.AddCycleParams // of the cycle, but for its number and time

	of  *cluster.Snapshot // what jobs, left, open, nodes and nodesLeft are of
	saw bool              // that stands in the database, and they are empty again
}

// change is a row that has to be written: what it is to hold now, and its digest.
type change[E, T any] struct {
	entry  *E
	now    *T
	digest uint64 // of history and shares 0: there is nothing any more
}

func empty[T any](s []T) []T {
	clear(s) // let go of the last snapshot
	return s[:0]
}

func (c *changes) reset() {
	*c = changes{
		jobs: empty(c.jobs), left: empty(c.left), open: empty(c.open), history: empty(c.history), known: empty(c.known), unsplit: empty(c.unsplit),
		decisions: empty(c.decisions), shares: empty(c.shares), nodes: empty(c.nodes), nodesLeft: empty(c.nodesLeft), others: empty(c.others),
	}
}

func (c *changes) none() bool {
	return !c.saw && c.sawNone() && len(c.history)+len(c.decisions)+len(c.shares) == 0
}

// sawNone reports whether jobs and nodes are as the database holds them.
func (c *changes) sawNone() bool {
	return len(c.jobs)+len(c.left)+len(c.open)+len(c.nodes)+len(c.nodesLeft) == 0
}

// endedStay is a stay that ended and has no row that says so.
type endedStay struct {
	entry *entry
	row   int64 // of jobs, when the job has to get one for it
	cluster.Stay
}

// noteStays takes in the stays of a cycle. They count once, and are kept until a commit
// succeeds.
func (s *Store) noteStays(of *cluster.Snapshot, stays []cluster.Stay) {
	if s.noted == of {
		return
	}
	s.noted = of
	if len(s.stored.jobs) == 0 {
		s.stored.jobs = make(map[cluster.JobID]*entry, len(of.Jobs))
	}
	for _, i := range stays {
		e := s.stored.entry(i.Job)
		if i.Closed {
			s.unsaved.closed = append(s.unsaved.closed, endedStay{entry: e, Stay: i})
			s.stored.ended.add(i.Job.ID, i.End)
			if e.open != nil && e.open.Start.Equal(i.Start) {
				e.open = nil
			}
		} else {
			e.open = &openStay{Stay: i, running: true}
		}
	}
}

// compareSeen fills s.changes with what changed of jobs and nodes, from empty. It writes
// nothing and may be called again, as may compareDecided after it. digests are those of the jobs.
func (s *Store) compareSeen(snap *cluster.Snapshot, digests []uint64) {
	h, c := &s.stored, &s.changes
	c.reset()
	c.of = snap
	h.poll++
	h.order.begin()
	var fresh []change[entry, cluster.Job] // that have no row yet
	for i := range snap.Jobs {
		j := &snap.Jobs[i]
		e := s.sighted(j)
		e.poll = h.poll
		h.order.add(e)
		if j.State == cluster.Unread && e.row != 0 {
			continue // it stays as it was seen last
		}
		switch j.State {
		case cluster.Pending:
			c.summary.Pending++
		case cluster.Running:
			c.summary.Running++
		}
		if d := digests[i]; e.row == 0 {
			e.due = h.poll
			fresh = append(fresh, change[entry, cluster.Job]{e, j, d})
		} else if d != e.seen {
			e.due = h.poll
			c.jobs = append(c.jobs, change[entry, cluster.Job]{e, j, d})
		}
		if o := e.open; o != nil {
			running := j.State == cluster.Running && o.Start.Equal(j.Start)
			if running && snap.At.After(o.End) {
				o.End = snap.At
			}
			if running != o.running || !o.saved {
				o.running, o.saved = running, false
				c.open = append(c.open, e)
			}
		}
	}
	// Rows have the order of ids, and are written in it: what follows each other in a table and
	// its indices is quicker to write.
	slices.SortFunc(fresh, func(a, b change[entry, cluster.Job]) int { return a.entry.id.Compare(b.entry.id) })
	for _, f := range fresh {
		h.row++
		f.entry.row = h.row
	}
	byRow(c.jobs)
	c.jobs = append(c.jobs, fresh...)
	slices.SortFunc(c.open, func(a, b *entry) int { return cmp.Compare(a.row, b.row) })
	if len(h.order.now) != len(h.jobs) {
		for _, e := range h.jobs {
			if e.poll != h.poll {
				c.left = append(c.left, e)
				if e.row == 0 {
					c.unsplit = append(c.unsplit, e)
				}
			}
		}
	}
	s.compareNodes(snap.Nodes)
}

// byRow sorts changes by the rows of their jobs.
func byRow[T any](changes []change[entry, T]) {
	slices.SortFunc(changes, func(a, b change[entry, T]) int { return cmp.Compare(a.entry.row, b.entry.row) })
}

// compareDecided fills in what changed of decisions, shares and History. It follows
// compareSeen of the same snapshot.
func (s *Store) compareDecided(seen *plan.Seen) {
	h, next := &s.stored, 0
	for _, e := range s.changes.unsplit {
		if !s.undo.Knows(s.history, e.id) {
			s.changes.known = append(s.changes.known, s.known(e.id)) // History has forgotten them
		}
	}
	for i, e := range h.order.now {
		if seen.Snapshot.Jobs[i].State != cluster.Unread && !s.undo.Knows(s.history, e.id) {
			s.changes.known = append(s.changes.known, s.known(e.id))
		}
		// Decisions stand in the order of the snapshot.
		if ds := seen.Plan.Decisions; next < len(ds) && ds[next].Job == e.id {
			s.compareDecision(e, &ds[next])
			if _, wrote := s.history.Written[e.id]; wrote || e.known != 0 || !ds[next].Ranked {
				s.compareHistory(e)
			}
			next++
		} else {
			if e.decided == 0 {
				e.since = eligibleSince(&seen.Snapshot.Jobs[i], seen.Snapshot.At)
			}
			s.compareHistory(e)
		}
		if shares := seen.Plan.Shares; s.opts.Replay {
			continue // a moment shows none: see moment.sql
		} else if shares != nil {
			s.compareShare(e, shares.Of(&seen.Snapshot.Jobs[i], i), shares.Types)
		} else if e.shared != 0 {
			s.compareShare(e, nil, nil)
		}
	}
	for ; next < len(seen.Plan.Decisions); next++ {
		d := &seen.Plan.Decisions[next]
		if e := h.jobs[d.Job]; e != nil && e.poll == h.poll {
			s.compareDecision(e, d)
		}
	}
	byRow(s.changes.decisions)
	byRow(s.changes.shares)
	s.summarize(seen)
}

// known is what History remembers of priod's writes into a job. A task that has no record yet is its array's.
func (s *Store) known(id cluster.JobID) *undo.Known {
	k := undo.KnownOf(s.history, id)
	who := s.stored.identity(id)
	k.User, k.Submit = who.User(), who.Submit()
	return k
}

// sighted returns the entry of a job in the snapshot, which has no row yet when the job is new.
// When the id means another job than before, the old entry ends.
func (s *Store) sighted(j *cluster.Job) *entry {
	h := &s.stored
	e := h.order.guess(j.ID)
	if e == nil {
		e = h.entry(j.ID)
	}
	if j.State == cluster.Unread {
		return e // whose user and submission stay as they are known
	}
	who := e.who
	if !who.Known() {
		who = h.identity(j.ID) // a new task is its array's
	}
	if !who.Is(j) {
		s.changes.others = append(s.changes.others, j)
	}
	if !e.who.Is(j) {
		s.unsaved.ended = append(s.unsaved.ended, e)
		delete(h.jobs, j.ID)
		was := e
		e = h.entry(j.ID)
		e.open, was.open = was.open, nil // what began in this cycle is the new job's
	}
	if e.row == 0 {
		e.row = s.formerRow(j)
	}
	e.who.See(j)
	return e
}

// formerRow is the row of a job that was gone from the queue and was requeued: one
// that failed is not in squeue until then. 0 when there is none.
func (s *Store) formerRow(j *cluster.Job) int64 {
	if j.Restarts == 0 || s.db == nil {
		return 0
	}
	row, err := s.q.FormerJob(context.Background(), s.rows(), db.FormerJobParams{
		ID: int64(j.ID.ID), Task: int64(j.ID.Task), User: j.User, Restarts: int64(j.Restarts),
	})
	if err != nil {
		return 0 // what is wrong with the database shows when it is written
	}
	return row
}

// eligibleSince is since when a job about which nothing was decided could first run, ms, as
// cluster.History has it; 0: it could not, or a decision will tell.
func eligibleSince(j *cluster.Job, at time.Time) int64 {
	if j.State == cluster.Pending || j.Eligible.After(at) && !j.SiteFactorKnown {
		return 0
	}
	return millis(j.Eligible)
}

func (s *Store) compareHistory(e *entry) {
	if s.opts.Replay {
		return // a moment shows nothing of it: see moment.sql
	}
	known := uint64(0)
	if row, stored := historyParams(s.history, e); stored {
		known = digest(&s.stored.digester, row)
	}
	if known != e.known {
		s.changes.history = append(s.changes.history, change[entry, cluster.History]{e, s.history, known})
	}
}

func (s *Store) compareDecision(e *entry, d *plan.Decision) {
	e.since, e.counted = millis(d.Since), counted(s.history, d)
	if digest := s.stored.digester.decision(d, e.counted); digest != e.decided {
		s.changes.decisions = append(s.changes.decisions, change[entry, plan.Decision]{e, d, digest})
	}
	if d.Ranked {
		s.changes.summary.Ranked++
		if d.Class == cluster.TE {
			s.changes.summary.Te++
		}
	}
}

func (s *Store) compareNodes(nodes []cluster.Node) {
	h, c := &s.stored, &s.changes
	for i := range nodes {
		n := &nodes[i]
		e := h.nodes[n.Name]
		if e == nil {
			e = &nodeEntry{}
			h.nodes[n.Name] = e
		}
		e.poll = h.poll
		if d := h.digester.node(n); d != e.seen {
			c.nodes = append(c.nodes, change[nodeEntry, cluster.Node]{e, n, d})
		}
	}
	if len(nodes) != len(h.nodes) {
		for name, e := range h.nodes {
			if e.poll != h.poll {
				c.nodesLeft = append(c.nodesLeft, name)
			}
		}
	}
}

func (s *Store) summarize(seen *plan.Seen) {
	sum, p := &s.changes.summary, seen.Plan
	sum.Cluster, sum.Jobs, sum.Nodes = seen.Snapshot.Cluster, int64(len(seen.Snapshot.Jobs)), int64(len(seen.Snapshot.Nodes))
	sum.Mode, sum.BandLo, sum.BandHi, sum.BandStep = string(slurmplug.SiteFactor), p.Band.Lo, p.Band.Hi, p.Band.Step
	sum.Actions, sum.Renumbered = int64(len(p.Actions)), int64(p.Renumbered)
	sum.Hold, sum.Notes = seen.Hold, "[]"
	notes := slices.DeleteFunc(slices.Clone(p.Notes), func(n plan.Note) bool { return n.Kind.ForCheck() })
	if len(notes) > 0 {
		text, err := json.Marshal(notes)
		if err == nil {
			sum.Notes = string(text)
		}
	}
}
