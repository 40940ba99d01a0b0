package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dividedNodes are one node of each of two types, in a partition for each.
const dividedNodes = `
[[nodes]]
count = 1
gpu_type = "a100"
gpus = 4
partitions = ["a100"]
[[nodes]]
count = 1
gpu_type = "v100"
gpus = 4
partitions = ["v100"]
`

// Jobs of accounting are replayed in the partition that they named; one whose partition is gone is left out.
func TestSimulateReplaysPartitions(t *testing.T) {
	row := func(id, partition string) string {
		return id + "|1770000000|1770000000|1770000060|1770003660|3600|COMPLETED|60|1|cpu=4,gres/gpu=4|cpu=4,gres/gpu=4|ann|" + partition + "\n"
	}
	history := "JobID|Submit|Eligible|Start|End|ElapsedRaw|State|TimelimitRaw|NNodes|ReqTRES|AllocTRES|User|Partition\n" +
		row("1", "v100") + row("2", "v100") + row("3", "v100") + row("4", "p100") + row("5", "a100,v100")
	out := filepath.Join(t.TempDir(), "out.csv")
	var printed, errs bytes.Buffer
	args := []string{"priod", "simulate", "--trace", write(t, "month", history), "--format", "sacct", "--cluster", write(t, "nodes.toml", dividedNodes), "--backfill", "easy", "--jobs-out", out}
	if status := Main("test", args, &printed, &errs); status != exitDone || !strings.Contains(errs.String(), "job 4 (4.0 GPU-hours): the cluster has no partition p100") ||
		!strings.Contains(errs.String(), "list of partitions is not known, and that wait for the one in which they ran: 4 (") {
		t.Fatalf("exit %d: %s", status, errs.String())
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ",")
		got[f[0]] = f[2] + " " + f[len(f)-1]
	}
	for id, want := range map[string]string{"1": "0 n1", "2": "3600 n1", "3": "7200 n1", "5": "0 n0"} {
		if got[id] != want {
			t.Errorf("job %s: start and node %q, want %q", id, got[id], want)
		}
	}
}
