package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A trial gets room only where it can run, though its request allows other GPU types, and none where it can run nowhere.
func TestRoomOnlyWhereATrialCanRun(t *testing.T) {
	table := filepath.Join(t.TempDir(), "workloads.toml")
	if err := os.WriteFile(table, []byte(`[[workload]]
name = "nowhere"
speed.a100 = { 1 = 0.0 }
speed.v100 = { 1 = 0.0 }
speed.t4 = { 1 = 0.0 }
[[workload]]
name = "small"
speed.a100 = { 1 = 0.0 }
speed.v100 = { 1 = 1.0 }
speed.t4 = { 1 = 0.0 }
`), 0o644); err != nil {
		t.Fatal(err)
	}
	e := newEvictable(t, evicting+fmt.Sprintf("[speeds]\nworkloads = %q\n[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n", table))
	for _, gres := range []string{"a100:4", "a100:4", "v100:4", "v100:4", "t4:4", "t4:4"} {
		e.blocker(gres)
	}
	e.worker("fast", "a100:4", endless, 5, "save")
	e.worker("slow", "v100:4", endless, 20, "save")
	e.begun("fast", "slow")
	d := e.daemon()
	d.waitLog("started")
	nowhere := e.trial("1", "--prio-workload=nowhere", "--prio-steps=1")
	small := e.trial("1", "--prio-workload=small", "--prio-steps=1")
	e.completes(small)
	if node := strings.TrimSpace(e.slurm("sacct", "--noheader", "--allocations", "--jobs="+small, "--format=NodeList")); !strings.HasPrefix(node, "v100") {
		t.Errorf("the trial ran on %q", node)
	}
	if strings.Contains(e.log("fast"), "signal") || !strings.Contains(e.log("slow"), "signal") {
		t.Errorf("fast:\n%s\nslow:\n%s", e.log("fast"), e.log("slow"))
	}
	for _, x := range e.journal() {
		if x.For.String() == nowhere {
			t.Errorf("%+v", x)
		}
	}
	if out := e.must("explain", nowhere); strings.Count(out, "it cannot run on any GPU type that it may have") != 2 {
		t.Errorf("explain says\n%s", out)
	}
	d.stop()
}
