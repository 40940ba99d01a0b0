package tests

import (
	"os"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// started is a trial that was started, with a job that waits and has a value of priod's while priod is on.
type started struct {
	te     string
	status struct {
		Until  time.Time
		Blocks []struct {
			Off         bool
			From, Until time.Time
		}
		Touched []struct{ Why string }
	}
}

func (s *site) startTrial(te string, args ...string) *started {
	s.Helper()
	x := &started{te: te}
	s.json(&x.status, append([]string{"trial", "start"}, args...)...)
	return x
}

func (x *started) off() bool {
	now := time.Now()
	for _, b := range x.status.Blocks {
		if !now.Before(b.From) && now.Before(b.Until) {
			return b.Off
		}
	}
	return false
}

// awaits a block of one kind, and that the job's value is there or gone in it.
func (x *started) awaits(s *site, off bool, what string) {
	s.Helper()
	for x.off() != off && time.Now().Before(x.status.Until) {
		s.sleep(200 * time.Millisecond)
	}
	if !time.Now().Before(x.status.Until) {
		s.Errorf("the trial is over before %s", what)
	}
	s.wait(what, func() bool {
		out, err := s.lab.Run(s.Context(), "sprio", "--noheader", "--format=%S", "--jobs="+x.te)
		return err == nil && (strings.TrimSpace(out) == "0") == off || x.off() != off
	})
}

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
	x := s.startTrial(te, "--blocks="+block, "--days="+length, "--wash-out=2s", "--seed=5")
	status := &x.status
	if len(status.Blocks) != 10 {
		t.Fatalf("%+v", status)
	}
	refused("a trial is on", "trial", "start")
	x.awaits(s, true, "the value to be taken back in an off block")
	if out := s.must("queue"); !strings.Contains(out, "a trial is on: priod is ") {
		t.Errorf("queue says\n%s", out)
	}
	if out := s.must("explain", te); !strings.Contains(out, "a trial is on: priod is ") {
		t.Errorf("explain says\n%s", out)
	}
	x.awaits(s, false, "the value to be written again in an on block")
	d.kill()
	d = s.daemon()
	s.wait("the restart to be known", func() bool {
		s.json(status, "trial", "status")
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

// The host on which priod acts is lost in the middle of a trial: the other one goes on with its blocks, the one of the fail-over
// is left out, and what was written is taken back in the next off block.
func TestTrialOverAFailOver(t *testing.T) {
	longOnly(t)
	p := newHostPair(t, false, lab.Options{})
	for range p.Nodes { // their owners agree to nothing
		if err := p.WaitJob(t.Context(), p.acts.submit("--gres=gpu:4", "--time=60", "--wrap", "sleep 3000"), "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	te := p.acts.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	_, standby := p.begin(t)
	first := p.acts.doomed()
	value := func() string {
		return strings.TrimSpace(p.acts.slurm("sprio", "--noheader", "--format=%S", "--jobs="+te))
	}
	p.acts.wait("the trial job's value", func() bool { return value() != "0" })
	x := p.acts.startTrial(te, "--blocks=30s", "--days=14m", "--wash-out=2s", "--seed=5")
	x.awaits(p.acts.site, true, "the value to be taken back in an off block")
	x.awaits(p.acts.site, false, "the value to be written again in an on block")
	p.lose(t, first, standby)
	p.stays.wait("the fail-over to be known", func() bool {
		p.stays.json(&x.status, "trial", "status")
		return len(x.status.Touched) > 0
	})
	if why := x.status.Touched[0].Why; !strings.Contains(why, "another host took over") {
		t.Errorf("%+v", x.status.Touched)
	}
	x.awaits(p.stays.site, true, "the other host to take the value back in an off block")
	x.awaits(p.stays.site, false, "the other host to write it again in an on block")
	if out := p.stays.must("report", "trial"); !strings.Contains(out, "another host took over") {
		t.Errorf("the report says\n%s", out)
	}
	if out := p.stays.must("trial", "stop"); !strings.Contains(out, "is on again from its next cycle on") {
		t.Error(out)
	}
	p.stays.wait("priod to be on", func() bool { return value() != "0" })
	standby.stop()
}
