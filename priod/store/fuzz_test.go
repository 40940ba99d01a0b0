package store

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
)

// Whatever stands in a turn, what is read of it is what is read again once it was rewritten, with each row where whoever
// looks for its number finds it.
func FuzzTurns(f *testing.F) {
	f.Add([]byte(`{"claims":[{"claim":2,"job":"7","state":"planned"}],"evictions":[{"eviction":1,"claim":2,"job":"8_4","state":"signalled","signalled":"2025-11-03T10:00:00Z"}]}` + "\n"))
	f.Add([]byte(`{"evictions":[{"eviction":5,"job":"8","state":"done"},{"eviction":4,"job":"8","state":"left"},{"eviction":5,"job":"8","state":"left"}]}` + "\n{\"cl"))
	f.Add([]byte(`{"times":{"8":2,"9+1":1},"last_claim":7,"last_eviction":9}` + "\n\x00\n[]\n{}\n"))
	f.Add([]byte("garbage\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, again := new(turns), new(turns)
		first.Clear()
		again.Clear()
		for line := range bytes.Lines(text) {
			_, _ = first.Take(journal.Turn, line) // an unsound one counts for nothing
		}
		for i := range first.journal.Evictions {
			if n := first.journal.Evictions[i].Number; first.journal.Eviction(n) != &first.journal.Evictions[i] {
				t.Fatalf("eviction %d is not where it is looked for", n)
			}
		}
		for _, r := range first.Records() {
			body, err := json.Marshal(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			if mine, err := again.Take(r.Kind, body); !mine || err != nil {
				t.Fatalf("%s: %v", body, err)
			}
		}
		if diff := cmp.Diff(first.journal, again.journal, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(evict.Journal{})); diff != "" {
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
