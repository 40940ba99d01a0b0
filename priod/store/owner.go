package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"slurmprio/priod/retry"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
	"slurmprio/priod/undo/lines"
)

// Owner is owner.json in a folder that several hosts share: whose priod may write to
// the journals there. The one that takes over writes it first and reads the journals
// then; each one that writes looks at it after its lines are on disk and before a command
// goes out. So the lines of one that owned the folder before are either read by its
// successor or not acted on, and no clock decides.
type Owner struct {
	Host    string    `json:"host"`
	Cluster string    `json:"cluster"`
	Since   time.Time `json:"since"` // for people
	Key     string    `json:"key"`   // no other take-over has it
}

// seenOwner is owner.json in the state folder: the owner that this host last saw.
type seenOwner struct {
	Owner
	Mine bool `json:"mine"` // this host's priod
	Void void `json:"void"`
}

// void is what this host's database does not tell because another host's priod acted.
type void struct {
	Now   bool  `json:"now,omitempty"`   // nothing of the queue, until a cycle is saved
	After int64 `json:"after,omitempty"` // nothing of what jobs ask for by its cycles up to this one
}

// ErrTakenOver says that another host's priod owns the shared folder: this one writes
// nothing until it has taken over again.
var ErrTakenOver = errors.New("another host's priod owns the shared folder")

func ownerPath(dir string) string { return filepath.Join(dir, "owner.json") }

// ReadOwner returns who owns a shared folder; nil when nobody ever did.
func ReadOwner(shared string) (*Owner, error) {
	h, err := readOwner[Owner](shared)
	if err == nil && h != nil && h.Key == "" {
		err = fmt.Errorf("%s does not say who owns the folder: delete it, and the priod that acts writes it anew", ownerPath(shared))
	}
	return h, err
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
	return lines.Replace(ownerPath(dir), append(text, '\n'))
}

// shares tells whether the journals stand in a folder that other hosts use, too.
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
		return fmt.Errorf("%w, or nobody: %s is gone or spoiled", ErrTakenOver, ownerPath(s.journals))
	case now.Key != s.key:
		return fmt.Errorf("%w: %s, since %s", ErrTakenOver, now.Host, now.Since.Format(time.RFC3339))
	}
	return nil
}

// Watch takes note of who owns the shared folder while this host stands by, so that one
// that is not mounted is never taken for a new one. The error says why this host could
// not take over.
func (s *Store) Watch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shares() {
		return nil
	}
	now, seen, err := s.whoOwned()
	if err == nil && now != nil && now.Key != "" && (seen == nil || now.Key != seen.Key) {
		err = writeOwner(s.dir, seenOwner{Owner: *now})
	}
	return err
}

// whoOwned returns who owns the shared folder, and whom this host last saw there.
func (s *Store) whoOwned() (now *Owner, seen *seenOwner, err error) {
	if seen, err = readOwner[seenOwner](s.dir); err != nil {
		return nil, nil, err
	}
	info, err := os.Stat(s.journals)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("state.shared: %w: mount it, or make it for priod's user", err)
	case !info.IsDir():
		return nil, nil, fmt.Errorf("state.shared: %s is no folder", s.journals)
	}
	if now, err = readOwner[Owner](s.journals); err != nil {
		return nil, nil, fmt.Errorf("state.shared: %w", err)
	}
	if now == nil && seen != nil && seen.Key != "" {
		if lines.Exists(undo.Path(s.journals)) {
			return new(Owner), seen, nil // somebody deleted the one file
		}
		return nil, nil, fmt.Errorf("state.shared: %s lacks the files that the priod of %s kept there: is it mounted? If they are gone for good, delete %s, and priod begins anew with what this host's database knows",
			s.journals, seen.Host, ownerPath(s.dir))
	}
	return now, seen, nil
}

