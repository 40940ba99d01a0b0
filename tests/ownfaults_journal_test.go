package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// The journal is emptied while no priod runs. reset still takes everything back
// by the database; a priod that starts first knows its own values, and writes
// nothing twice.
func TestJournalEmptiedBetweenRuns(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, runs := range []bool{false, true} {
		t.Run(fmt.Sprintf("runs=%v", runs), func(t *testing.T) {
			s := newSiteOn(t, l, "")
			s.fill()
			s.submit("--gres=gpu:1", "--nice=3", "--time=5", "--wrap", "sleep 600")
			s.submit("--prio-type=te", "--nice=5", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			s.eligible(2)
			before := s.levers()
			s.must("run", "--once")
			if err := os.Truncate(filepath.Join(s.dir, "state", "journal.jsonl"), 0); err != nil {
				t.Fatal(err)
			}
			if runs {
				if out := s.must("run", "--once"); !strings.Contains(out, "nothing to write") {
					t.Errorf("the next run says\n%s", out)
				}
			}
			s.must("reset")
			if after := s.levers(); after != before {
				t.Errorf("reset leaves\n%s\nbefore priod it was\n%s", after, before)
			}
			if out := s.must("reset"); !strings.Contains(out, "0 values taken back") {
				t.Errorf("a second reset says\n%s", out)
			}
		})
	}
}
