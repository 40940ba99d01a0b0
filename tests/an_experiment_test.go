package tests

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A trial on a real Slurm: in off blocks what priod wrote is taken back, in on blocks it is written again; the order is the one
// that status says; a restart and a pause leave out their blocks; what makes no trial is refused in a line; stop has priod on again.
func TestTrialSwitchesPriod(t *testing.T) {
	s := newOwnSite(t, quick)
	refused := func(want string, args ...string) {
		t.Helper()
		_, errs, status := s.priod(args...)
		if status == 0 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v: %d, %q, want %q", args, status, errs, want)
		}
	}
	refused("there is no trial", "trial", "stop")
	refused("has no state folder", "trial", "start")
	refused("do not divide", "trial", "start", "--blocks=5h")
	s.fill()
	te := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	d := s.daemon()
	value := func() string { return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+te)) }
	s.wait("the trial job's value", func() bool { return value() != "0" })
	refused("there is no trial", "report", "trial")
	s.must("pause")
	refused("priod is paused", "trial", "start")
	s.must("resume")

	block, length := "15s", "150s"
	whole := os.Getenv("SLURMPRIO_LONG") == "1"
	if whole {
		block, length = "1m", "10m"
	}
	var status struct {
		Until  time.Time
		Blocks []struct {
			Off         bool
			From, Until time.Time
		}
		Touched []struct{ Why string }
	}
	s.json(&status, "trial", "start", "--blocks="+block, "--days="+length, "--wash-out=2s", "--seed=5")
	if len(status.Blocks) != 10 {
		t.Fatalf("%+v", status)
	}
	refused("a trial is on", "trial", "start")
	off := func() bool {
		now := time.Now()
		for _, b := range status.Blocks {
			if !now.Before(b.From) && now.Before(b.Until) {
				return b.Off
			}
		}
		return false
	}
	awaits := func(wantOff bool, what string) {
		t.Helper()
		for !off() == wantOff && time.Now().Before(status.Until) {
			s.sleep(200 * time.Millisecond)
		}
		s.wait(what, func() bool { return (value() == "0") == wantOff || off() != wantOff })
	}
	awaits(true, "the value to be taken back in an off block")
	if out := s.must("queue"); !strings.Contains(out, "a trial is on: priod is ") {
		t.Errorf("queue says\n%s", out)
	}
	if out := s.must("explain", te); !strings.Contains(out, "a trial is on: priod is ") {
		t.Errorf("explain says\n%s", out)
	}
	awaits(false, "the value to be written again in an on block")
	d.kill()
	d = s.daemon()
	s.wait("the restart to be known", func() bool {
		s.json(&status, "trial", "status")
		return len(status.Touched) > 0
	})
	if !strings.Contains(status.Touched[0].Why, "started") {
		t.Errorf("%+v", status.Touched)
	}
	if whole {
		for !time.Now().After(status.Until) {
			s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 2")
			s.sleep(10 * time.Second)
		}
		d.cycles(2)
	} else {
		if out := s.must("trial", "stop"); !strings.Contains(out, "is on again from its next cycle on") {
			t.Error(out)
		}
		d.cycles(2)
		s.wait("priod to be on again", func() bool { return value() != "0" })
	}
	refused("there is no trial now", "trial", "stop")
	out := s.must("report", "trial")
	t.Log(out)
	if !strings.Contains(out, "pairs of blocks") && !strings.Contains(out, "completion time of jobs") || !strings.Contains(out, "priod was started") {
		t.Error("the report has no sentence, or does not say what is left out")
	}
	d.stop()
	refused("start it first", "trial", "start")
}

// A trial with a bound that trial jobs pass ends early: what priod wrote is taken back, priod stays off over a restart, says so, and is
// on again when the operator stops the trial.
func TestTrialEndsWhereItHarms(t *testing.T) {
	s := newOwnSite(t, quick)
	s.fill()
	te := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	d := s.daemon()
	value := func() string { return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+te)) }
	s.wait("the trial job's value", func() bool { return value() != "0" })
	s.must("trial", "start", "--blocks=30s", "--days=300s", "--wash-out=1s", "--te-wait-p95=3s")
	var status struct {
		Harms bool
		Why   string
	}
	s.wait("the trial to end by its bound", func() bool {
		for range 4 {
			s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
		}
		s.json(&status, "trial", "status")
		return status.Harms
	})
	if !strings.Contains(status.Why, "the bound is 3 s") {
		t.Errorf("%+v", status)
	}
	off := func() bool { return value() == "0" }
	s.wait("the value to be taken back", off)
	d.stop()
	d = s.daemon()
	d.cycles(2)
	if out := s.must("queue"); !off() || !strings.Contains(out, "the trial has ended early") {
		t.Errorf("after a restart the value is %s, and queue says\n%s", value(), out)
	}
	if out := s.must("report", "trial"); !strings.Contains(out, "the bound is 3 s") {
		t.Errorf("the report says\n%s", out)
	}
	s.must("trial", "stop")
	s.wait("priod to be on again", func() bool { return !off() })
}
