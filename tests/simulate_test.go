package tests

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/cli"
	"slurmprio/priod/trace"
	"slurmprio/tests/lab"
	"slurmprio/tests/papers/verbs"
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

	s.must("run", "--once") // the state folder
	var value, kept struct {
		Jobs       int
		Replays    int
		Completion struct{ With, Without float64 } `json:"completion_s"`
	}
	s.json(&value, "report", "value", "--refresh", "--since", "1h")
	s.json(&kept, "report", "value")
	if value.Jobs < 4 || value.Replays != 5 || value.Completion.With <= 0 || value.Completion.Without <= 0 || kept != value {
		t.Errorf("what priod brought: %+v, kept %+v", value, kept)
	}
	t.Log(s.must("report", "value"))

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

// Jobs without GPUs that ran beside others take part in a replay: on the nodes of their
// partition, and with figures of their own.
func TestSimulateJobsWithoutGPUs(t *testing.T) {
	longOnly(t)
	t.Parallel()
	s := newSiteOn(t, lab.ForTest(t, lab.Options{
		Nodes:      []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 2, CPUs: 4}, {Count: 2, CPUs: 4, MemoryMB: 2000}},
		Partitions: []string{"gpu Nodes=a100-1 Default=YES State=UP", "cpu Nodes=cpu-[1-2] State=UP", "all Nodes=ALL State=UP"},
	}), "")
	var ids []string
	for _, args := range [][]string{
		{"--prio-type=be", "--gres=gpu:2", "--cpus-per-task=2", "--time=5", "--wrap", "sleep 3"},
		{"--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 1"},
		{"--partition=cpu", "--nodes=2", "--ntasks=8", "--mem=500", "--time=5", "--wrap", "sleep 3"}, // all CPUs of both
		{"--partition=cpu", "--time=5", "--mem=100", "--wrap", "sleep 1"},
		{"--partition=all", "--cpus-per-task=3", "--mem=100", "--time=5", "--wrap", "sleep 1"},
		{"--partition=gpu", "--mem=100", "--time=5", "--wrap", "sleep 1"},
	} {
		ids = append(ids, s.submit(args...))
	}
	s.wait("the end of all jobs", func() bool { return s.slurm("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING") == "" })

	type figures struct {
		Jobs    int     `json:"jobs"`
		CPUOnly int     `json:"cpu_only_jobs"`
		JCT     float64 `json:"cpu_only_mean_jct_s"`
	}
	var both struct {
		Runs []struct {
			Name    string `json:"name"`
			figures `json:"figures"`
		} `json:"runs"`
		CPUOnly struct {
			Error struct {
				Wait struct {
					Jobs int `json:"jobs"`
				} `json:"wait"`
			} `json:"error"`
			Users []struct {
				Jobs int `json:"jobs"`
			} `json:"users"`
		} `json:"cpu_only"`
		Skipped map[string]int `json:"skipped_rows"`
	}
	s.wait("accounting to know six jobs", func() bool { // slurmdbd hears of ends late
		out, _, status := s.priod("simulate", "--from-slurm", "--since", "1h", "--compare", "--json")
		return status == 0 && json.Unmarshal([]byte(out), &both) == nil && both.Runs[0].Jobs == 2 && both.Runs[0].CPUOnly == 4
	})
	if len(both.Runs) != 3 || both.CPUOnly.Error.Wait.Jobs != 4 || len(both.CPUOnly.Users) != 1 || both.Skipped["without_gpus"] != 0 {
		t.Errorf("%+v", both)
	}
	for _, run := range both.Runs {
		if run.Jobs != 2 || run.CPUOnly != 4 || run.JCT <= 0 {
			t.Errorf("%+v", run)
		}
	}
	out := s.must("simulate", "--from-slurm", "--since", "1h", "--compare", "--html", filepath.Join(s.dir, "page.html"))
	page, err := os.ReadFile(filepath.Join(s.dir, "page.html"))
	if err != nil || !strings.Contains(string(page), "Job completion time, without GPUs") || !strings.Contains(out, "jobs without (4) are counted apart") {
		t.Errorf("%v, said %s", err, out)
	}

	// Where each ran in the simulation: n0 has the GPUs, n1 and n2 have none.
	file := filepath.Join(s.dir, "jobs.csv")
	s.must("simulate", "--from-slurm", "--since", "1h", "--jobs-out", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Fatal(err, rows)
	}
	where := map[string]string{}
	for _, row := range rows[1:] {
		where[row[0]] = row[len(row)-1]
	}
	for i, may := range [][]string{{"n0"}, {"n0"}, {"n1,n2"}, {"n1", "n2"}, {"n0", "n1", "n2"}, {"n0"}} {
		if on := where[ids[i]]; !slices.Contains(may, on) {
			t.Errorf("job %s on %q, want one of %q\n%s", ids[i], on, may, text)
		}
	}
}

