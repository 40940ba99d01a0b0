package slurmplug

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is an Exec whose only program is a shell script.
func program(t *testing.T, name, script string, o ExecOptions) *Exec {
	t.Helper()
	o.BinDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.BinDir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return NewExec(o)
}

func TestExecEnvironment(t *testing.T) {
	t.Setenv("SQUEUE_FORMAT", "%i")
	t.Setenv("SLURM_CLUSTERS", "other")
	t.Setenv("TZ", "Asia/Tokyo")
	e := program(t, "squeue", "env; pwd; cat", ExecOptions{SlurmConf: "/etc/there/slurm.conf"})
	out, err := e.Run(t.Context(), Command{Name: "squeue", Stdin: []byte("hello\n")})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out.Stdout))
	for _, want := range []string{"SLURM_CONF=/etc/there/slurm.conf", "LC_ALL=C", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "/", "hello"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %s in %q", want, lines)
		}
	}
	for _, other := range []string{"SQUEUE_FORMAT", "SLURM_CLUSTERS", "TZ=", "HOME="} {
		if strings.Contains(string(out.Stdout), other) {
			t.Errorf("%s in %q", other, lines)
		}
	}
	if out, err := e.Run(t.Context(), Command{Name: "squeue"}); err != nil || strings.Contains(string(out.Stdout), "hello") {
		t.Errorf("standard input is not empty: %q, %v", out.Stdout, err)
	}
}

func TestExecFailures(t *testing.T) {
	e := program(t, "scontrol", "echo out; echo 'scontrol: \033[31mbad' >&2; echo more >&2; exit 3", ExecOptions{})
	out, err := e.Run(t.Context(), Command{Name: "scontrol", Args: []string{"show", "node"}})
	var failed *CommandError
	if !errors.As(err, &failed) || !errors.Is(err, ErrExit) || failed.Status != 3 || failed.Message != "scontrol: ?[31mbad" || string(out.Stdout) != "out\n" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
	if want := "scontrol show node: exit status 3: scontrol: ?[31mbad"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if out, _ := e.Run(t.Context(), Command{Name: "scontrol", Merge: true}); string(out.Stdout) != "out\nscontrol: \x1b[31mbad\nmore\n" || out.Stderr != nil {
		t.Errorf("merged: %q, %q", out.Stdout, out.Stderr)
	}
	if _, err := e.Run(t.Context(), Command{Name: "squeue"}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), e.opts.BinDir) {
		t.Error(err)
	}
	t.Setenv("PATH", "relative::")
	if _, err := NewExec(ExecOptions{}).Run(t.Context(), Command{Name: "squeue"}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	killed := program(t, "sdiag", "kill -9 $$", ExecOptions{})
	if _, err := killed.Run(t.Context(), Command{Name: "sdiag"}); !errors.Is(err, ErrExit) || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
	newer := program(t, "squeue", "echo 'slurm_load_jobs error: Protocol authentication error' >&2; exit 1", ExecOptions{})
	if _, err := newer.Run(t.Context(), Command{Name: "squeue"}); !errors.Is(err, ErrController) || !strings.Contains(err.Error(), "newer than slurmctld") {
		t.Error(err)
	}
	long := strings.Repeat("1,", 5000)
	if _, err := e.Run(t.Context(), Command{Name: "scontrol", Args: []string{long}}); len(err.Error()) > 400 {
		t.Errorf("%d bytes of error", len(err.Error()))
	}
}

// A slurm.conf with DefMemPerCPU and DefMemPerNode: every command says so, and does what it is asked.
func TestExecTwoKeysOfWhichOneCounts(t *testing.T) {
	const said = "echo \"scontrol: error: DefMemPerCPU ignored, since it's mutually exclusive with DefMemPerNode\" >&2; "
	for _, merge := range []bool{false, true} {
		e := program(t, "scontrol", said+"echo out", ExecOptions{})
		if out, err := e.Run(t.Context(), Command{Name: "scontrol", Merge: merge}); err != nil || string(out.Stdout) != "out\n" || len(out.Stderr) > 0 {
			t.Errorf("%q, %q, %v", out.Stdout, out.Stderr, err)
		}
		e = program(t, "scontrol", said+"echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1", ExecOptions{})
		if _, err := e.Run(t.Context(), Command{Name: "scontrol", Merge: merge}); !errors.Is(err, ErrController) {
			t.Error(err)
		}
		e = program(t, "scontrol", "echo \"scontrol: error: no feature x ignored, since it's mutually exclusive with y\" >&2", ExecOptions{})
		if out, _ := e.Run(t.Context(), Command{Name: "scontrol", Merge: merge}); len(out.Stdout)+len(out.Stderr) == 0 {
			t.Error("an error with a user's text is left out")
		}
	}
}

func TestExecFoundOnce(t *testing.T) {
	e := program(t, "squeue", "echo one", ExecOptions{})
	if _, err := e.Run(t.Context(), Command{Name: "squeue"}); err != nil {
		t.Fatal(err)
	}
	path, _ := e.paths.Load("squeue")
	if path != filepath.Join(e.opts.BinDir, "squeue") {
		t.Error(path)
	}
}

func TestExecTimeout(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	e := program(t, "squeue", "echo begun; sleep 600 & echo $! >"+child+".new; mv "+child+".new "+child+"; wait", ExecOptions{})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // the time is up once the child runs, however slow the machine
		for _, err := os.Stat(child); err != nil && ctx.Err() == nil; _, err = os.Stat(child) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel(ErrTimeout)
	}()
	out, err := e.Run(ctx, Command{Name: "squeue"})
	cancel(nil)
	if !errors.Is(err, ErrTimeout) || string(out.Stdout) != "begun\n" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
	text, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); { // the child has a parent that reaps it, some time
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the child %d lives on", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestExecCancelled(t *testing.T) {
	e := program(t, "squeue", "sleep 600", ExecOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Run(ctx, Command{Name: "squeue"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestExecOutputTooLong(t *testing.T) {
	e := program(t, "squeue", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", ExecOptions{MaxOutput: 10_000})
	out, err := e.Run(t.Context(), Command{Name: "squeue"})
	if !errors.Is(err, ErrOutputTooLong) || len(out.Stdout) > 10_000 {
		t.Errorf("%d bytes, %v", len(out.Stdout), err)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\x1b[2Jb\r\n": "a?[2Jb??", "\xff\xfe": "?", "é": "é", "\u009b31m": "?31m", "123456789012": "1234567890...",
	} {
		if got := printable(in, 10); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
