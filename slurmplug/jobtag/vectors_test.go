package jobtag

import (
	"os"
	"strings"
	"testing"
)

// The vectors that etc/slurm/prio.lua runs, too (TestLuaGrammar of package tests).
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		verdict, tag, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, err := Parse(tag); (err == nil) != (verdict == "ok") {
			t.Errorf("%s: %v, want %s", tag, err, verdict)
		}
	}
}

// A tag with type=none says nothing else; Encode refuses it with more as Parse does.
func TestNoneStandsAlone(t *testing.T) {
	if text, err := Encode(Tag{Type: None}); err != nil || text != "prio:type=none&v=1" {
		t.Error(text, err)
	}
	if text, err := Encode(Tag{Type: None, Retry: "infra"}); err == nil {
		t.Error(text)
	}
}
