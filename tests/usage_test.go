package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// What the steps of real jobs used: a program that keeps all its cores busy, one
// that sleeps beside its memory, and one that nobody ran often.
func TestUsageFromAccounting(t *testing.T) {
	if !long() {
		t.Skip("starts a Slurm of its own, which measures; SLURMPRIO_LONG=1 runs it")
	}
	l := lab.ForTest(t, lab.Options{
		Nodes:     []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 12, CPUs: 96, MemoryMB: 49152}},
		ExtraConf: []string{"JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1"},
	})
	s := newSiteOn(t, l, quick+"[speeds]\nmin_run = \"2s\"\n")
	const busy = `python3 -c 'import time; end = time.time() + 6
while time.time() < end: pass'`
	const large = `srun python3 -c 'import time; a = bytearray(300 << 20); time.sleep(4)'`
	for range 3 {
		s.submit("--job-name=busy", "--gres=gpu:1", "--time=5", "--wrap", busy)
		s.submit("--prio-workload=large", "--gres=gpu:2", "-c", "2", "--time=5", "--wrap", large)
	}
	s.submit("--job-name=once", "--gres=gpu:1", "--time=5", "--wrap", large)
	type lesson struct {
		Workload, Job_name, GPU_type string
		Runs                         int
		Used_CPUs, Used_mem_MB       float64
		Share_CPUs, Demand_CPUs      float64
		Share_mem_MB, Demand_mem_MB  float64
		CPU_bound                    bool
	}
	by := map[string]lesson{}
	s.wait("seven runs in accounting", func() bool { // slurmdbd is some seconds behind
		var taught struct{ Programs []lesson }
		if err := json.Unmarshal([]byte(s.must("workloads", "usage", "--since", "1h", "--json")), &taught); err != nil {
			t.Fatal(err)
		}
		for _, p := range taught.Programs {
			by[p.Workload+p.Job_name] = p
		}
		return by["busy"].Runs == 3 && by["large"].Runs == 3 && by["once"].Runs == 1
	})
	t.Log(s.must("workloads", "usage", "--since", "1h"))
	for name, l := range by {
		if l.GPU_type != "t4" || l.Share_CPUs != 8 || l.Share_mem_MB != 4096 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	// One CPU is all that it had; this machine may be too busy to give it that.
	if b := by["busy"]; b.Used_CPUs < 0.02 || b.Used_CPUs > 1 || b.Demand_CPUs >= 8 || b.Demand_CPUs < 1 || b.CPU_bound != (b.Used_CPUs > 0.9) {
		t.Errorf("busy: %+v", b)
	}
	if b := by["large"]; b.Used_mem_MB < 150 || b.Used_mem_MB > 200 || b.Demand_mem_MB < 180 || b.Demand_mem_MB > 240 || b.Demand_CPUs != 1 {
		t.Errorf("large, on two GPUs: %+v", b)
	}
	if b := by["once"]; b.Used_mem_MB < 300 || b.Demand_mem_MB != 4096 || b.Demand_CPUs != 8 {
		t.Errorf("once: %+v", b)
	}
	// Two CPUs and 2 GB for two GPUs are far more memory than it used; what is enough
	// can be copied.
	told := s.must("report", "sizing", "--since", "1h")
	line := regexp.MustCompile(`(?m)^large +t4 +3 .* --mem=(\d+)M$`).FindStringSubmatch(told)
	if line == nil {
		t.Fatalf("report sizing says\n%s", told)
	}
	perGPU, _ := strconv.Atoi(line[1])
	enough := fmt.Sprintf("%dM", 2*perGPU)
	job := s.submit("--hold", "--gres=gpu:2", "--mem="+enough, "--time=5", "--wrap", "sleep 1") // or it might wait beside the next one
	if asks := s.slurm("scontrol", "-o", "show", "job", job); !strings.Contains(asks, "MinMemoryNode="+enough+" ") {
		t.Errorf("--mem=%s is not taken for memory:\n%s", enough, asks)
	}

	// Who held the GPUs: seven runs, 10 GPUs in all, and what their steps used.
	var usage struct {
		Runs, Measured int
		GPU_h          float64
		By_type        []struct{ Name string }
		By_state       []struct {
			Name string
			Runs int
		}
	}
	s.json(&usage, "report", "usage", "--since", "1h", "--measured")
	if usage.Runs != 7 || usage.Measured != 7 || usage.GPU_h <= 0 || usage.By_type[0].Name != "t4" || usage.By_state[0].Name != "COMPLETED" || usage.By_state[0].Runs != 7 {
		t.Errorf("%+v:\n%s", usage, s.must("report", "usage", "--since", "1h", "--measured"))
	}

	// A plan that is only shown rests on the same as one that is written at once.
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config, append(text, "[sizing]\nenabled = true\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	s.slurm("scontrol", "update", "PartitionName=gpu", "State=DOWN")
	id := s.submit("--prio-workload=large", "--gres=gpu:2", "-c", "20", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	size := regexp.MustCompile(`Size +CPUs.*`)
	shown, done := size.FindString(s.must("run", "--dry-run")), size.FindString(s.must("run", "--once"))
	if shown == "" || strings.Join(strings.Fields(shown), " ")+" applied" != strings.Join(strings.Fields(done), " ") {
		t.Errorf("diff shows %q, and written was %q", shown, done)
	}
	if told := s.must("explain", id); !strings.Contains(told, "accounting: 3 runs of workload large") {
		t.Errorf("explain does not speak of accounting:\n%s", told)
	}
}
