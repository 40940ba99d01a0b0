package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// vetoes is a job_submit.lua that keeps the sizes of some jobs as they are: one by
// refusing each change, one by letting half of it through.
const vetoes = `
function slurm_job_submit(job, part, uid) return slurm.SUCCESS end
function slurm_job_modify(job, rec, part, uid)
	if rec.name == "veto" and job.min_cpus ~= slurm.NO_VAL then
		slurm.log_user("not in this house")
		return slurm.ERROR
	end
	if rec.name == "half" and job.cpus_per_task ~= nil and job.cpus_per_task > 8 then
		job.pn_min_cpus = slurm.NO_VAL16
	end
	return slurm.SUCCESS
end
return slurm
`

// newSizingSite has nodes like Synergy's: 24 CPUs for 8 GPUs. Partition def gives
// CPUs and memory by GPU. All is closed until open is called, so that a cycle sees
// jobs that could start and do not.
func newSizingSite(t *testing.T, o lab.Options, settings string) *site {
	o.Nodes = []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 8, CPUs: 24, MemoryMB: 480000}}
	o.Partitions = []string{
		"gpu Nodes=ALL Default=YES State=UP DefMemPerCPU=2000",
		"def Nodes=ALL State=UP DefCpuPerGPU=2 DefMemPerGPU=20000",
	}
	o.ExtraConf = append(o.ExtraConf, "DefMemPerCPU=0")
	s := newSiteOn(t, lab.ForTest(t, o), "")
	s.sizing(settings)
	return s
}

func (s *site) sizing(settings string) {
	s.Helper()
	text := fmt.Sprintf("[slurm]\npartitions = [\"gpu\", \"def\"]\ncommand_timeout = \"3s\"\n[state]\ndir = %q\n[wake]\nlisten = []\n[sizing]\n%s\n",
		filepath.Join(s.dir, "state"), settings)
	if err := os.WriteFile(s.config, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

// open lets jobs start, or no more.
func (s *site) open(yes bool) {
	s.Helper()
	state := map[bool]string{true: "UP", false: "DOWN"}[yes]
	for _, p := range []string{"gpu", "def"} {
		s.slurm("scontrol", "update", "PartitionName="+p, "State="+state)
	}
}

var sizeFields = regexp.MustCompile(`(?:NumCPUs|CPUs/Task|MinCPUsNode|MinMemory\w+|CpusPerTres|MemPerTres|ReqNodeList|NumTasks)=\S*`)

// asks is how a job asks for its size.
func (s *site) asks(job string) string {
	s.Helper()
	return strings.Join(sizeFields.FindAllString(s.slurm("scontrol", "-o", "show", "job", job), -1), " ")
}

// holds is what a running job has: CPUs and memory.
func (s *site) holds(job string) string {
	s.Helper()
	out := s.slurm("squeue", "--noheader", "--jobs="+job, "--Format=State:|,NumCPUs:|,tres-alloc:|")
	m := regexp.MustCompile(`mem=([0-9.]+[MG]?)`).FindStringSubmatch(out)
	if !strings.HasPrefix(out, "RUNNING|") || m == nil {
		return strings.TrimSpace(out)
	}
	return strings.Split(out, "|")[1] + " " + m[1]
}

// Each way to ask for CPUs and memory on the real Slurm: resized, and started with
// exactly that, or left alone with the reason; what did not start is put back.
func TestSizesOfEachWay(t *testing.T) {
	const settings = "enabled = true\nwithin = \"5s\"\n"
	s := newSizingSite(t, lab.Options{ExtraFiles: map[string]string{"job_submit.lua": vetoes}, ExtraConf: []string{"JobSubmitPlugins=lua"}}, settings)
	// Eight CPUs for each GPU make it fast, one is enough for the others.
	hungry, modest := "--prio-cpu=a100:1x1-8x8", "--prio-cpu=a100:1x1-3x1"
	both := "--prio-mem=a100:1000x1-30000x2"
	ways := []struct {
		name, want string // CPUs and memory that it runs with; "" or "its own, because ..." for one left alone
		args       []string
	}{
		{"cpus", "1 2000M", []string{modest, "-c", "8", "--gres=gpu:1", "--mem-per-cpu=2000"}},
		{"tasks", "", []string{modest, "-N1", "-n", "2", "-c", "3", "--gres=gpu:2"}},
		{"per-gpu", "", []string{hungry, "--cpus-per-gpu=2", "--mem=16G", "--gres=gpu:1"}},
		{"mem", "", []string{modest, both, "-c", "3", "--mem=100G", "--gres=gpu:1"}},
		{"mem-per-gpu", "", []string{modest, both, "-c", "3", "--mem-per-gpu=100G", "--gpus=1"}},
		{"default", "", []string{hungry, "-p", "def", "--gres=gpu:1"}},
		{"array", "", []string{modest, "--array=1-2", "-c", "5", "--gres=gpu:1"}},
		{"exclusive", "node alone", []string{modest, "--exclusive", "--gres=gpu:1"}},
		{"nodes", "several nodes", []string{modest, "-N2", "-c", "4", "--gres=gpu:1"}},
		{"open", "tasks without", []string{modest, "-n", "2", "-c", "4", "--gres=gpu:1"}},
		{"veto", "not in this house", []string{modest, "-c", "6", "--gres=gpu:1"}},
	}
	s.open(false)
	ids := map[string]string{}
	for _, w := range ways {
		ids[w.name] = s.submit(append([]string{"--job-name=" + w.name, "--time=5", "--wrap", "sleep 600"}, w.args...)...)
	}
	before := map[string]string{}
	for name, id := range ids {
		before[name] = s.asks(id)
	}
	time.Sleep(time.Second)
	fmt.Println(s.priod("run", "--once"))
	for _, w := range ways {
		fmt.Println(w.name, before[w.name], "=>", s.asks(ids[w.name]))
		fmt.Println(s.must("explain", ids[w.name]))
	}
	s.open(true)
	time.Sleep(4 * time.Second)
	for _, w := range ways {
		fmt.Println(w.name, s.holds(ids[w.name]))
	}
	fmt.Println(s.slurm("sinfo", "-N", "-o", "%N %C %e %G"))
}
