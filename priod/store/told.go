package store

import (
	"path/filepath"

	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/retry"
	"slurmprio/priod/undo"
)

// told is a journal with its parts.
type told struct {
	file     *journal.Journal
	undo     *undo.Journal
	turns    *turns
	failures *failures
}

// LockOfJournal is the lock file of those on this host who append to the journal of its state folder, or of a shared one.
func LockOfJournal(dir string) string { return filepath.Join(dir, "journal.lock") }

func openTold(dir, lock string) (t told, err error) {
	t = told{undo: undo.New(), turns: &turns{}, failures: &failures{}}
	if t.file, err = journal.Open(dir, lock, t.undo, t.turns, t.failures); err == nil {
		t.undo.Bind(t.file)
		t.file.Upgrade()
	}
	return t, err
}

// Told is what the journal of a folder tells.
type Told struct {
	File      *journal.Journal
	Writes    *undo.Journal
	Evictions *evict.Journal
	Failures  *retry.Memory
}

// ReadJournal reads the journal of a folder, for who appends nothing to it.
func ReadJournal(dir string) (*Told, error) {
	t, err := openTold(dir, "")
	if err != nil {
		return nil, err
	}
	return &Told{t.file, t.undo, t.turns.journal, t.failures.memory}, nil
}

// OpenEvictions returns the claims and evictions that the journal of a folder tells.
func OpenEvictions(dir string) (*evict.Journal, error) {
	t, err := ReadJournal(dir)
	if err != nil {
		return nil, err
	}
	return t.Evictions, nil
}
