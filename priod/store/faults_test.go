package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/journal"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// breakage is a way to lose the database.
var breakage = map[string]func(t *testing.T, path string){
	"deleted": func(t *testing.T, path string) { remove(t, path) },
	"all deleted": func(t *testing.T, path string) {
		remove(t, path)
		_ = os.Remove(path + "-wal")
		_ = os.Remove(path + "-shm")
	},
	"garbage": func(t *testing.T, path string) {
		overwrite(t, path, bytes.Repeat([]byte("not a database "), 10_000))
	},
	"replaced": func(t *testing.T, path string) {
		remove(t, path)
		overwrite(t, path, []byte("something else"))
	},
	"zeroed pages": func(t *testing.T, path string) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(make([]byte, info.Size()-4096), 4096); err != nil {
			t.Fatal(err)
		}
	},
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func aside(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.broken-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A database lost while priod runs costs past cycles and nothing else.
func TestLostUnderWay(t *testing.T) {
	for name, lose := range breakage {
		for _, when := range []string{"planned", "done", "quiet", "prune"} {
			t.Run(name+" "+when, func(t *testing.T) {
				dir := t.TempDir()
				var log bytes.Buffer
				d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"), pending(3, "te"), pending(4, "te"))
				d.store.log = hclog.New(&hclog.LoggerOptions{Output: &log})
				run(d.job(4), epoch)
				d.snapshot.Nodes = []cluster.Node{{Name: "n1"}, {Name: "n2"}}
				d.cycle()
				d.cycle()
				exec(t, d.store, "PRAGMA wal_checkpoint(TRUNCATE)") // nothing stands in the log
				hit := func() { lose(t, databasePath(dir)) }
				switch when {
				case "planned":
					hit()
					d.snapshot.Jobs = append(d.snapshot.Jobs, pending(5, "te"))
					d.cycle()
				case "done":
					d.snapshot.Jobs = append(d.snapshot.Jobs, pending(5, "te"))
					d.answer = answerOnce(func() {
						exec(t, d.store, "PRAGMA wal_checkpoint(TRUNCATE)")
						hit()
					})
					d.cycle()
					d.answer = nil
				case "quiet":
					hit()
				case "prune":
					hit()
					d.store.opts.Retention = time.Hour
					if err := d.store.Prune(ctx, d.snapshot.At); err != nil {
						t.Fatal(err)
					}
				}
				d.snapshot.Jobs = append(d.snapshot.Jobs, pending(6, "te"))
				d.job(1).Nice = 7
				d.cycle()
				d.cycle()
				if !strings.Contains(log.String(), "set aside") {
					t.Errorf("log: %s", &log)
				}
				if n := len(aside(t, dir)); n == 0 && !strings.Contains(name, "deleted") {
					t.Error("nothing was set aside")
				}
				known := d.history
				jobs := int64(len(d.snapshot.Jobs))
				d.restart()
				if diff := diffHistory(known, d.history); diff != "" {
					t.Errorf("what priod knows changed:\n%s", diff)
				}
				if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms = 0"); n != jobs {
					t.Errorf("%d jobs of %d", n, jobs)
				}
				if n := count(t, d.store, "SELECT count(*) FROM decisions"); n < jobs-1 {
					t.Errorf("%d decisions", n)
				}
				if n := count(t, d.store, "SELECT count(*) FROM nodes"); n != 2 {
					t.Errorf("%d nodes", n)
				}
				if n := count(t, d.store, "SELECT count(*) FROM intervals"); n != 1 {
					t.Errorf("%d intervals", n)
				}
				d.cycle()
			})
		}
	}
}

// answerOnce takes every write and does something at the first.
func answerOnce(do func()) func(plan.Action) slurmplug.Status {
	var once sync.Once
	return func(plan.Action) slurmplug.Status {
		once.Do(do)
		return slurmplug.Applied
	}
}

