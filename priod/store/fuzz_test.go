package store

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
)

// Whatever stands in evictions.jsonl, what is read of it is what is read again once it
// was rewritten, with each row where whoever looks for its number finds it.
func FuzzEvictionLines(f *testing.F) {
	head := `{"format":1,"journal":"x","cluster":"test"}` + "\n"
	f.Add([]byte(head + `{"turn":1,"claims":[{"claim":2,"job":"7","state":"planned"}],"evictions":[{"eviction":1,"claim":2,"job":"8_4","state":"signalled","signalled":"2025-11-03T10:00:00Z"}]}` + "\n"))
	f.Add([]byte(head + `{"turn":3,"evictions":[{"eviction":5,"job":"8","state":"done"},{"eviction":4,"job":"8","state":"left"},{"eviction":5,"job":"8","state":"left"}]}` + "\n{\"tu"))
	f.Add([]byte(head + `{"turn":3,"times":{"8":2,"9+1":1},"last_claim":7,"last_eviction":9}` + "\n\x00\n[]\n{}\n"))
	f.Add([]byte("garbage\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := &evictionFile{File: lines.File{Path: filepath.Join(t.TempDir(), "evictions.jsonl")}}
		j, err := file.parse(text)
		if err != nil {
			return // of a newer priod
		}
		for i := range j.Evictions {
			if n := j.Evictions[i].Number; j.Eviction(n) != &j.Evictions[i] {
				t.Fatalf("eviction %d is not where it is looked for", n)
			}
		}
		if err := file.rewrite(j, "test"); err != nil {
			t.Fatal(err)
		}
		_, again, err := openEvictions(filepath.Dir(file.Path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(j, again, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(evict.Journal{})); diff != "" {
			t.Fatal(diff)
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
