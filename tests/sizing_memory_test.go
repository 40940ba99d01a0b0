package tests

import (
	"regexp"
	"testing"

	"slurmprio/tests/lab"
)

// Jobs that hold memory which free GPUs lack, and do not use it, are told with what they
// have used at most, by a Slurm that measures.
func TestReportOfIdleMemory(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{
		NoAccounting: true,
		Nodes:        []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4, CPUs: 16, MemoryMB: 40000}},
		ExtraConf:    []string{"JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1"},
	})
	s := newSiteOn(t, l, "")
	idle := s.submit("--gres=gpu:1", "-c", "2", "--mem=30000", "--time=5", "--wrap", `srun python3 -c 'import time; a = bytearray(300 << 20); time.sleep(600)'`)
	s.submit("--gres=gpu:1", "-c", "2", "--mem=1000", "--time=5", "--wrap", "sleep 600")
	row := regexp.MustCompile(`(?m)^` + idle + ` +\S+ +t4-1 +1 +30000 +(3\d\d|4\d\d) +(28\d\d\d)$`)
	s.wait("what the job has used", func() bool { return row.MatchString(s.must("report", "sizing")) })
	t.Log(s.must("report", "sizing"))
}
