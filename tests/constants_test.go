package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The installed priod goes on with a file of an earlier version that sets constants: check and the log name each.
func TestConstantsHaveNoEffect(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs a compiler")
	}
	s := newSite(t, "[preemption]\nretry_after = \"3s\"\n[steering]\ndepth = 7\n")
	installed := filepath.Join(s.dir, "installed")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", installed, "slurmprio/priod").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for verb, want := range map[string]string{"check": "WARN  configuration", "run --once": "[WARN]"} {
		c := s.command(strings.Fields(verb)...)
		c.Path, c.Args[0] = installed, installed
		out, _ := c.CombinedOutput()
		for _, constant := range []string{"preemption.retry_after is a constant now (10m0s)", "steering.depth is a constant now (500)"} {
			found := false
			for line := range strings.Lines(string(out)) {
				found = found || strings.Contains(line, constant) && strings.Contains(line, want)
			}
			if !found {
				t.Errorf("priod %s does not warn of %q:\n%s", verb, constant, out)
			}
		}
		if verb != "check" && c.ProcessState.ExitCode() != 0 {
			t.Errorf("priod %s: %s\n%s", verb, c.ProcessState, out)
		}
	}
}
