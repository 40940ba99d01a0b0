package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// A daemon with three TE jobs that have values, and its log.
func ranked(t *testing.T, dir string) (*daemon, *bytes.Buffer) {
	t.Helper()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "te"), pending(3, "te"))
	log := &bytes.Buffer{}
	d.store.log = hclog.New(&hclog.LoggerOptions{Output: log})
	d.cycle()
	return d, log
}

// sameAfterRestart restarts and compares what is known; n is how many values
// the journal has to hold.
func (d *daemon) sameAfterRestart(n int) {
	d.t.Helper()
	u := openUndo(d.t, d.store.dir)
	if len(u.Written()) != n || u.File().Damaged() != 0 {
		d.t.Errorf("the journal knows %d values of %d", len(u.Written()), n)
	}
	known := d.history
	d.restart()
	if diff := diffHistory(known, d.history); diff != "" {
		d.t.Errorf("what priod knows changed:\n%s", diff)
	}
}

// SQLite's own files beside the database, deleted or replaced: nothing is lost.
func TestLogOfTheDatabaseDeleted(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		for _, how := range []string{"deleted", "replaced"} {
			t.Run(suffix+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				d, log := ranked(t, dir)
				path := databasePath(dir) + suffix
				remove(t, path)
				if how == "replaced" {
					overwrite(t, path, []byte("something else"))
				}
				d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
				d.cycle()
				if times, last := d.store.Mended(); times != 1 || !strings.Contains(last, "nothing is lost") || !strings.Contains(log.String(), path) {
					t.Errorf("%d, %q\n%s", times, last, log)
				}
				if n := count(t, d.store, "SELECT count(*) FROM writes"); n != 4 {
					t.Errorf("%d writes of 4", n)
				}
				d.cycle()
				d.sameAfterRestart(4)
				if n := count(t, d.store, "SELECT count(*) FROM jobs"); n != 4 || len(aside(t, dir)) != 0 {
					t.Errorf("%d jobs of 4, aside %v", n, aside(t, dir))
				}
			})
		}
	}
}

// The whole folder goes: nothing is written until it is back, or an empty one
// stands in its place; then all that matters is there again, a pause too.
func TestFolderGone(t *testing.T) {
	for _, how := range []string{"moved and back", "deleted", "deleted and paused"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			d, log := ranked(t, dir)
			if strings.Contains(how, "paused") {
				if err := SetPause(dir, Pause{Who: "ann", When: epoch, Why: "a test"}); err != nil {
					t.Fatal(err)
				}
				must[string](t)(d.store.Hold())
			}
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
			for range 2 {
				if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "is gone: put it back") || TroubleOf(err) != FolderGone {
					t.Fatal(err)
				}
			}
			if hold, err := d.store.Hold(); err == nil {
				t.Errorf("hold %q", hold)
			}
			if len(d.history.Written) != 3 || journal.Exists(dir) {
				t.Error("something was written")
			}
			lost := 0
			if how == "moved and back" {
				if err := os.Rename(dir+".away", dir); err != nil {
					t.Fatal(err)
				}
			} else {
				lost = 3 // lock, journal, database
				if err := os.Mkdir(dir, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			hold := must[string](t)(d.store.Hold())
			values := 4
			if paused := strings.Contains(how, "paused"); paused {
				values = 3
				if !strings.Contains(hold, "paused by ann") {
					t.Errorf("hold %q", hold)
				}
			}
			d.settings.Hold = hold
			d.cycle()
			if times, _ := d.store.Mended(); times != lost {
				t.Errorf("%d losses, want %d:\n%s", times, lost, log)
			}
			if _, err := Open(ctx, dir, Options{}); !errors.As(err, new(*HeldError)) {
				t.Errorf("a second daemon: %v", err)
			}
			d.sameAfterRestart(values)
			if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms = 0"); n != 4 {
				t.Errorf("%d jobs of 4", n)
			}
		})
	}
}

// The lock's file is deleted: it is taken again, unless another priod was
// quicker or has been there meanwhile.
func TestLockDeleted(t *testing.T) {
	for _, other := range []string{"nobody", "runs", "was there", "was there, empty folder"} {
		t.Run(other, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			d, _ := ranked(t, dir)
			if strings.Contains(other, "empty") {
				if err := errors.Join(os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o750)); err != nil {
					t.Fatal(err)
				}
			} else {
				remove(t, filepath.Join(dir, "lock"))
			}
			var second *daemon
			if other != "nobody" {
				second = newDaemon(t, dir, pending(1, "te"), pending(2, "te"), pending(3, "te"), pending(5, "te"))
				second.cycle()
			}
			if strings.HasPrefix(other, "was there") {
				if err := second.store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
			if other == "nobody" {
				d.cycle()
				if _, err := Open(ctx, dir, Options{}); !errors.As(err, new(*HeldError)) {
					t.Errorf("a second daemon: %v", err)
				}
				d.sameAfterRestart(4)
				return
			}
			if _, err := d.step(); !errors.Is(err, ErrTaken) {
				t.Fatal(err)
			}
			if _, err := d.store.Hold(); !errors.Is(err, ErrTaken) {
				t.Error(err)
			}
			if err := d.store.Close(); err != nil {
				t.Error(err)
			}
			if other == "runs" {
				second.snapshot.Jobs = append(second.snapshot.Jobs, pending(6, "te"))
				second.cycle()
			}
			second.restart()
			if n := len(second.history.Written); n < 4 || len(aside(t, dir)) != 0 {
				t.Errorf("the other one knows %d values; aside %v", n, aside(t, dir))
			}
			if n := count(t, second.store, "SELECT count(*) FROM cycles"); n == 0 {
				t.Error("the other one's cycles are lost")
			}
		})
	}
}

