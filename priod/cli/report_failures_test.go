package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func TestReportFailures(t *testing.T) {
	dir := t.TempDir()
	state, cfg := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(cfg, []byte("[state]\ndir = \""+state+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fillStore(t, state, time.Minute)
	st, err := store.Open(t.Context(), state, store.Options{Once: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := st.LoadFailures(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	var all retry.Changes
	add := func(id uint32, user, class string, change func(*retry.Failure)) {
		f := retry.Failure{
			Number: int64(len(all.Failures) + 1), Job: slurmplug.Plain(id), RawID: id, User: user, Start: now.Add(-time.Hour), End: now.Add(-time.Minute), GPUs: 2,
			Nodes: []string{"n1"}, Fault: []string{"n1"}, Final: "FAILED", ExitCode: 1, Class: class, Means: "words of " + class, Rule: "rule", Signature: "s",
			Do: retry.Nothing, Why: retry.NotAsked, State: retry.Noted, At: now,
		}
		change(&f)
		all.Failures = append(all.Failures, f)
	}
	add(1, "ann", "memory", func(f *retry.Failure) {
		f.Why, f.Retry, f.Advice, f.Line = retry.ByClass, "always", "asked 8 GB, killed at 7.9 GB: try --mem=12G", "MemoryError"
	})
	add(7, "bob\x1b[2J", "gpu", func(f *retry.Failure) {
		f.Do, f.Why, f.Retry, f.Requeued, f.State, f.Exclude = retry.Elsewhere, retry.ByClass, "infra", now, retry.Requeued, "n1"
	})
	add(8, "eve", "gpu", func(f *retry.Failure) { f.Do, f.Why, f.Retry, f.Requeued = retry.Hold, retry.Repeated, "infra", now })
	add(9, "dan", "gpu", func(*retry.Failure) {})
	if err := st.SaveFailures(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	priod := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := Main("test", append([]string{"priod", "--config", cfg}, args...), &out, &errs); status != 0 {
			t.Fatalf("%v: exit status %d, %s%s", args, status, out.String(), errs.String())
		}
		return out.String()
	}
	out := priod("report", "failures")
	for _, want := range []string{
		"4 failures, 7.87 GPU-hours; 2 requeued, 1 of them held", "the GPU or its driver failed", `bob\x1b[2J`, "requeued, on other nodes; refuses n1", "put back, held until scontrol release 8: the same failure came again",
		"try --mem=12G", "Suspect nodes", "its user did not request it", "retry.enabled is false",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsRune(out, 0x1b) {
		t.Errorf("an escape sequence in\n%q", out)
	}
	var f view.Failures
	page := filepath.Join(dir, "page.html")
	if err := json.Unmarshal([]byte(priod("report", "failures", "--json", "--html", page)), &f); err != nil || f.Count != 4 || len(f.ByClass) != 2 || len(f.Suspects) != 1 || f.Suspects[0].Node != "n1" {
		t.Errorf("%v, %+v", err, f)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte(`<figure class="chart"`)) || !bytes.Contains(text, []byte("try --mem=12G")) || bytes.ContainsRune(text, 0x1b) {
		t.Errorf("%v\n%s", err, text)
	}
	out = priod("explain", "1")
	for _, want := range []string{"Failed     ", "words of memory (class memory", "it said: MemoryError", "then: nothing: another run would fail in the same way", "Advice     asked 8 GB, killed at 7.9 GB: try --mem=12G"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
