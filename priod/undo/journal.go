// Package undo holds what users asked for before priod wrote into their jobs, and
// takes back what priod wrote.
//
// A Journal is the part of package journal's file that tells of writes: a record for each change of each field of a job,
// appended and synced before the change goes to Slurm, with what stood there before priod first wrote.
//
// priod reset takes back in three steps. A Survey joins the journal and the queue as it
// is; its Plan says what to write back, and what cannot be put back now and why. Both are pure. A Reset asks Slurm for what they need,
// and writes.
package undo

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Journal is what a journal tells of priod's writes into jobs. From it reset, and a daemon that starts, tell priod's values
// from those of users. The writer holds act.lock.
type Journal struct {
	file    *journal.Journal
	changes map[cluster.JobID][]*Change // the last one for each lever, latest last
	older   map[cluster.JobID][]cluster.Sent
	seq     int
	reset   time.Time // of the last reset; zero: never
	noticed time.Time // that of the last NoticeReset, or of Open
	known   map[cluster.JobID]*Known
	tasks   map[uint32][]cluster.JobID // of arrays, that changes or known hold
}

// New is the part of a journal that is about to be read.
func New() *Journal {
	u := &Journal{}
	u.Clear()
	return u
}

// Open reads a folder's journal by itself, as priod reset and what shows a job do. Who appends names the lock file.
func Open(dir, lock string) (*Journal, error) {
	u := New()
	file, err := journal.Open(dir, lock, u)
	if err != nil {
		return nil, err
	}
	u.Bind(file)
	return u, nil
}

// Bind says of which file the part is, once that was read.
func (u *Journal) Bind(file *journal.Journal) { u.file, u.noticed = file, u.reset }

// Clear is for package journal, as Take and Records are.
func (u *Journal) Clear() {
	u.changes, u.older, u.known, u.reset = map[cluster.JobID][]*Change{}, map[cluster.JobID][]cluster.Sent{}, map[cluster.JobID]*Known{}, time.Time{}
	u.tasks = map[uint32][]cluster.JobID{}
}

// tookBack is the record of a reset: all changes before it were taken back but those that it names.
type tookBack struct {
	At   time.Time `json:"at"`
	Kept []*Change `json:"kept,omitempty"`
}

// Take takes in a write, what became of writes, or a reset.
func (u *Journal) Take(kind string, body []byte) (bool, error) {
	switch kind {
	case journal.Write:
		var c Change
		if err := json.Unmarshal(body, &c); err != nil || !c.sound() {
			return true, journal.ErrUnsound
		}
		u.take(&c)
	case journal.Known:
		if !u.takeKnown(body) {
			return true, journal.ErrUnsound
		}
	case journal.Reset:
		var r tookBack
		if err := json.Unmarshal(body, &r); err != nil || r.At.IsZero() {
			return true, journal.ErrUnsound
		}
		u.Clear()
		u.reset = r.At
		for _, c := range r.Kept {
			if !c.sound() {
				return true, journal.ErrUnsound
			}
			u.take(c)
		}
	default:
		return false, nil
	}
	return true, nil
}

// Records are the last reset, the changes that count, and what is known of them.
func (u *Journal) Records() []journal.Record {
	var all []journal.Record
	if !u.reset.IsZero() {
		all = append(all, journal.Record{Kind: journal.Reset, Body: tookBack{At: u.reset}})
	}
	return append(all, u.records()...)
}

func (u *Journal) take(c *Change) {
	u.seq++
	c.seq = u.seq
	for _, id := range c.Jobs() {
		u.index(id)
		if o := u.Find(id, slurmplug.SiteFactor); o != nil && c.Lever.Ranks() {
			before := o.written()
			before.Older = u.Older(id)
			next := c.written()
			next.Value = next.Tried
			u.older[id] = before.Holding(c.From.Number(), c.Time).Replaced(next)
		}
		list := slices.DeleteFunc(u.changes[id], func(o *Change) bool { return o.Lever == c.Lever })
		u.changes[id] = append(list, c)
	}
}

// index remembers that the journal tells of a task.
func (u *Journal) index(id cluster.JobID) {
	if id.Task != slurmplug.NoTask && u.changes[id] == nil && u.known[id] == nil {
		u.tasks[id.ID] = append(u.tasks[id.ID], id)
	}
}

// Changes are the last ones for each job and lever, in the order of the file.
func (u *Journal) Changes() []*Change {
	var all []*Change
	for _, list := range u.changes {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *Change) int { return cmp.Compare(a.seq, b.seq) })
	return slices.Compact(all) // one change may stand for several tasks
}

// Find is the last change of one lever of a job, or of its array.
func (u *Journal) Find(id cluster.JobID, l slurmplug.Lever) *Change {
	return u.latest(id, func(c *Change) bool { return c.Lever == l })
}

// find is Find, of those changes that are of j.
func (u *Journal) find(id cluster.JobID, l slurmplug.Lever, j *cluster.Job) *Change {
	return u.latest(id, func(c *Change) bool { return c.Lever == l && c.Of(j) })
}

