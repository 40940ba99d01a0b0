package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// steps is the script of a job that runs srun in every way that people do, and says
// what became of it. A step that never starts ends with status 124.
const steps = `#!/bin/bash
{
	echo "has $SLURM_CPUS_ON_NODE"
	echo "step $(timeout -k 5 60 srun --ntasks=1 --nodes=1 --overlap sh -c 'echo $SLURM_CPUS_ON_NODE')"
	run() {
		for try in 1 2 3 4 5; do
			timeout -k 5 60 srun "$@" true > %[1]s/words.$SLURM_JOB_ID 2>&1 && return
			status=$?
			sleep 1
		done
		echo "srun $*: $status: $(tr '\n' ' ' < %[1]s/words.$SLURM_JOB_ID)"
	}
	run
	run -n1
	%[2]s
} > %[1]s/$SLURM_JOB_NAME.out 2>&1
mv %[1]s/$SLURM_JOB_NAME.out %[1]s/$SLURM_JOB_NAME.done
sleep 1
`

// withOptions are steps with options of their own.
const withOptions = `run -n1 -c1
	run -n1 --mem=100
	run -n1 --gres=gpu:1
	run -n1 --gpus=1
	run -n1 -c1 --mem=100 --exact`

// stepWay is a job that asks in one way, and what of it changes.
type stepWay struct {
	name    string
	args    string
	changes string // "both", "memory", "CPUs", "some": as far as this Slurm shows it; "" for nothing
	says    string // explain, beside that
}

// lowered ask for more than they use, raised for less.
var (
	lowered = []stepWay{
		{"c", "-c 4 --mem=8G --gres=gpu:1", "both", ""},
		{"c-gpus", "-c 4 --mem=8G --gpus=1", "both", ""},
		{"c-mem-per-cpu", "-c 4 --mem-per-cpu=2G --gres=gpu:1", "both", ""},
		{"tasks", "-N1 -n 2 -c 4 --mem=8G --gpus=2", "both", ""},
		{"gpus-per-task", "-N1 -n 2 --gpus-per-task=1 -c 4 --mem=8G", "both", ""},
		{"tasks-per-node", "-N1 --ntasks-per-node=2 -c 4 --mem=8G --gres=gpu:2", "both", ""},
		{"cpus-per-gpu", "--cpus-per-gpu=4 --mem=8G --gres=gpu:1", "memory", "--cpus-per-gpu"},
		{"cpus-per-gpu-mem-per-cpu", "--cpus-per-gpu=4 --mem-per-cpu=2G --gpus=1", "memory", "--cpus-per-gpu"},
		{"mem-per-gpu", "-c 4 --mem-per-gpu=8G --gres=gpu:1", "CPUs", "--mem-per-gpu"},
		{"by-gpu", "--cpus-per-gpu=4 --mem-per-gpu=8G --gres=gpu:1", "", "--cpus-per-gpu"},
		{"default-c", "-p def -c 4 --gres=gpu:1", "some", ""},
		{"exclusive", "--exclusive --mem=8G --gres=gpu:1", "", "its node alone"},
	}
	raised = []stepWay{
		{"c", "-c 2 --mem=4G --gres=gpu:1", "both", ""},
		{"plain", "--gres=gpu:1", "both", ""},
		{"c-mem-per-cpu", "-c 1 --mem-per-cpu=2G --gres=gpu:1", "both", ""},
		{"tasks", "-N1 -n 2 -c 1 --mem=4G --gpus=2", "both", ""},
		{"gpus-per-task", "-N1 -n 2 --gpus-per-task=1 -c 1 --mem=4G", "both", ""},
		{"cpus-per-gpu", "--cpus-per-gpu=1 --mem=4G --gres=gpu:1", "memory", "--cpus-per-gpu"},
		{"mem-per-gpu", "--mem-per-gpu=4G --gres=gpu:1", "CPUs", "--mem-per-gpu"},
		{"mem-per-gpu-c", "-c 2 --mem-per-gpu=4G --gres=gpu:1", "CPUs", "--mem-per-gpu"},
		{"by-gpu", "--cpus-per-gpu=1 --mem-per-gpu=4G --gres=gpu:1", "", "--mem-per-gpu"},
		{"default", "-p def --gres=gpu:1", "some", ""},
		{"default-c", "-p def -c 2 --gres=gpu:1", "some", ""},
		{"tasks-per-gpu", "--ntasks-per-gpu=1 --gpus=1 --mem=4G", "", "tasks by GPU"},
		{"all-memory", "-w a100-2 --mem=0 --gres=gpu:1", "", "all memory"},
	}
)

