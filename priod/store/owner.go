package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/retry"
	"slurmprio/priod/store/db"
)

// Owner is owner.json in a folder that several hosts share: whose priod may write to
// the journal there. The one that takes over writes it first and reads the journal
// then; each one that writes looks at it after its lines are on disk and before a command
// goes out. So the lines of one that owned the folder before are either read by its
// successor or not acted on, and no clock decides.
type Owner struct {
	Host    string    `json:"host"`
	Cluster string    `json:"cluster"`
	Since   time.Time `json:"since"`            // for people
	Key     string    `json:"key"`              // no other take-over has it
	Before  []string  `json:"before,omitempty"` // the keys of those before it, the latest last
}

// maxBefore is how many earlier keys are kept. A host that saw none of so many take-overs
// takes the folder for another one.
const maxBefore = 100

// follows reports whether the folder was the one of a key before.
func (o *Owner) follows(key string) bool { return slices.Contains(o.Before, key) }

// keys are those of a folder until now, for the next owner.
func (o *Owner) keys() []string {
	if o == nil || o.Key == "" {
		return nil
	}
	all := append(slices.Clip(o.Before), o.Key)
	return all[max(0, len(all)-maxBefore):]
}

// seenOwner is owner.json in the state folder: the owner that this host last saw.
type seenOwner struct {
	Owner
	Mine  bool                 `json:"mine"`            // this host's priod
	Files map[string]time.Time `json:"files,omitempty"` // of another host's: when the journal was last changed, by the file system's clock
}

// ErrTakenOver says that another host's priod owns the shared folder: this one writes
// nothing until it has taken over again.
var ErrTakenOver = errors.New("another host's priod owns the shared folder")

func ownerPath(dir string) string { return filepath.Join(dir, "owner.json") }

// ErrUnowned says that owner.json was deleted or damaged: the active priod rewrites it.
var ErrUnowned = errors.New("the shared folder has no owner")

// CheckShared returns the owner of a shared folder, nil when there never was one, as the host of a
// state folder sees it; the error says why that host could not take over.
func CheckShared(dir, shared string) (*Owner, error) {
	now, _, err := whoOwned(dir, shared)
	if err == nil && now != nil && now.Key == "" {
		err = fmt.Errorf("%w: %s is gone or corrupt, and the active priod rewrites it", ErrUnowned, ownerPath(shared))
	}
	return now, err
}