// A database that is broken at the start: values are known from the journal.
func TestBrokenAtStart(t *testing.T) {
	for name, lose := range breakage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"), pending(3, "te"))
			d.cycle()
			d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"), pending(5, "te"))
			d.cycle()
			values := map[cluster.JobID]int64{}
			for id, w := range d.history.Written {
				values[id] = w.Value
			}
			if err := d.store.Close(); err != nil {
				t.Fatal(err)
			}
			lose(t, databasePath(dir))
			d.store, d.history = openStore(t, dir, Options{})
			d.history.Observe(&d.snapshot)
			tried := map[cluster.JobID]int64{}
			for id, w := range d.history.Written {
				tried[id] = w.Value
			}
			if diff := cmp.Diff(values, tried); diff != "" || len(values) != 4 {
				t.Errorf("values known from the journal:\n%s", diff)
			}
			// Its own values are not taken for somebody else's, nor written again.
			d.job(1).Tag.Type = "be"
			r := d.cycle()
			if len(r.Plan.Actions) != 1 || r.Plan.Actions[0].Job.ID != 1 || r.Plan.Actions[0].After.String() != "0" {
				t.Errorf("actions %+v\nnotes %v", r.Plan.Actions, r.Plan.Notes)
			}
		})
	}
}

// A disk that breaks every new database must not be filled with them.
func TestBreaksAgain(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	d.cycle()
	remove(t, databasePath(dir))
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(2, "te"))
	d.cycle()
	for i := range uint32(3) {
		_ = os.Remove(databasePath(dir))
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(3+i, "te"))
		if r := d.cycle(); len(r.Outcomes) != 1 || !strings.Contains(d.store.Unrecorded(), "check the disk of "+dir) || TroubleOf(d.store.unrecorded) != DatabaseBroken {
			t.Fatalf("%v, %s", r.Outcomes, d.store.Unrecorded())
		}
	}
	d.store.anew = time.Now().Add(-2 * anewPeriod)
	if d.cycle(); d.store.Unrecorded() != "" || count(t, d.store, "SELECT count(*) FROM writes") != 3 {
		t.Errorf("%d writes, %s", count(t, d.store, "SELECT count(*) FROM writes"), d.store.Unrecorded())
	}
}

// unwritable checks what cycles do while the state folder cannot be written. The database alone: they decide and write, and
// a note says why history is not recorded. The journal too: they fail with words and leave no trace. When the cause is gone all is stored.
func unwritable(t *testing.T, d *daemon, words string, trouble Trouble, cause, cure func()) {
	t.Helper()
	dir := d.store.dir
	run(d.job(3), d.snapshot.At)
	d.cycle()
	rows := func() (n int64) {
		for _, table := range []string{"decisions", "writes", "cycles", "shares", "waits"} {
			n += count(t, d.store, "SELECT count(*) FROM "+table)
		}
		return n
	}
	journal := func() string { return string(must[[]byte](t)(os.ReadFile(journal.Path(dir)))) }
	before, lines := rows(), journal()
	cause()
	for i := range uint32(300) {
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(100+i, "te"))
	}
	d.remove(3) // its interval ends now, which is told once
	r, err := d.step()
	half := err != nil && strings.HasPrefix(err.Error(), "record the outcomes") // the journal had room for the writes alone
	fails := err != nil && !half
	if fails && (!strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "nothing was written to Slurm") || TroubleOf(err) != trouble) {
		t.Fatalf("error %v", err)
	}
	if fails == (len(r.Outcomes) >= 300) || fails != (journal() == lines) || !half && fails == strings.Contains(fmt.Sprint(r.Plan.Notes), words) {
		t.Errorf("%d writes, notes %v, %v", len(r.Outcomes), r.Plan.Notes, err)
	}
	if d.store.acting != nil {
		t.Error("act.lock is kept")
	}
	// A job that comes, runs and goes meanwhile.
	brief := pending(50, "te")
	run(&brief, d.snapshot.At)
	d.snapshot.Jobs = append(d.snapshot.Jobs, brief)
	for range 2 {
		if _, err := d.step(); !half && (err != nil) != fails || !fails && d.store.Unrecorded() == "" {
			t.Fatalf("the cause is not gone: %v", err)
		}
		d.remove(50)
	}
	cure()
	if n := rows(); n != before {
		t.Errorf("%d rows, %d before", n, before)
	}
	if r := d.cycle(); d.store.Unrecorded() != "" || fails == (len(r.Outcomes) == 0) {
		t.Errorf("%d writes, %s", len(r.Outcomes), d.store.Unrecorded())
	}
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms = 0"); int(n) != len(d.snapshot.Jobs) {
		t.Errorf("%d jobs of %d", n, len(d.snapshot.Jobs))
	}
	if n := count(t, d.store, "SELECT count(*) FROM intervals WHERE closed = 1"); n != 2 {
		t.Errorf("the end of an interval is lost (%d)", n)
	}
	if story := must[Story](t)(reader(t, dir).Job(ctx, brief.ID, 5)); len(story.Stays) != 1 || story.Job.User != "alice" || story.Job.Left.IsZero() {
		t.Errorf("%+v", story)
	}
	if n := count(t, d.store, "SELECT count(*) FROM writes WHERE status = 'applied'"); n < 300 {
		t.Errorf("%d writes", n)
	}
	known := d.history
	d.restart()
	if diff := diffHistory(known, d.history); diff != "" {
		t.Error(diff)
	}
	if len(aside(t, dir)) != 0 {
		t.Error("a sound database was set aside")
	}
}

