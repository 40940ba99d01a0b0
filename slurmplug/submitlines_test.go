package slurmplug

import (
	"maps"
	"strings"
	"testing"
)

func TestSubmitLines(t *testing.T) {
	s := newSeparators()
	row := func(f ...string) string { return strings.Join(f, s.end) + s.end + "\n" }
	for name, c := range map[string]struct {
		out  string
		want map[uint32]string
	}{
		"nothing":           {"", map[uint32]string{}},
		"two":               {row("1", "sbatch a.sh --steps 5") + row("2", ""), map[uint32]string{1: "sbatch a.sh --steps 5", 2: ""}},
		"a line break":      {row("1", "sbatch a.sh\n2|sbatch b.sh"), map[uint32]string{1: "sbatch a.sh\n2|sbatch b.sh"}},
		"cut off":           {strings.TrimSuffix(row("1", "sbatch a.sh"), "\n"), nil},
		"no id":             {row("x", "sbatch a.sh") + row("2", "sbatch b.sh"), map[uint32]string{2: "sbatch b.sh"}},
		"one field":         {row("1"), nil},
		"three fields":      {row("1", "sbatch", "more"), nil},
		"an id too large":   {row("4294967296", "sbatch"), map[uint32]string{}},
		"a second cut off":  {row("1", "sbatch") + "2", nil},
		"words and no rows": {"sacct: error\n", nil},
	} {
		got, err := parseSubmitLines([]byte(c.out), s)
		if (err != nil) != (c.want == nil) || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
