package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

// What a profile switches on and this Slurm lacks is a warning, what the file switches on a failure.
func TestCheckOfAProfile(t *testing.T) {
	for text, want := range map[string]live.Level{
		"": live.Fail, "profile = \"balanced\"\n": live.Warn, "profile = \"balanced\"\n[steering]\nenabled = true\n": live.Fail,
	} {
		path := filepath.Join(t.TempDir(), "priod.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		found := checkProfile(cfg, []live.Finding{{Level: live.Fail, Name: "steering", Text: "one GPU type"}, {Level: live.Fail, Name: "rights"}})
		if last := found[len(found)-2]; last.Level != want || found[len(found)-1].Level != live.Fail {
			t.Errorf("%q: %+v", text, found)
		}
		found = checkProfile(cfg, []live.Finding{{Level: live.Warn, Name: "switches", Idle: true}})
		if first := found[0]; text == "profile = \"balanced\"\n" && (first.Level != live.Warn || !strings.Contains(first.Text, "does not apply here: locality")) {
			t.Errorf("no tree of switches: %+v", found)
		}
		found = checkProfile(cfg, []live.Finding{{Level: live.Fail, Name: "steering"}})
		if first := found[0]; (text != "") != (first.Name == "profile") {
			t.Errorf("%q: %+v", text, first)
		}
	}
}
