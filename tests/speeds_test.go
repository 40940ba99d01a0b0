package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/nodespeed"
)

// Jobs whose speed depends on the GPU type that they got teach it: those with
// steps in the tag or on the command line, and those that are only known by their name. explain says who spoke.
func TestSpeedsFromAccounting(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, quick+"[speeds]\nmin_run = \"1s\"\ninterval = \"1s\"\nsteps = '--steps[ =]([0-9]+)'\n")
	const program = `case $SLURMD_NODENAME in a100*) sleep 4;; v100*) sleep 8;; *) sleep 16;; esac`
	script := filepath.Join(s.dir, "train.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	argued := fmt.Sprintf("argued-%d", time.Now().UnixNano())
	name := fmt.Sprintf("name-%d", time.Now().UnixNano())
	workload := fmt.Sprintf("wl-%d", time.Now().UnixNano())
	for range 2 {
		for _, gpuType := range []string{"a100", "v100", "t4"} {
			s.submit("--prio-workload="+workload, "--prio-steps=100", "--gres=gpu:1", "--time=5", "-C", gpuType, "--wrap", program)
			s.submit("--job-name="+name, "--gres=gpu:1", "--time=5", "-C", gpuType, "--wrap", program)
			s.submit("--job-name="+argued, "--gres=gpu:1", "--time=5", "-C", gpuType, script, "--steps", "700")
		}
	}
	type lesson struct {
		Programs []struct {
			Workload, User, Job_name, Unit string
			Runs                           int
			Speeds                         []struct {
				GPU_type          string
				Speed, Work_per_s float64
				Believed          bool
			}
		}
	}
	var taught lesson
	// slurmdbd is some seconds behind
	s.wait("eighteen completed jobs in accounting", func() bool {
		out := s.must("workloads", "history", "--since", "1h", "--json")
		taught = lesson{}
		if err := json.Unmarshal([]byte(out), &taught); err != nil {
			t.Fatal(err)
		}
		runs := 0
		for _, p := range taught.Programs {
			if p.Workload == workload || p.User != "" && (p.Job_name == name || p.Job_name == argued) {
				runs += p.Runs
			}
		}
		return runs == 18
	})
	want := map[string]float64{"a100": 1, "v100": 0.5, "t4": 0.25}
	for _, p := range taught.Programs {
		if p.Workload != workload && p.Job_name != name && p.Job_name != argued {
			continue
		}
		if steps := p.Unit == "steps"; steps != (p.Workload == workload || p.Job_name == argued) {
			t.Errorf("%+v", p)
		}
		for _, c := range p.Speeds {
			// accounting has whole seconds, and a job takes part of one to start
			if off := math.Abs(math.Log(c.Speed / want[c.GPU_type])); off > math.Log(1.7) || !c.Believed {
				t.Errorf("%s%s on %s: %+v, want a speed of %v", p.Workload, p.Job_name, c.GPU_type, c, want[c.GPU_type])
			}
		}
	}
	file := filepath.Join(s.dir, "learned.toml")
	s.must("workloads", "history", "--since", "1h", "--out", file)
	if out := s.must("workloads", "list", "--workloads", file); !strings.Contains(out, workload) || !strings.Contains(out, name) {
		t.Errorf("exported:\n%s", out)
	}

	s.fill()
	job := s.submit("--job-name="+name, "--gres=gpu:1", "--time=5", "--wrap", program)
	told := s.submit("--prio-workload="+workload, "--prio-speed=a100:1,t4:4", "--gres=gpu:1", "--time=5", "--wrap", program)
	d := s.daemon()
	s.wait("the daemon to learn", func() bool {
		out, _, _ := s.priod("explain", job)
		return strings.Contains(out, "2 runs there, by this site's history")
	})
	if out := s.must("explain", job); !regexp.MustCompile(`(?m)^Run time +about .*, with no interval yet: .* of this program of the user`).MatchString(out) {
		t.Errorf("explain has no run time from this program's runs:\n%s", out)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if out := s.must("workloads", "history"); !strings.Contains(out, name) {
		t.Errorf("history is\n%s", out)
	}
	var compared struct {
		Jobs  int
		Nodes []nodespeed.Node
	}
	if err := json.Unmarshal([]byte(s.must("report", "nodes", "--json")), &compared); err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, n := range compared.Nodes {
		types[n.GPUType] = types[n.GPUType] || n.Runs > 0
	}
	if compared.Jobs < 18 || !types["a100"] || !types["v100"] || !types["t4"] {
		t.Errorf("nodes: %+v", compared)
	}
	out := s.must("explain", told)
	for _, want := range []string{"a100: 0.25, by the job's tag", "unknown workload", "the job's tag is believed on t4, and this site's history contradicts", "by this site's history"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain lacks %q:\n%s", want, out)
		}
	}

	// Before a job is submitted, what was learned of its name says how fast it is,
	// and its steps how long it runs.
	if out := s.must("eta", "--", "--job-name="+name, "--gres=gpu:1", "--time=5", "--wrap", program); strings.Count(out, "this site's history, within a factor") != 3 {
		t.Errorf("eta says\n%s", out)
	}
	a := s.advise("--prio-workload="+workload, "--prio-steps=100", "--gres=gpu:1", "--time=5", "--wrap", program)
	for _, x := range a.Jobs[0].Advice.Types {
		if x.Run == nil {
			t.Errorf("advise does not know how long it runs on %s", x.GPUType)
		} else if run := *x.Run; run < 2 || x.GPUType == "a100" && run > 9 || x.GPUType == "t4" && run < 10 {
			t.Errorf("advise lets it run for %v s on %s", run, x.GPUType)
		}
	}
}
