package tests

import (
	"os"
	"strings"
	"testing"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// tree is a lab of two leaf switches with three nodes each.
var tree = lab.Options{
	Nodes:      []lab.NodeSpec{{Prefix: "n", Count: 6, GPUType: "a100", GPUs: 4}},
	ExtraConf:  []string{"TopologyPlugin=topology/tree", "SchedulerParameters=max_switch_wait=86400"},
	ExtraFiles: map[string]string{"topology.conf": "SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n[4-6]\nSwitchName=top Switches=s[1-2]\n"},
}

// A gang that has agreed waits for one switch, in the end for any, and what it asks for is
// its own again after a reset; others are left alone.
func TestGangWaitsForItsSwitch(t *testing.T) {
	t.Parallel()
	const settings = quick + "[locality]\nenabled = true\nwait_weight = 45.0\nqueue_weight = 0.0\n" // 68 s for 5 h
	s := newSiteOn(t, lab.ForTest(t, tree), settings)
	if os.Geteuid() == 0 {
		s.become(lab.OperatorUser, settings)
	}
	blockers := map[string]string{}
	for _, node := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
		blockers[node] = s.submit("--gres=gpu:4", "--nodelist="+node, "--time=60", "--wrap", "sleep 600")
	}
	s.wait("all nodes to be taken", func() bool { return strings.Count(s.slurm("squeue", "--noheader", "--format=%T"), "RUNNING") == 6 })
	gang := func(args ...string) string {
		return s.submit(append(args, "--gres=gpu:4", "--nodes=3", "--time=600", "--wrap", "sleep 600")...)
	}
	agreed, silent, own, last := gang("--prio-type=be"), gang(), gang("--prio-type=be", "--switches=2@30:00"), gang("--prio-type=be")
	asks := func(id string) string {
		words := strings.Fields(s.slurm("squeue", "--noheader", "--job="+id, "--Format=ReqSwitch,Wait4Switch,State"))
		if len(words) != 3 {
			return ""
		}
		wait, err := slurmplug.ParseTimeLimit(words[1])
		if err != nil {
			t.Fatal(err)
		}
		return words[0] + "@" + wait.String() + " " + words[2]
	}
	d := s.daemon()
	s.wait("both to ask for one switch", func() bool {
		return asks(agreed) == "1@24h0m0s PENDING" && asks(last) == "1@24h0m0s PENDING"
	})
	if asks(silent) != "0@0s PENDING" || asks(own) != "2@30m0s PENDING" {
		t.Errorf("%s, %s", asks(silent), asks(own))
	}
	for id, says := range map[string]string{agreed: "switches: 1 at most, of the 2", own: "requests switches"} {
		if out := s.must("explain", id); !strings.Contains(out, says) {
			t.Errorf("explain does not say %q:\n%s", says, out)
		}
	}
	s.slurm("scancel", silent, own)
	if long() { // three nodes under two switches become free
		s.slurm("scancel", blockers["n1"], blockers["n2"], blockers["n4"])
		s.waitsFor(agreed, plan.Locality, plan.FewSwitches, "it could start now on more switches than it accepts so far")
		s.wait("the gang to start on two switches", func() bool { return strings.HasPrefix(asks(agreed), "0@0s RUNNING") })
		if nodes := strings.TrimSpace(s.slurm("squeue", "--noheader", "--job="+agreed, "--format=%N")); nodes != "n[1-2,4]" {
			t.Errorf("it runs on %s", nodes)
		}
	}
	d.stop()
	s.must("reset")
	if got := asks(last); got != "0@0s PENDING" {
		t.Errorf("reset left %s", got)
	}
}

// explain --victims names the small job that would open a node, and leaves it alone.
func TestDefragShowsTheMoves(t *testing.T) {
	s := newSite(t, quick+"[preemption]\nmin_run = \"0s\"\n")
	small := s.submit("--prio-type=be", "--gres=gpu:a100:1", "--nodelist=a100-1", "--time=60", "--wrap", "sleep 600")
	s.submit("--gres=gpu:a100:1", "--nodelist=a100-2", "--time=60", "--wrap", "sleep 600")
	s.wait("both to run", func() bool { return strings.Count(s.slurm("squeue", "--noheader", "--format=%T"), "RUNNING") == 2 })
	gang := s.submit("--prio-type=be", "--gres=gpu:a100:4", "--nodes=2", "--time=60", "--wrap", "sleep 600")
	says := ""
	s.wait("the gang to want room", func() bool {
		says = s.must("explain", "--victims")
		return strings.Contains(says, "Job "+gang+" of ")
	})
	for _, want := range []string{"8 GPUs (10 are free): ", "a100-1", "\n" + small + " "} {
		if !strings.Contains(says, want) {
			t.Errorf("explain --victims does not say %q:\n%s", want, says)
		}
	}
	t.Log(says)
	if out := s.must("explain", "--victims", "--json", gang); !strings.Contains(out, `"wait_s":`) {
		t.Errorf("until when is not said:\n%s", out)
	}
	if out := s.slurm("squeue", "--noheader", "--job="+small, "--format=%T"); strings.TrimSpace(out) != "RUNNING" {
		t.Errorf("it is %s", out)
	}
}
