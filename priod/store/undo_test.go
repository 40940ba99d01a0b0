package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

func openUndo(t testing.TB, dir string) *Undo {
	t.Helper()
	return must[*Undo](t)(OpenUndo(dir))
}

func action(id uint32, l slurmplug.Lever, before, after, nice string) plan.Action {
	return plan.Action{Job: slurmplug.Plain(id), Lever: l, Before: before, After: after, UserNice: nice}
}

func write(t testing.TB, u *Undo, actions ...plan.Action) {
	t.Helper()
	var lines []*Change
	for _, a := range actions {
		lines = append(lines, u.change(a, epoch))
	}
	if err := u.Append(lines); err != nil {
		t.Fatal(err)
	}
}

func diffUndo(a, b *Undo) string {
	return cmp.Diff(a.Changes(), b.Changes(), cmpopts.IgnoreUnexported(Change{}))
}

// What was there first outlives every later change, in memory and in the file.
func TestUndoKeepsTheOriginal(t *testing.T) {
	dir := t.TempDir()
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.Nice, "50", "-950", "50"), action(2, slurmplug.SiteFactor, "0", "1000", "0"))
	write(t, u, action(1, slurmplug.Nice, "-950", "-1950", "-950"), action(2, slurmplug.SiteFactor, "1000", "3000", "0"))
	write(t, u, action(3, slurmplug.Priority, "0", "5000", "7"))
	write(t, u, action(3, slurmplug.Priority, "5000", "6000", "0"), plan.Action{Job: slurmplug.Plain(3), Lever: slurmplug.Release, Before: "6000"})
	for _, u := range []*Undo{u, openUndo(t, dir)} {
		if c := u.Find(slurmplug.Plain(1), slurmplug.Nice); c.Was != "50" || c.UserNice != "50" || c.From != "-950" || c.To != "-1950" {
			t.Errorf("%+v", c)
		}
		if c := u.Last(slurmplug.Plain(2)); c.Was != "0" || c.To != "3000" {
			t.Errorf("%+v", c)
		}
		want := map[cluster.JobID]cluster.Written{
			slurmplug.Plain(1): {Lever: slurmplug.Nice, Value: -950, Tried: -1950, Original: 50, At: epoch, Older: []cluster.Sent{{Value: 50, Until: epoch}, {Value: -950, Until: epoch}}},
			slurmplug.Plain(2): {Lever: slurmplug.SiteFactor, Value: 1000, Tried: 3000, At: epoch, Older: []cluster.Sent{{Value: 0, Until: epoch}, {Value: 1000, Until: epoch}}},
			slurmplug.Plain(3): {Lever: slurmplug.Priority, Value: 6000, Tried: 0, Original: 7, At: epoch, Older: []cluster.Sent{{Value: 5000, Until: epoch}, {Value: 6000, Until: epoch}}},
		}
		if diff := cmp.Diff(want, u.Written()); diff != "" {
			t.Error(diff)
		}
	}
	if n := bytes.Count(must[[]byte](t)(os.ReadFile(u.path)), []byte("\n")); n != 7 {
		t.Errorf("%d lines", n)
	}
	info := must[os.FileInfo](t)(os.Stat(u.path))
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
}

// A line that a crash cut off is dropped, and the next append stands in its place.
func TestUndoTornLine(t *testing.T) {
	dir := t.TempDir()
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.SiteFactor, "0", "1000", "0"), action(2, slurmplug.SiteFactor, "0", "2000", "0"))
	whole := must[[]byte](t)(os.ReadFile(u.path))
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := range whole {
		if err := os.WriteFile(u.path, whole[:cut], 0o640); err != nil {
			t.Fatal(err)
		}
		u := openUndo(t, dir)
		want := 0
		if cut >= first {
			want = 1
		}
		if len(u.Changes()) != want || u.damaged != 0 {
			t.Fatalf("cut at %d: %d changes, %d damaged", cut, len(u.Changes()), u.damaged)
		}
		write(t, u, action(3, slurmplug.SiteFactor, "0", "3000", "0"))
		again := openUndo(t, dir)
		if diff := diffUndo(u, again); diff != "" || again.damaged != 0 || again.Last(slurmplug.Plain(3)) == nil {
			t.Fatalf("cut at %d: %s", cut, diff)
		}
	}
}

