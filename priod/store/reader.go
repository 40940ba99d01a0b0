package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/store/db"
	"slurmprio/priod/undo"
)

// Reader shows what a state folder holds, while the daemon runs and when it is
// down, also to group members who may read the folder but not write into it.
// It never creates or changes a file. It serves one goroutine at a time.
type Reader struct {
	dir    string
	q      *db.Queries
	db     *sql.DB
	frozen bool // no -wal: no process writes, and SQLite needs no lock files
	at     time.Time
}

// OpenReader opens the state folder for reading, of a replay as it ended.
func OpenReader(ctx context.Context, dir string) (*Reader, error) {
	return OpenReaderAt(ctx, dir, time.Time{})
}

func openReader(ctx context.Context, dir string, at time.Time) (*Reader, error) {
	r := &Reader{dir: dir, q: db.New(), at: at}
	if err := r.open(ctx); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the reader.
func (r *Reader) Close() error {
	if r.db == nil {
		return nil
	}
	err := r.db.Close()
	r.db = nil
	return err
}

func (r *Reader) open(ctx context.Context) error {
	path := databasePath(r.dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no database in %s: the daemon makes it in its first cycle, in the state.dir of its configuration", r.dir)
	} else if errors.Is(err, fs.ErrPermission) {
		return journal.Forbidden(path)
	} else if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	return r.patiently(ctx, func() error { return r.connect(ctx) })
}

// connect chooses between SQLite's two ways into a WAL database without write
// access: through the -shm file that the writer made, mapped read-only; or, when
// there is no -wal, as a file that does not change.
func (r *Reader) connect(ctx context.Context) error {
	if err := r.Close(); err != nil {
		return err
	}
	path := databasePath(r.dir)
	params := url.Values{"mode": {"ro"}, "_query_only": {"on"}, "_busy_timeout": {"5000"}, "_stmt_cache_size": {"64"}} // pages ask the same of each of a hundred jobs
	r.frozen = !r.live()
	if r.frozen {
		params.Set("immutable", "1")
	} else {
		params.Set("readonly_shm", "1")
	}
	r.db = sql.OpenDB(connector{uri(path, params), r.at})
	r.db.SetMaxOpenConns(1)
	return r.checkSchema(ctx)
}

// live reports whether a writer is, or was when it crashed, at the database.
func (r *Reader) live() bool {
	wal, err := os.Stat(databasePath(r.dir) + "-wal")
	if err != nil {
		return false
	}
	_, err = os.Stat(databasePath(r.dir) + "-shm")
	return err == nil || wal.Size() > 0
}

func (r *Reader) checkSchema(ctx context.Context) error {
	var has, knows int64
	provider, err := migrations(r.db)
	if err != nil {
		return err
	}
	for _, source := range provider.ListSources() {
		knows = max(knows, source.Version)
	}
	err = r.db.QueryRowContext(ctx, "SELECT max(version_id) FROM goose_db_version").Scan(&has)
	switch {
	case err != nil && strings.Contains(err.Error(), "no such table"):
		return fmt.Errorf("%s %w", databasePath(r.dir), errUnmade)
	case err != nil:
		return err
	case has > knows:
		return &NewerError{Path: databasePath(r.dir), Has: has, Knows: knows}
	case has < knows:
		return fmt.Errorf("%s has schema %d and this priod reads %d: start the new priod's daemon once, it %w", databasePath(r.dir), has, knows, errOutdated)
	}
	return nil
}

// A daemon that starts makes the tables one migration after the other.
var (
	errUnmade   = errors.New("has no tables yet: the daemon makes them when it starts; ask again in a moment")
	errOutdated = errors.New("brings the database up to date")
)

// Sound reads the whole database and says what is wrong with it; thorough: also whether indexes agree with tables.
func (r *Reader) Sound(ctx context.Context, thorough bool) error {
	query := "PRAGMA quick_check(1)"
	if thorough {
		query = "PRAGMA integrity_check(1)"
	}
	said, err := one(ctx, r, func(tx *sql.Tx) (said string, err error) {
		return said, tx.QueryRowContext(ctx, query).Scan(&said)
	})
	if err == nil && said != "ok" {
		err = fmt.Errorf("%s is broken: %s", databasePath(r.dir), strings.Join(strings.Fields(said), " "))
	}
	return err
}

// view runs read in one transaction: all of it sees the same moment.
func (r *Reader) view(ctx context.Context, read func(tx *sql.Tx) error) error {
	return r.patiently(ctx, func() error {
		if r.db == nil || r.frozen == r.live() { // the daemon has come or gone meanwhile
			if err := r.connect(ctx); err != nil {
				return err
			}
		}
		tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return read(tx)
	})
}

// migrationPatience is for how long a reader waits for each step of a daemon that makes the tables.
const migrationPatience = 2 * time.Second

// patiently tries again what SQLite would have to write for, and while a daemon that
// starts makes the tables. Without write access SQLite cannot set the mark that a
// reader needs; the writer's next transaction does. And the last writer to go takes
// the -shm away before the -wal.
func (r *Reader) patiently(ctx context.Context, attempt func() error) error {
	begun, step := time.Now(), ""
	for try := 0; ; try++ {
		err := attempt()
		if err != nil && err.Error() != step {
			begun, step = time.Now(), err.Error()
		}
		migrates := errors.Is(err, errUnmade) || errors.Is(err, errOutdated) && r.live()
		if err == nil || try >= 5 && !migrates || !migrates && !isUnready(err) || time.Since(begun) > migrationPatience {
			return r.explain(err)
		}
		select {
		case <-ctx.Done():
			return r.explain(err)
		case <-time.After(time.Duration(min(try+1, 5)) * 20 * time.Millisecond):
		}
	}
}

// one is what read finds in one transaction.
func one[T any](ctx context.Context, r *Reader, read func(tx *sql.Tx) (T, error)) (found T, err error) {
	err = r.view(ctx, func(tx *sql.Tx) (err error) {
		found, err = read(tx)
		return err
	})
	return found, err
}

// list is what the rows of one query say.
func list[R, T any](ctx context.Context, r *Reader, query func(tx *sql.Tx) ([]R, error), of func(*R) T) ([]T, error) {
	return one(ctx, r, func(tx *sql.Tx) ([]T, error) {
		rows, err := query(tx)
		return each(rows, of), err
	})
}

// History is what the daemon would load, with the undo journal of a folder, for a dry run
// beside it.
func (r *Reader) History(ctx context.Context, journals string) (*cluster.History, error) {
	journal, err := undo.Open(journals, "")
	if err != nil {
		return nil, err
	}
	var l loader
	err = r.view(ctx, func(tx *sql.Tx) error {
		l = loader{q: r.q, tx: tx, undo: journal, history: cluster.NewHistory()}
		l.stored.reset()
		return l.all(ctx)
	})
	if err != nil {
		return nil, err
	}
	l.history.Remember(func(j *cluster.Job, inherits bool) { journal.Recall(l.history, j, inherits) })
	return l.history, nil
}

// JournalSeen is how many records the journal had in the last cycle that was recorded.
func (r *Reader) JournalSeen(ctx context.Context) (int64, error) {
	return one(ctx, r, func(tx *sql.Tx) (int64, error) {
		last, err := r.q.LastKeys(ctx, tx)
		return last.Journal, err
	})
}

func (r *Reader) explain(err error) error {
	var e sqlite3.Error
	switch path := databasePath(r.dir); {
	case !errors.As(err, &e):
		return err
	case isBroken(err):
		return fmt.Errorf("%s is broken: the running daemon sets it aside and starts over: %w", path, err)
	case isUnready(err):
		if err := journal.Forbidden(path); err != nil {
			return err
		}
		return fmt.Errorf("%s cannot be read by this user right now: wait for the daemon's next cycle, or run as priod's own user: %w", path, err)
	default:
		return explain(err, path)
	}
}

// isUnready reports whether SQLite would have to write a lock file first.
func isUnready(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrReadonly || e.Code == sqlite3.ErrCantOpen)
}