func faultDaemon(t *testing.T, dir string) *daemon {
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"), pending(3, "te"))
	exec(t, d.store, "PRAGMA busy_timeout = 50")
	return d
}

func TestDatabaseFull(t *testing.T) {
	d := faultDaemon(t, t.TempDir())
	unwritable(t, d, "no room for", DiskFull, func() {
		exec(t, d.store, "PRAGMA max_page_count = 45")
	}, func() {
		exec(t, d.store, "PRAGMA max_page_count = 1000000")
	})
}

func TestLockedByAnother(t *testing.T) {
	dir := t.TempDir()
	d := faultDaemon(t, dir)
	other := must[*sql.DB](t)(sql.Open("sqlite3", "file:"+databasePath(dir)))
	other.SetMaxOpenConns(1)
	defer other.Close()
	unwritable(t, d, "another program keeps", DatabaseLocked, func() {
		if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if _, err := other.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	})
}

// While another program holds the database, a cycle waits for it once: what failed in Observed is not tried by Planned.
func TestLockedDelaysACycleOnce(t *testing.T) {
	dir := t.TempDir()
	d := faultDaemon(t, dir)
	d.cycle()
	other := must[*sql.DB](t)(sql.Open("sqlite3", "file:"+databasePath(dir)+"?_txlock=immediate"))
	defer other.Close()
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
	d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
	snapshot := must[cluster.Snapshot](t)(d.Observe(ctx))
	stays := d.history.Observe(&snapshot)
	p := order.Decide(&snapshot, d.history, d.settings.Order.Settings)
	busy := must[*sql.Tx](t)(other.BeginTx(ctx, nil))
	began := make(chan struct{})
	d.store.Observed(ctx, &snapshot, func() []cluster.Stay { defer close(began); return stays })
	<-began
	for o := d.store.observed; !o.passed.Load(); { // until Observed has given up
		time.Sleep(time.Millisecond)
	}
	if err := busy.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := d.store.Planned(ctx, plan.Seen{Snapshot: &snapshot, Stays: stays, Plan: &p, Hold: "a test"}); err != nil || TroubleOf(d.store.unrecorded) != DatabaseLocked {
		t.Errorf("Planned tried again: %v", err)
	}
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms = 0"); int(n) != len(d.snapshot.Jobs) {
		t.Errorf("%d jobs of %d", n, len(d.snapshot.Jobs))
	}
}

// small mounts a filesystem of a few MB.
func small(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small filesystem")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("cannot mount a small filesystem here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	return dir
}

