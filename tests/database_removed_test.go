package tests

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// Without its database priod ranks, evicts, holds caps and takes back: another program keeps it locked, it is deleted under
// priod, or it is garbage when priod starts. It says so once, and history goes on where the database can be written again.
func TestWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	settings := strings.Replace(evicting, "max_evictions = 0", "max_evictions = 1", 1)
	l := lab.ForTest(t, lab.Options{})
	for _, c := range []struct {
		name  string
		start bool // the harm is done before priod starts
		harm  func(e *evictable, path string) (release func())
		said  string
	}{
		{"locked", false, locks, "another program keeps"},
		{"locked at start", true, locks, "another program keeps"},
		{"deleted", false, func(e *evictable, _ string) func() { e.loseDatabase(); return nil }, "only history is lost"},
		{"garbage at start", true, func(e *evictable, path string) func() {
			if err := os.WriteFile(path, []byte(strings.Repeat("nonsense", 10_000)), 0o640); err != nil {
				e.Fatal(err)
			}
			return nil
		}, "only history is lost"},
	} {
		if !long() && c.name == "locked at start" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			e := evictableOn(t, newSiteOn(t, l, settings))
			path := filepath.Join(e.dir, "state", "priod.db")
			e.blocker("t4:4")
			victim := e.worker("w", "t4:4", 100_000, 20, "save")
			e.begun("w")
			d := e.daemon()
			d.cycles(1)
			var release func()
			if c.start {
				d.stop()
				release = c.harm(e, path)
				d = e.daemon()
				d.waitLog("started")
			} else {
				release = c.harm(e, path)
			}
			e.completes(e.trial("t4:2"))
			e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 })
			second := e.trial("t4:2")
			e.wait("a value of the second trial", func() bool { return e.siteFactor(second) != "0" })
			d.cycles(3)
			if text := e.log("w"); strings.Count(text, "signal ") != 1 {
				t.Errorf("the victim was told twice:\n%s", text)
			}
			if n := strings.Count(d.log.String(), c.said); n > 2 || n == 0 { // once more after a cycle that gave way
				t.Errorf("it says %d times %q:\n%s", n, c.said, d.log)
			}
			e.must("reset")
			if v := e.siteFactor(second); v != "0" || e.pinned() != "" || e.reserved() {
				t.Errorf("reset leaves %q, %q", v, e.pinned())
			}
			e.must("resume")
			e.wait("the value again", func() bool { return e.siteFactor(second) != "0" })
			if release != nil {
				release()
			}
			e.wait("the eviction in the database", func() bool {
				d.cycles(1)
				all := e.journal()
				return len(all) == 1 && !all[0].Requeued.IsZero()
			})
			d.stop()
			e.slurm("scancel", second, victim)
		})
	}
}

// locks keeps other writers off a database until release is called.
func locks(e *evictable, path string) (release func()) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=20000")
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.Exec("BEGIN EXCLUSIVE")
	}
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { db.Close() })
	return func() { db.Close() }
}
