package tests

import (
	"os"
	"strings"
	"testing"

	"slurmprio/priod/plan"
	"slurmprio/tests/lab"
)

// Runs on one of six nodes take longer, as accounting shows: a gang that has agreed refuses
// that node, explain says why; a priod with other settings takes it back, and so does a reset.
// While it could start there, it waits for locality, also as a restart of priod sees it. Others
// are left alone.
func TestGangRefusesSlowNode(t *testing.T) {
	longOnly(t)
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "n", Count: 6, GPUType: "a100", GPUs: 4}}})
	const settings = quick + "[speeds]\nmin_run = \"1s\"\ninterval = \"1s\"\n[locality]\nwait_weight = 0.0\nslow_nodes = true\n"
	s := newSiteOn(t, l, settings)
	const program = `case $SLURMD_NODENAME in n3) sleep 4;; *) sleep 1;; esac`
	for range 4 {
		for _, node := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
			s.submit("--prio-workload=wl", "--prio-steps=100", "--gres=gpu:4", "--nodelist="+node, "--time=5", "--wrap", program)
		}
	}
	s.wait("all to run", func() bool { return strings.TrimSpace(s.slurm("squeue", "--noheader")) == "" })
	if os.Geteuid() == 0 {
		s.become(lab.OperatorUser, settings)
	}
	blockers := map[string]string{}
	for _, node := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
		blockers[node] = s.submit("--gres=gpu:4", "--nodelist="+node, "--time=60", "--wrap", "sleep 600")
	}
	s.wait("all nodes to be taken", func() bool { return strings.Count(s.slurm("squeue", "--noheader", "--format=%T"), "RUNNING") == 6 })
	gang := func(args ...string) string {
		return s.submit(append(args, "--gres=gpu:4", "--nodes=2", "--time=600", "--wrap", "sleep 600")...)
	}
	agreed, silent, own := gang("--prio-type=be", "--prio-workload=wl"), gang(), gang("--prio-type=be", "--prio-workload=wl", "--exclude=n5")
	named, single := gang("--prio-type=be", "--prio-workload=wl", "--nodelist=n3"), s.submit("--prio-type=be", "--prio-workload=wl", "--gres=gpu:4", "--time=600", "--wrap", "sleep 600")
	refuses := func(id string) string { return field(s.slurm("scontrol", "show", "job", id), "ExcNodeList") }
	d := s.daemon()
	s.wait("it to refuse the slow node", func() bool { return refuses(agreed) == "n3" })
	for id, want := range map[string]string{silent: "", own: "n5", named: "", single: ""} {
		if got := refuses(id); got != want {
			t.Errorf("%s refuses %q, want %q", id, got, want)
		}
	}
	for id, says := range map[string]string{agreed: "slow nodes: it avoids n3, as long as that pays: on n3 it would run", own: "it requests or excludes nodes"} {
		if out := s.must("explain", id); !strings.Contains(out, says) {
			t.Errorf("explain does not say %q:\n%s", says, out)
		}
	}
	d.stop()
	s.configure(strings.Replace(settings, "slow_nodes = true", "slow_nodes = false", 1))
	d = s.daemon()
	s.wait("it to refuse none", func() bool { return refuses(agreed) == "" })
	d.stop()
	s.configure(settings)
	d = s.daemon()
	s.wait("it to refuse the slow node again", func() bool { return refuses(agreed) == "n3" })
	s.waitsFor(agreed, plan.Capacity, "", "")
	s.slurm("scontrol", "hold", silent+","+own+","+named+","+single)
	s.slurm("scancel", blockers["n1"], blockers["n3"]) // now it could start
	s.waitsFor(agreed, plan.Locality, plan.SlowNodes, "it could start now on slow nodes, which it avoids so far")
	d.stop()
	d = s.daemon()
	s.waitsFor(agreed, plan.Locality, plan.SlowNodes, "it could start now on slow nodes, which it avoids so far")
	d.stop()
	s.must("reset")
	if got := refuses(agreed); got != "" {
		t.Errorf("reset left %q", got)
	}
	if got := refuses(own); got != "n5" {
		t.Errorf("reset made %q of its user's own", got)
	}
}

// field is the value of one field that scontrol shows; "" where that is "(null)" or missing.
func field(text, name string) string {
	for word := range strings.FieldsSeq(text) {
		if value, found := strings.CutPrefix(word, name+"="); found && value != "(null)" {
			return value
		}
	}
	return ""
}
