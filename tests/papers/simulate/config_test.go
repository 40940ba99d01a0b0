package simulate

import (
	"os"
	"path/filepath"
	"testing"

	"slurmprio/priod/config"
)

// configured is a priod.toml over the defaults.
func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
