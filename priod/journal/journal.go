package journal

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
	"syscall"
)

// Format is the version of journal.jsonl.
const Format = 2

// name is that of the journal in a folder.
const name = "journal.jsonl"

// Path is where the journal of a folder stands.
func Path(dir string) string { return filepath.Join(dir, name) }

// Record is one line of the journal: {KIND: BODY}.
type Record struct {
	Kind string
	Body any
}

// Part is what one room understands of a journal.
type Part interface {
	// Clear drops all, before the file is read.
	Clear()
	// Take takes in a record, in the order of the file. It is false for a kind of another part, and an error says that
	// priod cannot have written the record.
	Take(kind string, body []byte) (mine bool, err error)
	// Records are all that still count, for a file that is rewritten.
	Records() []Record
}

// head is the first record.
type head struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster,omitempty"`
	Records int64  `json:"records,omitempty"` // that were appended before the file was last rewritten
	Kept    int    `json:"kept,omitempty"`    // lines that it had then, without this one
}

// headKind is its kind.
const headKind = "journal"

// Journal is journal.jsonl: what priod's next decision and every undo rest on. Each record is appended and synced before its
// command goes to Slurm. The daemon, and beside it priod reset, append to it, one at a time; the daemon alone rewrites it,
// without what no longer counts. A record that a crash cut off does not count: no command of it went out.
type Journal struct {
	file    file
	lock    string // the lock file of its writers; "": it is only read
	parts   []Part
	head    head
	others  [][]byte // records of kinds that no part knows
	lines   int      // in the file
	kept    int      // lines when this process last rewrote it
	missing bool     // there was none when it was opened
	damaged int      // lines that priod cannot have written
	anew    bool     // it has to be rewritten before the next append
}

// NewerError says that a newer priod wrote the journal.
type NewerError struct {
	Path       string
	Has, Knows int // formats
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was written by a newer priod (format %d, this one knows %d): install that version again, or move the file away", e.Path, e.Has, e.Knows)
}

// ErrLost says that the file was deleted, cut off, or changed as no priod does.
var ErrLost = errors.New("deleted, replaced or changed by others")

// ErrUnsound is a part's word that priod cannot have written a record: the line is damaged.
var ErrUnsound = errors.New("no record of priod's")

// wrap says of which file an error tells.
func wrap(err error) error {
	if err != nil {
		err = fmt.Errorf("journal: %w", err)
	}
	return err
}

// Open reads the journal of a folder into its parts; a missing one is empty. Who appends names the lock file that all writers take for a moment.
func Open(dir, lock string, parts ...Part) (*Journal, error) {
	j := &Journal{file: file{path: Path(dir)}, lock: lock, parts: parts}
	if err := j.read(); err != nil {
		return nil, wrap(cmp.Or(Forbidden(j.file.path), err))
	}
	j.missing = j.file.info == nil
	if earlier := filepath.Join(dir, "undo.jsonl"); j.missing && Exists(earlier) {
		return nil, wrap(fmt.Errorf("%s is of a priod from before 1.0.0: start 1.0.0 once, which moves it into %s", earlier, name))
	}
	return j, nil
}

func (j *Journal) read() error {
	text, err := j.file.load()
	if err != nil {
		return err
	}
	return j.parse(text)
}

// parse takes in the text of the whole file.
func (j *Journal) parse(text []byte) error {
	for _, p := range j.parts {
		p.Clear()
	}
	j.head, j.others, j.lines, j.damaged, j.file.good = head{}, nil, 0, 0, 0
	return j.takeIn(text)
}

// takeIn takes in the whole lines of a text that stands behind what was read before.
func (j *Journal) takeIn(text []byte) error {
	for line := range j.file.whole(text) {
		var record map[string]json.RawMessage
		if json.Unmarshal(line, &record) != nil || len(record) != 1 {
			j.damaged++
		}
		for kind, body := range record {
			if len(record) == 1 && !j.take(kind, body) {
				j.damaged++
			}
			if j.head.Format > Format {
				return &NewerError{j.file.path, j.head.Format, Format}
			}
		}
		j.lines++
	}
	return nil
}

// take hands a record to its part, and is false where priod cannot have written it.
func (j *Journal) take(kind string, body []byte) bool {
	if kind == headKind {
		return json.Unmarshal(body, &j.head) == nil
	}
	for _, p := range j.parts {
		if mine, err := p.Take(kind, body); mine {
			return err == nil
		}
	}
	if !slices.Contains(kinds, kind) {
		return false
	}
	j.others = append(j.others, bytes.Clone(fmt.Appendf(nil, "{%q:%s}\n", kind, body)))
	return true
}

// Path is where the journal stands.
func (j *Journal) Path() string { return j.file.path }

// Missing reports whether there was no journal when it was opened: then it says nothing of what jobs hold.
func (j *Journal) Missing() bool { return j.missing }

// Damaged is how many lines do not count, because priod cannot have written them.
func (j *Journal) Damaged() int { return j.damaged }

// Number is how many records were ever appended. One that the database saw later is larger.
func (j *Journal) Number() int64 { return j.head.Records + int64(max(j.lines-1-j.head.Kept, 0)) }

