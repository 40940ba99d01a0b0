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
		if c, m, n, err := ParseSize(a.Text); err != nil || c != a.CPUs || m != a.MemMB || n != a.Nodes {
			t.Fatalf("%q: %d, %d, %q, %v", a.Text, c, m, n, err)
		}
		want := node.Draw(t, "other node")
		value, gets, getsMB := a.Resize(cpus.Draw(t, "other cpus"), mb.Draw(t, "other mb"), want)
		if c, m, n, err := ParseSize(value); err != nil || c != gets || m != getsMB || n != want {
			t.Fatalf("%q: %d, %d, %q, %v", value, c, m, n, err)
		}
	})
	for _, value := range []string{"", "NumCPUs=x", "NumCPUs=99999999999", "NumCPUs=1 NumCPUs=2", "MinMemoryCPU=5", "TimeLimit=1", "NumCPUs=1\nPriority=7"} {
		if _, _, _, err := ParseSize(value); err == nil {
			t.Errorf("%q was read", value)
		}
	}
}
