package slurmplug_test

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

// askedWays are jobs that ask for CPUs, memory and GPUs in each way that sbatch knows,
// and such as are hard to read.
var askedWays = []struct{ name, args string }{
	{"plain", "--gres=gpu:1"},
	{"cpus", "-c 8 --gres=gpu:1"},
	{"tasks", "-N1 -n 2 -c 3 --gres=gpu:2"},
	{"tasks-mem", "-N1 -n 2 -c 3 --gres=gpu:2 --mem=8G"},
	{"tasks-open", "-n 2 -c 3 --gres=gpu:2"},
	{"tasks-per-node", "-N1 --ntasks-per-node=2 -c 3 --gres=gpu:2"},
	{"per-gpu", "--cpus-per-gpu=4 --gpus=2"},
	{"per-gpu-mem", "--cpus-per-gpu=4 --gpus=2 --mem=8G"},
	{"per-gpu-typed", "--cpus-per-gpu=4 --gres=gpu:a100:2"},
	{"mem", "-c 4 --mem=20G --gres=gpu:1"},
	{"mem-alone", "--mem=20G --gres=gpu:1"},
	{"mem-odd", "-c 4 --mem=20001 --gres=gpu:1"},
	{"mem-per-cpu", "-c 4 --mem-per-cpu=1500 --gres=gpu:1"},
	{"mem-per-gpu", "--cpus-per-gpu=4 --mem-per-gpu=10G --gres=gpu:2"},
	{"mem-per-gpu-cpus", "-c 4 --mem-per-gpu=10G --gpus=2"},
	{"mem-all", "-c 4 --mem=0 --gres=gpu:1"},
	{"per-task", "-N1 -n 2 --gpus-per-task=1 -c 3"},
	{"per-task-mem", "-N1 -n 2 --gpus-per-task=a100:1 -c 3 --mem=8G"},
	{"gpus-per-node", "-N1 --gpus-per-node=a100:2 -c 3 --mem=8G"},
	{"per-socket", "-N1 --sockets-per-node=1 --gpus-per-socket=1 -c 2 --mem=8G"},
	{"tres-per-task", "-N1 -n 1 --tres-per-task=cpu:3,gres/gpu:1 --mem=8G"},
	{"exclusive", "--exclusive --gres=gpu:1"},
	{"exclusive-user", "--exclusive=user --gres=gpu:1 --mem=1G"},
	{"share", "--oversubscribe --gres=gpu:1 --mem=1G"},
	{"alone-partition", "-p alone --gres=gpu:1 --mem=1G"},
	{"nodes", "-N2 -c 4 --gres=gpu:1"},
	{"per-gpu-tasks", "--ntasks-per-gpu=2 --gpus=2 -c 2"},
	{"mincpus", "--mincpus=6 --gres=gpu:1"},
	{"hint", "-c 4 --hint=nomultithread --gres=gpu:1"},
	{"overcommit", "-N1 -O -n 4 --gres=gpu:1"},
	{"none", "-c 4 --mem=4G"},
	{"exclude", "-c 4 -x a100-1 --gres=gpu:1"},
	{"named", "-c 4 -w a100-1 --gres=gpu:1"},
	{"default", "-p def --gres=gpu:1"},
	{"default-cpus", "-p def -c 8 --gres=gpu:1"},
	{"default-mem", "-p def --mem=20G --gres=gpu:1"},
	{"default-both", "-p def -c 4 --mem=20G --gres=gpu:1"},
	{"default-mem-per-cpu", "-p def --mem-per-cpu=3G --gres=gpu:1"},
	{"default-mem-all", "-p def -c 4 --mem=0 --gres=gpu:1"},
	{"default-gpus", "-p def --gres=gpu:a100:2"},
	{"hostile NumCPUs=1 UserId=x(5)", "-c 4 --mem=4G --gres=gpu:1"},
	{"odd\nJobId=7 JobName=x", "-c 4 --mem=4G --gres=gpu:1"},
	{"comment", "-c 4 --mem=4G --gres=gpu:1 --comment=prio:cpu=a100:1x1-4x2&v=1\tMinMemoryNode=9\tReqNodeList=a100-2\tTresPerNode=gres:gpu:4"},
	{"path", "-c 4 --mem=4G --gres=gpu:1 --output=/dev/null/x\tTresPerJob=gres:gpu:9\tMemPerTres=gpu:5 --chdir=/ --mail-type=END --mail-user=a@example.org\tCpusPerTres=gpu:3"},
	{"array", "--array=1-3 -c 4 --gres=gpu:1"},
	{"het", "-c 2 --gres=gpu:1 --begin=now+1day : -c 2"},
}

// TestRecordAsked records what scontrol shows of jobs that ask in each way.
func TestRecordAsked(t *testing.T) {
	if !*record {
		t.Skip("-record records testdata/ anew")
	}
	o := labOptions("asked")
	o.Partitions = append(o.Partitions, "def Nodes=ALL MaxTime=INFINITE State=UP DefCpuPerGPU=4 DefMemPerGPU=8192",
		"alone Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE")
	l := lab.ForTest(t, o)
	_, r := recorded(t, l)
	var all strings.Builder
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)
	show := func(heading, id string) {
		out := run(t, l.Client, "scontrol", "--oneliner", "show", "job", id)
		if strings.Contains(heading, "het") {
			out = strings.SplitAfterN(out, "\n", 2)[0]
		}
		fmt.Fprintf(&all, "# %s\n%s", heading, times.ReplaceAllString(r.scrub.Replace(out), "2026-11-21T11:00:00"))
	}
	for _, w := range askedWays {
		args := []string{"--output=/dev/null", "--job-name=" + w.name, "--begin=now+1day", "--chdir=/"}
		for arg := range strings.SplitSeq(w.args, " ") {
			args = append(args, strings.ReplaceAll(arg, "\t", " "))
		}
		id, err := l.Client.Sbatch(t.Context(), append(args, "--wrap=sleep 600")...)
		if err != nil {
			t.Logf("%s: %v", w.name, err) // not every Slurm takes each
			continue
		}
		show(fmt.Sprintf("%q: %s", w.name, strings.ReplaceAll(w.args, "\t", " ")), id)
	}
	id := submit(t, l.Client, "running", "-c", "2", "--mem=100", "--gres=gpu:1")
	if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	show(`"running"`, id)
	if err := os.WriteFile(filepath.Join(r.dir, "asked.out"), []byte(all.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