// The journal is spoiled under a daemon that has nothing to write: it is whole
// again after one cycle, and what stood there is kept.
func TestJournalSpoiled(t *testing.T) {
	spoils := map[string]func(t *testing.T, path string, text []byte){
		"deleted":     func(t *testing.T, path string, _ []byte) { remove(t, path) },
		"emptied":     func(t *testing.T, path string, _ []byte) { truncate(t, path, 0) },
		"cut off":     func(t *testing.T, path string, text []byte) { truncate(t, path, int64(len(text)-20)) },
		"a line less": func(t *testing.T, path string, text []byte) { truncate(t, path, int64(bytes.IndexByte(text, '\n')+1)) },
		"overwritten": func(t *testing.T, path string, text []byte) { overwrite(t, path, bytes.Repeat([]byte("x"), len(text))) },
		"edited": func(t *testing.T, path string, text []byte) {
			if err := journal.Replace(path, bytes.ReplaceAll(text, []byte(`"job"`), []byte(`job`))); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, spoil := range spoils {
		for _, acting := range []bool{false, true} {
			dir := t.TempDir()
			d, log := ranked(t, dir)
			spoil(t, journal.Path(dir), must[[]byte](t)(os.ReadFile(journal.Path(dir))))
			n := 3
			if acting {
				d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
				n = 4
			}
			d.cycle()
			if times, _ := d.store.Mended(); times != 1 {
				t.Errorf("%s: %d losses\n%s", name, times, log)
			}
			if kept := len(aside(t, dir)); kept != 1 && name != "deleted" {
				t.Errorf("%s: %d copies kept", name, kept)
			}
			d.cycle()
			if times, _ := d.store.Mended(); times != 1 {
				t.Errorf("%s: mended again", name)
			}
			d.sameAfterRestart(n)
		}
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// The journal cannot be written: nothing goes to Slurm until it can.
func TestJournalReadOnly(t *testing.T) {
	dir := t.TempDir()
	d, _ := ranked(t, dir)
	path := journal.Path(dir)
	before := string(must[[]byte](t)(os.ReadFile(path)))
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o750)); err != nil { // nobody can write that
		t.Fatal(err)
	}
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
	if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "journal: ") || TroubleOf(err) != DiskFails {
		t.Fatal(err)
	}
	if len(d.history.Written) != 3 {
		t.Error("a value was written")
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}
	if now := string(must[[]byte](t)(os.ReadFile(path))); now != before {
		t.Error("the journal has changed")
	}
	d.cycle()
	d.sameAfterRestart(4)
}

// reset took back what stood there and emptied the journal between two cycles
// in which the journal grew long: writing it anew must not bring it back.
func TestTidyAfterReset(t *testing.T) {
	dir := t.TempDir()
	d, _ := ranked(t, dir)
	lengthen(t, d.store.undo)
	other := openUndo(t, dir)
	if err := other.TookBack(time.Now(), func(*undo.Change) bool { return false }); err != nil {
		t.Fatal(err)
	}
	d.cycle()
	if n, left := undoLines(t, dir), openUndo(t, dir).Changes(); n > 2 || len(left) != 0 {
		t.Errorf("%d lines: the journal is back: %+v", n, left)
	}
}

// priod ends while the clock is a year ahead, and starts with the right time;
// then it starts with a clock far behind: budgets count what was used, after the
// second with accounting's help.
func TestStartsWithAnotherClock(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"), pending(2, "te"), pending(3, "te"))
	now := time.Now().Truncate(time.Second)
	for i := range d.snapshot.Jobs {
		d.snapshot.Jobs[i].Eligible = now.Add(-3 * time.Hour)
	}
	d.snapshot.At = now.Add(-2 * time.Hour)
	d.cycle()
	run(d.job(1), now.Add(-2*time.Hour))
	run(d.job(2), now.Add(-2*time.Hour))
	d.cycle()
	d.snapshot.At = now.Add(-time.Hour)
	d.cycle() // one hour each
	past := cluster.PastStay{Stay: cluster.Stay{
		Job: slurmplug.Plain(1), Start: now.Add(-2 * time.Hour), End: now.Add(-time.Hour), Closed: true, GPUs: d.job(1).GPUs,
		User: "alice", Class: cluster.TE,
	}}
	d.remove(1)
	d.cycle()
	d.snapshot.At = now.AddDate(1, 0, 0)
	d.cycle()
	use := func() float64 {
		byUser, _, _ := d.history.TEUse(d.snapshot.At, func(string, string) time.Duration { return 0 })
		return byUser["alice"].GPUSeconds / 3600
	}
	for i, at := range []time.Time{now, now.AddDate(-10, 0, 0), now} {
		d.snapshot.At = at
		d.restart()
		d.snapshot.At = at
		if i == 2 {
			d.history.Fill([]cluster.PastStay{past})
		}
		order := len(d.cycle().Plan.Actions)
		gpus := float64(d.job(2).GPUs)
		switch got := use(); {
		case at.Equal(now) && (got < 2.9*gpus || got > 3.1*gpus):
			t.Errorf("at %v: %.2f GPU-hours counted, want about 3 of each GPU", at, got)
		case got < 0:
			t.Errorf("at %v: %.2f GPU-hours", at, got)
		}
		if order != 0 || d.history.Written[slurmplug.Plain(3)].Value == 0 {
			t.Errorf("at %v: %d writes", at, order)
		}
	}
	if n := count(t, d.store, "SELECT count(*) FROM intervals WHERE end_ms > ?", millis(now.Add(time.Minute))); n != 0 {
		t.Errorf("%d intervals end in the future", n)
	}
}

// A job ends while the clock is hours behind: what accounting then tells of its
// run belongs to it, not to another one of the same id.
func TestEndsWhileTheClockIsBehind(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"), pending(2, "te"))
	d.cycle()
	start := d.snapshot.At
	run(d.job(1), start)
	d.cycle()
	gpus := d.job(1).GPUs
	d.snapshot.At = start.Add(-10 * time.Hour)
	d.remove(1)
	d.cycle()
	d.snapshot.At = start.Add(time.Hour)
	d.history.Fill([]cluster.PastStay{{Stay: cluster.Stay{
		Job: slurmplug.Plain(1), Start: start, End: start.Add(time.Minute), Closed: true, GPUs: gpus, User: "alice", Class: cluster.TE,
	}}})
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE id = 1"); n != 1 {
		t.Errorf("%d rows of one job", n)
	}
	story := must[Story](t)(reader(t, d.store.dir).Job(ctx, slurmplug.Plain(1), 5))
	if len(story.Stays) != 1 || !story.Stays[0].End.Equal(start.Add(time.Minute)) {
		t.Errorf("%+v", story.Stays)
	}
}

