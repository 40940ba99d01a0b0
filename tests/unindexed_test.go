package tests

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// Where slurmctld 22.05 ends while it waits for accounting to give jobs an index, it refuses each later update of these jobs, each
// after 5 s: a dozen take longer than a write may, and yet the jobs behind them are ranked.
func TestJobsThatAccountingNeverIndexes(t *testing.T) {
	longOnly(t)
	s := newSiteOn(t, lab.ForTest(t, lab.Options{}), quick)
	s.fill()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.lab.Pause("slurmdbd"))
	lost := map[string]bool{}
	for range 15 {
		lost[s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")] = true
	}
	s.sleep(10 * time.Second) // each 5 s slurmctld asks for the index of new jobs, and saves what has changed
	since := time.Now()
	s.submit("--hold", "--time=5", "--wrap", "true")
	s.wait("slurmctld to save its jobs", func() bool {
		info, err := os.Stat(filepath.Join(s.lab.Dir, "state", "job_state"))
		return err == nil && info.ModTime().After(since)
	})
	check(s.lab.Kill(s.Context(), "slurmctld"))
	check(s.lab.Continue("slurmdbd"))
	check(s.lab.StartDaemon(s.Context(), "slurmctld"))
	check(s.lab.WaitNodes(s.Context()))
	behind := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.daemon()
	ranked := func(job string) bool {
		n, err := strconv.Atoi(s.siteFactor(job))
		return err == nil && n != 0
	}
	s.wait("the job behind them to be ranked", func() bool { return ranked(behind) })
	for job := range lost {
		t.Logf("job %s: ranked %v", job, ranked(job))
	}
}
