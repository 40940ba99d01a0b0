package waits

import "testing"

// A job that named several partitions was in the pool of its GPU type that one of them has.
func TestPoolOfTypeInSeveralPartitions(t *testing.T) {
	sizes := map[string]int{"a100 in a100": 12, "v100 in short,v100": 12, "t4 in t4": 8, "t4 in old": 4}
	for _, c := range []struct{ gpuType, partitions, want string }{
		{"a100", "a100", "a100 in a100"},
		{"v100", "a100,v100,t4", "v100 in short,v100"},
		{"v100", "v100,short", "v100 in short,v100"},
		{"v100", "a100,t4", ""},
		{"t4", "a100,t4", "t4 in t4"},
		{"t4", "t4,old", ""}, // either
	} {
		if got := poolOfType(sizes, c.gpuType, c.partitions); got != c.want {
			t.Errorf("%s in %s: pool %q, want %q", c.gpuType, c.partitions, got, c.want)
		}
	}
}
