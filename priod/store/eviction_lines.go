package store

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/undo/lines"
)

// evictionFormat is the version of evictions.jsonl.
const evictionFormat = 1

// evictionHead is the first line of evictions.jsonl.
type evictionHead struct {
	Format  int    `json:"format"`
	Journal string `json:"journal"` // a name that no other file has
	Cluster string `json:"cluster"`
}

// evictionLine is every other line: the rows of one turn, as they are after it. The
// lines of a file that was compacted repeat all rows that are still of use.
type evictionLine struct {
	Turn         int64                 `json:"turn"`
	Claims       []evict.Claim         `json:"claims,omitempty"`
	Evictions    []evict.Eviction      `json:"evictions,omitempty"`
	Times        map[cluster.JobID]int `json:"times,omitempty"` // how often each job was signalled until now
	LastClaim    int64                 `json:"last_claim,omitempty"`
	LastEviction int64                 `json:"last_eviction,omitempty"`
}

// evictionFile is evictions.jsonl: each turn of claims and evictions, appended and
// synced before the database has it and before a command goes out. With the database
// there it is only written; a database that lacks turns gets them from here, so that
// one that was lost costs no victim its place in the queue, and changes no count.
type evictionFile struct {
	lines.File
	head    evictionHead
	turn    int64
	count   int  // of lines
	kept    int  // lines when this process last replaced the file
	damaged int  // unreadable lines
	stale   bool // the file has to be replaced before the next line
	behind  bool // the database lacks rows
}

func evictionPath(dir string) string { return filepath.Join(dir, "evictions.jsonl") }

// inJournal says where an error is.
func inJournal(err error) error {
	if err != nil {
		err = fmt.Errorf("journal of evictions: %w", err)
	}
	return err
}

// openEvictions reads the file of a state folder, and the journal that it tells.
func openEvictions(dir string) (*evictionFile, *evict.Journal, error) {
	f := &evictionFile{File: lines.File{Path: evictionPath(dir)}}
	text, err := f.Load()
	if err != nil {
		return nil, nil, inJournal(cmp.Or(lines.Forbidden(f.Path), err))
	}
	j, err := f.parse(text)
	return f, j, err
}

// parse takes in the text of the whole file.
func (f *evictionFile) parse(text []byte) (*evict.Journal, error) {
	j := evict.NewJournal()
	for line := range f.Whole(text) { // of one that a crash cut off no command went out
		var l evictionLine
		switch {
		case f.count == 0:
			if json.Unmarshal(line, &f.head) != nil || f.head.Journal == "" {
				f.head, f.stale = evictionHead{}, true
				f.damaged++
			}
			if f.head.Format > evictionFormat {
				return nil, fmt.Errorf("%s was written by a newer priod (format %d, this one knows %d): install that version again, or move the file away", f.Path, f.head.Format, evictionFormat)
			}
		case json.Unmarshal(line, &l) != nil || !l.sound():
			f.damaged++
			f.stale = true
		default:
			l.addTo(j)
			f.turn = max(f.turn, l.Turn)
		}
		f.count++
	}
	inOrder(j)
	return j, nil
}