// A job that was sized runs srun, plain and with options, whichever way it asked, and
// its steps have all that it got. What its script's environment keeps is not changed.
func TestSizedJobsRunSteps(t *testing.T) {
	longOnly(t)
	t.Parallel()
	s := newSizingSite(t, lab.Options{NoAccounting: true}, "enabled = true\nstart_timeout = \"5m\"\n")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, round := range []struct {
		name, cpu, mem string
		ways           []stepWay
	}{
		{"lowered", "a100:1x1-3x1", "a100:1000x1-100000x1", lowered},
		{"raised", "a100:1x1-8x8", "a100:1000x1-50000x5", raised},
	} {
		s.clear()
		s.open(false)
		ids, own := map[string]string{}, map[string]string{}
		for _, w := range round.ways {
			name := round.name + "-" + w.name
			options := withOptions
			if w.changes == "" { // what Slurm makes of it is its own
				options = ""
			}
			script := s.script(name, fmt.Sprintf(steps, dir, options))
			args := append([]string{"--job-name=" + name, "--time=5", "--prio-cpu=" + round.cpu, "--prio-mem=" + round.mem}, strings.Fields(w.args)...)
			ids[w.name] = s.submit(append(args, script)...)
			own[w.name] = s.asks(ids[w.name])
		}
		s.eligible(len(round.ways))
		if out := s.must("run", "--once"); strings.Contains(out, "note:") {
			t.Errorf("%s jobs puzzle priod:\n%s", round.name, out)
		}
		for _, w := range round.ways {
			now, told := s.asks(ids[w.name]), s.must("explain", ids[w.name])
			if w.changes != "some" && changed(own[w.name], now) != w.changes || !strings.Contains(told, w.says) {
				t.Errorf("%s: %s\nasked\n%s, and now\n%s\n%s", round.name, w.name, own[w.name], now, told)
			}
			t.Logf("%s %s: %s -> %s", round.name, w.name, own[w.name], now)
		}
		s.open(true)
		for _, w := range round.ways {
			checkSteps(s, filepath.Join(dir, round.name+"-"+w.name+".done"))
		}
	}
}

// changed tells what of a job's size was changed.
func changed(own, now string) string {
	part := func(words, pattern string) string {
		return strings.Join(regexp.MustCompile(pattern).FindAllString(words, -1), " ")
	}
	const cpus, memory = `(?:NumCPUs|CPUs/Task|MinCPUsNode|CpusPerTres)=\S*`, `(?:MinMemory\w+|MemPerTres)=\S*`
	switch c, m := part(own, cpus) != part(now, cpus), part(own, memory) != part(now, memory); {
	case c && m:
		return "both"
	case c:
		return "CPUs"
	case m:
		return "memory"
	}
	return ""
}

// checkSteps waits for what a script says of its steps.
func checkSteps(s *site, file string) {
	s.Helper()
	var said []byte
	s.wait(filepath.Base(file), func() (ended bool) {
		var err error
		said, err = os.ReadFile(file)
		return err == nil
	})
	has, rest, _ := strings.Cut(string(said), "\n")
	step, failed, _ := strings.Cut(rest, "\n")
	has, step = strings.TrimPrefix(has, "has "), strings.TrimPrefix(step, "step ")
	if has == "" || failed != "" || step == "" {
		s.Errorf("%s: has %s CPUs, a step %s\n%s", filepath.Base(file), has, step, failed)
	}
	s.Logf("%s: has %s CPUs, a step %s", filepath.Base(file), has, step)
}
