package tests

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// top is what stands at the top of the house, and nothing else.
var top = []string{".ci", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "docs", "etc", "go.mod", "go.sum", "priod", "sbatchwrap", "slurmplug", "sql", "tests"}

// leavings are endings of files that programs leave behind.
var leavings = []string{".out", ".test", ".log", ".prof", ".pprof", ".cover", ".db", ".sqlite", ".orig", ".rej", ".swp", ".bak", ".tmp", ".o", ".a", ".so", ".pyc", "~"}

// mostBytes is the largest file outside testdata.
const mostBytes = 300 << 10

// stray says why a file has no place in the house; "" when it has. begin is
// what it begins with.
func stray(name string, size int64, begin []byte) string {
	first, _, _ := strings.Cut(name, "/")
	ext := path.Ext(name)
	if strings.HasSuffix(name, "~") {
		ext = "~"
	}
	switch {
	case !slices.Contains(top, first):
		return "nothing of that name stands at the top: see DESIGN"
	case strings.Contains(name, "testdata/rapid/"):
		return "rapid left it behind: a case that counts becomes a test by itself"
	case slices.Contains(strings.Split(name, "/"), "testdata"):
		return ""
	case slices.Contains(leavings, ext):
		return "a program left it behind: outputs do not belong here"
	case size > mostBytes:
		return fmt.Sprintf("%d bytes: larger than %d only in testdata", size, mostBytes)
	case ext == ".png" && first == "docs":
		return ""
	case bytes.IndexByte(begin, 0) >= 0:
		return "a binary: only pictures in docs and testdata are"
	}
	return ""
}

// What git keeps is the house and nothing else.
func TestNothingStrayIsKept(t *testing.T) {
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("not a clone: nobody knows what is kept")
	}
	list, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git ls-files: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("git knows %d files only", len(files))
	}
	for _, name := range files {
		f, err := os.Open(filepath.Join("..", name))
		if err != nil {
			continue // removed, and not committed yet
		}
		info, err := f.Stat()
		begin, _ := io.ReadAll(io.LimitReader(f, 8<<10))
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if why := stray(name, info.Size(), begin); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
}

func TestStray(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int64
		begin string
		fine  bool
	}{
		{"README.md", 100, "# x", true},
		{"ARCHITECTURE.md", 100, "# x", true},
		{"CHANGELOG.md", 100, "# x", true},
		{"CONTRIBUTING.md", 100, "# x", true},
		{"CHANGES.md", 100, "# x", false},
		{"notes.md", 100, "# x", false},
		{"speed.test", 100, "", false},
		{"priod/priod", 100, "\x7fELF\x02\x00", false},
		{"priod/speed.test", 100, "", false},
		{"priod/cpu.out", 100, "", false},
		{"priod/main.go~", 100, "", false},
		{"docs/big.md", mostBytes + 1, "", false},
		{"docs/queue.png", 100, "\x89PNG\x00", true},
		{"priod/queue.png", 100, "\x89PNG\x00", false},
		{"slurmplug/testdata/22.05/squeue.out", mostBytes + 1, "\x00", true},
	} {
		if why := stray(c.name, c.size, []byte(c.begin)); (why == "") != c.fine {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
