package slurmplug

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	toTask  = JobID{ID: 1, Task: 1}
	errExit = &CommandError{Command: "scancel", Kind: ErrExit, Status: 1}
	ended   = &CommandError{Command: "scancel", Kind: ErrUntil}
)

// What scancel said on each Slurm, of a job in each state (signals_record_test.go).
func TestSignalled(t *testing.T) {
	for _, c := range []struct {
		file string
		job  JobID
		err  error
		want Status
	}{
		{"running", Plain(5), nil, Applied}, {"task", toTask, ended, Applied}, {"waiting", Plain(6), ended, Postponed},
		{"suspended", Plain(3), ended, Postponed}, {"over", Plain(4), errExit, Raced}, {"unknown", Plain(999999), errExit, Raced},
		{"no-task", JobID{ID: 1, Task: 9}, errExit, Raced}, {"no-signal", Plain(5), errExit, Refused},
	} {
		for _, version := range []string{"22.05", "24.11", "26.05"} {
			said := recordingOf(t, version, "signal-"+c.file+".out")
			if s, why := signalled(c.job, said, c.err); s != c.want || (why == "") != (s == Applied) {
				t.Errorf("%s, %s: %s %q, want %s", version, c.file, s, why, c.want)
			}
		}
	}
}

// A signal may have arrived unless Slurm says that it did not.
func TestSignalledOrNot(t *testing.T) {
	sending := "scancel: Signal 12 to batch job 1_1\n"
	denied := func(why string) string {
		return sending + "scancel: error: Kill job error on job id 1_1: " + why + "\n"
	}
	timeout := &CommandError{Command: "scancel", Kind: ErrTimeout}
	for _, c := range []struct {
		said string
		err  error
		want Status
	}{
		{"", nil, Applied},
		{"", &CommandError{Kind: ErrExit, Status: 229}, Unknown}, // a scancel that is not verbose, of a task that has ended
		{"", errExit, Unknown},
		{sending, errExit, Unknown},
		{"", timeout, Unknown},
		{sending, timeout, Unknown},
		{sending, &CommandError{Kind: ErrExit, Status: -1, Message: "signal: killed"}, Unknown},
		{sending + retrying, timeout, Applied},
		{denied("Unable to contact slurm controller (connect failure)"), errExit, Unknown},
		{denied("Socket timed out on send/recv operation"), errExit, Unknown},
		{denied("Job/step already completing or completed"), errExit, Raced},
		{denied("Access/permission denied"), errExit, Refused},
		{denied("Rate limit exceeded, please retry momentarily"), errExit, Postponed},
		{"slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", errExit, Unknown},
		{"", &CommandError{Kind: ErrNotFound}, Refused},
	} {
		if s, why := signalled(toTask, c.said, c.err); s != c.want {
			t.Errorf("%q, %v: %s %q, want %s", c.said, c.err, s, why, c.want)
		}
	}
}

// scancel is ended when it says that it will send the signal again.
func TestSignalOnce(t *testing.T) {
	sent := filepath.Join(t.TempDir(), "sent")
	e := program(t, "scancel", "while :; do echo >> "+sent+"; echo 'scancel: "+retrying+"' >&2; sleep 600; done", ExecOptions{})
	r := NewClient(e, Options{}).Signal(t.Context(), RunID{Job: toTask}, "USR1", Script)
	if text, err := os.ReadFile(sent); err != nil || r.Status != Applied || string(text) != "\n" {
		t.Errorf("%+v after %d signals, %v", r, len(text), err)
	}
}

func TestExecUntil(t *testing.T) {
	e := program(t, "squeue", "echo one; echo two; sleep 600", ExecOptions{})
	out, err := e.Run(t.Context(), Command{Name: "squeue", Until: "e\ntw"})
	if !errors.Is(err, ErrUntil) || !strings.HasPrefix(string(out.Stdout), "one\n") {
		t.Errorf("%q, %v", out.Stdout, err)
	}
}

const commander = "SLURMPLUG_TEST_COMMANDER" // the folder of the program that it runs

// A program dies with the process that runs it, also when that is killed with -9.
func TestExecDiesWithUs(t *testing.T) {
	if dir := os.Getenv(commander); dir != "" {
		_, err := NewExec(ExecOptions{BinDir: dir}).Run(context.Background(), Command{Name: "scancel"})
		t.Fatal(err)
	}
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	script := "#!/bin/sh\necho $$ >" + pidFile + ".new; mv " + pidFile + ".new " + pidFile + "; exec sleep 600"
	if err := os.WriteFile(filepath.Join(dir, "scancel"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestExecDiesWithUs$")
	parent.Env = append(os.Environ(), commander+"="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	within := func(what string, condition func() bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("waited in vain for " + what)
			}
		}
	}
	var text []byte
	within("the program", func() bool { text, _ = os.ReadFile(pidFile); return len(text) > 0 })
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	within("the end of the program", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // somebody reaps it, some time
	})
}
