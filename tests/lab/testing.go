package lab

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
)

// requireEnv set to 1 makes ForTest and Shared fail, not skip, where Slurm is
// not installed.
const requireEnv = "SLURMPRIO_REQUIRE_LAB"

// ForTest starts a lab that ends with the test. On a machine without Slurm the
// test is skipped, unless SLURMPRIO_REQUIRE_LAB=1. A failed test shows the last
// lines of every daemon's log.
func ForTest(tb testing.TB, o Options) *Lab {
	tb.Helper()
	l := startFor(tb, o)
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	showLogs(tb, l)
	return l
}

func startFor(tb testing.TB, o Options) *Lab {
	tb.Helper()
	l, err := Start(context.Background(), o)
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv(requireEnv) != "1" {
		tb.Skipf("%v; \"make deps\" installs it on Debian", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func showLogs(tb testing.TB, l *Lab) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the lab's logs (%s):\n%s", l.Dir, l.Logs(15))
		}
	})
}

var shared struct {
	sync.Mutex
	options Options
	lab     *Lab
	failed  bool
}

// Shared returns the one lab of a test binary, started by the first test that
// asks. Tests share its queue, so each looks at its own jobs only. It ends with
// Main, and at the latest with the process.
func Shared(tb testing.TB) *Lab {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.failed {
		tb.Fatal("the shared lab did not start; see the first test that asked for it")
	}
	if shared.lab != nil {
		if _, err := shared.lab.PID("slurmctld"); err != nil { // the test before failed of it; this one need not
			tb.Logf("%v: another lab is started", err)
			discard(tb)
		}
	}
	if shared.lab == nil {
		defer func() { shared.failed = shared.lab == nil && tb.Failed() }()
		shared.lab = startFor(tb, shared.options)
	}
	showLogs(tb, shared.lab)
	return shared.lab
}

// Discard ends the shared lab: the next test that asks gets a new one.
func Discard(tb testing.TB) {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	discard(tb)
}

func discard(tb testing.TB) {
	tb.Helper()
	if err := shared.lab.Close(); err != nil {
		tb.Error(err)
	}
	shared.lab = nil
}

// Main runs a package's tests with o for its Shared lab, and closes that lab:
//
//	func TestMain(m *testing.M) { os.Exit(lab.Main(m, lab.Options{})) }
func Main(m *testing.M, o Options) int {
	shared.options = o
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.lab == nil {
		return code
	}
	if err := shared.lab.Close(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return max(code, 1)
	}
	return code
}
