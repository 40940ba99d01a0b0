// Package undo holds what users asked for before priod wrote into their jobs, and
// takes back what priod wrote.
//
// A Journal is undo.jsonl: a line for each change of each field of a job, appended and
// synced before the change goes to Slurm, with what stood there before priod first
// wrote. The store keeps it beside the database; it needs no database.
//
// priod reset takes back in three steps. A Survey joins the journal, what the database
// knows beyond it, and the queue as it is; its Plan says what to write back, and what
// cannot be put back now and why. Both are pure. A Reset asks Slurm for what they need,
// and writes.
package undo

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
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/undo/lines"
	"slurmprio/slurmplug"
)

// Journal is the undo journal of a state folder. From it reset, and a daemon that lost
// its database, tell priod's values from those of users. The writer holds act.lock.
type Journal struct {
	file    lines.File
	changes map[cluster.JobID][]*Change // the last one for each lever, latest last
	older   map[cluster.JobID][]cluster.Sent
	lines   int // in the file
	seq     int
	kept    int       // lines when this process last replaced the file
	missing bool      // there was no file when the journal was opened
	damaged int       // unreadable lines before that
	stale   bool      // the file holds changes that were forgotten
	reset   time.Time // of the last reset; zero: never
}

// Path is where the journal of a state folder stands.
func Path(dir string) string { return filepath.Join(dir, "undo.jsonl") }

// resetPath is beside the journal.
func resetPath(journal string) string { return filepath.Join(filepath.Dir(journal), "reset") }

// wrap says of which file an error tells.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("undo journal: %w", err)
}

// Open reads the undo journal of a state folder; a missing one is empty. A line that a
// crash cut off was never acted on and does not count.
func Open(dir string) (*Journal, error) {
	u := &Journal{file: lines.File{Path: Path(dir)}}
	if err := u.read(); err != nil {
		return nil, wrap(cmp.Or(lines.Forbidden(u.file.Path), err))
	}
	u.missing = u.file.Info == nil
	return u, nil
}

