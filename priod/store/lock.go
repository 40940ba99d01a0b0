package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slurmprio/priod/journal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// HeldError says that another process holds a lock file.
type HeldError struct {
	Path string
	PID  int // 0 when the holder did not say
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return e.Path + " is locked by another process"
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

// acquire takes the lock file without waiting and writes the pid into it. The
// kernel gives the lock back when the process ends, however it ends.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			text, _ := io.ReadAll(io.LimitReader(f, 20))
			pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			return nil, &HeldError{Path: path, PID: pid}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// The pid is for people; a full disk must not keep the lock away.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}

// openPatience is for how long a daemon that starts waits for the lock: Running holds it for a moment.
const openPatience = 500 * time.Millisecond

// acquireSoon is acquire that tries again for openPatience.
func acquireSoon(path string) (f *os.File, err error) {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if f, err = acquire(path); !errors.As(err, new(*HeldError)) || time.Since(begun) > openPatience {
			return f, err
		}
	}
}

// Running tells which process writes to a state folder of this host, and whether it still runs: pid is 0 where
// none has been, or the last one ended with its work done (priod run --once).
func Running(dir string) (pid int, runs bool, err error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 20))
	pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return pid, true, nil
	}
	return pid, false, err
}

// ErrTaken says that another priod has been at the state folder: what this one
// remembers no longer holds, and only a restart reads what stands there now.
var ErrTaken = errors.New("another priod has been at the state folder while this one ran")

// errFolderGone says so of the state folder.
var errFolderGone = errors.New("gone")

// keepLock takes the lock again when its file was deleted or the whole folder
// replaced: the lock held until then keeps no process out any more.
func (s *Store) keepLock() error {
	if s.opts.Replay {
		return nil
	}
	path := filepath.Join(s.dir, "lock")
	held, err := s.lock.Stat()
	if err != nil {
		return err
	}
	if same, err := journal.Stands(path, held); err != nil || same {
		return err
	}
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the state folder %s is %w: put it back, or create an empty one for priod's user, and priod goes on from memory", s.dir, errFolderGone)
	}
	lock, err := acquire(path)
	if errors.As(err, new(*HeldError)) {
		s.taken = true
		return fmt.Errorf("%w: %w", ErrTaken, err)
	}
	if err != nil {
		return err
	}
	if err := s.untouched(); err != nil {
		_ = lock.Close()
		return err
	}
	_ = s.lock.Close()
	s.lock = lock
	s.mended("the state folder, or the lock in it, was deleted or replaced while priod ran: taken again", "file", path)
	if s.pause != nil {
		return SetPause(s.journals, *s.pause)
	}
	return nil
}

// untouched makes sure that the folder holds what this priod left there, or
// nothing at all.
func (s *Store) untouched() error {
	mine, err := journal.Stands(databasePath(s.dir), s.opened)
	if err != nil {
		return err
	}
	if mine && s.db != nil {
		last, err := s.q.LastKeys(context.Background(), s.db)
		if err != nil || last.Cycle <= s.stored.cycle && last.Write <= s.stored.write {
			return s.explain(err)
		}
	}
	if !mine && !journal.Exists(databasePath(s.dir)) {
		if !journal.Exists(s.file.Path()) {
			return nil
		}
		if mine, err := s.file.Stands(); err != nil || mine {
			return err
		}
	}
	s.taken = true
	return fmt.Errorf("%w: restart it, to go on with what stands in %s now", ErrTaken, s.dir)
}

// LockActing waits until no process changes jobs, then keeps others from doing so
// until release is called. A daemon that meets the lock skips its cycle.
func LockActing(ctx context.Context, dir string) (release func(), err error) {
	path := filepath.Join(dir, "act.lock")
	for {
		f, err := acquire(path)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.As(err, new(*HeldError)) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ErrGaveWay says that priod reset, or a pause, came between: nothing was written in this
// cycle, and the next one finds what stands then.
var ErrGaveWay = errors.New("this cycle writes nothing")

// startActing takes act.lock for this cycle.
func (s *Store) startActing() error {
	if err := s.owns(); err != nil || s.acting != nil || s.opts.Replay {
		return err
	}
	f, err := acquire(filepath.Join(s.dir, "act.lock"))
	if errors.As(err, new(*HeldError)) {
		return fmt.Errorf("%w, jobs are being changed by another process (priod reset?): %w", ErrGaveWay, err)
	}
	s.acting = f
	return err
}

func (s *Store) stopActing() {
	if s.acting != nil {
		_ = s.acting.Close()
		s.acting = nil
	}
}