// OwnerWritten is when owner.json of a shared folder was written, by the file system's clock.
func OwnerWritten(shared string) (time.Time, error) {
	info, err := os.Stat(ownerPath(shared))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func readOwner[T any](dir string) (*T, error) {
	text, err := os.ReadFile(ownerPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := new(T)
	_ = json.Unmarshal(text, h) // what is spoiled has no key
	return h, nil
}

func writeOwner(dir string, h any) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return journal.Replace(ownerPath(dir), append(text, '\n'))
}

// shares reports whether the journals stand in a folder that other hosts use, too.
func (s *Store) shares() bool { return s.journals != s.dir }

// owns makes sure that this priod still owns the shared folder.
func (s *Store) owns() error {
	if !s.shares() {
		return nil
	}
	now, err := readOwner[Owner](s.journals)
	switch {
	case err != nil:
		return fmt.Errorf("state.shared: %w", err)
	case now == nil || now.Key == "":
		return fmt.Errorf("%w: %s is gone or corrupt", ErrUnowned, ownerPath(s.journals))
	case s.owner.follows(now.Key): // no host took over: an older file was put in its place
		s.mended("the shared folder is an older copy than what this host's priod wrote there: its files are rewritten from memory, nothing is lost", "folder", s.journals, "owner there", now.Host)
		s.owner.Since = time.Now().UTC().Truncate(time.Second)
		return writeOwner(s.journals, s.owner)
	case now.Key != s.owner.Key:
		return fmt.Errorf("%w: %s, since %s", ErrTakenOver, now.Host, now.Since.Format(time.RFC3339))
	}
	return nil
}

// Watch records the owner of the shared folder while this host is on standby, and how far the
// journals are, so that a folder that is not mounted never counts as new, nor an older
// copy as the one that the other host wrote to. It returns the owner's host, "" without one. The error says why this host could not take over.
func (s *Store) Watch() (owner string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shares() {
		return "", nil
	}
	now, seen, err := whoOwned(s.dir, s.journals)
	if err != nil || now == nil || now.Key == "" {
		return "", err
	}
	if seen != nil && seen.Mine && !now.follows(seen.Key) {
		return now.Host, nil // what this host wrote is still to be told there
	}
	next := seenOwner{Owner: *now}
	if next.Files, err = changed(s.journals); err == nil && !reflect.DeepEqual(seen, &next) {
		err = writeOwner(s.dir, next)
	}
	return now.Host, err
}

// changed tells when the journal of a folder was last changed; nothing where there is none.
func changed(dir string) (map[string]time.Time, error) {
	path := journal.Path(dir)
	switch info, err := os.Stat(path); {
	case err == nil:
		return map[string]time.Time{filepath.Base(path): info.ModTime().UTC()}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("state.shared: %w", err)
	}
	return nil, nil
}

// whoOwned returns the owner of a shared folder, and the owner that the host of a state folder last saw
// there; an error when the folder cannot be the one that this host saw, as it was left.
func whoOwned(dir, shared string) (now *Owner, seen *seenOwner, err error) {
	if seen, err = readOwner[seenOwner](dir); err != nil {
		return nil, nil, err
	}
	if seen != nil && seen.Key == "" {
		seen = nil // spoiled
	}
	info, err := os.Stat(shared)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("state.shared: %w: mount it, or make it for priod's user", err)
	case !info.IsDir():
		return nil, nil, fmt.Errorf("state.shared: %s is no folder", shared)
	}
	if now, err = readOwner[Owner](shared); err != nil {
		return nil, nil, fmt.Errorf("state.shared: %w", err)
	}
	if seen == nil {
		return now, nil, nil
	}
	if now == nil {
		if !journal.Exists(journal.Path(shared)) {
			return nil, nil, fmt.Errorf("state.shared: %s lacks the files that the priod of %s kept there: is it mounted? %s", shared, seen.Host, begin(dir))
		}
		now = new(Owner) // the one file was deleted
	}
	what, err := behind(shared, now, seen)
	if err == nil && what != "" {
		err = fmt.Errorf("state.shared: %s in %s: this host saw it in the hands of the priod of %s as it was later, or in another folder. Is the right one mounted, and not an older copy? %s", what, shared, seen.Host, begin(dir))
	}
	return now, seen, err
}

// begin says what to do when files of a shared folder are gone for good.
func begin(dir string) string {
	return fmt.Sprintf("If the other files are gone for good, delete %s, and priod begins with what it finds", ownerPath(dir))
}

// behind says what of a shared folder is older than what a host saw there that did not own
// it, "" when nothing is.
func behind(shared string, now *Owner, seen *seenOwner) (what string, err error) {
	if now.Key != "" && now.Key != seen.Key && !now.follows(seen.Key) {
		return "there is another owner", nil
	}
	files, err := changed(shared)
	name := filepath.Base(journal.Path(shared)) // an earlier version saw others, which the journal took in
	if files[name].Before(seen.Files[name]) {
		return name + " is older or gone", err
	}
	return "", err
}

