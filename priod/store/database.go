package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"

	"slurmprio/priod/journal"
	"slurmprio/priod/store/bulk"
	"slurmprio/priod/store/db"
	files "slurmprio/sql"
)

// A database that breaks again so soon after it was started over has a broken
// disk under it; setting it aside each cycle would fill that disk.
const anewPeriod = time.Minute

// NewerError says that a newer priod has been at the database.
type NewerError struct {
	Path       string
	Has, Knows int64 // schema versions
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was written by a newer priod (schema %d, this one knows %d): install that version again, or move the file away to start over", e.Path, e.Has, e.Knows)
}

func databasePath(dir string) string { return filepath.Join(dir, "priod.db") }

// openDatabase opens priod.db for writing and brings its schema up to date.
//
// synchronous=FULL: a commit is on disk when it returns, so that no power cut
// loses the plan of writes that went out. There are two commits in a cycle.
func (s *Store) openDatabase(ctx context.Context) error {
	path := databasePath(s.dir)
	// SQLite gives -wal and -shm the mode of the file: group members read.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	s.opened, err = f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	params := url.Values{
		"_auto_vacuum":     {"incremental"},
		"_journal_mode":    {"wal"},
		"_synchronous":     {"full"},
		"_foreign_keys":    {"on"},
		"_busy_timeout":    {strconv.FormatInt(s.patience().Milliseconds(), 10)},
		"_txlock":          {"immediate"},
		"_stmt_cache_size": {"64"},
		"_cache_size":      {"-65536"}, // KiB
		"_mutex":           {"no"},     // one goroutine at a time uses the one connection
	}
	if s.opts.Replay {
		params.Set("_synchronous", "off")
		params.Set("_foreign_keys", "off") // nothing is deleted
	}
	handle, err := sql.Open("sqlite3", uri(path, params))
	if err != nil {
		return err
	}
	handle.SetMaxOpenConns(1)
	handle.SetMaxIdleConns(1)
	err = migrate(ctx, handle, path)
	if err == nil {
		// A first cycle leaves a large -wal behind: give it back to the disk. What a cycle wrote
		// is moved into the database after it, by Checkpoint; else once there are 256 MB.
		_, err = handle.ExecContext(ctx, "PRAGMA journal_size_limit = 16777216; PRAGMA wal_autocheckpoint = 65536")
	}
	if err != nil {
		_ = handle.Close()
		return err
	}
	s.db, s.beside = handle, map[string]os.FileInfo{}
	for _, suffix := range []string{"-wal", "-shm"} {
		if info, err := os.Stat(path + suffix); err == nil {
			s.beside[suffix] = info
		}
	}
	return nil
}

func migrate(ctx context.Context, handle *sql.DB, path string) error {
	provider, err := migrations(handle)
	if err != nil {
		return err
	}
	has, knows, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if has > knows {
		return &NewerError{Path: path, Has: has, Knows: knows}
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the database from schema %d to %d: %w", has, knows, err)
	}
	return nil
}

func migrations(handle *sql.DB) (*goose.Provider, error) {
	folder, err := fs.Sub(files.Migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, handle, folder, goose.WithDisableGlobalRegistry(true))
}

// uri is a path as SQLite takes it, whatever characters are in it.
func uri(path string, params url.Values) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: params.Encode()}).String()
}

func (s *Store) closeDatabase() error {
	if s.db == nil {
		return nil
	}
	err := errors.Join(s.commit(), s.db.Close())
	s.db = nil
	return err
}

// commit ends the transaction of a replay; a reader sees what is committed.
func (s *Store) commit() (err error) {
	if s.many != nil {
		err = s.many.Commit()
		s.many = nil
	}
	return err
}

// rows is where single statements run.
func (s *Store) rows() db.DBTX {
	if s.many != nil {
		return s.many
	}
	return s.db
}

// isBroken reports whether an error says that the file is no sound database.
func isBroken(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB) || errors.Is(err, errGone)
}

// isLocked reports whether another program held the database for as long as a statement waits.
func isLocked(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked)
}

// errGone says that priod.db is no longer the file that was opened.
var errGone = errors.New("priod.db was deleted or replaced while priod ran")

