package journal

import (
	"errors"
	"os"
	"path/filepath"
)

// Kinds of records.
const (
	Write   = "write"   // a change of a job, package undo
	Known   = "known"   // what became of such changes, package undo
	Reset   = "reset"   // a reset took back all but what it names, package undo
	Turn    = "turn"    // claims and evictions, package evict
	Failure = "failure" // jobs that failed and nodes taken out of use, package retry
)

var kinds = []string{Write, Known, Reset, Turn, Failure}

// Retire renames the journal, whose records stand in another one now.
func (j *Journal) Retire() (err error) {
	if j.file.info != nil {
		err = os.Rename(j.file.path, j.file.path+".moved")
	}
	return errors.Join(err, SyncDir(filepath.Dir(j.file.path)))
}