// The journal is emptied, deleted, or an older copy of it put back while no priod runs: that is said once, and priod goes on with
// what it tells.
func TestOlderJournalAtStart(t *testing.T) {
	for _, how := range []string{"emptied", "deleted", "older copy"} {
		dir := t.TempDir()
		d, _ := ranked(t, dir)
		copied := must[[]byte](t)(os.ReadFile(journal.Path(dir)))
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"), pending(5, "te"))
		d.cycle()
		d.cycle()
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		known, want := 0, "is an older copy"
		switch how {
		case "emptied":
			truncate(t, journal.Path(dir), 0)
		case "deleted":
			remove(t, journal.Path(dir))
			want = "is gone"
		default:
			known = 3
			truncate(t, journal.Path(dir), int64(len(copied)))
		}
		log := &bytes.Buffer{}
		d.store, d.history = openStore(t, dir, Options{Logger: hclog.New(&hclog.LoggerOptions{Output: log})})
		if len(d.history.Written) != known || strings.Count(log.String(), want) != 1 {
			t.Errorf("%s: %d values\n%s", how, len(d.history.Written), log)
		}
		d.cycle()
		log.Reset()
		d.restart()
		if log.Len() != 0 {
			t.Errorf("it says again\n%s", log)
		}
	}
}

// What a trial without GPUs is charged survives a restart, while it runs and once it has ended.
func TestChargesSurviveARestart(t *testing.T) {
	trial := pending(1, "te")
	trial.GPUs, trial.GPUType = 0, ""
	d := newDaemon(t, t.TempDir(), trial)
	d.snapshot.Nodes = []cluster.Node{{Name: "n1", GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 64 << 10, Usable: true, Partitions: []string{"gpu"}}}
	d.cycle()
	run(d.job(1), epoch)
	d.cycle()
	d.cycle()
	use := func() cluster.Use {
		users, _, _ := d.history.TEUse(d.snapshot.At, func(string, string) time.Duration { return 0 })
		return users["alice"]
	}
	for _, held := range []float64{2, 0} { // 8 of 16 CPUs
		before := use()
		if d.restart(); use() != before || before.GPUs != held || before.GPUSeconds == 0 {
			t.Errorf("%+v, was %+v, want %g GPUs", use(), before, held)
		}
		d.remove(1)
		d.cycle()
	}
}
