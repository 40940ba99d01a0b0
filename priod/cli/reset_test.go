package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/store"
)

// A reset that fails after it has paused priod says so.
func TestResetThatFailsSaysThatPriodIsPaused(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	text := fmt.Sprintf("[slurm]\nbin_dir = %q\n[state]\ndir = %q\n", bin, dir)
	fake := "#!/bin/sh\nprintf 'ClusterName = lab\\nSlurmctldHost[0] = here\\nSLURM_VERSION = 22.05.8\\nSlurmctld(primary) at here is UP\\n'\n" // and no squeue beside it
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := Main("", []string{"priod", "--config", path, "reset"}, &out, &errs)
	p, err := store.Paused(dir)
	if err != nil || status != exitProblem || p == nil || !strings.Contains(errs.String(), "priod stays paused") {
		t.Errorf("%d, %q; paused: %v, %v", status, errs.String(), p, err)
	}
}
