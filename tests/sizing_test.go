package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// vetoes is a job_submit.lua that keeps the sizes of some jobs as they are: one by
// refusing each change, one by letting half of it through, one by refusing only what
// would give its own back.
const vetoes = `
function slurm_job_submit(job, part, uid) return slurm.SUCCESS end
function slurm_job_modify(job, rec, part, uid)
	if rec.name == "veto" and job.min_cpus ~= slurm.NO_VAL then
		slurm.log_user("not in this house")
		return slurm.ERROR
	end
	if rec.name == "stays" and job.min_cpus ~= slurm.NO_VAL and job.min_cpus > 4 then
		return slurm.ERROR
	end
	if rec.name == "half" and job.cpus_per_task < 6 then
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
	text := fmt.Sprintf("[slurm]\npartitions = [\"gpu\", \"def\"]\ncommand_timeout = \"60s\"\n[state]\ndir = %q\n[wake]\nlisten = []\n[sizing]\n%s\n",
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
	t.Parallel()
	const settings = "enabled = true\nstart_timeout = \"5s\"\n"
	s := newSizingSite(t, lab.Options{NoAccounting: true, ExtraFiles: map[string]string{"job_submit.lua": vetoes}, ExtraConf: []string{"JobSubmitPlugins=lua"}}, settings)
	// Its share of the CPUs makes it fast, or one is enough: no job is bound to a node.
	hungry, modest := "--prio-cpu=a100:1x1-3x3", "--prio-cpu=a100:1x1-3x1"
	memory := "--prio-mem=a100:1000x1-30000x1"
	ways := []struct {
		name, holds string // CPUs and memory that it runs with, "" for one that need not start
		says        string // explain
		args        []string
	}{
		{"cpus", "1 16000M", "gets 1 CPU and 16000 MB, expected at 1.00 times", []string{modest, "-c", "8", "--gres=gpu:1"}},
		{"tasks", "2 12000M", "its share of a node like", []string{modest, "-N1", "-n", "2", "-c", "3", "--gres=gpu:2"}},
		{"tasks-per-node", "2 12000M", "gets 2 CPUs", []string{modest, "--ntasks-per-node=2", "-N1", "-c", "3", "--gres=gpu:2"}},
		{"hungry", "3 16G", "expected at 3.00 times the speed (its tag's cpu)", []string{hungry, "-c", "1", "--mem=16G", "--gres=gpu:1"}},
		{"mem", "1 1000M", "its tag's cpu and mem", []string{modest, memory, "-c", "3", "--mem=100G", "--gres=gpu:1"}},
		{"mem-per-cpu", "1 1000M", "its tag's cpu and mem", []string{modest, memory, "-c", "3", "--mem-per-cpu=10G", "--gres=gpu:1"}},
		{"mem-per-gpu", "1 50000M", "it requests memory by GPU (--mem-per-gpu), which its script's environment keeps", []string{modest, memory, "-c", "3", "--mem-per-gpu=50000", "--gpus=1"}},
		{"default", "2 1000M", "2 CPUs and 1000 MB", []string{modest, memory, "-p", "def", "--gres=gpu:a100:1"}},
		{"array", "1 10000M", "gets 1 CPU and 10000 MB", []string{modest, "--array=1-2", "-c", "5", "--gres=gpu:1"}},
		{"by-gpu", "", "unchanged, because no curve is known for memory on a100; it requests CPUs by GPU (--cpus-per-gpu)", []string{hungry, "--cpus-per-gpu=2", "--mem=16G", "--gres=gpu:1"}},
		{"exclusive", "", "unchanged, because it requests its node alone", []string{modest, "--exclusive", "--gres=gpu:1"}},
		{"nodes", "", "unchanged, because it requests several nodes", []string{modest, "-N2", "-c", "4", "--gres=gpu:1"}},
		{"open", "", "unchanged, because it requests 2 tasks without --nodes=1", []string{modest, "-n", "2", "-c", "4", "--gres=gpu:1"}},
	}
	s.open(false)
	ids, own := map[string]string{}, map[string]string{}
	for _, w := range ways {
		ids[w.name] = s.submit(append([]string{"--job-name=" + w.name, "--time=5", "--wrap", "sleep 600"}, w.args...)...)
		own[w.name] = s.asks(ids[w.name])
	}
	s.eligible(len(ways))
	s.must("run", "--once")
	for _, w := range ways {
		if told := s.must("explain", ids[w.name]); !strings.Contains(told, w.says) {
			t.Errorf("%s: explain lacks %q:\n%s", w.name, w.says, told)
		}
		if now := s.asks(ids[w.name]); (now != own[w.name]) != (w.holds != "") {
			t.Errorf("%s asked\n%s, and now\n%s", w.name, own[w.name], now)
		}
	}
	for _, w := range ways {
		if w.holds == "" {
			s.slurm("scancel", ids[w.name])
		}
	}
	s.open(true)
	for _, w := range ways {
		if w.holds == "" {
			continue
		}
		id := ids[w.name]
		if w.name == "array" {
			id += "_2"
		}
		s.wait(w.name+" running with "+w.holds, func() bool {
			now := s.holds(id)
			if !strings.HasPrefix(now, "PENDING") && now != w.holds {
				t.Fatalf("%s runs with %s, want %s", w.name, now, w.holds)
			}
			return now == w.holds
		})
	}

	// More that is left alone, and none of it puzzles priod.
	s.clear()
	s.open(false)
	alone := []struct {
		name, says string
		args       []string
	}{
		{"whole", "unchanged, because it requests all memory of its node", []string{modest, "--mem=0", "-c", "4", "--gres=gpu:1"}},
		{"mincpus", "unchanged, because it requests --mincpus", []string{modest, "--mincpus=4", "--gres=gpu:1"}},
		{"het", "unchanged, because it is part of a heterogeneous job", []string{modest, "-c", "4", "--gres=gpu:1", ":", "-c", "4"}},
		{"falls", "its tag's cpu for a100 falls from 8 to 7 at 8: not used", []string{"--prio-cpu=a100:1x1-3x8-8x7", "-c", "4", "--gres=gpu:1"}},
		{"elsewhere", "its tag's cpu says nothing about a100", []string{"--prio-cpu=h100:1x1-3x8", "-c", "4", "--gres=gpu:1"}},
	}
	for _, w := range alone {
		ids[w.name] = s.submit(append([]string{"--job-name=" + w.name, "--time=5", "--wrap", "sleep 600"}, w.args...)...)
		own[w.name] = s.asks(ids[w.name])
	}
	s.eligible(len(alone) + 1) // het is two
	if out := s.must("run", "--once"); strings.Contains(out, "note:") || !strings.Contains(out, "nothing to write") {
		t.Errorf("jobs to be left alone puzzle priod:\n%s", out)
	}
	for _, w := range alone {
		if told := s.must("explain", ids[w.name]); !strings.Contains(told, w.says) || s.asks(ids[w.name]) != own[w.name] {
			t.Errorf("%s: explain lacks %q, or it is changed:\n%s\n%s", w.name, w.says, told, s.asks(ids[w.name]))
		}
	}

	s.clear()
	s.open(false)
	for _, name := range []string{"veto", "half"} {
		ids[name] = s.submit("--job-name="+name, "--time=5", modest, "-c", "6", "--gres=gpu:1", "--wrap", "sleep 600")
		own[name] = s.asks(ids[name])
	}
	s.eligible(2)
	out, _, status := s.priod("run", "--once")
	if status == 0 || !strings.Contains(out, "refused: Unspecified error") || !strings.Contains(out, "after the write; taken back") {
		t.Errorf("a change was refused and another one half made, and nobody says so:\n%s", out)
	}
	for _, name := range []string{"veto", "half"} {
		if now := s.asks(ids[name]); now != own[name] {
			t.Errorf("%s asks\n%s, its own was\n%s", name, now, own[name])
		}
	}

	// What cannot be given back is named, and is given back by a later reset.
	s.clear()
	stays := s.submit("--job-name=stays", "--time=5", modest, "-c", "6", "--gres=gpu:1", "--wrap", "sleep 600")
	stood := s.asks(stays)
	s.eligible(1)
	s.must("run", "--once")
	sized := s.asks(stays)
	out, _, status = s.priod("reset")
	if now := s.asks(stays); status == 0 || now != sized || sized == stood || !regexp.MustCompile(stays+` +Size .* refused: Unspecified error`).MatchString(out) || !strings.Contains(out, "1 failed") {
		t.Errorf("reset ends with %d, the job asks\n%s, its own was\n%s\n%s", status, now, stood, out)
	}
	s.slurm("scontrol", "update", "JobId="+stays, "JobName=goes")
	s.must("reset")
	if now := s.asks(stays); now != stood {
		t.Errorf("the next reset leaves\n%s, its own was\n%s", now, stood)
	}
	s.must("resume")

	// What jobs without GPUs take from free GPUs is told, with who they are.
	s.clear()
	s.open(true)
	greedy := s.submit("-c", "20", "--mem=1G", "-w", "a100-1", "--time=5", "--wrap", "sleep 600")
	if err := s.lab.WaitJob(s.Context(), greedy, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	told := s.must("report", "sizing")
	for _, want := range []string{
		"16 of 16 GPUs are free, 7 of them stranded", `a100-1 +a100 +8 +4 +\d+ +7 +1 +20 +1024\n`, greedy + ` +\S+ +a100-1 +20 +1024\n`,
	} {
		if !regexp.MustCompile(want).MatchString(told) {
			t.Errorf("report sizing lacks %s:\n%s", want, told)
		}
	}
}

// What was written and did not let its job start is given back: after a while, by
// reset, also without the database, and after a kill between the undo line and the
// write. What the user changes meanwhile is the user's, but for priod's node.
func TestSizesGivenBack(t *testing.T) {
	longOnly(t)
	t.Parallel()
	const settings = "enabled = true\nstart_timeout = \"5s\"\n"
	s := newSizingSite(t, lab.Options{NoAccounting: true}, settings)
	s.open(false)
	var job, own, neighbour string
	submit := func() {
		neighbour = s.submit("--prio-cpu=a100:1x1-3x1", "-c", "21", "--gres=gpu:7", "--time=5", "--wrap", "sleep 600") // leaves what the other takes
		job = s.submit("--prio-cpu=a100:1x1-8x8", "-c", "2", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
		own = s.asks(job)
		s.wait("the job in sprio", func() bool { return strings.Contains(s.slurm("sprio", "--noheader", "--format=%i"), job) })
	}
	sized := func() {
		t.Helper()
		s.must("run", "--once")
		if now := s.asks(job); !strings.Contains(now, "NumCPUs=8 ") || !strings.Contains(now, "ReqNodeList=a100-") {
			t.Fatalf("not sized: %s\n%s", now, s.must("explain", job))
		}
	}
	back := func(what string) {
		t.Helper()
		if now := s.asks(job); now != own {
			t.Fatalf("%s: the job asks\n%s, its own was\n%s", what, now, own)
		}
	}

	submit()
	sized()
	s.sleep(5 * time.Second)
	s.must("run", "--once")
	back("not started in time")
	if told := s.must("explain", job); !strings.Contains(told, "its own request restored, because it did not start within 5s on a100-") {
		t.Errorf("explain does not say it:\n%s", told)
	}

	s.must("run", "--once") // a new process knows of it
	back("rests")
	s.must("reset") // forgets it
	s.must("resume")
	sized()
	s.must("reset")
	back("reset")
	s.must("resume")

	sized()
	s.loseDatabase()
	s.must("reset")
	back("reset without the database")
	s.must("resume")

	sized()
	s.slurm("scontrol", "update", "JobId="+job, "MinMemoryCPU=3000")
	mine := regexp.MustCompile(`ReqNodeList=\S*`).ReplaceAllString(s.asks(job), "ReqNodeList=(null)")
	s.must("run", "--once")
	if told := s.must("explain", job); s.asks(job) != mine || !strings.Contains(told, "changed by another program") {
		t.Errorf("the user's own edit did not stay: %s\n%s", s.asks(job), told)
	}
	s.must("reset")
	if now := s.asks(job); now != mine {
		t.Errorf("reset changed the user's own: %s", now)
	}
	s.must("resume")

	// The scontrol that should write kills its caller instead.
	s.clear()
	submit()
	s.binDir = t.TempDir()
	real, err := exec.LookPath("scontrol")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"squeue", "sinfo", "sprio", "sdiag", "sacct", "sacctmgr", "scancel"} {
		if err := os.Symlink(filepath.Join(filepath.Dir(real), name), filepath.Join(s.binDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	killer := "#!/bin/sh\ncase \"$#$*\" in 0*|*NumCPUs=*) kill -9 $PPID; exit 1;; esac\nexec " + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(s.binDir, "scontrol"), []byte(killer), 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	killing := strings.Replace(string(text), "[slurm]\n", "[slurm]\nbin_dir = \""+s.binDir+"\"\n", 1)
	if err := os.WriteFile(s.config, []byte(killing), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _, status := s.priod("run", "--once"); status >= 0 {
		t.Fatalf("priod was not killed: %d\n%s", status, out)
	}
	back("killed before the write")
	if err := os.WriteFile(s.config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	sized()
	s.must("reset")
	back("reset after the kill")
	s.must("resume")

	s.sizing("enabled = true\nstart_timeout = \"5m\"\n") // three cycles on a busy machine take more than 5s

	// What the neighbour would have left is the share of the GPUs that are free without it.
	sized()
	s.slurm("scancel", neighbour)
	s.wait("the neighbour to be gone", func() bool { return !strings.Contains(s.slurm("squeue", "--noheader", "--format=%i"), neighbour) })
	s.must("run", "--once")
	back("its neighbour was cancelled")
	if told := s.must("explain", job); !strings.Contains(told, "would lack its share because of it now") {
		t.Errorf("explain does not say it:\n%s", told)
	}

	s.sizing("enabled = true\nstart_timeout = \"5m\"\n") // three cycles on a busy machine take more than 5s
	// An array of more tasks than GPUs comes to its sizes over several cycles. The last
	// task is what is left of the record, and all go back at once.
	for _, lost := range []bool{false, true} {
		s.clear()
		array := s.submit("--prio-cpu=a100:1x1-3x1", "--array=1-4", "-c", "20", "--gres=gpu:8", "--time=5", "--wrap", "sleep 600")
		own := s.asks(array)
		records := func() (all []string) {
			for line := range strings.Lines(s.slurm("scontrol", "-o", "show", "job", array)) {
				if asks := strings.Join(sizeFields.FindAllString(line, -1), " "); asks != "" {
					all = append(all, asks)
				}
			}
			return all
		}
		s.wait("the array in sprio", func() bool { return strings.Contains(s.slurm("sprio", "--noheader", "--format=%i"), array) })
		for range 3 {
			s.must("run", "--once")
		}
		if all := records(); len(all) != 4 || slices.Contains(all, own) {
			t.Errorf("the array's tasks, of their own %s, ask for\n%s\n%s", own, strings.Join(all, "\n"), s.must("explain", array))
		}
		if lost {
			s.loseDatabase()
		}
		s.must("reset")
		for _, now := range records() {
			if now != own {
				t.Errorf("reset (without the database: %v) leaves a task of the array with\n%s, its own is\n%s", lost, now, own)
			}
		}
		s.must("resume")
	}
}

// A user who changes the memory of a job that priod sized does not see to the node that
// priod named: the next priod lets the job go from there, and leaves the rest to its user.
func TestSizeThatItsUserChanges(t *testing.T) {
	t.Parallel()
	s := newSizingSite(t, lab.Options{NoAccounting: true}, "enabled = true\nstart_timeout = \"1m\"\n")
	s.open(false)
	submit := func(args ...string) string { return s.submit(append(args, "--time=5", "--wrap", "sleep 600")...) }
	s.slurm("scontrol", "update", "NodeName=a100-2", "State=DRAIN", "Reason=full")
	var ids []string
	for range 2 {
		ids = append(ids, submit("--gres=gpu:1", "-c", "3", "--mem=6000", "--prio-cpu=a100:3x1-12x3"))
	}
	submit("--gres=gpu:6", "-c", "18", "--mem=6000", "--prio-cpu=a100:1x1-3x1") // it leaves them what they gain from
	s.eligible(3)
	s.must("run", "--once")
	var users []string
	for i, verb := range []string{"run --once", "reset"} {
		id := ids[i]
		s.slurm("scontrol", "update", "JobId="+id, "MinMemoryNode=7000")
		before := s.asks(id)
		if !strings.Contains(before, "ReqNodeList=a100-") || !strings.Contains(before, "MinMemoryNode=7000M") {
			t.Fatalf("%s: %s", id, before)
		}
		want := regexp.MustCompile(`ReqNodeList=\S*`).ReplaceAllString(before, "ReqNodeList=(null)")
		s.must(strings.Fields(verb)...)
		if now := s.asks(id); now != want {
			t.Errorf("%s makes of\n%s\n%s, want\n%s\n%s", verb, before, now, want, s.must("explain", id))
		}
		users = append(users, want)
	}
	if now := s.asks(ids[0]); now != users[0] {
		t.Errorf("reset makes of its user's own\n%s\n%s", users[0], now)
	}
}
