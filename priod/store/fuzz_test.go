package store

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/evict"
	"slurmprio/slurmplug"
)

// Whatever stands in the undo journal: what counts of it is written anew as it
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
		u := &Undo{}
		u.parse(text)
		if u.good > int64(len(text)) || u.damaged > u.lines || len(u.Changes()) > u.lines {
			t.Fatalf("%d lines, %d damaged, %d bytes of %d, %d changes", u.lines, u.damaged, u.good, len(text), len(u.Changes()))
		}
		u.Written()
		added := u.change(action(4, slurmplug.SiteFactor, "0", "1", "0"), epoch)
		u.take(added)
		written, err := journalText(u.Changes())
		if err != nil {
			t.Fatal(err)
		}
		again := &Undo{}
		again.parse(written)
		twice, err := journalText(again.Changes())
		if err != nil || again.damaged != 0 || string(twice) != string(written) {
			t.Fatalf("%d damaged, %v:\n%s\n%s", again.damaged, err, written, twice)
		}
		if last := again.Last(slurmplug.Plain(4)); last == nil || last.To != added.To || last.Lever != added.Lever {
			t.Fatalf("the new change is lost: %+v", last)
		}
		// What was read, and a line behind it that a crash cut off.
		cut := &Undo{}
		cut.parse(append(append([]byte{}, text...), `{"job":"9","lever":"Nice"`...))
		if cut.good != u.good || len(cut.Changes()) > u.lines {
			t.Fatalf("a line that is cut off counts: %d and %d bytes", cut.good, u.good)
		}
	})
}

// Whatever stands in evictions.jsonl, what is read of it is what is read again once it
// was written anew, with each row where whoever looks for its number finds it.
func FuzzEvictionLines(f *testing.F) {
	head := `{"format":1,"journal":"x","cluster":"test"}` + "\n"
	f.Add([]byte(head + `{"turn":1,"claims":[{"claim":2,"job":"7","state":"planned"}],"evictions":[{"eviction":1,"claim":2,"job":"8_4","state":"signalled","signalled":"2025-11-03T10:00:00Z"}]}` + "\n"))
	f.Add([]byte(head + `{"turn":3,"evictions":[{"eviction":5,"job":"8","state":"done"},{"eviction":4,"job":"8","state":"left"},{"eviction":5,"job":"8","state":"left"}]}` + "\n{\"tu"))
	f.Add([]byte(head + `{"turn":3,"times":{"8":2,"9+1":1},"last_claim":7,"last_eviction":9}` + "\n\x00\n[]\n{}\n"))
	f.Add([]byte("garbage\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := &evictionFile{lineFile: lineFile{path: evictionPath(t.TempDir())}}
		j, err := file.parse(text)
		if err != nil {
			return // of a newer priod
		}
		for i := range j.Evictions {
			if n := j.Evictions[i].Number; j.Eviction(n) != &j.Evictions[i] {
				t.Fatalf("eviction %d is not where it is looked for", n)
			}
		}
		if err := file.replace(j, "test"); err != nil {
			t.Fatal(err)
		}
		_, again, err := openEvictions(filepath.Dir(file.path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(j, again, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(evict.Journal{})); diff != "" {
			t.Fatal(diff)
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
		c := Change{Time: epoch, Job: slurmplug.JobID{ID: 7, Task: 3}, User: user, Submit: epoch, Lever: "Features", Was: from, From: from, To: to, UserNice: nice, Sent: []string{from, to}}
		text, err := journalText([]*Change{&c, {Job: slurmplug.Plain(8), Lever: "Nice", To: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		u := &Undo{}
		u.parse(text)
		all := u.Changes()
		if u.lines != 2 || u.damaged != 0 || len(all) != 2 {
			t.Fatalf("%d lines, %d damaged, %d changes in %q", u.lines, u.damaged, len(all), text)
		}
		c.seq = all[0].seq
		if !reflect.DeepEqual(*all[0], c) {
			t.Fatalf("%+v reads back as %+v", c, *all[0])
		}
	})
}

// Any file named paused pauses; what it says stands in one valid text.
func FuzzPause(f *testing.F) {
	f.Add([]byte(`{"who":"root","when":"2026-11-21T01:02:03Z","why":"maintenance"}`+"\n"), "eve\n\x1b[2J", "\u202e\x00")
	f.Add([]byte("upgrade \xff\x1b[2J\n"), "", "")
	f.Add([]byte(`{"who":"","why":1}`), "a", "b")
	f.Fuzz(func(t *testing.T, text []byte, who, why string) {
		p, ours := parsePause(text)
		if ours != (p.Who != "") || !utf8.ValidString(p.String()) {
			t.Fatalf("%q is %+v, %v", text, p, ours)
		}
		if who == "" || !utf8.ValidString(who) || !utf8.ValidString(why) {
			return
		}
		set := Pause{Who: who, When: time.Unix(1795229000, 0).UTC(), Why: why}
		written, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		if back, ours := parsePause(append(written, '\n')); !ours || back != set {
			t.Fatalf("%+v reads back as %+v, %v", set, back, ours)
		}
	})
}