// TakeOver makes this host's priod the one that writes to the shared folder, if there is
// one. All that is loaded has to be loaded again after it. When another host's priod held the
// folder until now, it tells which; then the database of this host says nothing of jobs
// in the queue any more, and the journals stand in for it.
func (s *Store) TakeOver(ctx context.Context, host, cluster string) (from string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shares() {
		return "", nil
	}
	now, seen, err := s.whoOwned()
	if err != nil {
		return "", err
	}
	if now != nil && now.Cluster != "" && now.Cluster != cluster {
		return "", fmt.Errorf("state.shared: %s is cluster %s's, and this is %s: give each cluster a folder of its own", s.journals, now.Cluster, cluster)
	}
	if now != nil && now.Key != "" && seen != nil && seen.Mine && seen.Key == now.Key {
		s.key, s.void = now.Key, seen.Void
		return "", s.readJournals()
	}
	next := Owner{Host: host, Cluster: cluster, Since: time.Now().UTC().Truncate(time.Second), Key: rand.Text()}
	if err := writeOwner(s.journals, next); err != nil {
		return "", fmt.Errorf("state.shared: %w", err)
	}
	s.key = next.Key
	if err := s.readJournals(); err != nil {
		return "", err
	}
	if now != nil {
		from = cmp.Or(now.Host, "another host")
		if err := s.sound(ctx, func() error { return s.voidQueue(context.WithoutCancel(ctx)) }); err != nil {
			return from, err
		}
	}
	return from, writeOwner(s.dir, seenOwner{next, true, s.void})
}

// valid says that the database tells of the queue again.
func (s *Store) valid() error {
	if !s.void.Now {
		return nil
	}
	seen, err := readOwner[seenOwner](s.dir)
	if err != nil || seen == nil {
		return err
	}
	seen.Void.Now = false
	if err := writeOwner(s.dir, seen); err != nil {
		return err
	}
	s.void.Now = false
	return nil
}

// readJournals reads the journals of the shared folder again, and puts each into a new file:
// a priod that owned the folder before, and is slow to notice, finds that its file is another
// one. What this host alone kept before the folder was shared is taken in.
func (s *Store) readJournals() (err error) {
	if s.undo, err = undo.Open(s.journals); err != nil {
		return err
	}
	for _, move := range []func() error{s.moveUndo, s.moveEvictions, s.moveFailures} {
		if err := move(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) moveUndo() error {
	own, err := undo.Open(s.dir)
	if err != nil {
		return err
	}
	if err := s.undo.Renew(own); err != nil || own.Missing() {
		return err
	}
	return setMoved(own.Path())
}

func (s *Store) moveEvictions() error {
	f, told, err := openEvictions(s.journals)
	if err != nil {
		return err
	}
	of, own, err := openEvictions(s.dir)
	if err != nil || f.Info == nil && of.Info == nil {
		return err
	}
	if of.Info != nil {
		told = united(own, told)
	}
	if err := f.rewrite(told, cmp.Or(f.head.Cluster, of.head.Cluster)); err != nil || of.Info == nil {
		return err
	}
	return setMoved(of.Path)
}

func (s *Store) moveFailures() error {
	f, told, err := openFailures(s.journals)
	if err != nil {
		return err
	}
	of, own, err := openFailures(s.dir)
	if err != nil || f.Info == nil && of.Info == nil {
		return err
	}
	m := retry.NewMemory()
	m.Update(told)
	for i := range own.Failures {
		own.Failures[i].Number += m.Last
	}
	m.Update(own)
	if err := f.rewrite(m); err != nil || of.Info == nil {
		return err
	}
	return setMoved(of.Path)
}

// setMoved renames a journal whose lines stand in the shared folder now.
func setMoved(path string) error {
	return errors.Join(os.Rename(path, path+".moved"), lines.SyncDir(filepath.Dir(path)))
}

// voidQueue ends all that the database says of jobs in the queue and of evictions under way,
// when another host's priod has acted since: the journals say it anew.
func (s *Store) voidQueue(ctx context.Context) error {
	_, told, err := openEvictions(s.journals)
	if err != nil {
		return err
	}
	first := told.LastClaim + 1
	for i := range told.Claims {
		first = min(first, told.Claims[i].Number)
	}
	return s.transact(ctx, func(tx *transaction) error {
		for _, end := range []func(context.Context, db.DBTX) error{
			s.q.VoidJobs, s.q.VoidHistory, s.q.VoidIntervals, s.q.VoidTurns,
			func(ctx context.Context, tx db.DBTX) error { return s.q.DropEvictionsFrom(ctx, tx, first) },
			func(ctx context.Context, tx db.DBTX) error { return s.q.DropClaimsFrom(ctx, tx, first) },
			s.q.VoidEvictions, s.q.VoidClaims,
		} {
			if err := end(ctx, tx); err != nil {
				return err
			}
		}
		last, err := s.q.LastKeys(ctx, tx)
		if err != nil {
			return err
		}
		s.void = void{Now: true, After: last.Cycle}
		return s.q.DoubtWrites(ctx, tx, crashed)
	})
}