// TakeOver makes this host's priod the one that writes to the shared folder, if there is
// one. All that is loaded has to be loaded again after it. When another host's priod held the
// folder until now, it tells which; then the database of this host says nothing of jobs
// in the queue any more.
func (s *Store) TakeOver(ctx context.Context, host, cluster string) (from string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shares() {
		return "", nil
	}
	now, seen, err := whoOwned(s.dir, s.journals)
	if err != nil {
		return "", err
	}
	if now != nil && now.Cluster != "" && now.Cluster != cluster {
		return "", fmt.Errorf("state.shared: %s is cluster %s's, and this is %s: give each cluster a folder of its own", s.journals, now.Cluster, cluster)
	}
	if seen != nil && seen.Mine && now.Key == seen.Key {
		s.owner = *now
		return "", s.readJournal()
	}
	next := Owner{Host: host, Cluster: cluster, Since: time.Now().UTC().Truncate(time.Second), Key: rand.Text(), Before: now.keys()}
	if seen != nil && now.Key == "" {
		next.Before = seen.keys()
	}
	if err := writeOwner(s.journals, next); err != nil {
		return "", fmt.Errorf("state.shared: %w", err)
	}
	s.owner = next
	if err := s.readJournal(); err != nil {
		return "", err
	}
	if now != nil {
		from = cmp.Or(now.Host, "another host")
		s.voids = true
		err := s.sound(ctx, func() error { _, err := s.voidQueue(context.WithoutCancel(ctx)); return err })
		if s.lack(err); err != nil {
			return from, nil // that this host owns the folder is written down once its database can be
		}
	}
	return from, writeOwner(s.dir, seenOwner{Owner: next, Mine: true})
}

// readJournal reads the journal of the shared folder again, and puts it into a new file: a priod that owned the folder before,
// and is slow to notice, finds that its file is another one. What this host alone kept before the folder was shared is taken in.
func (s *Store) readJournal() error {
	var err error
	if s.told, err = openTold(s.journals, LockOfJournal(s.dir)); err != nil {
		return err
	}
	s.unreadable()
	own, err := openTold(s.dir, LockOfJournal(s.dir))
	if err != nil {
		return err
	}
	moves := !own.file.Missing()
	if moves {
		s.takeIn(&own)
	} else if s.file.Missing() {
		return nil
	}
	if err := s.file.Rewrite(); err != nil || !moves {
		return err
	}
	return own.file.Retire()
}

// takeIn adds what another journal tells. Its claims, evictions and failures get numbers after those that are there.
func (s *told) takeIn(own *told) {
	s.file.Join(own.file)
	s.undo.Adopt(s.undo.Lacks(own.undo))
	j, theirs := s.turns.journal, own.turns.journal
	for i := range theirs.Claims {
		theirs.Claims[i].Number += j.LastClaim
	}
	for i := range theirs.Evictions {
		theirs.Evictions[i].Number, theirs.Evictions[i].Claim = theirs.Evictions[i].Number+j.LastEviction, theirs.Evictions[i].Claim+j.LastClaim
	}
	times := maps.Clone(j.Times)
	j.Update(&evict.Changes{Claims: theirs.Claims, Evictions: theirs.Evictions})
	for id, n := range theirs.Times {
		j.Times[id] = times[id] + n
	}
	m, failures := s.failures.memory, own.failures.memory.Failures
	for i := range failures {
		failures[i].Number += m.Last
	}
	m.Update(&retry.Changes{Failures: failures, Drained: own.failures.memory.Drained})
}

// voidQueue ends all that the database says of jobs in the queue and of evictions under way,
// when another host's priod has been active since: the journals have it.
func (s *Store) voidQueue(ctx context.Context) (last db.LastKeysRow, err error) {
	first := s.turns.journal.LastClaim + 1
	for i := range s.turns.journal.Claims {
		first = min(first, s.turns.journal.Claims[i].Number)
	}
	err = s.transact(ctx, func(tx *sql.Tx) (err error) {
		for _, end := range []func(context.Context, db.DBTX) error{
			s.q.VoidJobs, s.q.VoidHistory, s.q.VoidIntervals,
			func(ctx context.Context, tx db.DBTX) error { return s.q.DropEvictionsFrom(ctx, tx, first) },
			func(ctx context.Context, tx db.DBTX) error { return s.q.DropClaimsFrom(ctx, tx, first) },
			s.q.VoidEvictions, s.q.VoidClaims,
		} {
			if err := end(ctx, tx); err != nil {
				return err
			}
		}
		if last, err = s.q.LastKeys(ctx, tx); err != nil {
			return err
		}
		return s.q.DoubtWrites(ctx, tx, crashed)
	})
	s.voids = s.voids && err != nil
	return last, err
}
