package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	files "slurmprio/sql"
)

// OpenReaderAt opens the state folder for reading as it was at a time; the zero time: as it is now, or as a replay ended.
func OpenReaderAt(ctx context.Context, dir string, at time.Time) (*Reader, error) {
	replay, err := ReadReplay(dir)
	if err != nil {
		return nil, err
	}
	r, err := openReader(ctx, dir, time.Time{})
	if err != nil || at.IsZero() && replay == nil {
		return r, err
	}
	first, until, err := r.Span(ctx)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if at.IsZero() {
		at = until
	}
	if err := outside(at, first, until); err != nil {
		return nil, err
	}
	return openReader(ctx, dir, at)
}

// OutsideError says that nothing is known of a moment.
type OutsideError struct{ At, First, Until time.Time }

func (e *OutsideError) Error() string {
	said := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	return fmt.Sprintf("nothing is known of %s: what is recorded goes from %s to %s", said(e.At), said(e.First), said(e.Until))
}

func outside(at, first, until time.Time) error {
	if at.Before(first) || at.After(until) {
		return &OutsideError{at, first, until}
	}
	return nil
}

// Span is the time that can be read: of a replay from its first cycle to its last, else until now.
func (r *Reader) Span(ctx context.Context) (first, until time.Time, err error) {
	if replay, err := ReadReplay(r.dir); replay != nil || err != nil {
		if err == nil {
			first, until = replay.From, replay.Until
		}
		return first, until, err
	}
	first, err = one(ctx, r, func(tx *sql.Tx) (time.Time, error) {
		at, err := r.q.FirstCycle(ctx, tx)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("%w: priod has not finished a cycle yet", ErrNone)
		}
		return instant(at), err
	})
	return first, time.Now(), err
}

// Moment is the time as of which it reads; zero: now.
func (r *Reader) Moment() time.Time { return r.at }

// Now is the time as of which it reads.
func (r *Reader) Now() time.Time { return AsOf(r.at) }

// AsOf is a moment, where it is not zero: then it is now.
func AsOf(moment time.Time) time.Time {
	if moment.IsZero() {
		return time.Now()
	}
	return moment
}

// Hold is why nothing was written: HoldNow, and of a moment what its last cycle found.
func (r *Reader) Hold(journals string, last *Cycle) string {
	if r.at.IsZero() {
		return HoldNow(journals, last.Hold)
	}
	return last.Hold
}

// connector opens connections on which the tables are as they were at a time; zero: as they are.
type connector struct {
	name string
	at   time.Time
}

func (c connector) Driver() driver.Driver {
	return &sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		if c.at.IsZero() {
			return nil
		}
		if err := conn.RegisterFunc("spans_at", spansAt, true); err != nil {
			return err
		}
		views := strings.ReplaceAll(files.Moment, ":at", strconv.FormatInt(millis(c.at), 10))
		_, err := conn.Exec("PRAGMA temp_store = memory; PRAGMA query_only = off; "+views+"PRAGMA query_only = on", nil)
		return err
	}}
}

// spansAt are the parts of a wait, as appendSpans writes them, that began until a time, of which the last one goes on. SQLite's own
// functions for JSON take 30 times as long, and a long queue has hundreds of parts for each job.
func spansAt(spans string, at int64) string {
	depth, quoted := 0, false
	begins, goesOn := 0, "" // where the last part has its end, and that end, where it is later
	end := len(spans)
	for i := 0; i < end; i++ {
		switch c := spans[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ']' || c == '}'):
			depth--
		case !quoted && (c == '[' || c == '{'):
			if depth++; depth != 2 {
				continue
			}
			from, rest, _ := strings.Cut(spans[i+1:], ",")
			until, _, _ := strings.Cut(rest, ",")
			if n, err := strconv.ParseInt(from, 10, 64); err != nil || n > at {
				end = i
			} else if n, err := strconv.ParseInt(until, 10, 64); err == nil && n > at {
				begins, goesOn = i+1+len(from)+1, until
			}
		}
	}
	kept := spans
	if end < len(spans) {
		kept = strings.TrimSuffix(spans[:end], ",") + "]"
	}
	if goesOn != "" {
		kept = kept[:begins] + "0" + kept[begins+len(goesOn):]
	}
	return kept
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Driver().Open(c.name) }
