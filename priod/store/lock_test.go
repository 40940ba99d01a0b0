package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One daemon for a folder; the error says who has it.
func TestOneDaemon(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, Options{})
	_, err := Open(ctx, dir, Options{})
	var held *HeldError
	if !errors.As(err, &held) || held.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprintf("locked by process %d", os.Getpid())) {
		t.Fatalf("a second daemon: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = openStore(t, dir, Options{})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	// The lock of a daemon that was killed is free.
	crashedDaemon(t, dir)
	openStore(t, dir, Options{})
}

func TestStateFolderCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, filepath.Join(file, "state"), Options{}); err == nil || !strings.Contains(err.Error(), "state folder") {
		t.Error(err)
	}
}

// A daemon that runs is told from one that ended, by whatever way, and from priod run --once, which ends by itself.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	want := func(what string, pid int, runs bool) {
		t.Helper()
		if p, r, err := Running(dir); p != pid || r != runs || err != nil {
			t.Errorf("%s: process %d, running %v, %v", what, p, r, err)
		}
	}
	want("a new folder", 0, false)
	s, _ := openStore(t, dir, Options{})
	want("a daemon", os.Getpid(), true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want("a daemon that ended", os.Getpid(), false)
	s, _ = openStore(t, dir, Options{Once: true})
	want("priod run --once", os.Getpid(), true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want("priod run --once that ended", 0, false)
	// A look does not keep a daemon from starting.
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = Running(dir)
			}
		}
	}()
	for range 5 {
		s, err := Open(ctx, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The daemon holds act.lock from the plan to the outcomes, and not longer.
func TestActLock(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	d.answer = answerOnce(func() {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := LockActing(short, dir); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "locked by process") {
			t.Errorf("while the daemon acts: %v", err)
		}
	})
	d.cycle()
	release, err := LockActing(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	d.cycle() // nothing to write: it needs no lock
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(2, "te"))
	if _, err := d.step(); !errors.Is(err, ErrGaveWay) || !strings.Contains(err.Error(), "priod reset?") {
		t.Errorf("the daemon acts beside reset: %v", err)
	}
	release()
	d.cycle()
	// Somebody who waits gets it when the daemon is done.
	got := make(chan error, 1)
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(3, "te"))
	d.answer = answerOnce(func() {
		go func() {
			release, err := LockActing(ctx, dir)
			if err == nil {
				release()
			}
			got <- err
		}()
	})
	d.cycle()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestPause(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, Options{})
	if hold, err := s.Hold(); hold != "" || err != nil {
		t.Fatal(hold, err)
	}
	p := Pause{Who: "bob", When: epoch, Why: "maintenance\nof \"everything\""}
	if err := SetPause(dir, p); err != nil {
		t.Fatal(err)
	}
	got, err := Paused(dir)
	if err != nil || *got != p {
		t.Fatal(got, err)
	}
	if hold, err := s.Hold(); err != nil || !strings.HasPrefix(hold, "paused by bob at 2025-11-03T10:00:00Z: maintenance") {
		t.Error(hold, err)
	}
	for _, want := range []bool{true, false} {
		if was, err := Resume(dir); was != want || err != nil {
			t.Error(was, err)
		}
	}
	// What an operator made by hand counts.
	for _, text := range []string{"", "going home\n", "{}", "\xff", "[1]"} {
		if err := os.WriteFile(pausePath(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		hold, err := s.Hold()
		if err != nil || !strings.HasPrefix(hold, "paused by someone unknown (file ") {
			t.Errorf("%q: %q, %v", text, hold, err)
		}
	}
	if err := os.Remove(pausePath(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(pausePath(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hold(); err == nil {
		t.Error("whether it is paused is not known, and no error says so")
	}
}
