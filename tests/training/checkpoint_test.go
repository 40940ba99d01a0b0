package training

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A run goes on from its checkpoint, and leaves all of its work in it.
func TestWorkGoesOn(t *testing.T) {
	w := Work{Seconds: 1000, File: filepath.Join(t.TempDir(), "state"), Every: time.Millisecond}
	if err := os.WriteFile(w.File, []byte("999.9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(2); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.File)
	if done, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err != nil || done < 1000 {
		t.Errorf("%v: %q", err, text)
	}
}
