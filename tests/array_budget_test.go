package tests

import (
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// TE tasks of an array count toward the budget as many as may run at a time (--array=...%N): another trial of the same user
// is TE beside them, and explain has one figure. A trial that its partition never starts holds nothing.
func TestBudgetOfArraysAndOfWhatCannotStart(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{
		Nodes:      []lab.NodeSpec{{Count: 2, GPUType: "t4", GPUs: 4, CPUs: 16, MemoryMB: 16384}},
		Partitions: []string{"gpu Nodes=ALL Default=YES State=UP MaxTime=INFINITE MaxNodes=1"},
	})
	e := evictableOn(t, newSiteOn(t, l, quick+"[te_budget.user]\ngpus = 4\n"))
	e.blocker("t4:4")
	e.blocker("t4:4")
	wide := e.submit("--prio-type=te", "--nodes=2", "--gres=gpu:4", "--time=5", "--wrap", "sleep 600")
	array := e.submit("--prio-type=te", "--array=0-9%2", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	trial := e.submit("--prio-type=te", "--gres=gpu:4", "--time=5", "--wrap", "sleep 600")
	e.wait("Slurm's reason of the wide one", func() bool {
		return strings.HasPrefix(e.slurm("squeue", "--noheader", "--jobs="+wide, "--format=%r"), "PartitionNodeLimit")
	})
	e.must("run", "--once")
	for _, id := range []string{array, trial} {
		told := e.must("explain", id)
		if !strings.Contains(told, "its tag says type=te") || strings.Contains(told, "over budget") {
			t.Errorf("%s:\n%s", id, told)
		}
	}
	if told := e.must("explain", wide); !strings.Contains(told, "PartitionNodeLimit") && !strings.Contains(told, "above the TE budget") {
		t.Error(told)
	}
}
