package usage

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"slurmprio/priod/store"
)

func TestProcess(t *testing.T) {
	p := Self(t)
	before := p.OpenFiles()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if now := p.OpenFiles(); now != before+1 {
		t.Errorf("%d open files, then one more: %d", before, now)
	}
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = 1
	}
	for what, bytes := range map[string]int64{"anonymous": p.Anonymous(), "resident": p.Resident(), "at most": p.Peak()} {
		if bytes < int64(len(held)) {
			t.Errorf("%s: %d bytes, with %d in use", what, bytes, len(held))
		}
	}
	runtime.KeepAlive(held)
	other := Of(t, os.Getpid())
	if other.Threads() < 1 || other.Written() < 0 {
		t.Errorf("%d threads, %d bytes written", other.Threads(), other.Written())
	}
	user, system := CPU(t)
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; {
	}
	if u, s := CPU(t); u+s <= user+system {
		t.Errorf("%v, then %v", user+system, u+s)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if FileSize(filepath.Join(dir, "none")) != 0 {
		t.Error("a file that is not there has a size")
	}
	for name, text := range map[string]string{"a": "12", "b": "345"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := FolderSize(t, dir); n != 5 {
		t.Errorf("%d bytes, want 5", n)
	}
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if rows := Rows(t, dir); rows["goose_db_version"] == 0 || len(rows) < 10 {
		t.Errorf("%v", rows)
	}
}
