package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// The journal is emptied, or an older copy of it is put back, while no priod runs. reset takes back what it tells, says that there
// was more, and fails; a priod that starts says so once and goes on.
func TestOlderJournalBetweenRuns(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, runs := range []bool{false, true} {
		t.Run(fmt.Sprint("runs=", runs), func(t *testing.T) {
			s := newSiteOn(t, l, "")
			s.fill()
			first := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			s.eligible(1)
			s.must("run", "--once")
			path := filepath.Join(s.dir, "state", "journal.jsonl")
			copied, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			second := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			s.eligible(2)
			s.must("run", "--once")
			s.must("run", "--once") // which records that the journal told of the second
			if err := os.WriteFile(path, copied, 0o640); err != nil {
				t.Fatal(err)
			}
			const why = "is an older copy with"
			if runs {
				if _, errs, status := s.priod("run", "--once"); status != 0 || strings.Count(errs, why) != 1 {
					t.Errorf("exit status %d, the next run says\n%s", status, errs)
				}
				if _, errs, _ := s.priod("run", "--once"); strings.Contains(errs, why) {
					t.Errorf("it says again\n%s", errs)
				}
				s.must("reset")
			} else if out, _, status := s.priod("reset"); status != 1 || strings.Count(out, why) != 1 {
				t.Errorf("exit status %d, reset says\n%s", status, out)
			}
			if v := s.siteFactor(first); v != "0" || s.siteFactor(second) == "0" {
				t.Errorf("the values are %s and %s", v, s.siteFactor(second))
			}
			s.slurm("scancel", first, second)
		})
	}
}
