package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A trial for which eight jobs have to leave does not wait for the end of one: more than
// preemption.max_per_cycle are told over several cycles.
func TestSimulateTellsVictimsOverSeveralCycles(t *testing.T) {
	dir := t.TempDir()
	jobs, config, out := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "priod.toml"), filepath.Join(dir, "out.csv")
	text := "job_id,submit_s,gpus,duration_s,type,grace_s,limit_s,nodes\nlarge,0,8,20000,be,300,40000,1\n"
	for i := range 8 {
		text += fmt.Sprintf("small%d,%d,1,20000,be,10,40000,1\n", i, i+1)
	}
	text += "trial,600,8,300,te,,600,1\n"
	for file, text := range map[string]string{jobs: text, config: "[preemption]\nenabled = true\nmax_at_once = 8\nmax_per_cycle = 4\neviction_cost = 0.0\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, _, errs := run("--config", config, "simulate", "--order", "priod", "--backfill", "easy", "--trace", jobs, "--nodes", "2:a100:8:64:512000", "--jobs-out", out)
	if status != exitDone {
		t.Fatal(status, errs)
	}
	rows, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rows)) {
		if f := strings.Split(line, ","); f[0] == "trial" {
			var waited float64
			if _, err := fmt.Sscan(f[4], &waited); err != nil || waited > 60 {
				t.Errorf("the trial waited %s s, want a minute at most: %s", f[4], line)
			}
			return
		}
	}
	t.Errorf("no trial in\n%s", rows)
}
