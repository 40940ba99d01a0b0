package undo

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

func openUndo(t testing.TB, dir string) *Journal {
	t.Helper()
	return must[*Journal](t)(Open(dir))
}

func action(id uint32, l slurmplug.Lever, before, after, nice string) plan.Action {
	return plan.Action{Job: slurmplug.Plain(id), Lever: l, Before: l.Value(before), After: l.Value(after), UserNice: slurmplug.Nice.Value(nice)}
}

func write(t testing.TB, u *Journal, actions ...plan.Action) {
	t.Helper()
	var lines []*Change
	for _, a := range actions {
		lines = append(lines, line(u, a, epoch))
	}
	if err := u.Append(lines); err != nil {
		t.Fatal(err)
	}
}

// line is that of an action on a job of nobody's.
func line(u *Journal, a plan.Action, at time.Time) *Change { return u.Line(a, &cluster.Job{}, at) }

func diffUndo(a, b *Journal) string {
	return cmp.Diff(a.Changes(), b.Changes(), cmpopts.IgnoreUnexported(Change{}))
}

// What was there first outlives every later change, in memory and in the file.
func TestUndoKeepsTheOriginal(t *testing.T) {
	dir := t.TempDir()
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.Nice, "50", "-950", "50"), action(2, slurmplug.SiteFactor, "0", "1000", "0"))
	write(t, u, action(1, slurmplug.Nice, "-950", "-1950", "-950"), action(2, slurmplug.SiteFactor, "1000", "3000", "0"))
	write(t, u, action(3, slurmplug.Priority, "0", "5000", "7"))
	write(t, u, action(3, slurmplug.Priority, "5000", "6000", "0"), plan.Action{Job: slurmplug.Plain(3), Lever: slurmplug.Release, Before: slurmplug.Number(6000)})
	for _, u := range []*Journal{u, openUndo(t, dir)} {
		if c := u.Find(slurmplug.Plain(1), slurmplug.Nice); c.Was.String() != "50" || c.UserNice.String() != "50" || c.From.String() != "-950" || c.To.String() != "-1950" {
			t.Errorf("%+v", c)
		}
		if c := u.Last(slurmplug.Plain(2)); c.Was.String() != "0" || c.To.String() != "3000" {
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
	if n := bytes.Count(must[[]byte](t)(os.ReadFile(u.Path())), []byte("\n")); n != 7 {
		t.Errorf("%d lines", n)
	}
	info := must[os.FileInfo](t)(os.Stat(u.Path()))
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
}

// A line that a crash cut off is dropped, and the next append stands in its place.
func TestUndoTornLine(t *testing.T) {
	dir := t.TempDir()
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.SiteFactor, "0", "1000", "0"), action(2, slurmplug.SiteFactor, "0", "2000", "0"))
	whole := must[[]byte](t)(os.ReadFile(u.Path()))
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := range whole {
		if err := os.WriteFile(u.Path(), whole[:cut], 0o640); err != nil {
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
	f := must[*os.File](t)(os.OpenFile(u.Path(), os.O_APPEND|os.O_WRONLY, 0))
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
	before := must[[]byte](t)(os.ReadFile(u.Path()))
	fill(t, dir, filepath.Join(dir, "ballast"))
	var lines []*Change
	for i := range uint32(200) {
		lines = append(lines, line(u, action(10+i, slurmplug.SiteFactor, "0", "1", "0"), epoch))
	}
	if err := u.Append(lines); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Fatal(err)
	}
	if after := must[[]byte](t)(os.ReadFile(u.Path())); !bytes.Equal(before, after) {
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

// Property: whatever is appended and kept, reading gives what memory holds.
func TestUndoRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "undo")
		if err != nil {
			rt.Fatal(err)
		}
		u, err := Open(dir)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				odd := rapid.Uint32Range(0, 1).Draw(rt, "odd")
				err = u.keep(func(c *Change) bool { return c.Job.ID%2 == odd })
			case 1:
				u.Forget(map[uint32]bool{rapid.Uint32Range(1, 4).Draw(rt, "forget"): true})
				err = u.Append([]*Change{line(u, action(9, slurmplug.Nice, "0", "1", "0"), epoch)})
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
					lines = append(lines, line(u, a, epoch.Add(time.Minute)))
				}
				err = u.Append(lines)
				if err == nil && rapid.IntRange(0, 4).Draw(rt, "back") == 0 {
					err = u.Withdraw()
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			again, err := Open(dir)
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