// syntheticTrace writes FitGpp's synthetic jobs to a file of the folder, and returns its path.
func syntheticTrace(t *testing.T, dir string, args ...string) string {
	t.Helper()
	path := filepath.Join(dir, "jobs.csv")
	var errs bytes.Buffer
	if status := cli.Run(verbs.App(), slices.Concat([]string{"papers", "generate", "fitgpp", "--out", path}, args), io.Discard, &errs); status != 0 {
		t.Fatal(&errs)
	}
	return path
}

// The page of a simulation opens without a network, and the same seed gives the
// same bytes.
func TestSimulationIsRepeatable(t *testing.T) {
	var pages [2]string
	for i := range pages {
		dir := t.TempDir()
		jobs := syntheticTrace(t, t.TempDir(), "--jobs=300", "--load=1.1")
		cmd := exec.Command(filepath.Join(bin, "priod"), "simulate", "--trace", jobs, "--nodes", "4:gpu:8:32:262144",
			"--order", "priod", "--backfill", "easy", "--json", "--jobs-out", "out.csv", "--html", "page.html")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, name := range []string{"out.csv", "page.html"} {
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

// Jobs of a divided site are replayed in the partitions that they ran in, beside the reservations that Slurm shows.
func TestSimulateDividedSite(t *testing.T) {
	longOnly(t)
	s := newDivided(t, "")
	s.slurm("scontrol", "create", "reservation", "ReservationName=course", "Nodes=v100-2", "StartTime=now", "Duration=2:00:00", "Users=root", "Flags=IGNORE_JOBS")
	t.Cleanup(func() { s.slurm("scontrol", "delete", "ReservationName=course") })
	for range 3 {
		s.submit("--partition=v100", "--gres=gpu:4", "--time=5", "--wrap", "sleep 1")
	}
	script := filepath.Join(s.dir, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n#SBATCH --partition=t4,a100\nsleep 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.submit("--gres=gpu:4", "--time=5", script)
	s.wait("the end of all jobs", func() bool { return s.slurm("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING") == "" })
	file := filepath.Join(s.dir, "jobs.csv")
	var rows [][]string
	told := ""
	s.wait("accounting to know four jobs", func() bool { // slurmdbd hears of ends late
		_, notes, status := s.priod("simulate", "--from-slurm", "--since", "1h", "--order", "multifactor", "--backfill", "easy", "--jobs-out", file)
		if status != 0 {
			return false
		}
		told = notes
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err = csv.NewReader(bytes.NewReader(text)).ReadAll()
		return err == nil && len(rows) == 5
	})
	var nodes, starts []string
	for _, r := range rows[1:] {
		nodes, starts = append(nodes, r[11]), append(starts, r[2])
	}
	slices.Sort(starts[:3])
	if nodes[0] != nodes[1] || nodes[1] != nodes[2] || len(slices.Compact(starts[:3])) != 3 || nodes[3] == nodes[0] || rows[1][8] != "v100" || rows[4][8] == "v100" {
		t.Errorf("want three jobs after each other on the v100 node that is not reserved, and one elsewhere: %q", rows)
	}
	if !strings.Contains(told, "wait for the one in which they ran: 1 (") { // this Slurm keeps no scripts
		t.Errorf("of one script the list is lost: %q", told)
	}
}
