package store

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// Trouble is what keeps a state folder from being written, in a word.
type Trouble string

// The troubles.
const (
	DiskFull       Trouble = "disk-full"       // also a quota
	ReadOnly       Trouble = "read-only"       // by its mode, its owner or its mount
	DiskFails      Trouble = "disk-fails"      // input and output errors, and all others of files
	FolderGone     Trouble = "folder-gone"     // or a file in it that priod does not make anew
	SharedFolder   Trouble = "shared-folder"   // not mounted, of another cluster, an older copy, or without an owner: see Owner
	TakenOver      Trouble = "taken-over"      // ErrTakenOver
	DatabaseLocked Trouble = "database-locked" // by another program
	DatabaseBroken Trouble = "database-broken" // again, shortly after it was started over
)

// Troubles are those that keep priod from writing to Slurm; those of the database alone do not.
var Troubles = []Trouble{DiskFull, ReadOnly, DiskFails, FolderGone, SharedFolder, TakenOver}

// inShared begins errors that are about the folder of the key of that name.
const inShared = "state.shared: "

// TroubleOf tells which trouble an error of the store is, "" when it is none of these.
func TroubleOf(err error) Trouble {
	is := func(causes ...error) bool {
		for _, cause := range causes {
			if errors.Is(err, cause) {
				return true
			}
		}
		return false
	}
	var e sqlite3.Error
	db := errors.As(err, &e)
	failed := func(codes ...sqlite3.ErrNo) bool {
		for _, code := range codes {
			if db && e.Code == code {
				return true
			}
		}
		return false
	}
	errno := e.SystemErrno
	switch {
	case is(syscall.ENOSPC, syscall.EDQUOT), failed(sqlite3.ErrFull), errno == syscall.ENOSPC, errno == syscall.EDQUOT:
		return DiskFull
	case is(ErrTakenOver):
		return TakenOver
	case is(ErrUnowned), err != nil && strings.Contains(err.Error(), inShared):
		return SharedFolder
	case is(fs.ErrPermission, syscall.EROFS), failed(sqlite3.ErrReadonly, sqlite3.ErrPerm), errno == syscall.EROFS, errno == syscall.EACCES:
		return ReadOnly
	case isLocked(err):
		return DatabaseLocked
	case isBroken(err):
		return DatabaseBroken
	case is(errFolderGone, fs.ErrNotExist), failed(sqlite3.ErrCantOpen):
		return FolderGone
	case db, errors.As(err, new(*fs.PathError)), errors.As(err, new(*os.LinkError)):
		return DiskFails
	}
	return ""
}
