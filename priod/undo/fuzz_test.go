package undo

import (
	"reflect"
	"regexp"
	"slurmprio/slurmplug"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever stands in the journal's writes: what counts of it is rewritten as it
// was read, a line that is no change of ours counts for nothing, and no line
// takes a later change with it.
func FuzzUndo(f *testing.F) {
	f.Add([]byte(`{"time":"0025-11-03T10:00:00Z","job":"17_4","user":"alice","lever":"Nice","was":"5","from":"5","to":"-9"}` + "\n"))
	f.Add([]byte(`{"job":"17","tasks":"0-3","part":true,"lever":"SiteFactor","was":"0","from":"0","to":"x"}` + "\n{\"jo"))
	f.Add([]byte("\n\n\x00\n{}\n[1,2]\n"))
	f.Add([]byte(`{"job":"17","tasks":"0-999:3%4","part":true,"lever":"Nice"}` + "\n"))
	large := regexp.MustCompile(`[1-9][0-9]{3,}`)
	f.Fuzz(func(t *testing.T, text []byte) {
		if large.Match(text) {
			t.Skip("a large array takes its time")
		}
		u := New()
		takeAll(u, string(text))
		u.Written()
		added := line(u, action(4, slurmplug.SiteFactor, "0", "1", "0"), epoch)
		u.take(added)
		written, again := textOf(t, u), New()
		if n := takeAll(again, written); n != 0 || textOf(t, again) != written {
			t.Fatalf("%d damaged:\n%s\n%s", n, written, textOf(t, again))
		}
		if last := again.Find(slurmplug.Plain(4), slurmplug.SiteFactor); last == nil || last.To != added.To || last.Lever != added.Lever {
			t.Fatalf("the new change is lost: %+v", last)
		}
	})
}

// A change whose texts somebody chose is one line, which reads back as it was.
func FuzzUndoText(f *testing.F) {
	f.Add("alice", "a100|v100", "x\n{\"job\":\"1\",\"lever\":\"Nice\",\"was\":\"9\"}\n", "-5")
	f.Add("\x00", "\u2028\u202e", "\x1b[2J", "\"}")
	f.Fuzz(func(t *testing.T, user, from, to, nice string) {
		for _, s := range []string{user, from, to, nice} {
			if !utf8.ValidString(s) {
				t.Skip("JSON cannot hold it; nothing of the kind is ever written to a job")
			}
		}
		c := Change{Time: epoch, Job: slurmplug.JobID{ID: 7, Task: 3}, User: user, Submit: epoch, Lever: "Features", Was: slurmplug.Text(from), From: slurmplug.Text(from), To: slurmplug.Text(to), Sent: []slurmplug.Value{slurmplug.Text(from), slurmplug.Text(to)}}
		first := New()
		first.take(&c)
		first.take(&Change{Job: slurmplug.Plain(8), Lever: "Nice", To: slurmplug.Number(1)})
		text, u := textOf(t, first), New()
		damaged := takeAll(u, text)
		all := u.Changes()
		if strings.Count(text, "\n") != 2 || damaged != 0 || len(all) != 2 {
			t.Fatalf("%d damaged, %d changes in %q", damaged, len(all), text)
		}
		c.seq = all[0].seq
		if !reflect.DeepEqual(*all[0], c) {
			t.Fatalf("%+v reads back as %+v", c, *all[0])
		}
	})
}