// intact makes sure that what is written can be found again: SQLite itself goes
// on writing into deleted files, and into overwritten ones.
func (s *Store) intact() error {
	if s.opts.Replay && s.db != nil {
		return nil
	}
	if err := s.keepLock(); err != nil {
		return err
	}
	if s.db == nil {
		if err := s.openDatabase(context.Background()); err != nil {
			return err
		}
		s.unread = true
		s.log.Info("the database is open now", "file", databasePath(s.dir))
	}
	path := databasePath(s.dir)
	if same, err := journal.Stands(path, s.opened); err != nil || !same {
		return cmp.Or(err, errGone)
	}
	for suffix, file := range s.beside {
		if same, err := journal.Stands(path+suffix, file); err != nil || !same {
			return cmp.Or(err, s.reopen(path+suffix))
		}
	}
	// SQLite checks a page only when it reads it: from its memory it would serve,
	// until the next start, a database whose file was overwritten.
	_, err := s.db.Exec("PRAGMA shrink_memory")
	return err
}

// reopen saves what the open database has in a log that was deleted.
func (s *Store) reopen(lost string) error {
	var busy, pages, moved int
	err := s.db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	if err != nil {
		return err
	}
	if busy != 0 {
		return fmt.Errorf("%s was deleted and another program keeps the database in use: end it", lost)
	}
	if err := s.closeDatabase(); err != nil {
		return err
	}
	if err := s.openDatabase(context.Background()); err != nil {
		return err
	}
	s.mended("a file of the database was deleted or replaced while priod ran: rebuilt, nothing is lost", "file", lost)
	return nil
}

// checkpointAt is how large, in bytes, the log of the database is when Checkpoint moves it.
const checkpointAt = 4 << 20

// Checkpoint moves what was written lately from SQLite's log into the database, when that is
// much. The daemon calls it between cycles: a cycle does not wait for it.
func (s *Store) Checkpoint() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.commit(); err != nil {
		return s.explain(err)
	}
	if info, err := os.Stat(databasePath(s.dir) + "-wal"); s.db == nil || err != nil || info.Size() < checkpointAt {
		return nil // the next writer says what is wrong with the database
	}
	var busy, pages, moved int
	return s.explain(s.db.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved))
}

// setAside renames a broken database and what belongs to it.
func (s *Store) setAside(why error) error {
	if time.Since(s.anew) < anewPeriod {
		return fmt.Errorf("the database broke again within %s: check the disk of %s: %w", anewPeriod, s.dir, why)
	}
	if err := s.closeDatabase(); err != nil {
		s.log.Warn("close the broken database", "error", err)
	}
	path := databasePath(s.dir)
	to, err := journal.AsideName(path)
	if err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the broken database aside: %w", err)
		}
	}
	s.anew = time.Now()
	s.mended("the database is corrupt: set aside and started over; only history is lost", "error", why, "aside", to)
	return journal.SyncDir(s.dir)
}

// startAnew begins a new database under way; the next cycle writes all that
// the daemon knows.
func (s *Store) startAnew(ctx context.Context, why error) error {
	if err := s.setAside(why); err != nil {
		return err
	}
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	s.stored.forgetRows()
	s.forgetUnsaved()
	return nil
}

// forgetUnsaved says that nothing of what is under way has a row any more.
func (s *Store) forgetUnsaved() {
	for _, w := range s.unsaved.writes {
		w.row = 0
	}
	s.forgetWaits()
	s.behind, s.unread = true, false
}

// endUnread ends what a database that could not be read at the start says of the queue: all that is known gets rows of its own.
func (s *Store) endUnread(ctx context.Context) error {
	last, err := s.voidQueue(ctx)
	if err != nil {
		return err
	}
	s.stored.forgetRows()
	for _, e := range s.stored.jobs {
		e.row = 0
	}
	for i := range s.unsaved.closed {
		s.unsaved.closed[i].row = 0
	}
	s.stored.row, s.stored.cycle, s.stored.polls, s.stored.write = last.Job, last.Cycle, last.Polls, last.Write
	s.forgetUnsaved()
	return nil
}

// lockPatience is for how long a transaction waits for another program. Once that was in vain, those to come wait for no more
// than impatience: priod goes on without the database until one succeeds.
const (
	lockPatience = 5 * time.Second
	impatience   = 100 * time.Millisecond
)

