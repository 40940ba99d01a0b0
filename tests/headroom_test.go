package tests

import (
	"os"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// After some TE jobs a node is kept for the next ones: BE jobs do not start there, a TE job does at once, and
// no job is evicted for it. A reset deletes the reservation; without priod it ends by itself, and the jobs go on.
func TestNodeIsKeptForTrials(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "n", Count: 4, GPUType: "a100", GPUs: 4}}})
	const settings = quick + "[preemption]\nenabled = true\nheadroom = true\nheadroom_interval = \"5s\"\nurgency = 100000.0\n[te_budget.user]\ngpus = 0\n"
	s := newSiteOn(t, l, settings)
	if os.Geteuid() == 0 {
		s.become(lab.OperatorUser, settings)
	}
	d := s.daemon()
	job := func(args ...string) string {
		return s.submit(append(args, "--gres=gpu:4", "--wrap", "sleep 600")...)
	}
	trials := []string{job("--prio-type=te", "--time=5"), job("--prio-type=te", "--time=5")}
	state := func(id string) string {
		return strings.TrimSpace(s.slurm("squeue", "--noheader", "--format=%T", "--job="+id))
	}
	s.wait("the trials to run", func() bool { return state(trials[0])+state(trials[1]) == "RUNNINGRUNNING" })
	reservation := func() string { return field(s.slurm("scontrol", "show", "reservation"), "ReservationName") }
	s.wait("a node to be kept", func() bool { return reservation() == "priod_headroom" })
	s.slurm("scancel", trials[0], trials[1])
	var others []string
	for range 4 {
		others = append(others, job("--prio-type=be", "--time=60"))
	}
	running := func() int { return strings.Count(s.slurm("squeue", "--noheader", "--format=%T"), "RUNNING") }
	s.wait("three nodes to be taken", func() bool { return running() == 3 })
	d.cycles(2)
	if n := running(); n != 3 {
		t.Errorf("%d jobs run", n)
	}
	if out := s.must("explain", others[3]); !strings.Contains(out, "kept for TE jobs") {
		t.Errorf("explain of the BE job that waits does not say why:\n%s", out)
	}
	trial := job("--prio-type=te", "--time=5")
	s.wait("the trial to start", func() bool { return state(trial) == "RUNNING" })
	if n := running(); n != 4 {
		t.Errorf("%d jobs run", n)
	}
	if out := s.must("evictions"); !strings.Contains(out, "No job was evicted") {
		t.Errorf("there are evictions:\n%s", out)
	}
	s.wait("its node to be kept again", func() bool { return reservation() == "priod_headroom" })
	d.stop()
	s.must("reset")
	if got := reservation(); got != "" {
		t.Errorf("reset left reservation %s", got)
	}
	s.slurm("scancel", trial)
	s.wait("the BE job to start", func() bool { return state(others[3]) == "RUNNING" })
}
