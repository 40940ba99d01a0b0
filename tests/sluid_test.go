package tests

import (
	"fmt"
	"strings"
	"testing"

	"slurmprio/tests/shim"
)

// namesRuns reports whether this Slurm has names of runs (SLUID, 26.05).
func (s *site) namesRuns() bool {
	s.Helper()
	out, err := s.lab.Run(s.Context(), "squeue", "--helpFormat")
	return err == nil && strings.Contains(out, "SLUID")
}

// between is a fault that lets lines of a shell run before the first call of a
// command. becomes JOB STATE waits until a job is in a state.
func between(command, lines string) shim.Fault {
	const becomes = `becomes() { for i in $(seq 300); do [ "$(squeue -h -j $1 -o %T)" = $2 ] && return; sleep 0.1; done; exit 1; }` // one line: the shim lists what it threw by lines
	return shim.Fault{Command: command, When: "before", Call: 1, Do: shim.Run, Argv: []string{"bash", "-c", becomes + "; " + lines}}
}

// A waiting job starts and is requeued between priod's read and its write. Where runs
// have names, Slurm refuses what was meant for the old one, and the next cycle writes
// into the new one; elsewhere the write lands in the new one.
func TestWriteMeantForAnEarlierRun(t *testing.T) {
	s := newSite(t, "[te_budget.user]\ngpus = 0\n")
	d := s.shimmed("[te_budget.user]\ngpus = 0\n")
	trainings := s.fill()
	node := strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+trainings[0], "--format=%N"))
	trial := s.submit("--prio-type=te", "--requeue", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	value := func() string {
		return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial))
	}
	defer s.slurm("scontrol", "update", "NodeName="+node, "State=RESUME")
	s.cycleWith(d, between("sdiag", fmt.Sprintf(
		"scancel %s; becomes %s RUNNING; scontrol update NodeName=%s State=DRAIN Reason=test; scontrol requeue %s; becomes %s PENDING; scontrol update JobId=%s StartTime=now",
		trainings[0], trial, node, trial, trial, trial)))
	s.eligible(1)
	if refused := value() == "0"; refused != s.namesRuns() {
		t.Errorf("the write is refused: %v; SiteFactor is %s", refused, value())
	}
	s.must("run", "--once")
	if value() == "0" {
		t.Error("the next cycle writes nothing")
	}
	s.must("reset")
	if value() != "0" {
		t.Error("reset leaves ", value())
	}
}

// A victim is requeued and runs again between the closer look and the signal: where
// runs have names, the new run never hears of it.
func TestSignalMeantForAnEarlierRun(t *testing.T) {
	e := newEvictable(t, evicting)
	if !e.namesRuns() {
		t.Skip("this Slurm has no names of runs: the signal would reach the new one")
	}
	d := e.shimmed(evicting)
	blocker := e.blocker("t4:4")
	victim := e.worker("w", "t4:4", 300, 5, "save")
	e.begun("w")
	trial := e.trial("t4:2")
	e.throw(d, between("scancel", fmt.Sprintf("scancel %s; scontrol requeue %s; becomes %s PENDING; scontrol update JobId=%s StartTime=now; becomes %s RUNNING",
		blocker, victim, victim, victim, victim)))
	running := e.daemon()
	e.wait("the moment", func() bool { return len(d.Thrown()) > 0 })
	e.completes(trial)
	all := e.settled()
	if len(all) != 1 || all[0].State != "called-off" {
		t.Errorf("%+v", all)
	}
	if text := e.log("w"); strings.Contains(text, "signal") || strings.Count(text, "start ") != 2 {
		t.Errorf("the victim's log:\n%s", text)
	}
	running.stop()
}