// inOrder sorts the rows by number, as a search expects.
func inOrder(j *evict.Journal) {
	slices.SortStableFunc(j.Claims, func(a, b evict.Claim) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortStableFunc(j.Evictions, func(a, b evict.Eviction) int { return cmp.Compare(a.Number, b.Number) })
	j.Claims = slices.CompactFunc(j.Claims, func(a, b evict.Claim) bool { return a.Number == b.Number })
	j.Evictions = slices.CompactFunc(j.Evictions, func(a, b evict.Eviction) bool { return a.Number == b.Number })
}

// sound reports whether a line can be what priod wrote.
func (l *evictionLine) sound() bool {
	return l.Turn > 0 &&
		!slices.ContainsFunc(l.Claims, func(c evict.Claim) bool { return c.Number <= 0 || c.Job.ID == 0 || c.State == "" }) &&
		!slices.ContainsFunc(l.Evictions, func(e evict.Eviction) bool {
			return e.Number <= 0 || e.Job.ID == 0 || !slices.Contains(evict.States, e.State)
		})
}

func (l *evictionLine) addTo(j *evict.Journal) {
	j.Update(&evict.Changes{Claims: l.Claims, Evictions: l.Evictions})
	for id, n := range l.Times {
		j.Times[id] = n
	}
	j.LastClaim, j.LastEviction = max(j.LastClaim, l.LastClaim), max(j.LastEviction, l.LastEviction)
}

// lost reports whether the file was deleted or changed by others: then it is rewritten.
func (f *evictionFile) lost() bool {
	if f.Info == nil || f.stale {
		return false
	}
	now, err := os.Stat(f.Path)
	f.stale = errors.Is(err, fs.ErrNotExist) || err == nil && !f.Unchanged(now)
	return f.stale
}

// append adds a turn to the file of the journal j. After an error the file is as
// before.
func (f *evictionFile) append(j *evict.Journal, t *evict.Changes, cluster string) error {
	if f.Info == nil || f.stale || f.count >= 1024+2*f.kept {
		if err := f.rewrite(j, cluster); err != nil {
			return err
		}
	}
	text, err := lines.JSON([]evictionLine{{Turn: f.turn + 1, Claims: t.Claims, Evictions: t.Evictions}})
	if err == nil {
		err = f.Add(text)
	}
	if err == nil {
		f.turn++
		f.count++
	}
	return inJournal(err)
}

// takeBack undoes the last append: no command of it goes out.
func (f *evictionFile) takeBack() error {
	err := f.TakeBack()
	if err == nil {
		f.turn, f.count = f.turn-1, f.count-1
	}
	return inJournal(err)
}

// rewrite writes the file again, with the rows of j. A damaged one is kept aside.
func (f *evictionFile) rewrite(j *evict.Journal, cluster string) error {
	if f.damaged > 0 && lines.Exists(f.Path) {
		if _, err := f.SetAside(); err != nil {
			return inJournal(err)
		}
		f.damaged = 0
	}
	if f.head.Journal == "" {
		f.head.Journal, f.turn, f.behind = rand.Text(), 0, true
	}
	f.head.Format, f.head.Cluster = evictionFormat, cmp.Or(cluster, f.head.Cluster)
	f.turn = max(f.turn, 1)
	all := []any{f.head}
	for i := range j.Claims {
		all = append(all, &evictionLine{Turn: f.turn, Claims: j.Claims[i : i+1]})
	}
	for i := range j.Evictions {
		all = append(all, &evictionLine{Turn: f.turn, Evictions: j.Evictions[i : i+1]})
	}
	all = append(all, &evictionLine{Turn: f.turn, Times: j.Times, LastClaim: j.LastClaim, LastEviction: j.LastEviction})
	text, err := lines.JSON(all)
	if err == nil {
		err = f.Replace(text)
	}
	if err == nil {
		f.count, f.kept, f.stale = len(all), len(all), false
	}
	return inJournal(err)
}

// reconcile decides what continues, from the file and what the database has of it,
// which is up to a turn.
func (f *evictionFile) reconcile(told, stored *evict.Journal, turn int64) *evict.Journal {
	switch {
	case turn < f.turn:
		f.behind = true
		return united(told, stored)
	case turn > f.turn || f.Info == nil && !stored.Blank():
		f.head, f.stale = evictionHead{}, true // it was deleted or cut off: the database rules
	default: // of evictions long ago, only the file may have the counts
		addCounts(stored, told)
	}
	return stored
}

// united is what the file tells, with what the database knows beyond it. Where both give a
// number to different rows, those of the file get others.
func united(file, base *evict.Journal) *evict.Journal {
	differ := slices.ContainsFunc(file.Claims, func(c evict.Claim) bool {
		o := base.Claim(c.Number)
		return o != nil && (o.Job != c.Job || millis(o.At) != millis(c.At))
	}) || slices.ContainsFunc(file.Evictions, func(e evict.Eviction) bool {
		o := base.Eviction(e.Number)
		return o != nil && (o.Job != e.Job || millis(o.At) != millis(e.At))
	})
	if differ {
		for i := range file.Claims {
			file.Claims[i].Number += base.LastClaim
		}
		for i := range file.Evictions {
			file.Evictions[i].Number += base.LastEviction
			file.Evictions[i].Claim += base.LastClaim
		}
		file.LastClaim, file.LastEviction = file.LastClaim+base.LastClaim, file.LastEviction+base.LastEviction
	}
	all := *file
	for _, c := range base.Claims {
		if told := file.Claim(c.Number); told == nil {
			all.Claims = append(slices.Clip(all.Claims), c)
		} else if progress(claimStates, c.State) > progress(claimStates, told.State) {
			*told = c
		}
	}
	for _, e := range base.Evictions {
		if told := file.Eviction(e.Number); told == nil {
			all.Evictions = append(slices.Clip(all.Evictions), e)
		} else if progress(evict.States, e.State) > progress(evict.States, told.State) {
			*told = e
		}
	}
	inOrder(&all)
	addCounts(&all, base)
	return &all
}

var claimStates = []evict.ClaimState{evict.Planned, evict.Holding, evict.Started, evict.Released}

// progress is how far along a state is.
func progress[S comparable](states []S, state S) int { return slices.Index(states, state) }

// addCounts takes into j what another journal counted.
func addCounts(j, other *evict.Journal) {
	for id, n := range other.Times {
		j.Times[id] = max(j.Times[id], n)
	}
	j.LastClaim, j.LastEviction = max(j.LastClaim, other.LastClaim), max(j.LastEviction, other.LastEviction)
}