// Behind says that the database saw more records than the journal has; "" when it has not.
func (j *Journal) Behind(seen int64) string {
	switch {
	case seen <= j.Number():
		return ""
	case j.Missing():
		return fmt.Sprintf("%s is gone, and it had %d records: what priod wrote is not known", j.file.path, seen)
	}
	return fmt.Sprintf("%s is an older copy with %d records of %d: what priod wrote later is not known", j.file.path, j.Number(), seen)
}

// Join counts the records of another journal, which are taken in.
func (j *Journal) Join(other *Journal) { j.head.Records += other.Number() }

// Upgrade has a journal of an earlier format rewritten before the next append.
func (j *Journal) Upgrade() { j.anew = j.anew || j.head.Format != 0 && j.head.Format < Format }

// Cluster is whose jobs the journal tells of; "" where no cycle has said so yet.
func (j *Journal) Cluster() string { return j.head.Cluster }

// Of says whose jobs the journal tells of from now on.
func (j *Journal) Of(cluster string) { j.head.Cluster, j.anew = cluster, true }

// Outdate has the journal rewritten before the next append: a part has dropped records.
func (j *Journal) Outdate() { j.anew = true }

// Stands reports whether the file is one that this process left there.
func (j *Journal) Stands() (bool, error) {
	if j.file.info == nil {
		return false, nil
	}
	return Stands(j.file.path, j.file.info)
}

// Alone says that no other process writes the journal, and has what is appended reach the disk when it may: it is of a simulation.
func (j *Journal) Alone() { j.file.alone, j.lock = true, "" }

// Append adds records with one write and one sync, behind what another process appended since. After an error the file is
// as before.
func (j *Journal) Append(records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	return j.locked(func() error {
		if err := j.follow(); err != nil {
			return err
		}
		if j.file.info == nil || j.head.Format == 0 || j.anew {
			if err := j.rewrite(); err != nil {
				return err
			}
		}
		text, err := encode(nil, records)
		if err == nil {
			err = j.file.add(text)
		}
		if err == nil {
			j.lines += len(records)
		}
		return err
	})
}

// locked keeps other writers out while it works.
func (j *Journal) locked(do func() error) error {
	unlock, err := lockFile(j.lock)
	if err == nil {
		err = do()
		unlock()
	}
	return wrap(err)
}

// encode adds the lines of records to a text.
func encode(text []byte, records []Record) ([]byte, error) {
	for _, r := range records {
		line, err := json.Marshal(map[string]any{r.Kind: r.Body})
		if err != nil {
			return nil, err
		}
		text = append(append(text, line...), '\n')
	}
	return text, nil
}

// Long reports whether the journal has doubled since this process last rewrote it; a long one is rewritten once in
// each process, since earlier ones left what is of jobs long gone.
func (j *Journal) Long() bool { return j.lines >= 1024+2*j.kept }

// Rewrite replaces the file by one with all that still counts. A damaged one is kept aside.
func (j *Journal) Rewrite() error {
	return j.locked(func() error {
		if err := j.follow(); err != nil {
			return err
		}
		return j.rewrite()
	})
}

func (j *Journal) rewrite() error {
	if j.damaged > 0 && Exists(j.file.path) {
		if _, err := j.file.setAside(); err != nil {
			return err
		}
	}
	records := []Record{{}}
	for _, p := range j.parts {
		records = append(records, p.Records()...)
	}
	j.head = head{Format, j.head.Cluster, j.Number(), len(records) - 1 + len(j.others)}
	records[0] = Record{headKind, j.head}
	text, err := encode(nil, records)
	if err == nil {
		err = j.file.replace(append(text, bytes.Join(j.others, nil)...))
	}
	if err != nil {
		return err
	}
	j.lines = len(records) + len(j.others)
	j.kept, j.damaged, j.anew, j.missing = j.lines, 0, false, false
	return nil
}

// Follow takes in what another process, a priod reset, appended since. It is ErrLost where the file is no more the one that
// this process left there.
func (j *Journal) Follow() error { return j.locked(j.follow) }

func (j *Journal) follow() error {
	if j.file.alone && j.file.info != nil {
		return nil
	}
	now, err := os.Stat(j.file.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && j.file.info == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrLost
	case err != nil:
		return err
	case now.IsDir():
		return &fs.PathError{Op: "open", Path: j.file.path, Err: syscall.EISDIR}
	case j.file.info == nil: // another process began it
	case j.file.unchanged(now):
		return nil
	case !os.SameFile(j.file.info, now), now.Size() <= j.file.good:
		return ErrLost
	}
	text, err := j.file.tail()
	if err != nil {
		return err
	}
	good, damaged := j.file.good, j.damaged
	if err := j.takeIn(text); err != nil {
		return err
	}
	if j.damaged > damaged || j.file.good == good {
		return ErrLost
	}
	j.file.info = now
	return nil
}

// Restore writes a lost journal anew from memory and tells where what stood there is kept, "" when nothing did.
func (j *Journal) Restore() (aside string, err error) {
	err = j.locked(func() (err error) {
		if Exists(j.file.path) {
			if aside, err = j.file.setAside(); err != nil {
				return err
			}
		}
		j.damaged = 0
		return j.rewrite()
	})
	return aside, err
}
