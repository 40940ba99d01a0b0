// Package usage tells what a process and a folder of its take: processor time, memory, open
// files, threads, bytes on the disk, rows of a database.
package usage

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // what priod's database is
)

// Process is one that the tests look at, by /proc.
type Process struct {
	tb  testing.TB
	pid string
}

// Self is the process of the tests.
func Self(tb testing.TB) Process { return Process{tb, "self"} }

// Of is another process.
func Of(tb testing.TB, pid int) Process { return Process{tb, strconv.Itoa(pid)} }

// Written is what it made the kernel write to a disk, in bytes.
func (p Process) Written() int64 { p.tb.Helper(); return p.field("io", "\nwrite_bytes:") }

// Anonymous is its memory that stands for no file, in bytes.
func (p Process) Anonymous() int64 {
	p.tb.Helper()
	return p.field("smaps_rollup", "\nAnonymous:") << 10
}

// Resident is its memory, in bytes.
func (p Process) Resident() int64 { p.tb.Helper(); return p.field("status", "\nVmRSS:") << 10 }

// Peak is the most memory that it had since it began, or since ForgetPeak, in bytes.
func (p Process) Peak() int64 { p.tb.Helper(); return p.field("status", "\nVmHWM:") << 10 }

// ForgetPeak lets Peak start over.
func (p Process) ForgetPeak() {
	p.tb.Helper()
	if err := os.WriteFile(p.path("clear_refs"), []byte("5"), 0); err != nil {
		p.tb.Fatal(err)
	}
}

// Threads counts its threads.
func (p Process) Threads() int { p.tb.Helper(); return int(p.field("status", "\nThreads:")) }

// OpenFiles counts its file descriptors.
func (p Process) OpenFiles() int {
	p.tb.Helper()
	fds, err := os.ReadDir(p.path("fd"))
	if err != nil {
		p.tb.Fatal(err)
	}
	return len(fds)
}

func (p Process) path(file string) string { return filepath.Join("/proc", p.pid, file) }

// field is the number that follows a key in a file of /proc.
func (p Process) field(file, key string) int64 {
	p.tb.Helper()
	text, err := os.ReadFile(p.path(file))
	if err != nil {
		p.tb.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(text), key)
	n, err := strconv.ParseInt(strings.Fields(rest + " ?")[0], 10, 64)
	if err != nil {
		p.tb.Fatalf("%s: %q: %v", p.path(file), key, err)
	}
	return n
}

// CPU is the processor time that this process has used, in user mode and in the kernel.
func CPU(tb testing.TB) (user, system time.Duration) {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

// FileSize is 0 for a file that is not there.
func FileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// FolderSize is that of all files right in a folder.
func FolderSize(tb testing.TB, dir string) (bytes int64) {
	tb.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range files {
		bytes += FileSize(filepath.Join(dir, f.Name()))
	}
	return bytes
}

// Rows counts the rows of each table of priod's database in a state folder.
func Rows(tb testing.TB, state string) map[string]int64 {
	tb.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(state, "priod.db")+"?mode=ro&_busy_timeout=10000")
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	tables, err := db.QueryContext(tb.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		tb.Fatal(err)
	}
	defer tables.Close()
	all := map[string]int64{}
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			tb.Fatal(err)
		}
		all[name] = 0
	}
	if err := tables.Err(); err != nil {
		tb.Fatal(err)
	}
	for name := range all {
		var n int64
		if err := db.QueryRowContext(tb.Context(), `SELECT count(*) FROM "`+name+`"`).Scan(&n); err != nil {
			tb.Fatal(err)
		}
		all[name] = n
	}
	return all
}
