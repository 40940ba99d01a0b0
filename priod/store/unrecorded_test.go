package store

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/retry"
	"slurmprio/slurmplug"
)

// locked keeps other writers off a database until release is called.
func locked(t *testing.T, dir string) (release func()) { return lockedBy(t, databasePath(dir)) }

// shut keeps readers off, too, where the database is not open yet.
func shut(t *testing.T, dir string) (release func()) {
	return lockedBy(t, databasePath(dir)+"?_locking_mode=exclusive")
}

func lockedBy(t *testing.T, uri string) (release func()) {
	t.Helper()
	other := must[*sql.DB](t)(sql.Open("sqlite3", "file:"+uri))
	other.SetMaxOpenConns(1)
	t.Cleanup(func() { other.Close() })
	if _, err := other.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// While the database is locked evictions and failures are made safe by the journal alone, and none of its rows are missing later.
func TestEvictionsWhileLocked(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(17, "te"), pending(18, "be"))
	d.cycle()
	exec(t, d.store, "PRAGMA busy_timeout = 50")
	j, m := must[*evict.Journal](t)(d.store.LoadEvictions(ctx)), must[*retry.Memory](t)(d.store.LoadFailures(ctx))
	release := locked(t, d.store.dir)
	turn := evicted(now())
	save(t, d.store, j, turn)
	saveFailures(t, d, m, failed(now()))
	d.cycle()
	turn.Evictions[0].State, turn.Evictions[0].SignalledAt = evict.Signalled, now()
	save(t, d.store, j, turn)
	if told := must[*Told](t)(ReadJournal(d.store.dir)); told.Evictions.Times[slurmplug.Plain(18)] != 1 || len(told.Failures.Failures) != 2 || d.store.Unrecorded() == "" {
		t.Errorf("%+v %+v", told.Evictions, told.Failures)
	}
	release()
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM evictions WHERE state = 'signalled'"); n != 1 || d.store.Unrecorded() != "" {
		t.Errorf("%d evictions, %s", n, d.store.Unrecorded())
	}
	if n := count(t, d.store, "SELECT count(*) FROM failures"); n != 2 {
		t.Errorf("%d failures", n)
	}
}

// A write to a job that leaves while the database is locked has no row; that is said, and all others have theirs.
func TestWrittenAndGoneWhileLocked(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"))
	log := &bytes.Buffer{}
	d.store.log = hclog.New(&hclog.LoggerOptions{Output: log})
	d.cycle()
	exec(t, d.store, "PRAGMA busy_timeout = 50")
	release := locked(t, d.store.dir)
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(2, "te"), pending(3, "te"))
	d.cycle()
	d.remove(2)
	d.cycle()
	release()
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM writes WHERE status = 'applied'"); n != 2 || !strings.Contains(log.String(), "misses writes to jobs that left") {
		t.Errorf("%d writes\n%s", n, log)
	}
	d.cycle()
	if u := &d.store.unsaved; len(u.writes) != 0 {
		t.Errorf("%d writes are kept", len(u.writes))
	}
}

// A priod that finds its database locked, or not to be opened, goes on from the journal; once it can be written the rows of the
// queue are those of this priod, and what was there before has ended.
func TestUnreadableAtStart(t *testing.T) {
	for name, keep := range map[string]func(t *testing.T, dir string) (release func()){
		"locked": locked,
		"shut":   shut,
		"no file": func(t *testing.T, dir string) (release func()) {
			path := databasePath(dir)
			if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o750)); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"), pending(17, "te"), pending(18, "be"))
			d.cycle()
			save(t, d.store, must[*evict.Journal](t)(d.store.LoadEvictions(ctx)), evicted(now()))
			if err := d.store.Close(); err != nil {
				t.Fatal(err)
			}
			release := keep(t, dir)
			d.store = must[*Store](t)(Open(ctx, dir, Options{}))
			t.Cleanup(func() { d.store.Close() })
			d.store.lack(errors.New("a test is impatient"))
			d.history = must[*cluster.History](t)(d.store.Load(ctx))
			if j := must[*evict.Journal](t)(d.store.LoadEvictions(ctx)); len(j.Evictions) != 1 || j.LastEviction != 1 {
				t.Errorf("%+v", j)
			}
			must[*retry.Memory](t)(d.store.LoadFailures(ctx))
			if _, _, err := d.store.Waits(ctx); err != nil {
				t.Error(err)
			}
			if l, err := d.store.LoadShares(ctx); l == nil || err != nil {
				t.Error(err)
			}
			if _, err := d.store.Lessons(ctx); err != nil {
				t.Error(err)
			}
			d.snapshot.Jobs = append(d.snapshot.Jobs, pending(3, "te"))
			if r := d.cycle(); len(r.Outcomes) != 1 || r.Outcomes[0].Job.ID != 3 || len(r.Plan.Notes) != 1 || r.Plan.Notes[0].Kind != "history-unrecorded" {
				t.Errorf("%+v %v", r.Outcomes, r.Plan.Notes)
			}
			release()
			d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
			if d.cycle(); d.store.Unrecorded() != "" {
				t.Fatal(d.store.Unrecorded())
			}
			if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms = 0"); int(n) != len(d.snapshot.Jobs) {
				t.Errorf("%d jobs of %d", n, len(d.snapshot.Jobs))
			}
			if n := count(t, d.store, "SELECT count(*) FROM writes WHERE status = 'applied'"); n != 4 {
				t.Errorf("%d writes", n)
			}
			if n := count(t, d.store, "SELECT count(*) FROM evictions WHERE ended_ms = 0"); n != 1 {
				t.Errorf("%d evictions", n)
			}
			if n := count(t, d.store, "SELECT count(*) FROM pragma_foreign_key_check"); n != 0 {
				t.Errorf("%d broken references", n)
			}
			known := d.history
			d.restart()
			if diff := diffHistory(known, d.history); diff != "" {
				t.Error(diff)
			}
			if len(aside(t, dir)) != 0 {
				t.Error("a sound database was set aside")
			}
			d.snapshot.At = d.snapshot.At.Add(time.Minute)
			d.cycle()
		})
	}
}
