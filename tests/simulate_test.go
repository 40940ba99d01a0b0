package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/trace"
)

// An operator's first question: what would have happened here? Jobs that ran
// in the lab come back from accounting, by --from-slurm and by sacct's own
// output, and are simulated on the lab's nodes.
func TestSimulateFromSlurm(t *testing.T) {
	s := newSite(t, "")
	var ids []string
	for _, args := range [][]string{
		{"--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 1"},
		{"--prio-type=be", "--gres=gpu:2", "--time=5", "--wrap", "sleep 2"},
		{"--gres=gpu:1", "--time=5", "--array=1-2", "--wrap", "sleep 1", "--comment=two\nlines"},
	} {
		ids = append(ids, s.submit(args...))
	}
	for _, id := range ids {
		s.wait("the end of job "+id, func() bool {
			return s.slurm("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING", "--jobs="+ids[0]+","+ids[1]+","+ids[2]) == ""
		})
	}
	type figures struct {
		Jobs    int            `json:"jobs"`
		Mean    float64        `json:"mean_jct_s"`
		Skipped map[string]int `json:"skipped_rows"`
	}
	var live figures
	s.wait("accounting to know four jobs", func() bool { // slurmdbd hears of ends late
		out, _, status := s.priod("simulate", "--from-slurm", "--since", "1h", "--json")
		live = figures{}
		return status == 0 && json.Unmarshal([]byte(out), &live) == nil && live.Jobs >= 4
	})
	if live.Mean <= 0 {
		t.Errorf("mean completion time %v s", live.Mean)
	}

	var both struct {
		Runs []struct {
			Name    string `json:"name"`
			figures `json:"figures"`
		} `json:"runs"`
		Users []struct {
			Jobs int `json:"jobs"`
		} `json:"users"`
	}
	s.json(&both, "simulate", "--from-slurm", "--since", "1h", "--compare")
	if len(both.Runs) != 3 || len(both.Users) == 0 {
		t.Fatalf("want what happened, Slurm and priod: %+v", both)
	}
	for _, run := range both.Runs {
		if run.Jobs < 4 || run.Mean <= 0 {
			t.Errorf("%+v", run)
		}
	}

	cmd := s.lab.Command(context.Background(), "sacct", "-P", "-X", "-D", "-a", "-S", "now-1hours", "-E", "now", "--format="+strings.TrimSuffix(trace.SacctColumns, ",Comment"))
	cmd.Env = append(cmd.Env, "SLURM_TIME_FORMAT=%s")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "sacct.txt")
	if err := os.WriteFile(file, out, 0o644); err != nil {
		t.Fatal(err)
	}
	var past figures
	s.json(&past, "simulate", "--trace", file, "--format", "sacct", "--nodes", "8:a100:4", "--nodes", "8:v100:4", "--nodes", "8:t4:4") // what ran in this lab, whichever test it came from
	if past.Jobs < 4 {
		t.Errorf("%d jobs in sacct's output, want at least 4\n%s", past.Jobs, out)
	}
}

// A sweep runs as a job array on the cluster that it is about, goes on where it
// was stopped, and has the results of a sweep on one machine.
func TestSweepThroughSlurm(t *testing.T) {
	s := newSite(t, "")
	file := filepath.Join(s.dir, "it's a study.toml")
	text := "[base]\ngenerate = \"fitgpp --jobs 200 --load 1 --seed {seed}\"\nnodes = [\"4:gpu:8:32:262144\"]\n[grid]\nbackfill = [\"none\", \"easy\"]\nseed = [1, 2]\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	type table struct {
		Rows []struct {
			Runs    int                `json:"runs"`
			Metrics map[string]float64 `json:"metrics"`
		} `json:"rows"`
	}
	cluster, local := filepath.Join(s.dir, "cluster"), filepath.Join(s.dir, "local")
	s.must("sweep", "--sbatch", "--tasks", "2", "--out", cluster, file, "--", "--gres=gpu:1", "--time=5")
	var far, near table
	s.wait("all points of the sweep", func() bool {
		far = table{}
		s.json(&far, "sweep", "--show", "--out", cluster, file)
		return len(far.Rows) == 2 && far.Rows[0].Runs == 2 && far.Rows[1].Runs == 2
	})
	s.json(&near, "sweep", "--out", local, file)
	if a, b := fmt.Sprint(far), fmt.Sprint(near); a != b {
		t.Errorf("through Slurm\n%s\non this machine\n%s", a, b)
	}
	if out := s.must("sweep", "--sbatch", "--out", cluster, file); !strings.Contains(out, "Every point has its result") {
		t.Errorf("a finished sweep is sent again: %s", out)
	}
}

// The page of a simulation opens without a network, and the same seed gives the
// same bytes.
func TestSimulationIsRepeatable(t *testing.T) {
	var pages [2]string
	for i := range pages {
		dir := t.TempDir()
		cmd := exec.Command(filepath.Join(bin, "priod"), "simulate", "--generate", "fitgpp --jobs 300 --load 1.1", "--nodes", "4:gpu:8:32:262144",
			"--order", "priod", "--backfill", "easy", "--json", "--jobs-out", "jobs.csv", "--html", "page.html")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, name := range []string{"jobs.csv", "page.html"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text...)
		}
		pages[i] = string(out)
	}
	if pages[0] != pages[1] {
		t.Error("two runs with one seed differ")
	}
}
