package undo

import (
	"bytes"
	"os"
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
	return must[*Journal](t)(Open(dir, ""))
}

func action(id uint32, l slurmplug.Lever, before, after, nice string) plan.Action {
	return plan.Action{Job: slurmplug.Plain(id), Lever: l, Before: l.Value(before), After: l.Value(after), UserNice: slurmplug.SiteFactor.Value(nice)}
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

// recalled is what a priod that starts remembers.
func recalled(u *Journal) (all [3]any) {
	h := cluster.NewHistory()
	for id := range uint32(10) {
		for task := int32(-1); task < 4; task++ {
			u.Recall(h, &cluster.Job{ID: cluster.JobID{ID: id, Task: task}}, task%2 == 0)
		}
	}
	return [3]any{h.Written, h.Requests, h.Sizes}
}

// What was there first outlives every later change, in memory and in the file.
func TestUndoKeepsTheOriginal(t *testing.T) {
	dir := t.TempDir()
	u := openUndo(t, dir)
	write(t, u, action(1, slurmplug.SiteFactor, "50", "-950", "50"), action(2, slurmplug.SiteFactor, "0", "1000", "0"))
	write(t, u, action(1, slurmplug.SiteFactor, "-950", "-1950", "-950"), action(2, slurmplug.SiteFactor, "1000", "3000", "0"))
	for _, u := range []*Journal{u, openUndo(t, dir)} {
		if c := u.Find(slurmplug.Plain(1), slurmplug.SiteFactor); c.Was.String() != "50" || c.From.String() != "-950" || c.To.String() != "-1950" {
			t.Errorf("%+v", c)
		}
		if c := u.Find(slurmplug.Plain(2), slurmplug.SiteFactor); c.Was.String() != "0" || c.To.String() != "3000" {
			t.Errorf("%+v", c)
		}
		want := map[cluster.JobID]cluster.Written{
			slurmplug.Plain(1): {Lever: slurmplug.SiteFactor, Value: -950, Tried: -1950, At: epoch, Older: []cluster.Sent{{Value: 50, Until: epoch}, {Value: -950, Until: epoch}}},
			slurmplug.Plain(2): {Lever: slurmplug.SiteFactor, Value: 1000, Tried: 3000, At: epoch, Older: []cluster.Sent{{Value: 0, Until: epoch}, {Value: 1000, Until: epoch}}},
		}
		if diff := cmp.Diff(want, u.Written()); diff != "" {
			t.Error(diff)
		}
	}
	if n := bytes.Count(must[[]byte](t)(os.ReadFile(u.File().Path())), []byte("\n")); n != 5 { // with the head
		t.Errorf("%d lines", n)
	}
	info := must[os.FileInfo](t)(os.Stat(u.File().Path()))
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
}

// Property: whatever is appended and kept, reading gives what memory holds.
func TestUndoRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "undo")
		if err != nil {
			rt.Fatal(err)
		}
		u, err := Open(dir, "")
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			before := u.reset
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				odd := rapid.Uint32Range(0, 1).Draw(rt, "odd")
				err = u.TookBack(epoch, func(c *Change) bool { return c.Job.ID%2 == odd })
			case 1:
				gone := rapid.Uint32Range(1, 4).Draw(rt, "forget")
				u.Forget(func(id uint32) bool { return id == gone })
				err = u.Append([]*Change{line(u, action(9, slurmplug.SiteFactor, "0", "1", "0"), epoch)})
			default:
				var lines []*Change
				for range rapid.IntRange(1, 4).Draw(rt, "lines") {
					a := action(rapid.Uint32Range(1, 4).Draw(rt, "job"),
						rapid.SampledFrom([]slurmplug.Lever{slurmplug.SiteFactor, "Features"}).Draw(rt, "lever"),
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
				if id := lines[0].Jobs()[0]; err == nil && rapid.Bool().Draw(rt, "outcome") {
					h := cluster.NewHistory()
					h.Try(id, cluster.Written{Lever: slurmplug.SiteFactor, Value: rapid.Int64().Draw(rt, "value"), At: epoch})
					h.Asked(id, slurmplug.Features, slurmplug.Text("own"), slurmplug.Text(rapid.StringMatching("[a-z]*").Draw(rt, "asked")), rapid.Bool().Draw(rt, "sure"), epoch)
					h.Sized(id, rapid.Bool().Draw(rt, "rests"), true, epoch)
					err = u.Append(nil, KnownOf(h, id))
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			again, err := Open(dir, "")
			if err != nil {
				rt.Fatal(err)
			}
			if diff := diffUndo(u, again); diff != "" || again.File().Damaged() != 0 {
				rt.Fatalf("read back (%d damaged):\n%s", again.File().Damaged(), diff)
			}
			but := cmpopts.IgnoreFields(cluster.Written{}, "Older") // which a rewritten journal does not hold
			if diff := cmp.Diff(u.Written(), again.Written(), but); diff != "" {
				rt.Fatal(diff)
			}
			if diff := cmp.Diff(recalled(u), recalled(again), cmpopts.EquateEmpty(), but); diff != "" {
				rt.Fatalf("another memory:\n%s", diff)
			}
			if noticed, _, err := u.NoticeReset(cluster.NewHistory()); noticed != (again.reset != before) || err != nil {
				rt.Fatalf("a reset is noticed: %v, %v", noticed, err)
			}
		}
	})
}

// A value of priod's that stood in a job when a later write was lost is still priod's
// after a restart, however long ago it was replaced by one that never arrived.
func TestRestartKnowsTheValueThatStands(t *testing.T) {
	dir := t.TempDir()
	u, id, at := openUndo(t, dir), slurmplug.Plain(1), epoch
	h := cluster.NewHistory()
	for _, w := range []struct {
		before, after int64
		later         time.Duration
	}{{0, 90000, 0}, {90000, 82000, 5 * time.Hour}, {90000, 83000, 20 * time.Hour}} {
		at = at.Add(w.later)
		a := plan.Action{Job: id, Lever: slurmplug.SiteFactor, Before: slurmplug.Number(w.before), After: slurmplug.Number(w.after)}
		if err := u.Append([]*Change{line(u, a, at)}, KnownOf(h, id)); err != nil {
			t.Fatal(err)
		}
		h.Shown(id, w.before, at)
		h.Try(id, cluster.Written{Lever: a.Lever, Value: w.after, At: at})
		again := cluster.NewHistory()
		openUndo(t, dir).Recall(again, &cluster.Job{ID: id}, false)
		if diff := cmp.Diff(h.Written[id], again.Written[id]); diff != "" {
			t.Errorf("after %d a restart knows something else (- without):\n%s", w.after, diff)
		}
	}
}