// latest is the last change of a job, or else of its array, that counts.
func (u *Journal) latest(id cluster.JobID, counts func(*Change) bool) *Change {
	for _, id := range cluster.Lineage(id) {
		for _, c := range slices.Backward(u.changes[id]) {
			if counts(c) {
				return c
			}
		}
	}
	return nil
}

// Older gives the values of a job, or of the array that it was part of, that
// later ones replaced not long ago.
func (u *Journal) Older(id cluster.JobID) []cluster.Sent {
	if _, own := u.changes[id]; !own {
		id = slurmplug.Plain(id.ID)
	}
	return u.older[id]
}

// Line is the line for an action on a job; what was there first is carried over from
// earlier lines, unless they are of an earlier job with the same id. The caller says
// whose job it is.
func (u *Journal) Line(a plan.Action, j *cluster.Job, at time.Time) *Change {
	c := &Change{
		Time: at.UTC(), Job: a.Job, Tasks: a.Tasks, Part: a.Part,
		Lever: a.Lever, Was: a.Before, From: a.Before, To: a.After,
	}
	if a.Lever == slurmplug.Size || a.Lever == slurmplug.ExcNodeList {
		c.Reason = a.Reason
	}
	ids := c.Jobs()
	if len(ids) == 0 {
		return c
	}
	first := u.find(ids[0], c.Lever, j)
	if !c.Lever.Ranks() {
		c.Was = a.Was
		if first != nil && first.Was == c.Was {
			sent := first.requested().Next(c.To, false, at).Older // what first sent may yet arrive, or be in a task
			c.Sent = slices.DeleteFunc(sent, func(v slurmplug.Value) bool { return v == c.From })
		}
		return c
	}
	if k := u.known[ids[0]]; k != nil && k.Written == nil && (u.Find(ids[0], slurmplug.SiteFactor) == nil || k.seq > u.Find(ids[0], slurmplug.SiteFactor).seq) {
		return c // none of the earlier writes arrived
	}
	if first != nil {
		c.Was = first.Was
	}
	return c
}

// File is the journal of which this is a part.
func (u *Journal) File() *journal.Journal { return u.file }

// Append adds what became of earlier changes, and then changes to come, with one write and one sync. After an error the file is
// as before.
func (u *Journal) Append(changes []*Change, known ...*Known) error {
	records := make([]journal.Record, 0, len(known)+len(changes))
	for _, k := range known {
		records = append(records, journal.Record{Kind: journal.Known, Body: k})
	}
	for _, c := range changes {
		records = append(records, journal.Record{Kind: journal.Write, Body: c})
	}
	if err := u.file.Append(records...); err != nil {
		return err
	}
	for _, k := range known {
		u.learn(k)
	}
	for _, c := range changes {
		u.take(c)
	}
	return nil
}

// TookBack records that a reset took back all at a time but what keep names. The time is later than that of any earlier
// reset, also by the clock of another host.
func (u *Journal) TookBack(at time.Time, keep func(*Change) bool) error {
	if !at.After(u.reset) {
		at = u.reset.Add(1)
	}
	r := tookBack{At: at.UTC(), Kept: slices.DeleteFunc(u.Changes(), func(c *Change) bool { return !keep(c) })}
	err := u.file.Append(journal.Record{Kind: journal.Reset, Body: r})
	if err == nil {
		body, _ := json.Marshal(r) // as it was just written
		_, err = u.Take(journal.Reset, body)
	}
	return err
}

// Lacks are the changes of another journal that this one has nothing of.
func (u *Journal) Lacks(other *Journal) []*Change {
	return slices.DeleteFunc(other.Changes(), func(c *Change) bool { return u.Find(c.Job, c.Lever) != nil })
}

// Adopt takes in changes of another journal; the file follows when it is rewritten.
func (u *Journal) Adopt(changes []*Change) {
	for _, c := range changes {
		u.take(c)
	}
	u.file.Outdate()
}

// Disown drops what is known of earlier jobs with the id of j; the file follows with the next append.
func (u *Journal) Disown(j *cluster.Job) {
	array := slurmplug.Plain(j.ID.ID)
	var left []cluster.JobID
	for _, id := range append([]cluster.JobID{array}, u.tasks[array.ID]...) {
		changes, k := slices.DeleteFunc(u.changes[id], func(c *Change) bool { return !c.Of(j) }), u.known[id]
		if k != nil && !k.of(j) {
			k = nil
			delete(u.known, id)
		}
		if u.changes[id] = changes; len(changes) == 0 {
			delete(u.changes, id)
			delete(u.older, id)
		}
		if id != array && (len(changes) > 0 || k != nil) {
			left = append(left, id)
		}
	}
	u.tasks[array.ID] = left
	u.file.Outdate()
}

// Forget drops the changes of jobs that are gone; the file follows with the next append.
func (u *Journal) Forget(gone func(id uint32) bool) {
	for id := range u.changes {
		if gone(id.ID) {
			delete(u.changes, id)
			delete(u.older, id)
			delete(u.known, id)
			delete(u.tasks, id.ID)
			u.file.Outdate()
		}
	}
}
