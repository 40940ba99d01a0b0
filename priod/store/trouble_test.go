package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mattn/go-sqlite3"
)

func TestTroubles(t *testing.T) {
	path := func(errno syscall.Errno) error { return &os.PathError{Op: "write", Path: "undo.jsonl", Err: errno} }
	for _, c := range []struct {
		err  error
		want Trouble
	}{
		{nil, ""},
		{errors.New("an error of another room"), ""},
		{path(syscall.ENOSPC), DiskFull},
		{path(syscall.EDQUOT), DiskFull},
		{path(syscall.EROFS), ReadOnly},
		{path(syscall.EACCES), ReadOnly},
		{path(syscall.EPERM), ReadOnly},
		{path(syscall.ENOENT), FolderGone},
		{path(syscall.ESTALE), DiskFails},
		{&os.LinkError{Op: "rename", Err: syscall.EIO}, DiskFails},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.ENOSPC}, DiskFull},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EROFS}, ReadOnly},
		{sqlite3.Error{Code: sqlite3.ErrIoErr}, DiskFails},
		{sqlite3.Error{Code: sqlite3.ErrCorrupt}, DatabaseBroken},
		{errGone, DatabaseBroken},
		{ErrTakenOver, TakenOver},
	} {
		if got := TroubleOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
		if c.err == nil {
			continue
		}
		if got := TroubleOf(explain(fmt.Errorf("record the plan: %w", c.err), "priod.db")); got != c.want {
			t.Errorf("%v, in an operator's words: %q, want %q", c.err, got, c.want)
		}
	}
}

// A shared folder that is not there is no trouble of the state folder.
func TestTroubleOfTheSharedFolder(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "shared")
	mkdir(t, shared)
	s := must[*Store](t)(Open(ctx, t.TempDir(), Options{Shared: shared}))
	defer s.Close()
	if _, err := s.TakeOver(ctx, "ctl1", "test"); err != nil {
		t.Fatal(err)
	}
	removeAll(t, shared)
	if _, err := s.Watch(); TroubleOf(err) != SharedFolder {
		t.Errorf("gone: %v", err)
	}
	mkdir(t, shared)
	if _, err := s.TakeOver(ctx, "ctl1", "test"); TroubleOf(err) != SharedFolder {
		t.Errorf("not mounted: %v", err)
	}
	if err := s.owns(); TroubleOf(err) != SharedFolder {
		t.Errorf("while it writes: %v", err)
	}
}
