package tests

import (
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// A gang for which enough GPUs are free, but on two nodes, starts after the small job that
// loses least has moved to the other node, once the gang has waited for as much GPU time as
// that loses. A job that did not agree stays, and so does one that names its node.
func TestSmallJobMovesForAGang(t *testing.T) {
	t.Parallel()
	const settings = quick + "[preemption]\ndefrag = true\nmin_run = \"0s\"\nrestart = \"1s\"\nreserve_for = \"20s\"\n"
	nodes := lab.Options{Nodes: []lab.NodeSpec{{Prefix: "n", Count: 4, GPUType: "a100", GPUs: 4}}}
	e := evictableOn(t, newSiteOn(t, lab.ForTest(t, nodes), settings))
	e.blocker("a100:1", "--nodelist=n3")
	named := e.worker("named", "a100:1", endless, 5, "save", "--nodelist=n4")
	fill := []string{e.blocker("a100:3", "--nodelist=n1"), e.blocker("a100:3", "--nodelist=n2"), e.blocker("a100:3", "--nodelist=n3"), e.blocker("a100:3", "--nodelist=n4")}
	small := map[string]string{"w0": e.worker("w0", "a100:1", endless, 5, "save"), "w1": e.worker("w1", "a100:1", endless, 20, "save")} // on n1 and n2
	e.begun("w0", "w1", "named")
	e.slurm("scancel", fill...)
	e.wait("their ends", func() bool { return strings.Count(e.slurm("squeue", "--noheader", "--format=%i"), "\n") == 4 })
	gang := e.submit("--prio-type=be", "--gres=gpu:a100:4", "--time=60", "--wrap", "sleep 600")
	e.wait("explain --victims to name it", func() bool { return strings.Contains(e.must("explain", "--victims"), "Job "+gang+" of ") })
	if says := e.must("explain", "--victims"); !strings.Contains(says, "moving others would cost more GPU time") || !strings.Contains(says, "\n"+small["w0"]+" ") {
		t.Errorf("before the daemon has seen it wait, explain --victims says\n%s", says)
	}
	d := e.daemon()
	e.runs(gang)
	e.completes(small["w0"]) // on the other node: the gang still runs
	e.leftOnce("w0")
	for _, name := range []string{"w1", "named"} {
		if strings.Count(e.log(name), "start ") != 1 || strings.Contains(e.log(name), "signal") {
			t.Errorf("%s:\n%s", name, e.log(name))
		}
	}
	if out := strings.TrimSpace(e.slurm("squeue", "--noheader", "--job="+gang+","+named, "--format=%T")); out != "RUNNING\nRUNNING" {
		t.Errorf("the gang and the job that names its node are %s", out)
	}
	all := e.settled()
	if len(all) != 1 || all[0].Purpose != "gang" || all[0].For.String() != gang || all[0].State != "done" || all[0].ClaimState != "started" {
		t.Fatalf("%+v", all)
	}
	for verb, want := range map[string]string{
		"evictions": "gang " + gang, "explain " + gang: "Room", "explain " + small["w0"]: "to free nodes for gang " + gang, "report preemptions": "To free nodes for gangs:",
	} {
		if out := e.must(strings.Fields(verb)...); !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", verb, want, out)
		}
	}
	d.stop()
	if text := d.log.String(); strings.Contains(text, "[WARN]") || strings.Contains(text, "[ERROR]") {
		t.Errorf("the log warns:\n%s", text)
	}
}

// Weights, as priod check suggests them, have small jobs fill the same nodes first.
func TestWeightsPackSmallJobs(t *testing.T) {
	longOnly(t)
	t.Parallel()
	nodes := lab.Options{Nodes: []lab.NodeSpec{{Prefix: "n", Count: 4, GPUType: "a100", GPUs: 4}}}
	e := evictableOn(t, newSiteOn(t, lab.ForTest(t, nodes), quick))
	const says = "all 4 a100 nodes have Weight 1: give some a higher one (NodeName=n[3-4] Weight=2)"
	check := func() string {
		out, _, _ := e.priod("check", "--all") // it may FAIL for reasons of the lab
		return out
	}
	if out := check(); !strings.Contains(out, says) {
		t.Errorf("no %q in\n%s", says, out)
	}
	e.slurm("scontrol", "update", "NodeName=n[1-2]", "Weight=2") // the other way round: the order of names alone would do it else
	if out := check(); strings.Contains(out, "have Weight") {
		t.Errorf("it suggests again\n%s", out)
	}
	for range 8 {
		e.runs(e.submit("--gres=gpu:a100:1", "--time=60", "--wrap", "sleep 600"))
	}
	if used := strings.Fields(e.slurm("squeue", "--noheader", "--format=%N")); strings.Count(strings.Join(used, " "), "n3") != 4 || strings.Count(strings.Join(used, " "), "n4") != 4 {
		t.Errorf("they run on %v", used)
	}
	e.runs(e.submit("--gres=gpu:a100:4", "--nodes=2", "--time=60", "--wrap", "sleep 600"))
}
