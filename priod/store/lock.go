package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// LockActing waits until nobody changes jobs, then keeps others from doing so
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

// startActing takes act.lock for this cycle.
func (s *Store) startActing() error {
	if s.acting != nil {
		return nil
	}
	f, err := acquire(filepath.Join(s.dir, "act.lock"))
	if errors.As(err, new(*HeldError)) {
		return fmt.Errorf("jobs are being changed by somebody else (priod reset?): %w", err)
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
