package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Change is one line of undo.jsonl: what priod was about to write into a job.
type Change struct {
	Time     time.Time       `json:"time"`
	Job      cluster.JobID   `json:"job"`
	Tasks    string          `json:"tasks,omitempty"` // of an unsplit array
	Part     bool            `json:"part,omitempty"`  // Tasks are only some of the record's
	User     string          `json:"user"`
	Submit   time.Time       `json:"submit,omitzero"`     // with User: tells the job from a later one of the same id
	Lever    slurmplug.Lever `json:"lever"`               // a release counts as Priority 0
	Was      string          `json:"was"`                 // before priod first touched it: what an undo puts back
	From     string          `json:"from"`                // just before this change
	To       string          `json:"to"`                  // sent, perhaps not arrived
	UserNice string          `json:"user_nice,omitempty"` // the owner's Nice, which Nice and Priority replace
	Sent     []string        `json:"sent,omitempty"`      // into a request, between Was and From

	seq int // place in the file
}

// Jobs are the jobs that the change reaches.
func (c *Change) Jobs() []cluster.JobID {
	return plan.Action{Job: c.Job, Tasks: c.Tasks, Part: c.Part}.Jobs()
}

// Of tells whether j is the job that was changed, and not a later one with the
// same id, as far as that can be told.
func (c *Change) Of(j *cluster.Job) bool {
	if c.Submit.IsZero() { // not known when it was written
		return c.User == "" || cluster.SameUser(c.User, j.User)
	}
	e := entry{}
	e.identify(c.User, c.Submit)
	return !e.isOther(j)
}

// written is the change as cluster.History remembers it: it may have arrived.
func (c *Change) written() cluster.Written {
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	return cluster.Written{
		Lever: c.Lever, Value: number(c.From), Tried: number(c.To), Original: number(c.UserNice), At: c.Time,
	}
}

// Next is the line of a further write into the request that the change is about.
func (c *Change) Next(from, to string) *Change {
	next := *c
	next.Time = time.Now().UTC()
	next.From, next.To, next.Sent = from, to, c.requested().Next(to, false, next.Time).Older
	return &next
}

// requested is the change as cluster.History remembers it: it may have arrived.
func (c *Change) requested() cluster.Requested {
	r := cluster.Requested{Was: c.Was, Older: c.Sent, Value: c.From}
	return r.Next(c.To, false, c.Time)
}

// Undo is the undo journal. Each change of each lever is appended and synced
// before it goes to Slurm, so that reset, and a daemon that lost its database,
// know priod's values from other people's. Whoever writes holds act.lock.
type Undo struct {
	lineFile
	changes map[cluster.JobID][]*Change // the last one for each lever, latest last
	older   map[cluster.JobID][]cluster.Sent
	lines   int // in the file
	seq     int
	kept    int       // lines when this process last replaced the file
	missing bool      // there was no file when the journal was opened
	damaged int       // unreadable lines before that
	stale   bool      // the file holds changes that were forgotten
	reset   time.Time // of the last TakenBack; zero: never
}

func undoPath(dir string) string { return filepath.Join(dir, "undo.jsonl") }

// resetPath is beside the journal.
func resetPath(journal string) string { return filepath.Join(filepath.Dir(journal), "reset") }

// OpenUndo reads the undo journal of a state folder; a missing one is empty. A
// line that a crash cut off was never acted on and does not count.
func OpenUndo(dir string) (*Undo, error) {
	u := &Undo{lineFile: lineFile{path: undoPath(dir)}}
	if err := u.read(); err != nil {
		return nil, fmt.Errorf("undo journal: %w", cmp.Or(forbidden(u.path), err))
	}
	u.missing = u.file == nil
	return u, nil
}

