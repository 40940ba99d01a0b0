package live

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/slurmplug"
)

func TestPartsOfAccounts(t *testing.T) {
	got := partsOf([]slurmplug.Account{
		{Name: "root", Share: 1}, {Name: "biology", Parent: "root", Share: 3}, {Name: "shy", Parent: "biology", UseParent: true},
		{Name: "physics", Parent: "root", Share: 1}, {Name: "language", Parent: "physics", Share: 1}, {Name: "vision", Parent: "physics", Share: 3},
		{Name: "none", Parent: "language", Share: 0}, {Name: "a", Parent: "b", Share: 1}, {Name: "b", Parent: "a", Share: 1},
	})
	want := map[string]float64{
		"root": 1, "biology": 0.75, "shy": 0.75, "physics": 0.25, "language": 0.0625, "vision": 0.1875, "none": 0.0625, "a": 1, "b": 1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
