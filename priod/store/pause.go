package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slurmprio/priod/journal"
	"strings"
	"time"
)

// Pause says who stopped priod from changing jobs.
type Pause struct {
	Who  string    `json:"who"`
	When time.Time `json:"when"`
	Why  string    `json:"why,omitempty"`
}

// pausedBy begins every pause in words.
const pausedBy = "paused by "

// self stands for the daemon in Pause.Who.
const self = "priod itself"

// ByDaemon reports whether a hold is one of the daemon's own, by Store.Pause.
func ByDaemon(hold string) bool { return strings.HasPrefix(hold, pausedBy+self+" at ") }

// String is the pause in words for a person.
func (p Pause) String() string {
	s := pausedBy + p.Who + " at " + p.When.Format(time.RFC3339)
	if p.Why != "" {
		s += ": " + p.Why
	}
	return s
}

func pausePath(dir string) string { return filepath.Join(dir, "paused") }

// SetPause pauses the daemon of the folder, running or not, from its next cycle on. On a full disk the
// pause is an empty file: who paused and why is lost.
func SetPause(dir string, p Pause) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	err = journal.Replace(pausePath(dir), append(text, '\n'))
	if TroubleOf(err) == DiskFull {
		err = touch(pausePath(dir))
	}
	return unchanged("pause", dir, err)
}

// touch makes an empty file where there is none.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// unchanged says why a pause of a folder was neither set nor ended, and what can be done.
func unchanged(verb, dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s (run it as priod's own user or root): %w", verb, err)
	case err != nil:
		return fmt.Errorf("%s: state folder %s: %w (to end all writing at once: systemctl stop priod)", verb, dir, err)
	}
	return nil
}

// Resume ends a pause and reports whether there was one.
func Resume(dir string) (was bool, err error) {
	err = os.Remove(pausePath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, unchanged("resume", dir, err)
	}
	return true, journal.SyncDir(dir)
}

// Paused returns the pause in force, nil when there is none. Any file counts,
// also one made with touch.
func Paused(dir string) (*Pause, error) {
	path := pausePath(dir)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("whether priod is paused: %w", err)
	}
	p, ours := parsePause(text)
	if !ours {
		p.Who = "someone unknown (file " + path + ")"
		if info, err := os.Stat(path); err == nil {
			p.When = info.ModTime()
		}
	}
	return &p, nil
}

// HoldNow is why nothing is written: the pause as it stands now, else what the last
// cycle found in its way. Pauses that came or ended since count at once.
func HoldNow(dir, last string) string {
	p, err := Paused(dir)
	switch {
	case err != nil: // not for this user
		return last
	case p != nil:
		return p.String()
	case strings.HasPrefix(last, pausedBy):
		return ""
	}
	return last
}

// parsePause reads what SetPause wrote; what others wrote is the reason.
func parsePause(text []byte) (p Pause, ours bool) {
	if err := json.Unmarshal(text, &p); err != nil || p.Who == "" {
		return Pause{Why: strings.ToValidUTF8(string(bytes.TrimSpace(text)), "?")}, false
	}
	return p, true
}

// Hold says why nothing may be written now, "" when it may.
func (s *Store) Hold() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold()
}

func (s *Store) hold() (string, error) {
	if err := s.keepLock(); err != nil {
		return "", err
	}
	p, err := Paused(s.journals)
	if err != nil {
		return "", err
	}
	s.pause = p
	if p == nil {
		return "", nil
	}
	return p.String(), nil
}

// PauseBy is a pause by an operator from now on.
func PauseBy(who, why string) Pause {
	return Pause{Who: who, When: time.Now().UTC().Truncate(time.Second), Why: why}
}

// OwnPause is a pause that the daemon decides on by itself.
func OwnPause(why string) Pause { return PauseBy(self, why) }

// Pause pauses the daemon by its own decision, over a restart too: an operator has
// to look first.
func (s *Store) Pause(why string) error { return SetPause(s.journals, OwnPause(why)) }