func (u *Journal) read() error {
	u.file.Info = nil
	u.parse(nil)
	mark, err := os.ReadFile(resetPath(u.file.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.reset, _ = time.Parse(time.RFC3339Nano, string(bytes.TrimSpace(mark))) // spoiled: never, and the database decides
	text, err := u.file.Load()
	if err != nil {
		return err
	}
	u.parse(text)
	return nil
}

// parse takes in the text of the whole file.
func (u *Journal) parse(text []byte) {
	u.changes, u.older = map[cluster.JobID][]*Change{}, map[cluster.JobID][]cluster.Sent{}
	u.lines, u.damaged, u.stale = 0, 0, false
	for line := range u.file.Whole(text) {
		var c Change
		if err := json.Unmarshal(line, &c); err != nil || !c.sound() {
			u.damaged++
		} else {
			u.take(&c)
		}
		u.lines++
	}
}

func (u *Journal) take(c *Change) {
	u.seq++
	c.seq = u.seq
	for _, id := range c.Jobs() {
		if o := u.Last(id); o != nil && c.Lever.Ranks() {
			before := o.written()
			before.Older = u.Older(id)
			next := c.written()
			next.Value = next.Tried
			u.older[id] = before.Replaced(next)
		}
		list := slices.DeleteFunc(u.changes[id], func(o *Change) bool { return o.Lever == c.Lever })
		u.changes[id] = append(list, c)
	}
}

// Path is where the journal stands.
func (u *Journal) Path() string { return u.file.Path }

// Missing reports whether there was no file when the journal was opened: then it
// says nothing about what jobs hold, and only the database knows.
func (u *Journal) Missing() bool { return u.missing }

// Damaged is how many lines could not be read: they do not count.
func (u *Journal) Damaged() int { return u.damaged }

// Changes are the last ones for each job and lever, in the order of the file.
func (u *Journal) Changes() []*Change {
	var all []*Change
	for _, list := range u.changes {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *Change) int { return cmp.Compare(a.seq, b.seq) })
	return slices.Compact(all) // one change may stand for several tasks
}

// Last is the latest change of a job's place in the order, or of that of the
// array that it was part of; nil when priod never changed it.
func (u *Journal) Last(id cluster.JobID) *Change {
	return u.latest(id, func(c *Change) bool { return c.Lever.Ranks() })
}

// Find is the last change of one lever of a job, or of its array.
func (u *Journal) Find(id cluster.JobID, l slurmplug.Lever) *Change {
	return u.latest(id, func(c *Change) bool { return c.Lever == l })
}

// last is Last, of those changes that are of j.
func (u *Journal) last(id cluster.JobID, j *cluster.Job) *Change {
	return u.latest(id, func(c *Change) bool { return c.Lever.Ranks() && c.Of(j) })
}

// find is Find, of those changes that are of j.
func (u *Journal) find(id cluster.JobID, l slurmplug.Lever, j *cluster.Job) *Change {
	return u.latest(id, func(c *Change) bool { return c.Lever == l && c.Of(j) })
}

// latest is the last change of a job, or else of its array, that counts.
func (u *Journal) latest(id cluster.JobID, counts func(*Change) bool) *Change {
	for _, id := range []cluster.JobID{id, slurmplug.Plain(id.ID)} {
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
		Lever: journalled(a.Lever), Was: a.Before, From: a.Before, To: a.After, UserNice: a.UserNice,
	}
	switch a.Lever {
	case slurmplug.Release:
		c.To = slurmplug.Number(0)
	case slurmplug.Nice:
		c.Was = a.UserNice
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
	if first != nil && (c.Lever == slurmplug.SiteFactor || first.reaches(ids[0])) {
		c.Was = first.Was
	}
	if last := u.last(ids[0], j); last != nil && last.Lever == c.Lever && last.reaches(ids[0]) {
		c.UserNice = last.UserNice
	}
	return c
}

// Append adds changes with one write and one sync. After an error the file is
// as before.
func (u *Journal) Append(changes []*Change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := u.append(changes); err != nil {
		return wrap(err)
	}
	for _, c := range changes {
		u.take(c)
	}
	return nil
}

func (u *Journal) append(changes []*Change) error {
	if u.damaged > 0 || u.stale {
		if err := u.keep(keepAll); err != nil {
			return err
		}
	}
	text, err := lines.JSON(changes)
	if err == nil {
		err = u.file.Add(text)
	}
	if err != nil {
		return err
	}
	u.lines += len(changes)
	u.missing = false
	return nil
}

// Withdraw undoes the last Append: its changes will not be made.
func (u *Journal) Withdraw() error {
	err := u.file.TakeBack()
	if err == nil {
		err = u.read()
	}
	return wrap(err)
}

// keepAll drops no line that counts.
func keepAll(*Change) bool { return true }

// keep drops the changes that keep refuses and earlier ones that later ones
// replaced: the file is replaced as a whole. With none left it is empty, which
// says that priod left nothing in any job; a missing file says nothing.
func (u *Journal) keep(keep func(*Change) bool) error {
	if u.damaged > 0 {
		if _, err := u.file.SetAside(); err != nil {
			return wrap(err)
		}
	}
	kept := slices.DeleteFunc(u.Changes(), func(c *Change) bool { return !keep(c) })
	text, err := lines.JSON(kept)
	if err == nil {
		err = lines.Replace(u.file.Path, text)
	}
	if err == nil {
		err = u.read()
	}
	if err != nil {
		return wrap(err)
	}
	u.kept = len(kept)
	return nil
}

// TookBack drops what a reset took back at a time, all but what keep names. The time
// is noted beside the journal: else one that was cut off would look the same. It is later
// than that of any earlier reset, also by the clock of another host: else an older copy of
// both would look the same.
func (u *Journal) TookBack(at time.Time, keep func(*Change) bool) error {
	if !at.After(u.reset) {
		at = u.reset.Add(1)
	}
	if err := lines.Replace(resetPath(u.file.Path), []byte(at.UTC().Format(time.RFC3339Nano)+"\n")); err != nil {
		return wrap(err)
	}
	return u.keep(keep)
}

// WasTakenBack reports whether reset took back a value that priod wrote at a time: the
// journal has no line of it, and is neither missing, damaged nor cut off.
func (u *Journal) WasTakenBack(id cluster.JobID, l slurmplug.Lever, at time.Time) bool {
	return u.Find(id, journalled(l)) == nil && !u.missing && u.damaged == 0 && !at.After(u.reset)
}

// Renew puts the journal into a new file, with those changes of another one that it lacks.
func (u *Journal) Renew(other *Journal) error {
	if u.file.Info == nil && other.file.Info == nil {
		return nil
	}
	if err := u.keep(keepAll); err != nil {
		return err
	}
	return u.Append(slices.DeleteFunc(other.Changes(), func(c *Change) bool { return u.Find(c.Job, c.Lever) != nil }))
}

// Tidy compacts the journal when it has doubled, and a long one once in each
// process: what earlier ones left may be of jobs long gone. present tells
// whether any record with a job id is in the queue.
func (u *Journal) Tidy(present func(id uint32) bool) error {
	if u.lines < 1024+2*u.kept {
		return nil
	}
	if now, err := os.Stat(u.file.Path); err != nil || !u.file.Unchanged(now) {
		return nil // the next cycle finds out why
	}
	return u.keep(func(c *Change) bool { return present(c.Job.ID) })
}

// Forget drops the changes of jobs whose ids mean others now; the file follows
// with the next one that is kept or appended.
func (u *Journal) Forget(ids map[uint32]bool) {
	for id := range u.changes {
		if ids[id.ID] {
			delete(u.changes, id)
			delete(u.older, id)
			u.stale = true
		}
	}
}

// refresh reads the journal again if another process replaced it since, as
// reset does, and reports whether it did.
func (u *Journal) refresh() (changed bool, err error) {
	if u.file.Info == nil && !lines.Exists(u.file.Path) {
		return false, nil
	}
	now, err := os.Stat(u.file.Path)
	if err != nil {
		return false, wrap(err)
	}
	if u.file.Unchanged(now) {
		return false, nil
	}
	return true, u.read()
}

// Stands reports whether the file is one that this process left there.
func (u *Journal) Stands() (bool, error) {
	if u.file.Info == nil {
		return false, nil
	}
	return lines.Stands(u.file.Path, u.file.Info)
}

// Lost reports whether the journal was deleted, or changed as no priod does:
// reset puts a whole new file in its place and notes when.
func (u *Journal) Lost() (bool, error) {
	if u.file.Info == nil {
		return false, nil
	}
	now, err := os.Stat(u.file.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, wrap(err)
	case u.file.Unchanged(now):
		return false, nil
	case os.SameFile(u.file.Info, now):
		return true, nil
	}
	other := &Journal{file: lines.File{Path: u.file.Path}}
	if err := other.read(); err != nil {
		return false, wrap(err)
	}
	return other.damaged > 0 || other.file.Good < now.Size() || !other.reset.After(u.reset), nil
}

// Restore writes a lost journal from memory and tells where what stood there is
// kept, "" when nothing did.
func (u *Journal) Restore() (aside string, err error) {
	if lines.Exists(u.file.Path) {
		if aside, err = u.file.SetAside(); err != nil {
			return "", wrap(err)
		}
	}
	u.damaged = 0
	return aside, u.keep(keepAll)
}