// Unreadable lines in the middle cost those lines; the file is kept beside.
func TestUndoDamaged(t *testing.T) {
	dir := t.TempDir()
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.SiteFactor, "0", "1000", "0"))
	bad := "{\"job\":\"x\"}\n\x00\x00\x00\n[]\n\n{\"job\":\"5\",\"lever\":\"Nice\",\"part\":true,\"tasks\":\"0-4294967295\"}\n"
	f := must[*os.File](t)(os.OpenFile(u.path, os.O_APPEND|os.O_WRONLY, 0))
	_, err := f.WriteString(bad)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	u = openUndo(t, dir)
	if u.damaged != 5 || len(u.Changes()) != 1 {
		t.Fatalf("%d damaged, %d changes", u.damaged, len(u.Changes()))
	}
	write(t, u, action(2, slurmplug.SiteFactor, "0", "2000", "0"))
	again := openUndo(t, dir)
	if again.damaged != 0 || len(again.Changes()) != 2 {
		t.Errorf("%d damaged, %d changes", again.damaged, len(again.Changes()))
	}
	copies := aside(t, dir)
	if len(copies) != 1 || !strings.Contains(string(must[[]byte](t)(os.ReadFile(copies[0]))), bad) {
		t.Errorf("copies %v", copies)
	}
}

// A full disk leaves the journal as it was.
func TestUndoDiskFull(t *testing.T) {
	dir := small(t)
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.SiteFactor, "0", "1000", "0"))
	before := must[[]byte](t)(os.ReadFile(u.path))
	fill(t, dir, filepath.Join(dir, "ballast"), 0)
	var lines []*Change
	for i := range uint32(200) {
		lines = append(lines, u.change(action(10+i, slurmplug.SiteFactor, "0", "1", "0"), epoch))
	}
	if err := u.Append(lines); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Fatal(err)
	}
	if after := must[[]byte](t)(os.ReadFile(u.path)); !bytes.Equal(before, after) {
		t.Errorf("%d bytes, %d before", len(after), len(before))
	}
	if err := u.keep(func(*Change) bool { return true }); err == nil {
		t.Log("a replacement fits into what is left")
	}
	if n := len(openUndo(t, dir).Changes()); n != 1 {
		t.Errorf("%d changes", n)
	}
	remove(t, filepath.Join(dir, "ballast"))
	if err := u.Append(lines); err != nil {
		t.Fatal(err)
	}
	if files := must[[]string](t)(filepath.Glob(filepath.Join(dir, "*.tmp-*"))); len(files) != 0 {
		t.Errorf("left behind: %v", files)
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
	if u := openUndo(t, dir); u.lines > 1100 || d.store.undo.Last(d.snapshot.Jobs[0].ID) == nil {
		t.Errorf("%d lines", u.lines)
	}
	if err := d.store.undo.keep(func(c *Change) bool { return d.store.held.present()(c.Job.ID) }); err != nil {
		t.Fatal(err)
	}
	if u := openUndo(t, dir); u.lines != 1 {
		t.Errorf("%d lines for one job", u.lines)
	}
	// Prune does it as well.
	d.store.undo.kept, d.store.undo.lines = -1000, 2000
	if err := d.store.Prune(ctx, d.snapshot.At); err != nil {
		t.Fatal(err)
	}
	if d.store.undo.lines != 1 {
		t.Errorf("%d lines after Prune", d.store.undo.lines)
	}
}

// A daemon that is started again and again compacts what earlier ones left, and
// not before it knows which jobs there are.
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
		before := d.store.undo.lines
		if err := d.store.Prune(ctx, d.snapshot.At); err != nil {
			t.Fatal(err)
		}
		if d.store.undo.lines != before {
			t.Fatalf("round %d: of %d lines %d are left although nobody has looked at the queue", round, before, d.store.undo.lines)
		}
	}
	if u := openUndo(t, dir); u.lines > 1024+300 {
		t.Errorf("%d lines for %d jobs", u.lines, len(d.snapshot.Jobs))
	}
}

