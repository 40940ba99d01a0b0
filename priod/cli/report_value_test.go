package cli

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

// A long BE job holds both GPUs, and a trial leaves it waiting: what accounting holds of that with evictions is worth the trial's wait.
func TestReplayedValue(t *testing.T) {
	var b strings.Builder
	b.WriteString("job_id,submit_s,gpus,duration_s,type,user,account,grace_s,ckpt_s,start_s,end_s,ran_s\n")
	for i := range 10 { // each trial started after its grace, and the long job ended later by that
		at := i * 4000
		line := func(kind string, submit, seconds, start, end int, class string) {
			b.WriteString(strings.Join([]string{kind, strconv.Itoa(submit), "2", strconv.Itoa(seconds), class, kind[:3], "a", "30", "", strconv.Itoa(start), strconv.Itoa(end), strconv.Itoa(seconds)}, ",") + "\n")
		}
		line("ann"+strconv.Itoa(i), at, 1000, at, at+1300, "be")
		line("bob"+strconv.Itoa(i), at+200, 60, at+230, at+290, "te")
	}
	config := write(t, "priod.toml", "[preemption]\nenabled = true\nmin_run = \"1s\"\n")
	now := time.Now()
	v, err := replayedValue(t.Context(), []string{"--config=" + config, "--trace=" + write(t, "jobs.csv", b.String()), "--nodes=1:a100:2"}, now.Add(-12*time.Hour), now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.Jobs != 20 || v.Replays != 5 || v.Completion.With != 695 || v.Completion.Saved() < 0.1 || v.Low > v.Completion.Saved() || v.High < v.Completion.Saved() || v.TEWaitP95 == nil || v.TEWaitP95.Without < 500 {
		t.Errorf("%+v, TE %+v", v, v.TEWaitP95)
	}
	if len(v.Gained) != 1 || v.Gained[0].User != "bob" || len(v.Lost) != 1 || v.Lost[0].User != "ann" {
		t.Errorf("gained %+v, lost %+v", v.Gained, v.Lost)
	}
	dir := t.TempDir()
	if none, err := store.ReadValue(dir); none != nil || err != nil {
		t.Error(none, err)
	}
	v.Paused = &store.ValueCheck{Since: now.Add(-8 * time.Hour), Until: now, Jobs: 3, Happened: 600, Replayed: 700}
	if err := store.SaveValue(dir, v); err != nil {
		t.Fatal(err)
	}
	kept, err := store.ReadValue(dir)
	if err != nil || kept.Completion != v.Completion {
		t.Errorf("%+v, %v", kept, err)
	}
	var out bytes.Buffer
	view.Value{Value: kept}.Page().Show(&out, 20)
	for _, want := range []string{"20 GPU jobs: with priod jobs complete ", "% in 5 replays)", "11m35s    18m15s         -37 %", "TE wait p95", "GPU-hours held", "mean wait 10m00s, in the replay without priod 11m40s", "GAINED MOST", "bob", "LOST MOST", "ann"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
	if math.Abs(v.Off) > 0.2 {
		t.Errorf("the replay is off by %v", v.Off)
	}
}

// Without a replay the report says how to get one; a spoiled file is named.
func TestValueTrouble(t *testing.T) {
	dir := t.TempDir()
	config := write(t, "priod.toml", "[state]\ndir = \""+dir+"\"\n")
	if status, _, errs := run("--config", config, "report", "value"); status != exitProblem || !strings.Contains(errs, "--refresh does it now") {
		t.Error(status, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "value.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := run("--config", config, "report", "value"); status != exitProblem || !strings.Contains(errs, "value.json") {
		t.Error(status, errs)
	}
	if status, _, errs := run("--config", config, "report", "value", "--since", "x"); status != exitUsage {
		t.Error(status, errs)
	}
}
