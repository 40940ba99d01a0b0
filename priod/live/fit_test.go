package live

import (
	"strings"
	"testing"
)

func TestUnfit(t *testing.T) {
	for _, c := range []struct{ slurmctld, commands, want string }{
		{"22.05.8", "22.05.8", ""},
		{"24.11.5", "24.11.2", ""},
		{"26.05.5", "26.05.5", ""},
		{"23.02.1-Bull.1.0", "23.02.1", ""},
		{"21.08.8", "21.08.8", "older than 22.05"},
		{"26.11.0-0rc1", "26.11.0", "newer than 26.05"},
		{"27.05.0", "27.05.0", "newer than 26.05"},
		{"26.05.1", "24.11.5", "upgrade under way"},
		{"24.11.5", "26.05.1", "upgrade under way"},
		{"24.11.5", "", "upgrade under way"},
		{"unknown", "24.11.5", "no Slurm version"},
	} {
		if got := Unfit(c.slurmctld, c.commands, false); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
		if got := Unfit(c.slurmctld, c.commands, true); (got == "") != (c.want == "" || strings.HasPrefix(c.want, "newer")) {
			t.Errorf("untried, %+v: %q", c, got)
		}
	}
}
