package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// capture runs the program in this process and returns its status and output.
func capture(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	outputs := make([]string, 2)
	files := make([]*os.File, 2)
	for i := range files {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	out, err := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = files[0], files[1]
	status = run(append([]string{"lab"}, args...))
	os.Stdout, os.Stderr = out, err
	for i, f := range files {
		_, _ = f.Seek(0, io.SeekStart)
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		outputs[i] = string(b)
	}
	return status, outputs[0], outputs[1]
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{}, {"fly"}, {"--fly"}, {"start", "--fly"}, {"start", "x"}, {"start", "--nodes", "many"}, {"start", "--max-jobs", "x"},
		{"stop"}, {"stop", "a", "b"}, {"run"}, {"run", "--"}, {"shell", "x"}, {"missing", "x"},
	} {
		status, stdout, stderr := capture(t, args...)
		if status != wrongUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "lab: ") {
			t.Errorf("lab %q: status %d, output %q, error %q; want status 2 and one line of error", args, status, stdout, stderr)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, args := range [][]string{{"stop", t.TempDir()}, {"stop", "/no/such"}, {"run", "no-such-program"}} {
		if status, _, stderr := capture(t, args...); status != failed || strings.Count(stderr, "\n") != 1 {
			t.Errorf("lab %q: status %d, error %q", args, status, stderr)
		}
	}
}

func TestRun(t *testing.T) {
	skipWithoutSlurm(t)
	dir := filepath.Join(t.TempDir(), "x")
	status, stdout, stderr := capture(t, "run", "--no-accounting", "--dir", dir, "--nodes", "2xa100:4,1xcpu:0", "--conf", "PriorityWeightAge=77", "--",
		"sh", "-c", "sinfo -h -N -p gpu -o '%N %G'; scontrol show config | grep PriorityWeightAge; echo $SLURM_CONF; exit 7", "--dir")
	want := "a100-1 gpu:a100:4\na100-2 gpu:a100:4\ncpu-1 (null)\nPriorityWeightAge       = 77\n" + dir + "/etc/slurm.conf\n"
	if status != 7 || stdout != want || stderr != "" {
		t.Errorf("status %d, output %q, error %q", status, stdout, stderr)
	}
	if status, _, _ := capture(t, "run", "--no-accounting", "sh", "-c", "kill -9 $$"); status != 128+9 {
		t.Errorf("status %d of a command killed by signal 9", status)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestStartStop(t *testing.T) {
	skipWithoutSlurm(t)
	dir := filepath.Join(t.TempDir(), "x")
	status, stdout, stderr := capture(t, "start", "--no-accounting", "-v", "--dir", dir)
	if status != 0 || stdout != "export SLURM_CONF="+dir+"/etc/slurm.conf\n" || !strings.Contains(stderr, "nodes idle") || !strings.Contains(stderr, "tests/lab/lab.sh stop "+dir) {
		t.Errorf("status %d, output %q, error %q", status, stdout, stderr)
	}
	if status, _, stderr := capture(t, "start", "--no-accounting", "--dir", dir); status != failed || !strings.Contains(stderr, "not empty") {
		t.Errorf("second start: status %d, error %q", status, stderr)
	}
	if status, stdout, stderr := capture(t, "stop", dir); status != 0 || stdout != "" || stderr != "" {
		t.Errorf("stop: status %d, output %q, error %q", status, stdout, stderr)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func skipWithoutSlurm(t *testing.T) {
	if missing := lab.Missing(); len(missing) > 0 && os.Getenv("SLURMPRIO_REQUIRE_LAB") != "1" {
		t.Skip(&lab.MissingError{Programs: missing})
	}
}

// A line of slurm.conf may hold commas.
func TestConfWithCommas(t *testing.T) {
	if missing := lab.Missing(); len(missing) > 0 {
		t.Skip(&lab.MissingError{Programs: missing})
	}
	status, _, stderr := capture(t, "run", "--nodes=1xa100:1", "--no-accounting", "--conf=PrivateData=jobs,usage,users", "--",
		"sh", "-c", `grep -qx PrivateData=jobs,usage,users "$SLURM_CONF"`)
	if status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}
