package lab

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
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

// shared are the labs of Shared: each is one test's at a time.
var shared struct {
	sync.Mutex
	options Options
	labs    []*lent
	failed  bool
}

// lent is a lab that tests use one after the other.
type lent struct {
	sync.Mutex // of Lab
	*Lab
	to   string // the test that uses it now, without its subtests; "": none
	uses int    // how often that asked for it
}

// Shared returns a lab that is this test's until it ends, and its subtests': one that a test before it has left, or a new one. Its
// queue may hold jobs of that test. The labs end with Main, and at the latest with the process.
func Shared(tb testing.TB) *Lab {
	tb.Helper()
	root, _, _ := strings.Cut(tb.Name(), "/")
	l, err := take(root)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { giveBack(tb, l) })
	l.Lock()
	defer l.Unlock()
	if l.Lab == nil {
		defer func() {
			shared.Lock()
			defer shared.Unlock()
			shared.failed = shared.failed || l.Lab == nil && tb.Failed()
		}()
		l.Lab = startFor(tb, shared.options)
	}
	showLogs(tb, l.Lab)
	return l.Lab
}

// take finds a lab for a test: its own, else a free one, else one that is yet to be started.
func take(root string) (*lent, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.failed {
		return nil, errors.New("the shared lab did not start; see the first test that asked for it")
	}
	i := slices.IndexFunc(shared.labs, func(l *lent) bool { return l.to == root })
	if i < 0 {
		i = slices.IndexFunc(shared.labs, func(l *lent) bool { return l.to == "" })
	}
	if i < 0 {
		i, shared.labs = len(shared.labs), append(shared.labs, &lent{})
	}
	shared.labs[i].to = root
	shared.labs[i].uses++
	return shared.labs[i], nil
}

// giveBack lets the next test have a lab, or a new one where its slurmctld has ended: that test failed of it, the next need not.
func giveBack(tb testing.TB, l *lent) {
	shared.Lock()
	defer shared.Unlock()
	if l.uses--; l.uses > 0 {
		return
	}
	l.to = ""
	if l.Lab == nil {
		return
	}
	if _, err := l.PID("slurmctld"); err != nil {
		tb.Logf("%v: the next test gets another lab", err)
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
		l.Lab = nil
	}
}

// Main runs a package's tests with o for their Shared labs, and closes these:
//
//	func TestMain(m *testing.M) { os.Exit(lab.Main(m, lab.Options{})) }
func Main(m *testing.M, o Options) int {
	shared.options = o
	code := m.Run()
	for _, l := range shared.labs {
		if l.Lab == nil {
			continue
		}
		if err := l.Close(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = max(code, 1)
		}
	}
	return code
}
