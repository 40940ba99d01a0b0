package slurmplug

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever a simulated job is resized to, the value of Size says it, and that it
// asked for before says that.
func TestSizesSayWhatTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.SampledFrom([]string{"", "n0", "gpu-12"})
		cpus, mb := rapid.IntRange(1, 1000), rapid.Int64Range(1, 1<<40)
		a := AskedBy(rapid.IntRange(1, 16).Draw(t, "gpus"), cpus.Draw(t, "cpus"), mb.Draw(t, "mb"), node.Draw(t, "node"))
		says := func(v Value, cpus int, memMB int64, node string) {
			s := Size.Value(v.String()).Size()
			if v != s.Value() || s.CPUs != cpus || s.PerTask != cpus || s.By != ByNode || s.Memory != memMB || s.Nodes != node {
				t.Fatalf("%q: %+v, want %d, %d, %q", v, s, cpus, memMB, node)
			}
		}
		says(a.Holds, a.CPUs, a.MemMB, a.Nodes)
		want := node.Draw(t, "other node")
		value, gets, getsMB := a.Resize(cpus.Draw(t, "other cpus"), mb.Draw(t, "other mb"), want)
		says(value, gets, getsMB, want)
	})
}