func (u *Undo) read() error {
	u.file = nil
	u.parse(nil)
	mark, err := os.ReadFile(resetPath(u.path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.reset, _ = time.Parse(time.RFC3339Nano, string(bytes.TrimSpace(mark))) // spoiled: never, and the database decides
	text, err := u.load()
	if err != nil {
		return err
	}
	u.parse(text)
	return nil
}

// parse takes in the text of the whole file.
func (u *Undo) parse(text []byte) {
	u.changes, u.older = map[cluster.JobID][]*Change{}, map[cluster.JobID][]cluster.Sent{}
	u.lines, u.good, u.damaged, u.stale = 0, 0, 0, false
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			return
		}
		var c Change
		if err := json.Unmarshal(line, &c); err != nil || !c.sound() {
			u.damaged++
		} else {
			u.take(&c)
		}
		u.lines++
		u.good += int64(len(line)) + 1
		text = rest
	}
}

// sound tells whether a line can be what priod wrote. Slurm's largest array has
// four million tasks.
func (c *Change) sound() bool {
	if c.Job.ID == 0 || c.Lever == "" {
		return false
	}
	n, err := slurmplug.CountTasks(c.Tasks)
	return !c.Part || err == nil && n > 0 && n <= 4_000_001
}

func (u *Undo) take(c *Change) {
	u.seq++
	c.seq = u.seq
	for _, id := range c.Jobs() {
		if o := u.Last(id); o != nil && c.Lever.Ranks() {
			before := o.written()
			before.Older = u.olderOf(id)
			next := c.written()
			next.Value = next.Tried
			u.older[id] = before.Replaced(next)
		}
		list := slices.DeleteFunc(u.changes[id], func(o *Change) bool { return o.Lever == c.Lever })
		u.changes[id] = append(list, c)
	}
}

// Changes are the last ones for each job and lever, in the order of the file.
func (u *Undo) Changes() []*Change {
	var all []*Change
	for _, list := range u.changes {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *Change) int { return cmp.Compare(a.seq, b.seq) })
	return slices.Compact(all) // one change may stand for several tasks
}

// Last is the latest change of a job's place in the order, or of that of the
// array that it was part of; nil when priod never changed it.
func (u *Undo) Last(id cluster.JobID) *Change {
	for _, id := range []cluster.JobID{id, slurmplug.Plain(id.ID)} {
		if c := lastRank(u.changes[id]); c != nil {
			return c
		}
	}
	return nil
}

// lastRank is the last change of a job's place in the order.
func lastRank(list []*Change) *Change {
	for _, c := range slices.Backward(list) {
		if c.Lever.Ranks() {
			return c
		}
	}
	return nil
}

// olderOf gives the values of a job, or of the array that it was part of, that
// later ones replaced not long ago.
func (u *Undo) olderOf(id cluster.JobID) []cluster.Sent {
	if _, own := u.changes[id]; !own {
		id = slurmplug.Plain(id.ID)
	}
	return u.older[id]
}

// Find is the last change of one lever of a job, or of its array.
func (u *Undo) Find(id cluster.JobID, l slurmplug.Lever) *Change {
	for _, id := range []cluster.JobID{id, slurmplug.Plain(id.ID)} {
		for _, c := range u.changes[id] {
			if c.Lever == l {
				return c
			}
		}
	}
	return nil
}

// tookBack tells whether reset took back a value that priod wrote at a time: the
// journal has no line of it, and is neither missing, damaged nor cut off.
func (u *Undo) tookBack(id cluster.JobID, l slurmplug.Lever, at time.Time) bool {
	return u.Find(id, l) == nil && !u.missing && u.damaged == 0 && !at.After(u.reset)
}

// Missing tells whether there was no file when the journal was opened: then it
// says nothing about what jobs hold, and only the database knows.
func (u *Undo) Missing() bool { return u.missing }

// Written is what the journal tells about values that priod may have left in jobs.
func (u *Undo) Written() map[cluster.JobID]cluster.Written {
	all := make(map[cluster.JobID]cluster.Written, len(u.changes))
	for id, list := range u.changes {
		if c := lastRank(list); c != nil {
			w := c.written()
			w.Older = u.olderOf(id)
			all[id] = w
		}
	}
	return all
}

