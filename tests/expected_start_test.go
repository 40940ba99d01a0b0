package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A hundred runs of a program teach how long the next ones take: waiting jobs are told when they start, and what was first said of
// each is scored when it does.
func TestExpectedStart(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, quick+"[speeds]\nmin_run = \"1s\"\ninterval = \"1s\"\n")
	name := fmt.Sprintf("eta-%d", time.Now().UnixNano())
	submit := func(args ...string) string {
		return s.submit(append([]string{"--job-name=" + name, "--gres=gpu:1", "--time=60"}, args...)...)
	}
	submit("--array=1-100", "--wrap", "sleep 2")
	s.within(3*time.Minute, "a hundred completed jobs in accounting", func() bool {
		return strings.Count(s.slurm("sacct", "--allusers", "--noheader", "--allocations", "--parsable2", "--name="+name, "--format=State"), "COMPLETED") == 100
	})
	s.fill()
	var waiting []string
	for range 3 {
		waiting = append(waiting, submit("--wrap", "sleep 5"))
	}
	d := s.daemon()
	s.within(3*time.Minute, "starts that past runs let expect", func() bool { // planned once a minute
		out, _, _ := s.priod("explain", waiting[2])
		return strings.Contains(out, "nine of ten within")
	})
	text := s.must("explain", waiting[2])
	t.Log(text)
	s.slurm("scancel", "--state=RUNNING", "--user=root")
	s.within(2*time.Minute, "the three jobs to be over", func() bool {
		return s.slurm("squeue", "--noheader", "--states=all", "--name="+name, "--format=%T", "--states=PD,R") == ""
	})
	var eta struct {
		All struct {
			Promised, Started, Scored int
			Held                      *float64 `json:"p90_held"`
		}
	}
	s.wait("the promises to be scored", func() bool {
		if err := json.Unmarshal([]byte(s.must("report", "eta", "--json")), &eta); err != nil {
			t.Fatal(err)
		}
		return eta.All.Started >= 3
	})
	t.Log(s.must("report", "eta"))
	if eta.All.Promised < 3 || eta.All.Held == nil {
		t.Errorf("%+v", eta.All)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
