package slurmplug

import (
	"slices"
	"testing"
)

// Only a job that asks by --mem alone, of one node that it neither has to itself nor
// shares by a word of its own, can be given the same again.
func TestNodeMemory(t *testing.T) {
	want := map[string]int64{
		"mem": 20 << 10, "mem-alone": 20 << 10, "mem-odd": 20001, "tasks-mem": 8 << 10, "per-gpu-mem": 8 << 10, "per-task-mem": 8 << 10,
		"gpus-per-node": 8 << 10, "none": 4 << 10, "comment": 4 << 10,
	}
	never := []string{"mem-per-cpu", "mem-per-gpu", "mem-per-gpu-cpus", "mem-all", "exclusive", "exclusive-user", "share", "nodes", "plain", "default"}
	for _, version := range []string{"22.05", "24.11", "26.05"} {
		asks := recordedAsked(t, version)
		for name, ask := range asks {
			m, err := parseNodeMemory(&ask.record, ask.out)
			if err != nil {
				t.Errorf("%s: %s: %v", version, name, err)
				continue
			}
			mb, known := want[name]
			if known && m.MB != mb || slices.Contains(never, name) && m.MB != -1 || m.UID == "" {
				t.Errorf("%s: %s: %+v, want %d", version, name, m, mb)
			}
		}
	}
}

// No amount that Slurm would take for another one is written.
func TestUpdateOfMemory(t *testing.T) {
	for value, ok := range map[string]bool{"1": true, "35000": true, "0": false, "": false, "-5": false, "30G": false, "1 NumCPUs=9": false, "4294967296": false} {
		if err := (Update{Job: Plain(1), Lever: MinMemoryNode, Value: MinMemoryNode.Value(value)}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}
