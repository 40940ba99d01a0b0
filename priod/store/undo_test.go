package store

import (
	"bytes"
	"os"
	"slices"
	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
	"strings"
	"testing"
	"time"
)

// openUndo reads the journal as another process would.
func openUndo(t testing.TB, dir string) *undo.Journal {
	t.Helper()
	return must[*undo.Journal](t)(undo.Open(dir, ""))
}

func action(id uint32, l slurmplug.Lever, before, after, nice string) plan.Action {
	return plan.Action{Job: slurmplug.Plain(id), Lever: l, Before: l.Value(before), After: l.Value(after), UserNice: slurmplug.SiteFactor.Value(nice)}
}

// undoLines is how long the journal of a folder is.
func undoLines(t testing.TB, dir string) int {
	t.Helper()
	return bytes.Count(must[[]byte](t)(os.ReadFile(journal.Path(dir))), []byte("\n"))
}

// lengthen makes the journal so long that the next chance compacts it.
func lengthen(t testing.TB, u *undo.Journal) {
	t.Helper()
	if err := u.Append(slices.Repeat(u.Changes()[:1], 5000)); err != nil {
		t.Fatal(err)
	}
}

// The journal is as long as the queue, not as the past.
func TestUndoIsCompacted(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	for i := range uint32(120) {
		d.remove(i) // one leaves, one comes; all move
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(i+1, "te"))
		for k := range d.snapshot.Jobs {
			d.snapshot.Jobs[k].SiteFactor = 0
		}
		for k := range uint32(20) {
			j := pending(1000+i*20+k, "te")
			d.snapshot.Jobs = append(d.snapshot.Jobs, j)
		}
		d.cycle()
		d.snapshot.Jobs = d.snapshot.Jobs[:1]
	}
	d.cycle()
	if n := undoLines(t, dir); n > 1100 || d.store.undo.Find(d.snapshot.Jobs[0].ID, slurmplug.SiteFactor) == nil {
		t.Errorf("%d lines", n)
	}
	lengthen(t, d.store.undo)
	d.cycle()
	if n := undoLines(t, dir); n != 3 { // with the head, and what became of it
		t.Errorf("%d lines for one job", n)
	}
}

// A daemon that is started again and again compacts what earlier ones left.
func TestUndoIsCompactedAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	for round := range uint32(20) {
		jobs := make([]cluster.Job, 300)
		for k := range jobs {
			jobs[k] = pending(1000+round*300+uint32(k), "te")
		}
		d.snapshot.Jobs = jobs
		d.cycle()
		d.restart()
	}
	if n := undoLines(t, dir); n > 1024+300 {
		t.Errorf("%d lines for %d jobs", n, len(d.snapshot.Jobs))
	}
}

// Deleted while priod runs the journal is written again; what reset took back of it counts as reverted.
func TestJournalAfterAReset(t *testing.T) {
	dir := t.TempDir()
	j := pending(1, "te")
	d := newDaemon(t, dir, j, pending(2, "te"), pending(3, "be"))
	d.cycle()
	// Deleted while priod runs: written again with the next change.
	remove(t, journal.Path(dir))
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
	d.cycle()
	if n := len(openUndo(t, dir).Changes()); n != 3 {
		t.Errorf("%d changes", n)
	}
	// Reset of job 1 while the daemon is down.
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openUndo(t, dir).TookBack(d.snapshot.At, func(c *undo.Change) bool { return c.Job != j.ID }); err != nil {
		t.Fatal(err)
	}
	d.store, d.history = openStore(t, dir, Options{})
	if _, still := d.history.Written[j.ID]; still || len(d.history.Written) != 2 {
		t.Errorf("%+v", d.history.Written)
	}
}

// Reset beside a running, paused daemon: its next acting cycle notices.
func TestResetBesideTheDaemon(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "te"))
	d.cycle()
	release, err := LockActing(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := openUndo(t, dir).TookBack(time.Now(), func(*undo.Change) bool { return false }); err != nil {
		t.Fatal(err)
	}
	for i := range d.snapshot.Jobs {
		d.snapshot.Jobs[i].SiteFactor = 0
	}
	if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "act.lock is locked by process") {
		t.Errorf("a cycle beside reset: %v", err)
	}
	release()
	if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "2 values count as reverted") {
		t.Errorf("a cycle after reset: %v", err)
	}
	r := d.cycle()
	if len(r.Outcomes) != 2 || d.history.Written[slurmplug.Plain(1)].Reverts != 0 {
		t.Errorf("%+v, %+v", r.Outcomes, d.history.Written)
	}
	d.restart()
	if len(d.history.Written) != 2 {
		t.Errorf("%+v", d.history.Written)
	}
}

// A job has left, its line has not, and another user's job gets its id: what that user
// asked for is what an undo puts back.
func TestUndoOfALaterJobWithTheId(t *testing.T) {
	dir := t.TempDir()
	first, second := pending(1, "te"), pending(1, "te")
	first.Nice = 30
	second.Nice, second.User, second.Submit = 50, "bob", epoch.Add(time.Hour)
	d := newDaemon(t, dir, first, pending(2, "be"))
	d.settings.Order.Settings.NiceLimit = 100
	d.cycle()
	d.snapshot.Jobs = []cluster.Job{pending(2, "be")}
	d.cycle()
	d.snapshot.At = epoch.Add(2 * time.Hour)
	d.snapshot.Jobs = append(d.snapshot.Jobs, second)
	d.cycle()
	u := openUndo(t, dir)
	if c := u.Find(first.ID, slurmplug.SiteFactor); c == nil || c.User != "bob" || c.Was.String() != "0" {
		t.Errorf("%+v", c)
	}
}