func (s *Store) patience() time.Duration {
	if s.unrecorded != nil {
		return impatience
	}
	return lockPatience
}

// lack takes in whether the database could be brought up to date, and why not.
func (s *Store) lack(err error) {
	changes := (err == nil) != (s.unrecorded == nil)
	if s.unrecorded = s.explain(err); changes && s.db != nil {
		_, _ = s.db.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", s.patience().Milliseconds())) // it changes no file
	}
}

// Unrecorded is why the database lacks what happened lately; "" when it has all.
func (s *Store) Unrecorded() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unrecorded == nil {
		return ""
	}
	return s.unrecorded.Error()
}

// recall reads what a start can do without: an error of the database, of which lack tells, leaves found as it is.
func recall[T any](ctx context.Context, s *Store, read func(tx db.DBTX) (T, error)) (found T, err error) {
	err = s.batch(ctx, func(tx db.DBTX) (err error) {
		read, err := read(tx)
		if err == nil {
			found = read
		}
		return err
	})
	if err == nil || ctx.Err() != nil {
		return found, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lack(err)
	return found, nil
}

// sound runs what needs a sound database: once more in a new one when it is broken.
func (s *Store) sound(ctx context.Context, do func() error) error {
	err := s.intact()
	if err == nil {
		err = do()
	}
	if isBroken(err) {
		if err = s.startAnew(ctx, err); err == nil {
			err = do()
		}
	}
	return s.explain(err)
}

// transact commits what do does unless that fails; of a replay, later: a transaction is of many cycles there, and a failure ends it.
func (s *Store) transact(ctx context.Context, do func(tx *sql.Tx) error) (err error) {
	if s.opts.Replay {
		if s.many == nil {
			s.many, err = s.db.BeginTx(context.WithoutCancel(ctx), nil)
		}
		if err != nil {
			return err
		}
		return do(s.many)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// statements keeps those that change a row each, and runs those of the same text at once.
type statements struct {
	texts []string
	rows  []bulk.Rows // of each text
}

// add takes in one: its text and, by a pointer, its parameters.
func (s *statements) add(text string, parameters any) error {
	i := slices.Index(s.texts, text)
	if i < 0 {
		i = len(s.texts)
		s.texts, s.rows = append(s.texts, text), append(s.rows, bulk.Rows{})
	}
	return s.rows[i].Add(parameters)
}

// run runs those that are kept, in the order in which their texts came first.
func (s *statements) run(ctx context.Context, tx db.DBTX) error {
	for i, text := range s.texts {
		if err := s.rows[i].Run(ctx, tx, text); err != nil {
			return err
		}
	}
	return nil
}

// full reports whether they take as much memory as is worth a call.
func (s *statements) full() bool {
	n := 0
	for i := range s.rows {
		n += s.rows[i].Size()
	}
	return n >= 256<<10
}

func (s *statements) reset() {
	for i := range s.rows {
		s.rows[i].Reset()
	}
}

// eachRow runs the statements that put makes of some things, until one fails. Those of the same text run in the order of the things.
func eachRow[T any](ctx context.Context, tx db.DBTX, all []T, put func(*statements, *T) error) error {
	var some statements
	for i := range all {
		if err := put(&some, &all[i]); err != nil {
			return err
		}
		if some.full() {
			if err := some.run(ctx, tx); err != nil {
				return err
			}
			some.reset()
		}
	}
	return some.run(ctx, tx)
}

func (s *Store) explain(err error) error { return explain(err, databasePath(s.dir)) }

// explain says in an operator's words what keeps a database from working.
func explain(err error, path string) error {
	var e sqlite3.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == sqlite3.ErrFull || e.SystemErrno == syscall.ENOSPC || e.SystemErrno == syscall.EDQUOT:
		return fmt.Errorf("no room for %s: make space there, or lower the retention: %w", path, err)
	case e.Code == sqlite3.ErrReadonly || e.SystemErrno == syscall.EROFS || e.SystemErrno == syscall.EACCES:
		return fmt.Errorf("%s cannot be written: check its owner, its mode and the mount: %w", path, err)
	case isLocked(e):
		return fmt.Errorf("another program keeps %s locked (sqlite3, a backup?): end it: %w", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
