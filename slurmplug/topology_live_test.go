package slurmplug_test

import (
	"testing"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// A job that waits because no block of nodes has room for it waits for room, in the
// words of each Slurm that knows blocks (23.11 and later).
func TestLiveTopologyReason(t *testing.T) {
	if !lab.AtLeast(23, 11) {
		t.Skip("Slurm " + lab.Version() + " has no topology/block")
	}
	t.Parallel()
	l := lab.ForTest(t, lab.Options{
		NoAccounting: true, PreemptMode: "OFF",
		Nodes:      []lab.NodeSpec{{Prefix: "n-", Count: 4, GPUType: "a100", GPUs: 4}},
		ExtraConf:  []string{"TopologyPlugin=topology/block"},
		ExtraFiles: map[string]string{"topology.conf": "BlockName=b1 Nodes=n-[1-2]\nBlockName=b2 Nodes=n-[3-4]\nBlockSizes=2\n"},
	})
	c := clientOf(l, slurmplug.Options{})
	for _, node := range []string{"n-1", "n-3"} {
		id := submit(t, l.Client, "x", "--exclusive", "--nodelist="+node)
		if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"--nodes=2", "--exclusive"}, {"--nodes=2", "--exclusive", "--segment=2"}} {
		id := jobID(t, submit(t, l.Client, "x", args...))
		eventually(t, "a reason", func() bool {
			j := queue(t, c)[id]
			t.Logf("%v: %s, %q", args, j.State, j.Reason)
			return j.Reason != "None" && j.Reason != ""
		})
		if j := queue(t, c)[id]; j.State != "PENDING" || slurmplug.WaitsFor(j.Reason) != slurmplug.ForRoom {
			t.Errorf("%v: %s, %q", args, j.State, j.Reason)
		}
	}
}
