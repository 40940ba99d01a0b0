package policies_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/allocate"
	"slurmprio/priod/config"
	"slurmprio/tests/papers/policies"
)

// priod.toml takes the policies that the daemon runs. Those that are here only it
// refuses by their names, which it knows as text: as what they are, not as words
// that nobody knows.
func TestConfigRefusesWhatTheDaemonDoesNotRun(t *testing.T) {
	for _, name := range policies.Names() {
		for _, variant := range []string{"", ":agnostic", ":packed"} {
			if _, err := policies.ParsePolicy(name + variant); err != nil {
				continue
			}
			file := filepath.Join(t.TempDir(), "priod.toml")
			if err := os.WriteFile(file, []byte("[allocation]\npolicy = \""+name+variant+"\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(file)
			runs := variant == "" && slices.Contains(allocate.Names(), name)
			if (err == nil) != runs || err != nil && !strings.Contains(err.Error(), "allocation.policy: "+name+variant+" is there to compare with, in tests/papers: want one of finish-time-fairness, ") {
				t.Errorf("%s%s: %v", name, variant, err)
			}
		}
	}
}