// Without the journal it is written again from the database, so that reset
// works; with it emptied by reset the values count as taken back.
func TestUndoAndDatabaseAgree(t *testing.T) {
	for _, lever := range []slurmplug.Lever{slurmplug.SiteFactor, slurmplug.Nice, slurmplug.Priority} {
		dir := t.TempDir()
		j := pending(1, "te")
		j.Nice = 30
		d := newDaemon(t, dir, j, pending(2, "te"), pending(3, "be"))
		d.settings.Order.Settings.Lever, d.settings.Order.Settings.NiceLimit = lever, 100
		d.cycle()
		written := d.history.Written
		if len(written) != 2 {
			t.Fatalf("%s: %+v", lever, written)
		}
		remove(t, undoPath(dir))
		if !openUndo(t, dir).Missing() {
			t.Error("the journal is not missing")
		}
		d.restart()
		if diff := cmp.Diff(written, d.history.Written); diff != "" {
			t.Errorf("%s, journal gone:\n%s", lever, diff)
		}
		u := openUndo(t, dir)
		for id, w := range u.Written() {
			if w.Original != written[id].Original || w.Lever != lever || w.Tried != written[id].Value {
				t.Errorf("%s, job %s: %+v, was %+v", lever, id, w, written[id])
			}
		}
		if u.Missing() {
			t.Error("the journal is still missing")
		}
		if c := u.Last(j.ID); lever == slurmplug.Nice && c.Was != "30" || lever != slurmplug.Nice && c.Was != "0" {
			t.Errorf("%s: %+v", lever, c)
		}
		// Deleted while priod runs: written again with the next change.
		remove(t, undoPath(dir))
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(4, "te"))
		d.cycle()
		if n := len(openUndo(t, dir).Changes()); n != 3 {
			t.Errorf("%s: %d changes", lever, n)
		}
		// Reset of job 1 while the daemon is down.
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := openUndo(t, dir).TakenBack(d.snapshot.At, func(c *Change) bool { return c.Job != j.ID }); err != nil {
			t.Fatal(err)
		}
		d.store, d.history = openStore(t, dir, Options{})
		if _, still := d.history.Written[j.ID]; still || len(d.history.Written) != 2 {
			t.Errorf("%s: %+v", lever, d.history.Written)
		}
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
	if err := openUndo(t, dir).TakenBack(time.Now(), func(*Change) bool { return false }); err != nil {
		t.Fatal(err)
	}
	for i := range d.snapshot.Jobs {
		d.snapshot.Jobs[i].SiteFactor = 0
	}
	if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "act.lock is locked by process") {
		t.Errorf("a cycle beside reset: %v", err)
	}
	release()
	if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "2 values count as taken back") {
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

// Property: whatever is appended and kept, reading gives what memory holds.
func TestUndoRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "undo")
		if err != nil {
			rt.Fatal(err)
		}
		u, err := OpenUndo(dir)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				odd := rapid.Uint32Range(0, 1).Draw(rt, "odd")
				err = u.keep(func(c *Change) bool { return c.Job.ID%2 == odd })
			case 1:
				u.forget(map[uint32]bool{rapid.Uint32Range(1, 4).Draw(rt, "forget"): true})
				err = u.Append([]*Change{u.change(action(9, slurmplug.Nice, "0", "1", "0"), epoch)})
			default:
				var lines []*Change
				for range rapid.IntRange(1, 4).Draw(rt, "lines") {
					a := action(rapid.Uint32Range(1, 4).Draw(rt, "job"),
						rapid.SampledFrom([]slurmplug.Lever{slurmplug.SiteFactor, slurmplug.Nice, "Features"}).Draw(rt, "lever"),
						rapid.String().Draw(rt, "before"), rapid.String().Draw(rt, "after"), "0")
					switch rapid.IntRange(0, 2).Draw(rt, "shape") {
					case 0:
						a.Tasks, a.Part = rapid.SampledFrom([]string{"0-2", "1,3", "0"}).Draw(rt, "tasks"), true
					case 1:
						a.Job.Task = rapid.Int32Range(0, 3).Draw(rt, "task")
					}
					lines = append(lines, u.change(a, epoch.Add(time.Minute)))
				}
				err = u.Append(lines)
				if err == nil && rapid.IntRange(0, 4).Draw(rt, "back") == 0 {
					err = u.takeBack()
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			again, err := OpenUndo(dir)
			if err != nil {
				rt.Fatal(err)
			}
			if diff := diffUndo(u, again); diff != "" || again.damaged != 0 {
				rt.Fatalf("read back (%d damaged):\n%s", again.damaged, diff)
			}
			if diff := cmp.Diff(u.Written(), again.Written()); diff != "" {
				rt.Fatal(diff)
			}
			if changed, err := u.refresh(); changed || err != nil {
				rt.Fatalf("the journal takes its own writing for another's: %v", err)
			}
		}
	})
}
