package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fileSizeLimit sets how large files may grow that a process writes.
func (d *running) fileSizeLimit(bytes uint64) {
	d.Helper()
	limit := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		d.Fatal(err)
	}
}

// No file may grow any more: nothing is written to Slurm until it may. Then
// SQLite's shared index is cut off, which no program can survive that has it
// mapped: the next start finds its way.
func TestFileSizeLimitUnderTheDaemon(t *testing.T) {
	s := newOwnSite(t, quick+"[te_budget.user]\ngpus = 0\n")
	s.fill()
	value := func(job string) string {
		return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+job))
	}
	trial := func() string { return s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600") }
	written := func(job string) func() bool {
		return func() bool { v := value(job); return v != "" && v != "0" }
	}
	first := trial()
	d := s.daemon()
	s.wait("the first value", written(first))

	d.fileSizeLimit(1)
	second := trial()
	d.waitLog("cycle failed")
	d.waitLog("file too large")
	if v := value(second); v != "" && v != "0" {
		t.Errorf("SiteFactor %s was written", v)
	}
	d.fileSizeLimit(unix.RLIM_INFINITY)
	s.wait("the second value", written(second))
	if n := strings.Count(d.log.String(), "cycle failed"); n > 2 {
		t.Errorf("%d lines about one trouble", n)
	}

	d.doom()
	if err := os.Truncate(filepath.Join(s.dir, "state", "priod.db-shm"), 0); err != nil {
		t.Fatal(err)
	}
	third := trial()
	d.ends()
	d = s.daemon()
	s.wait("the third value", written(third))
	d.stop()
	s.settle()
	s.checkOrder()
	if aside, _ := filepath.Glob(filepath.Join(s.dir, "state", "*.broken-*")); len(aside) != 0 {
		t.Errorf("set aside: %v", aside)
	}
	s.must("reset")
	for value := range strings.FieldsSeq(s.slurm("sprio", "--noheader", "--format=%S")) {
		if value != "0" {
			t.Fatalf("reset leaves a SiteFactor of %s\n%s", value, s.levers())
		}
	}
}