func TestDiskFull(t *testing.T) {
	for _, room := range []int{0, 8 << 10, 32 << 10, 64 << 10, 100 << 10, 140 << 10} {
		dir := small(t)
		state := filepath.Join(dir, "state")
		d := faultDaemon(t, state)
		ballast := filepath.Join(dir, "ballast")
		unwritable(t, d, "no", DiskFull, func() { fill(t, dir, ballast, room) }, func() { remove(t, ballast) })
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// fill leaves so much room on a filesystem.
func fill(t *testing.T, dir, path string, room int) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	size := max(0, int(st.Bavail)*int(st.Bsize)-room)
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func TestReadOnlyMount(t *testing.T) {
	dir := small(t)
	remount := func(flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	d := newDaemon(t, dir, pending(1, "te"))
	d.cycle()
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	remount(syscall.MS_RDONLY)
	if _, err := Open(ctx, dir, Options{}); err == nil || !strings.Contains(err.Error(), "read-only file system") || TroubleOf(err) != ReadOnly {
		t.Errorf("open on a read-only mount: %v", err)
	}
	if c := must[Cycle](t)(reader(t, dir).LastCycle(ctx)); c.Number != 1 {
		t.Errorf("a reader on a read-only mount sees %+v", c)
	}
	remount(0)
	d.store, d.history = openStore(t, dir, Options{})
	d.cycle()
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A database that may not be written to is said at the start and under way.
func TestReadOnlyDatabase(t *testing.T) {
	d := faultDaemon(t, t.TempDir())
	unwritable(t, d, "cannot be written", ReadOnly, func() { exec(t, d.store, "PRAGMA query_only = 1") }, func() {
		exec(t, d.store, "PRAGMA query_only = 0")
	})
	if os.Getuid() == 0 {
		return // root may write anywhere
	}
	dir := t.TempDir()
	s, _ := openStore(t, dir, Options{})
	if err := errors.Join(s.Close(), os.Chmod(databasePath(dir), 0o400)); err != nil {
		t.Fatal(err)
	}
	if s, _ := openStore(t, dir, Options{}); !strings.Contains(s.Unrecorded(), "permission denied") {
		t.Error(s.Unrecorded())
	}
}

// Done that cannot store is made up for by the next cycle, or by the next start.
func TestDoneFails(t *testing.T) {
	for _, next := range []string{"cycle", "restart"} {
		d := faultDaemon(t, t.TempDir())
		d.cycle()
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
		d.answer = answerOnce(func() { exec(t, d.store, "PRAGMA query_only = 1") })
		if d.cycle(); d.store.Unrecorded() == "" {
			t.Fatal("nothing is lacking")
		}
		exec(t, d.store, "PRAGMA query_only = 0")
		d.answer = nil
		id := slurmplug.Plain(4)
		if next == "cycle" {
			d.cycle()
			known := d.history
			d.restart()
			if diff := diffHistory(known, d.history); diff != "" {
				t.Error(diff)
			}
			if n := count(t, d.store, "SELECT count(*) FROM writes WHERE status <> 'applied'"); n != 0 {
				t.Errorf("%d outcomes are lost", n)
			}
			continue
		}
		value := d.history.Written[id].Value
		d.restart()
		if w := d.history.Written[id]; w.Tried != value || value == 0 {
			t.Errorf("%+v, want %d tried", w, value)
		}
	}
}

// A context that ended stores nothing and costs nothing.
func TestCancelled(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"))
	d.cycle()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := cycle.Step(cancelled, d, d.store, d.history, d.settings); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(2, "te"))
	d.cycle()
	if len(aside(t, d.store.dir)) != 0 {
		t.Error("the database was set aside")
	}
}

// A cycle that never came to Done, in a process that lives on.
func TestNoDone(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"))
	d.die = true
	if _, err := d.step(); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	d.die = false
	d.cycle()
	writes := must[[]Write](t)(reader(t, d.store.dir).Writes(ctx, 5))
	if len(writes) != 1 || writes[0].Status != slurmplug.Unknown || writes[0].Message != noOutcome {
		t.Errorf("%+v", writes)
	}
	known := d.history
	d.restart()
	if diff := diffHistory(known, d.history); diff != "" {
		t.Error(diff)
	}
	// Outcomes of writes that were never planned change nothing.
	stray := plan.Outcome{Action: action(1, slurmplug.Lever("Nice"), "0", "1", "0"), Status: slurmplug.Applied}
	if err := d.store.Done(ctx, []plan.Outcome{stray}); err != nil {
		t.Error(err)
	}
	if n := count(t, d.store, "SELECT count(*) FROM writes"); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// Planned needs the History that it follows, and a plan that fits the snapshot.
func TestPlannedRefuses(t *testing.T) {
	s, err := Open(ctx, t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	seen := plan.Seen{Snapshot: &cluster.Snapshot{At: epoch}, Plan: &plan.Plan{}}
	if err := s.Planned(ctx, seen); err == nil || !strings.Contains(err.Error(), "Load") {
		t.Error(err)
	}
	if _, err := s.Load(ctx); err != nil {
		t.Fatal(err)
	}
	seen.Plan.Actions = []plan.Action{action(9, slurmplug.Lever("Nice"), "0", "1", "0")}
	if err := s.Planned(ctx, seen); err == nil || !strings.Contains(err.Error(), "the plan changes job 9, which the snapshot does not hold") {
		t.Error(err)
	}
	if journal.Exists(journal.Path(s.dir)) || s.acting != nil {
		t.Error("a refused plan leaves a trace")
	}
}
