// Package store keeps what priod saw, decided and wrote: a SQLite database, and
// beside it the journal, which needs no database. It is the Recorder of the
// daemon's cycle, and the Reader of every verb that shows something.
//
// The state folder holds
//
//	priod.db         history: jobs, nodes, intervals, cycles, decisions, writes
//	journal.jsonl    every change to a job with what was there before, claims and evictions, failures; see package journal
//	paused           who paused priod, when and why; see Pause
//	owner.json       whose priod writes to a folder that several hosts share; see Owner
//	lock             held by the one daemon of this folder
//	act.lock         held while jobs are changed, by the daemon or by priod reset
//	journal.lock     held for a moment by who appends to the journal
//
// Where several hosts share a folder, the journal and paused stand there, and the
// rest in a state folder of each host: SQLite is not made for network file systems.
//
// Losing the database costs history, never correctness: it is set aside and
// started over from what the daemon knows, and after a restart from the journal. While it
// cannot be written or opened, decisions and writes go on from memory and the journal, and it is completed later.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store/db"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate -f ../../sql/sqlc.yaml

// Options of a Store.
type Options struct {
	Shared    string        // the folder of the journal and the pause that all hosts of slurmctld use; "": the state folder
	Retention time.Duration // age at which Prune drops what is past, at least two days; 0: never
	Logger    hclog.Logger  // nil: silent
	Once      bool          // no daemon: that it has ended is no fault, see Running
	Replay    bool          // of a simulation: what is written reaches the disk when it may, and the folder is no other process's

	Now func() time.Time // what is past goes by it; nil: the system's clock
}

// Store is the daemon's side of a state folder. One process holds it.
type Store struct {
	dir      string
	journals string // the folder of the journal
	owner    Owner  // this priod, of a shared one
	opts     Options
	log      hclog.Logger
	lock     *os.File

	mu         sync.Mutex // one cycle, or one batch of Prune, at a time
	db         *sql.DB
	many       *sql.Tx // of a replay, over many cycles; nil: none is open
	q          *db.Queries
	opened     os.FileInfo            // priod.db as it was opened
	beside     map[string]os.FileInfo // SQLite's own files beside it, by suffix
	losses     int                    // see Mended
	loss       string                 // the last of them
	pause      *Pause                 // as last read
	taken      bool                   // another priod has been here
	anew       time.Time              // when the database was last started over
	acting     *os.File               // act.lock, from Planned to Done
	history    *cluster.History       // as Load returned it; followed by Planned and Done
	stored     stored
	unsaved    unsaved
	unread     bool              // the database holds a queue that this process has not read
	voids      bool              // and that is another host's affair
	unrecorded error             // why the database lacks what happened lately; nil: it has all
	changes    changes           // of the cycle at hand
	noted      *cluster.Snapshot // whose stays are in unsaved

	observed *observed // of the cycle that Planned follows; the cycle's own goroutine alone uses it

	told
	behind bool // the database may lack evictions and failures
}

// unopened says which folder could not be opened, and which user can.
func unopened(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		dir += " (run it as priod's own user or root)"
	}
	return fmt.Errorf("state folder %s: %w", dir, err)
}

// Open opens the state folder for the one daemon that may write to it, and
// creates what is missing. A database that is broken is set aside; one that a
// newer priod wrote is an error. One that cannot be opened otherwise is tried again in each cycle.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, unopened(dir, err)
	}
	lock, err := acquireSoon(filepath.Join(dir, "lock"))
	if errors.As(err, new(*HeldError)) {
		return nil, fmt.Errorf("state folder %s: %w; one priod at a time", dir, err)
	}
	if err != nil {
		return nil, unopened(dir, err)
	}
	s := &Store{dir: dir, journals: cmp.Or(o.Shared, dir), opts: o, log: o.Logger, lock: lock, q: db.New()}
	s.stored.reset()
	if s.shares() {
		_, _, err = whoOwned(s.dir, s.journals)
	}
	if err == nil {
		err = s.open(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	err := s.openDatabase(ctx)
	if isBroken(err) {
		if err = s.setAside(err); err == nil {
			err = s.openDatabase(ctx)
		}
	}
	if errors.As(err, new(*NewerError)) {
		return err
	}
	s.lack(err)
	if s.told, err = openTold(s.journals, LockOfJournal(s.dir)); err != nil {
		return err
	}
	if s.opts.Replay {
		s.file.Alone()
	}
	if !s.shares() { // else the host that takes over says so
		s.unreadable()
	}
	return nil
}

// unreadable says that lines of the journal do not count.
func (s *Store) unreadable() {
	if n := s.file.Damaged(); n > 0 {
		s.log.Error("the journal has unreadable lines; they are ignored, and a copy is kept", "lines", n, "file", s.file.Path())
	}
}

// Mended returns how often since Open a file of the folder was lost or damaged
// and rebuilt, and what was the last.
func (s *Store) Mended() (times int, last string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.losses, s.loss
}

func (s *Store) mended(what string, details ...any) {
	s.losses++
	s.loss = what
	s.log.Error(what, details...)
}

// SetRetention changes what Options said.
func (s *Store) SetRetention(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Retention = d
}

// Close ends the store and gives the folder free.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopActing()
	if s.taken {
		return nil // closing would delete the other priod's -wal by its name; the process ends anyway
	}
	err := s.closeDatabase()
	if s.lock != nil {
		if s.opts.Once {
			_ = s.lock.Truncate(0)
		}
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}
