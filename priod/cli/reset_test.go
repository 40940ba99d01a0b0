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

// A reset that Slurm does not answer pauses all the same, and says whom.
func TestResetWithoutSlurmPauses(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	fake := "#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "[slurm]\nbin_dir = %q\n[wake]\nlisten = []\n[state]\ndir = %q\n", bin, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	who := fmt.Sprintf("priod (process %d, state folder %s) writes nothing until priod resume", os.Getpid(), dir)
	for _, verb := range []string{"reset", "pause"} { // pause needs no Slurm
		if _, err := store.Resume(dir); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		status := Main("", []string{"priod", "--config", path, verb}, &out, &errs)
		p, err := store.Paused(dir)
		if want := map[string]int{"reset": exitProblem}[verb]; err != nil || status != want || p == nil || !strings.Contains(out.String()+errs.String(), who) {
			t.Errorf("%s: %d, %q, %q; paused: %v, %v", verb, status, &out, &errs, p, err)
		}
	}
}

// Where no daemon runs and Slurm does not say whether another one is active, the pause is set and is no success.
func TestPauseOfNoDaemon(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "[slurm]\nbin_dir = %q\n[wake]\nlisten = []\n[state]\ndir = %q\n", t.TempDir(), dir), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := Main("", []string{"priod", "--config", path, "pause"}, &out, &errs)
	p, err := store.Paused(dir)
	if err != nil || status != exitProblem || p == nil || !strings.Contains(out.String(), "no priod runs on ") || !strings.Contains(errs.String(), "whether another priod is active on this host is not known") {
		t.Errorf("%d, %q, %q; paused: %v, %v", status, &out, &errs, p, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"pause", "resume", "reset"} {
		errs.Reset()
		if status := Main("", []string{"priod", "--config", path, verb}, &out, &errs); status != exitProblem || !strings.Contains(errs.String(), "has no state folder "+dir) {
			t.Errorf("%s without a folder: %d, %q", verb, status, &errs)
		}
	}
}

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