// Former is what the journal tells about values that priod may have left in a job that
// was gone from the queue for a while.
func (u *Undo) Former(j *cluster.Job) (w cluster.Written, requests map[slurmplug.Lever]cluster.Requested) {
	if c := u.Last(j.ID); c != nil && c.Of(j) {
		w = c.written()
		w.Older = u.olderOf(j.ID)
	}
	return w, u.requests(j.ID, func(c *Change) bool { return c.Of(j) })
}

// Requests is what the journal tells about values that priod may have left in
// jobs' requests.
func (u *Undo) Requests() map[cluster.JobID]map[slurmplug.Lever]cluster.Requested {
	all := map[cluster.JobID]map[slurmplug.Lever]cluster.Requested{}
	for id := range u.changes {
		if r := u.requests(id, func(*Change) bool { return true }); r != nil {
			all[id] = r
		}
	}
	return all
}

// Of is what the journal tells about the request of a user's job, or of its array.
func (u *Undo) Of(id cluster.JobID, user string) map[slurmplug.Lever]cluster.Requested {
	return u.requests(id, func(c *Change) bool { return cluster.SameUser(c.User, user) })
}

// requests is what the changes of a job, or of its array, that count tell about
// values that priod may have left in its request; nil when there is none. The
// nodes that it asks for are the journal of evictions' affair.
func (u *Undo) requests(id cluster.JobID, counts func(*Change) bool) map[slurmplug.Lever]cluster.Requested {
	var all map[slurmplug.Lever]cluster.Requested
	for _, id := range []cluster.JobID{slurmplug.Plain(id.ID), id} {
		for _, c := range u.changes[id] {
			if c.Lever.Ranks() || c.Lever == slurmplug.ReqNodeList || !counts(c) {
				continue
			}
			if all == nil {
				all = map[slurmplug.Lever]cluster.Requested{}
			}
			all[c.Lever] = c.requested()
		}
	}
	return all
}

// change is the line for an action; what was there first is carried over from
// earlier lines.
func (u *Undo) change(a plan.Action, at time.Time) *Change {
	c := &Change{
		Time: at.UTC(), Job: a.Job, Tasks: a.Tasks, Part: a.Part,
		Lever: a.Lever, Was: a.Before, From: a.Before, To: a.After, UserNice: a.UserNice,
	}
	switch a.Lever {
	case slurmplug.Release:
		c.Lever, c.To = slurmplug.Priority, "0"
	case slurmplug.Nice:
		c.Was = a.UserNice
	}
	ids := c.Jobs()
	if len(ids) == 0 {
		return c
	}
	if !c.Lever.Ranks() {
		c.Was = a.Was
		if before := u.Find(ids[0], c.Lever); before != nil && before.Was == c.Was {
			c.Sent = before.requested().Older
		}
		return c
	}
	if first := u.Find(ids[0], c.Lever); first != nil {
		c.Was = first.Was
	}
	if last := u.Last(ids[0]); last != nil && last.Lever == c.Lever {
		c.UserNice = last.UserNice
	}
	return c
}

// refresh reads the journal again if another process replaced it since, as
// reset does, and tells whether it did.
func (u *Undo) refresh() (changed bool, err error) {
	if u.file == nil && !exists(u.path) {
		return false, nil
	}
	now, err := os.Stat(u.path)
	if err != nil {
		return false, fmt.Errorf("undo journal: %w", err)
	}
	if u.unchanged(now) {
		return false, nil
	}
	return true, u.read()
}

// lost tells whether the journal was deleted, or changed as no priod does:
// reset puts a whole new file in its place and notes when.
func (u *Undo) lost() (bool, error) {
	if u.file == nil {
		return false, nil
	}
	now, err := os.Stat(u.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("undo journal: %w", err)
	case u.unchanged(now):
		return false, nil
	case os.SameFile(u.file, now):
		return true, nil
	}
	other := &Undo{lineFile: lineFile{path: u.path}}
	if err := other.read(); err != nil {
		return false, fmt.Errorf("undo journal: %w", err)
	}
	return other.damaged > 0 || other.good < now.Size() || !other.reset.After(u.reset), nil
}

