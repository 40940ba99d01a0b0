package tests

import (
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// Slurm says "Nodes required for job are DOWN, DRAINED or reserved" of a job whose nodes are all up, while a job of
// another partition is ahead on them: room is made in the first cycle that sees it, and explain says what is true.
func TestBehindAnotherPartition(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{
		Nodes:      []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4, CPUs: 16, MemoryMB: 16384}},
		Partitions: []string{"gpu Nodes=ALL Default=YES State=UP MaxTime=INFINITE", "other Nodes=ALL State=UP MaxTime=INFINITE"},
	})
	e := evictableOn(t, newSiteOn(t, l, evicting))
	e.worker("w", "t4:4", endless, 5, "save")
	e.begun("w")
	ahead := e.submit("--partition=other", "--gres=gpu:4", "--time=60", "--wrap", "sleep 600")
	trial := e.trial("t4:2")
	e.eligible(2)
	reason := func() string { return e.slurm("squeue", "--noheader", "--jobs="+trial, "--format=%r") }
	e.wait("Slurm's words", func() bool { return strings.HasPrefix(reason(), "Nodes required for job are DOWN") })
	e.must("run", "--once")
	told := e.must("explain", trial)
	if all := e.journal(); len(all) != 1 {
		t.Errorf("%+v\n%s", all, told)
	}
	if strings.Contains(told, "sinfo -R") || strings.Contains(told, "down") {
		t.Error(told)
	}
	e.slurm("scancel", ahead)
}
