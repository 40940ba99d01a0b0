package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Two jobs with GPUs and two without, of which the second wants more CPUs than a node has.
const mixedSacct = "JobID|Submit|Start|End|State|AllocTRES|User|Partition\n" +
	"1|100|100|200|COMPLETED|cpu=2,gres/gpu=2,node=1|ann|gpu\n" +
	"2|100|200|300|COMPLETED|cpu=2,gres/gpu=2,node=1|bob|gpu\n" +
	"3|100|110|160|COMPLETED|cpu=4,mem=1G,node=1|eve|cpu\n" +
	"4|100|100|150|COMPLETED|cpu=99,node=1|eve|cpu\n"

var mixedNodes = []string{"--nodes", "1:a100:2:8:8000", "--nodes", "1::0:8:8000"}

func TestSimulateCountsJobsWithoutGPUsApart(t *testing.T) {
	file := write(t, "jobs.sacct", mixedSacct)
	args := append([]string{"simulate", "--trace", file, "--format", "sacct"}, mixedNodes...)
	status, out, errs := run(args...)
	for _, want := range []string{"jobs with GPUs ", "jobs without GPUs, that failed  1, 0", "their wait mean, p90, max ", "Figures are of the jobs with GPUs (2); jobs without (1) are counted apart."} {
		if status != exitDone || !strings.Contains(out, want) {
			t.Errorf("exit status %d, said %q and %q, want %q", status, out, errs, want)
		}
	}
	if !strings.Contains(errs, "left out: job 4 (0.0 GPU-hours): no nodes of the cluster hold its 99 CPUs") {
		t.Errorf("said %q of a job that no node holds", errs)
	}
	// A trace of our own that asks for it is told.
	csv := write(t, "jobs.csv", "job_id,submit_s,gpus,duration_s,cpus\nseven,0,0,10,99\n")
	for _, c := range []struct{ more, want string }{
		{"--order=fifo", "no nodes of the cluster hold its 99 CPUs and its memory"},
	} {
		if status, _, errs := run(append([]string{"simulate", "--trace", csv, c.more}, mixedNodes...)...); status == exitDone || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %q, want %q", c.more, status, errs, c.want)
		}
	}
}

func TestCompareCountsJobsWithoutGPUsApart(t *testing.T) {
	file, page := write(t, "jobs.sacct", mixedSacct), write(t, "page.html", "")
	args := append([]string{"simulate", "--trace", file, "--format", "sacct", "--compare", "--html", page}, mixedNodes...)
	status, out, errs := run(args...)
	for _, want := range []string{
		"jobs with GPUs ", "jobs without GPUs, that failed ", "their JCT mean, p50, p95 ", "Figures and tables are of the jobs with GPUs (2); jobs without (1) are counted apart.",
		"Mean completion of jobs without GPUs with priod: neither sooner nor later", "Jobs without GPUs there: mean wait 10s shorter (too few jobs for an interval)",
	} {
		if status != exitDone || !strings.Contains(out, want) {
			t.Errorf("exit status %d, said %q and %q, want %q", status, out, errs, want)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "Job completion time, without GPUs") || !strings.Contains(string(html), "Queue of jobs without GPUs") {
		t.Error("no plots of jobs without GPUs", err)
	}
	_, out, _ = run(append(args, "--json")...)
	var r struct {
		Users []struct {
			Name string `json:"name"`
		} `json:"users"`
		CPUOnly *struct {
			Users []struct {
				Name string `json:"name"`
			} `json:"users"`
		} `json:"cpu_only"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Users) != 2 || r.CPUOnly == nil || len(r.CPUOnly.Users) != 1 || r.CPUOnly.Users[0].Name != "eve" {
		t.Errorf("%v, %+v", err, r)
	}
	if _, out, _ := run(append(comparing(t, comparedTrace), "--json")...); strings.Contains(out, "cpu_only") {
		t.Errorf("a trace without such jobs speaks of them: %s", out)
	}
}