// restore writes the journal from memory and tells where what stood there is
// kept, "" when nothing did.
func (u *Undo) restore() (aside string, err error) {
	if exists(u.path) {
		if aside, err = u.setAside(); err != nil {
			return "", fmt.Errorf("undo journal: %w", err)
		}
	}
	u.damaged = 0
	return aside, u.keep(func(*Change) bool { return true })
}

// Append adds changes with one write and one sync. After an error the file is
// as before.
func (u *Undo) Append(changes []*Change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := u.append(changes); err != nil {
		return fmt.Errorf("undo journal: %w", err)
	}
	for _, c := range changes {
		u.take(c)
	}
	return nil
}

func (u *Undo) append(changes []*Change) error {
	if u.damaged > 0 || u.stale {
		if err := u.keep(func(*Change) bool { return true }); err != nil {
			return err
		}
	}
	text, err := journalText(changes)
	if err != nil {
		return err
	}
	if err := u.add(text); err != nil {
		return err
	}
	u.lines += len(changes)
	u.missing = false
	return nil
}

// journalText is one line for each change.
func journalText(changes []*Change) ([]byte, error) {
	var text []byte
	for _, c := range changes {
		line, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		text = append(append(text, line...), '\n')
	}
	return text, nil
}

// takeBack undoes the last Append: its changes will not be made.
func (u *Undo) takeBack() error {
	err := os.Truncate(u.path, u.before)
	if err == nil {
		err = u.read()
	}
	if err != nil {
		return fmt.Errorf("undo journal: %w", err)
	}
	return nil
}

// keep drops the changes that keep refuses and earlier ones that later ones
// replaced: the file is replaced as a whole. With none left it is empty, which
// says that priod left nothing in any job; a missing file says nothing.
func (u *Undo) keep(keep func(*Change) bool) error {
	if u.damaged > 0 {
		if _, err := u.setAside(); err != nil {
			return fmt.Errorf("undo journal: %w", err)
		}
	}
	kept := slices.DeleteFunc(u.Changes(), func(c *Change) bool { return !keep(c) })
	text, err := journalText(kept)
	if err != nil {
		return fmt.Errorf("undo journal: %w", err)
	}
	if err := replace(u.path, text); err != nil {
		return fmt.Errorf("undo journal: %w", err)
	}
	if err := u.read(); err != nil {
		return fmt.Errorf("undo journal: %w", err)
	}
	u.kept = len(kept)
	return nil
}

// TakenBack is Keep after a reset at a time, which is noted beside the journal:
// else one that was cut off would look the same.
func (u *Undo) TakenBack(at time.Time, keep func(*Change) bool) error {
	if err := replace(resetPath(u.path), []byte(at.UTC().Format(time.RFC3339Nano)+"\n")); err != nil {
		return fmt.Errorf("undo journal: %w", err)
	}
	return u.keep(keep)
}

// tidy compacts the journal when it has doubled, and a long one once in each
// process: what earlier ones left may be of jobs long gone. present tells
// whether any record with a job id is in the queue.
func (u *Undo) tidy(present func(id uint32) bool) error {
	if u.lines < 1024+2*u.kept {
		return nil
	}
	if now, err := os.Stat(u.path); err != nil || !u.unchanged(now) {
		return nil // the next cycle finds out why
	}
	return u.keep(func(c *Change) bool { return present(c.Job.ID) })
}

// forget drops the changes of jobs whose ids mean others now; the file follows
// with the next one that is kept or appended.
func (u *Undo) forget(ids map[uint32]bool) {
	for id := range u.changes {
		if ids[id.ID] {
			delete(u.changes, id)
			delete(u.older, id)
			u.stale = true
		}
	}
}
