package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"slurmprio/priod/journal"
)

// Replay says that a state folder holds a simulation, not the life of a daemon.
type Replay struct {
	Version string    `json:"version"` // of the priod that made it
	Policy  string    `json:"policy"`  // in the words of the flags
	Jobs    int       `json:"jobs"`
	Stopped int       `json:"stopped,omitempty"` // so many jobs were submitted when it was stopped; 0: it is whole
	From    time.Time `json:"from"`              // the first cycle
	Until   time.Time `json:"until"`             // the last
	Set     []string  `json:"set"`               // keys of priod.toml over the file beside it, as --set has them
}

// Names in the folder of a replay, beside those of a state folder.
const (
	replayFile   = "replay.json"
	ReplayConfig = "priod.toml" // the configuration, before Replay.Set
	Without      = "without"    // the same jobs without priod, a replay of its own
)

// ReadReplay returns what a folder says of its replay; nil: it holds none.
func ReadReplay(dir string) (*Replay, error) { return readFile[Replay](filepath.Join(dir, replayFile)) }

// ReadableFolder says why a folder that a user named cannot be read as a state folder or a replay; of a replay it returns what it says.
func ReadableFolder(dir string) (*Replay, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is no such folder; priod simulate --state makes one when it has ended")
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, errors.New("this is a file, and no folder")
	}
	replay, err := ReadReplay(dir)
	if err != nil {
		return nil, err
	}
	needs := []string{databasePath(dir)}
	if replay != nil {
		needs = append(needs, filepath.Join(dir, ReplayConfig))
	}
	for _, path := range needs {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			continue // a reader says what else is wrong
		}
		if replay != nil {
			return nil, fmt.Errorf("the replay lacks its %s: priod simulate --state makes it anew", filepath.Base(path))
		}
		return nil, errors.New("this is neither a replay, which priod simulate --state makes, nor the state folder of a priod that has finished a cycle")
	}
	return replay, nil
}

// ReplayFolder is one under way. It stands beside its place until it is whole.
type ReplayFolder struct {
	dir, part string
	lock      *os.File
}

// BeginReplay begins a replay in place of a folder, which may hold nothing but an earlier one.
func BeginReplay(dir string) (*ReplayFolder, error) {
	if err := replaceable(dir); err != nil {
		return nil, err
	}
	f := &ReplayFolder{dir: filepath.Clean(dir), part: filepath.Clean(dir) + ".unfinished"}
	path := filepath.Join(f.part, "recording")
	if _, err := os.Stat(f.part); err == nil && !journal.Exists(path) {
		return nil, fmt.Errorf("%s is in the way: a replay is recorded there until it is whole; move it away", f.part)
	}
	err := os.MkdirAll(f.part, 0o750)
	if err == nil {
		f.lock, err = acquire(path)
	}
	if errors.As(err, new(*HeldError)) {
		return nil, fmt.Errorf("another priod simulate records into %s: %w", dir, err)
	}
	if err == nil {
		err = f.clear()
	}
	if err != nil {
		f.Discard()
		return nil, err
	}
	return f, nil
}

// clear removes what an earlier replay left, that was killed.
func (f *ReplayFolder) clear() error {
	left, err := os.ReadDir(f.part)
	for _, x := range left {
		if x.Name() != "recording" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.part, x.Name())))
		}
	}
	return err
}

// Dir is where one of the replays is recorded: "" or Without.
func (f *ReplayFolder) Dir(side string) string { return filepath.Join(f.part, side) }

// Finish puts the folder in its place, with what it holds on each side.
func (f *ReplayFolder) Finish(sides map[string]*Replay, config []byte) error {
	for side, r := range sides {
		if err := errors.Join(os.WriteFile(filepath.Join(f.Dir(side), ReplayConfig), config, 0o640), writeFile(filepath.Join(f.Dir(side), replayFile), r)); err != nil {
			return err
		}
	}
	err := os.Remove(filepath.Join(f.part, "recording"))
	if err == nil {
		err = replaceable(f.dir)
	}
	if err == nil {
		err = os.RemoveAll(f.dir)
	}
	if err == nil {
		err = os.Rename(f.part, f.dir)
	}
	return errors.Join(err, f.lock.Close())
}

// Discard leaves nothing of a replay that is not whole.
func (f *ReplayFolder) Discard() {
	_ = os.RemoveAll(f.part)
	if f.lock != nil {
		_ = f.lock.Close()
	}
}

// replaceable refuses a folder that holds anything but an earlier replay.
func replaceable(dir string) error {
	if pid, runs, err := Running(dir); err == nil && runs {
		return fmt.Errorf("%s is the state folder of a priod that runs (process %d): give the replay a folder of its own", dir, pid)
	}
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if journal.Exists(ownerPath(dir)) {
		return fmt.Errorf("%s is a folder that the priods of several hosts share: give the replay a folder of its own", dir)
	}
	if r, err := ReadReplay(dir); err != nil || r == nil {
		return fmt.Errorf("%s is not empty and holds no replay: give the replay a folder of its own", dir)
	}
	return nil
}
