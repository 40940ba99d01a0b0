package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/slurmplug/sbatch"
)

const (
	canaryTail = " --ignore-pbs --job-name=s.sh-canary --nodes=1 --ntasks=1 --parsable --time=12 /dev/stdin"
	canaryMark = "--comment=prio:type=te&v=1"
)

// planned is what --prio-print shows of a submission with a canary of 10 minutes.
func planned(t *testing.T, env []string, lines string, args ...string) (canary, full, stderr string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir+"/s.sh", "#!/bin/sh\n"+lines+"true\n")
	if !slices.ContainsFunc(args, func(a string) bool { return a == "s.sh" || strings.HasPrefix(a, "--wrap") }) {
		args = append(args, "s.sh")
	}
	o := call{args: append([]string{"--prio-print", "--prio-canary=10m"}, args...), env: env, dir: dir}.run(t)
	if o.code != 0 {
		if o.code != exitUsage || o.stdout != "" || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%q: exit status %d, %q, %q", args, o.code, o.stdout, o.stderr)
		}
		return "", "", strings.TrimSpace(strings.TrimPrefix(o.stderr, "sbatchwrap: "))
	}
	real := program(t, recordOnce)
	for line := range strings.Lines(o.stdout) {
		if rest, ok := strings.CutPrefix(line, "canary: "+real+" "); ok {
			canary = strings.TrimSpace(strings.ReplaceAll(rest, "'", ""))
		} else if rest, ok := strings.CutPrefix(line, "runs: "+real+" "); ok {
			full = strings.TrimSpace(strings.ReplaceAll(rest, "'", ""))
		}
	}
	return canary, full, o.stderr
}

// TestCanaryOptions holds what a canary keeps of the full job's options, which may
// stand in the script, in variables or on the command line.
func TestCanaryOptions(t *testing.T) {
	for _, c := range []struct {
		env   []string
		lines string
		args  string
		want  string // before what every canary has
	}{
		{nil, "", "", ""},
		{nil, "#SBATCH -N4 -n 64 --gres=gpu:a100:8 -c 4 --mem=500G --time=3-0\n", "-A physics --mail-type=ALL", "--account=physics --cpus-per-task=4 --gres=gpu:a100:1 --mail-type=ALL --mem=500G"},
		{nil, "", "--gres=lustre:2,gpu:4,nvme:100G", "--gres=lustre:2,gpu:1,nvme:100G"},
		{nil, "", "--gres=gpu:a100:4,gpu:v100:2", "--gres=gpu:a100:1"},
		{nil, "", "--gres=gpu", "--gres=gpu:1"},
		{nil, "", "--gres=gpu:0", "--gres=gpu:0"},
		{nil, "", "--gres=shard:4", "--gres=shard:4"},
		{nil, "", "-G16 --gpus-per-node=8 --ntasks-per-node=8", "--gpus=1 --gpus-per-node=1 --ntasks-per-node=1"},
		{nil, "", "--gpus=a100:8,v100:8", "--gpus=a100:1"},
		{nil, "", "--gpus-per-task=a100:2 --ntasks=8 --gpu-bind=map_gpu:0,1 --cpus-per-gpu=8 --mem-per-gpu=40G", "--cpus-per-gpu=8 --gpus-per-task=a100:1 --mem-per-gpu=40G"},
		{nil, "", "--tres-per-task=cpu=4,gres/gpu:a100=2", "--tres-per-task=cpu=4,gres/gpu:a100=1"},
		{nil, "", "--gpus=2 --ntasks-per-gpu=1 --mincpus=64 --exclusive --contiguous --switches=1 --sockets-per-node=2 -S4 -m arbitrary", "--gpus=1"},
		{nil, "#SBATCH --signal=B:USR1@600 --time-min=60 --deadline=now+2days --begin=now+1hour -H --nice=5\n", "", "--begin=now+1hour --deadline=now+2days --hold --nice=5"},
		{nil, "", "-C a100&ib --exclude=n1 -w n7", "--constraint=a100&ib --exclude=n1 --nodelist=n7"},
		{nil, "", "-o run.out -e run-%j.err", "--error=run-%j.err --output=run.out.canary"},
		{nil, "", "-o %A_%a.out -e %x.err", "--error=%x.err.canary --output=%A_%a.out.canary"},
		{nil, "", "-o log%%j -e log\\%j", "--error=log%j.canary --output=log%%j.canary"}, // sbatch.CommandLine shows no backslash here
		{nil, "", "-o /dev/null -e none", "--error=none --output=/dev/null"},
		{nil, "", "-o %4j -e %3A", "--error=%3A.canary --output=%4j"},

		// Variables stay where they count for the canary, too.
		{[]string{"SBATCH_PARTITION=gpu", "SBATCH_GPUS=8", "SBATCH_OUTPUT=x", "SBATCH_TIMELIMIT=60", "SBATCH_EXCLUSIVE=", "SBATCH_REQUEUE=1"}, "", "", "--gpus=1 --output=x.canary"},
	} {
		canary, full, stderr := planned(t, c.env, c.lines, strings.Fields(c.args)...)
		want := strings.TrimSpace(c.want + " " + canaryMark + canaryTail)
		if slices.Contains(c.env, "SBATCH_REQUEUE=1") {
			want = strings.Replace(want, " /dev/stdin", " --requeue /dev/stdin", 1)
		}
		canary = strings.ReplaceAll(canary, `\`, "")
		if d := cmp.Diff(strings.Fields(want), strings.Fields(canary)); d != "" || stderr != "" {
			t.Errorf("%q %q: %s\n%s", c.lines, c.args, stderr, d)
		}
		wantFull := strings.TrimSpace(c.args + " --kill-on-invalid-dep=yes --dependency=afterok:CANARY s.sh")
		if full != wantFull {
			t.Errorf("full job: %s, want %s", full, wantFull)
		}
	}
}

// TestCanaryOwn holds what the canary has of its own, and the full job's part.
func TestCanaryOwn(t *testing.T) {
	for _, c := range []struct {
		lines, args       string
		canary, not, full string
	}{
		{"", "-J train", "--job-name=train-canary", "", "-J train"},
		{"", "--wrap=true", "--job-name=wrap-canary", "--wrap", "--wrap=true"},
		{"", "s.sh a : b", "/dev/stdin a b", "", "s.sh a : b"},
		{"", "--array=3-9%2", "--array=3", "--array=3-9", "--array=3-9%2"},
		{"#SBATCH -a [7,1-5]\n", "-o %A_%a.out", "--array=7 ", ".canary", ""},
		{"", "--exclusive=user", "--exclusive=user", "", ""},
		{"", "--gpus-per-socket=a100:2 --sockets-per-node=2", "--gpus-per-node=a100:1", "socket", ""},
		{"", "--no-requeue", "--no-requeue", "", ""},
		{"", "--requeue=expedite", "--requeue ", "expedite", ""},
		{"", "--comment=mine --prio-type=be", canaryMark + " mine", "", "--comment=prio:type=be&v=1 mine"},
		{"#SBATCH --comment='prio:type=be&v=1 mine'\n", "", canaryMark + " mine", "type=be", "--dependency=afterok:CANARY s.sh"},
		{"#SBATCH -d afterok:5:6,afterany:7\n", "", "--dependency=afterok:5:6,afterany:7", "", "--dependency=afterok:CANARY,afterok:5:6,afterany:7"},
		{"", "-d afterok:5", "--kill-on-invalid-dep=yes", "", "--kill-on-invalid-dep=yes"},
		{"", "-d afterok:5 --kill-on-invalid-dep=no", "--kill-on-invalid-dep=no", "=yes", "--kill-on-invalid-dep=no --dependency=afterok:CANARY,afterok:5 s.sh"},
		{"", "-d singleton -J x", "--job-name=x ", "-canary", "--dependency=afterok:CANARY,singleton"},
		{"#PBS -l nodes=4\n", "--ignore-pbs", "--ignore-pbs", "", ""},
		{"", "--parsable -Q -v", "--verbose", "quiet", "--parsable -Q -v"},
		{"", "--prio-canary=30s", "--time=3 ", "", ""},
		{"", "--prio-canary=1:00:01", "--time=63 ", "", ""},
	} {
		canary, full, stderr := planned(t, nil, c.lines, strings.Fields(c.args)...)
		if stderr != "" || !strings.Contains(canary+" ", c.canary) || c.not != "" && strings.Contains(canary, c.not) || !strings.Contains(full, c.full) {
			t.Errorf("%q %q: %s\ncanary: %s\nfull:   %s", c.lines, c.args, stderr, canary, full)
		}
	}
}

// TestNoCanary holds what is refused, with nothing submitted, and what leaves the canary out.
func TestNoCanary(t *testing.T) {
	const no = "--prio-canary cannot be combined with "
	for _, c := range []struct{ lines, args, want string }{
		{"", "-N1 : -N2", no + "a heterogeneous job: submit a job of one of its parts first, and the whole with --dependency=afterok:ID"},
		{"#SBATCH hetjob\n", "", no + "a heterogeneous job"},
		{"", "--wait", no + "--wait: sbatch would end with 0 for a job that was cancelled because its canary failed"},
		{"#SBATCH -W\n", "", no + `--wait (script "s.sh", line 2): `},
		{"#SBATCH --test-only\n", "", no + `--test-only (script "s.sh", line 2): `},
		{"", "-M a,b", no + "--clusters: both jobs have to be on one cluster: name one"},
		{"", "-C rack1*2", no + "--constraint: the canary has one node, and this counts nodes"},
		{"", "-w n[1-4]", no + "--nodelist: the canary has one node: name one, nodes to avoid, or a constraint"},
		{"", "-F /tmp/hosts", no + "--nodefile: "},
		{"", "-d afterok:5?afterok:6", no + `--dependency: the job has to wait for the canary and for one of others, and Slurm knows either "and" or "or"`},
		{"", "--export-file=5", no + "--export-file: "},
		{"", "--array=x", no + "--array: "},
		{"#PBS -l nodes=4\n", "", `--prio-canary does not read #PBS lines (script "s.sh"): write #SBATCH lines, or give --ignore-pbs`},
		{"#BB_LUA pool\n", "", no + "burst buffers "},
		{"", "--wrap=true s.sh", "--prio-canary: there is a script beside --wrap, and sbatch takes one of them"},
		{"#SBATCH stray\n", "", `script "s.sh", line 2: "stray" is no option`},
		{"", "--hold=1", "command line: option --hold takes no value"},
		{"", "--prio-canary=0", `command line: --prio-canary "0": want a time such as 5 (minutes), 5:00, 1-12:00:00, 90s or 1h30m; whole seconds, not 0; or no`},
		{"#PRIO --prio-canary=soon\n", "", `script "s.sh", line 2: --prio-canary "soon": want a time`},
		{"", "--comment=prio:v=1 --prio-type=be", "the job's comment already begins with a tag"},
	} {
		canary, _, stderr := planned(t, nil, c.lines, strings.Fields(c.args)...)
		if canary != "" || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%q %q: %q %q", c.lines, c.args, canary, stderr)
		}
	}
	for _, args := range []string{"--test-only", "--prio-canary=no"} {
		if canary, full, stderr := planned(t, nil, "", strings.Fields(args)...); canary != "" || stderr != "" || strings.Contains(full, "dependency") || full == "" {
			t.Errorf("%s: %q %q %q", args, canary, full, stderr)
		}
	}
	if canary, _, _ := planned(t, []string{"SBATCHWRAP_CANARY=5m"}, "#PRIO --prio-canary 7m\n"); !strings.Contains(canary, "--time=12 ") {
		t.Errorf("command line over variable and script: %s", canary)
	}
}

// TestCanaryScript runs canaries' scripts as a node would.
func TestCanaryScript(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, text string
		args       []string
		code       int
		stdout     string
		lived      bool
	}{
		{"arguments", "#!/bin/sh\necho \"$SLURMPRIO_CANARY:$2:$(basename \"$0\")\"\n", []string{"", "a  '$(x)\n"}, 0, "1:a  '$(x)\n:slurm_script\n", false},
		{"fails", "#! /bin/sh -e \t\nfalse\necho no", nil, 1, "", false},
		{"killed", "#!/bin/sh\nkill -KILL $$\n", nil, 137, "", false},
		{"ends with 124", "#!/bin/sh\nexit 124\n", nil, 124, "", false},
		{"no newline at the end", "#!/bin/sh\nprintf x", nil, 0, "x", false},
		{"interpreter with blanks", "#!/usr/bin/env\tsh\necho y\n", nil, 0, "y\n", false},
		{"interpreter that is not there", "#!/nowhere/it's -x\n", nil, 127, "", false},
		{"not our last line", "#!/bin/cat\nexit $status\n# The script:\n", nil, 0, "#!/bin/cat\nexit $status\n# The script:\n", false},
		{"lives", "#!/bin/sh\ntrap '' TERM\nexec sleep 100\n", nil, 0, "", true},
	} {
		lasts := time.Minute
		if c.lived {
			lasts = 2 * time.Second
		}
		path := writeFile(t, filepath.Join(dir, "slurm_script"), string(limited([]byte(c.text), lasts)))
		cmd := exec.Command(path, c.args...)
		tmp := t.TempDir()
		cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + tmp}
		o := finish(t, cmd)
		left, _ := os.ReadDir(tmp)
		if o.code != c.code || o.stdout != c.stdout || strings.Contains(o.stderr, "lived for 2 s") != c.lived || len(left) > 0 {
			t.Errorf("%s: %+v, left %v", c.name, o, left)
		}
	}
	for _, text := range []string{"", "true\n", "#!\ntrue\n", "#! \t\n"} {
		if got := string(limited([]byte(text), time.Minute)); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestCanarySubmissions lets a program stand for sbatch that says what a real one would.
func TestCanarySubmissions(t *testing.T) {
	bin := t.TempDir()
	writeFile(t, bin+"/sbatch", `#!/bin/sh
echo "sbatch $*" >>"$LOG"
env | grep -E '^(SBATCH_TIMELIMIT|SLURMPRIO_CANARY)=' >>"$LOG"
case $* in
  *--dependency=afterok:41*) [ -z "$REFUSE_FULL" ] || { echo "sbatch: error: no" >&2; exit 3; }; cat | head -1 >>"$LOG"; echo "Submitted batch job 42" ;;
  *) [ -z "$REFUSE_CANARY" ] || { echo "sbatch: error: not even that" >&2; exit 4; }; grep ^echo >>"$LOG"; echo "Welcome to batch"; echo "$SAYS" ;;
esac
`)
	writeFile(t, bin+"/scancel", "#!/bin/sh\necho \"scancel $*\" >>\"$LOG\"\nexit ${SCANCEL:-0}\n")
	const (
		stdin  = "#!/bin/sh -u\necho piped\n"
		canary = "sbatch " + canaryMark + " --ignore-pbs --job-name=sbatch-canary --nodes=1 --ntasks=1 --parsable --time=12 "
		first  = canary + "/dev/stdin\necho piped\n"
		full   = "sbatch --kill-on-invalid-dep=yes --dependency=afterok:41\nSBATCH_TIMELIMIT=5\n#!/bin/sh -u\n"
		begun  = "sbatchwrap: canary job 41 runs first, for 10m0s at most\n"
	)
	for _, c := range []struct {
		name           string
		env            string
		args           string
		log            string
		code           int
		stdout, stderr string
	}{
		{"both", "SAYS=41", "", first + full, 0, "Submitted batch job 42\n", begun},
		{"quiet", "SAYS=41", "-Q", first + strings.Replace(full, "sbatch ", "sbatch -Q ", 1), 0, "Submitted batch job 42\n", ""},
		{"the canary is refused", "REFUSE_CANARY=1", "", canary + "/dev/stdin\n", 4, "", "sbatch: error: not even that\n"},
		{"the full job is refused", "REFUSE_FULL=1", "", first + "sbatch --kill-on-invalid-dep=yes --dependency=afterok:41\nSBATCH_TIMELIMIT=5\nscancel 41\n", 3, "",
			begun + "sbatch: error: no\nsbatchwrap: the full job was not submitted; canary job 41 is cancelled\n"},
		{"on another cluster", "REFUSE_FULL=1", "-M far", strings.Replace(first, "sbatch ", "sbatch --clusters=far ", 1) + "sbatch -M far --kill-on-invalid-dep=yes --dependency=afterok:41\nSBATCH_TIMELIMIT=5\nscancel --clusters=far 41\n", 3, "",
			begun + "sbatch: error: no\nsbatchwrap: the full job was not submitted; canary job 41 is cancelled\n"},
		{"it stays", "REFUSE_FULL=1 SCANCEL=1", "", first + "sbatch --kill-on-invalid-dep=yes --dependency=afterok:41\nSBATCH_TIMELIMIT=5\nscancel 41\n", 3, "",
			begun + "sbatch: error: no\nsbatchwrap: warning: the full job was not submitted, and its canary could not be cancelled (exit status 1, \"\"): scancel 41\n"},
		{"no id", "SAYS=x", "", first, 1, "", "sbatchwrap: sbatch did not say the canary's job id, but \"Welcome to batch\\nx\\n\": the full job was not submitted\n"},
	} {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.Command(program(t, wrapperOnce), append([]string{"--prio-canary=10m"}, strings.Fields(c.args)...)...)
		says := "41"
		if strings.Contains(c.args, "-M") {
			says = "41;far"
		}
		cmd.Env = append([]string{"PATH=/usr/bin:/bin", "SBATCHWRAP_SBATCH=" + bin + "/sbatch", "LOG=" + log, "SAYS=" + says, "SBATCH_TIMELIMIT=5", "SLURMPRIO_CANARY=1"}, strings.Fields(c.env)...)
		cmd.Stdin = strings.NewReader(stdin)
		o := finish(t, cmd)
		got, _ := os.ReadFile(log)
		if d := cmp.Diff(c.log, string(got)); d != "" || o.code != c.code || o.stdout != c.stdout || o.stderr != c.stderr {
			t.Errorf("%s: %+v\n%s", c.name, o, d)
		}
	}
}

// However a job asks for what a canary does not get, sbatch reads nothing of it for
// the canary, and all else as for the job.
func TestCanaryIsSmall(t *testing.T) {
	grammar := sbatch.For(2605)
	large := []string{"--nodes=4", "-n 64", "--ntasks-per-node=8", "--ntasks-per-gpu=2", "--gres=gpu:a100:8,nvme:1", "--gpus=16", "-G a100:4", "--gpus-per-node=8",
		"--gpus-per-task=2", "--gpus-per-socket=4", "--tres-per-task=gres/gpu=4", "--exclusive", "--array=4-9", "--mincpus=9", "--gpu-bind=single:4", "--signal=USR1@900",
		"--time=99", "--time-min=9", "--requeue", "--no-requeue", "--switches=1", "--contiguous", "--core-spec=2", "-J x", "--comment=c", "--parsable"}
	other := []string{"--mem=9G", "--partition=p", "--qos=q", "-C ssd", "--account=a", "--hold", "--begin=now+9", "--export=NONE", "--cpus-per-task=8", "--spank=1"}
	variables := []string{"SBATCH_GPUS=8", "SBATCH_GRES=gpu:8", "SBATCH_GPUS_PER_NODE=8", "SBATCH_GPUS_PER_TASK=8", "SBATCH_GPUS_PER_SOCKET=2", "SBATCH_TRES_PER_TASK=gres/gpu:2", "SBATCH_ARRAY_INX=1-5",
		"SBATCH_EXCLUSIVE=", "SBATCH_TIMELIMIT=9", "SBATCH_SIGNAL=TERM", "SBATCH_QOS=r", "SBATCH_NO_REQUEUE=1", "SBATCH_REQUEUE=1", "SBATCH_JOB_NAME=e", "SBATCH_MEM_PER_NODE=4G"}
	rapid.Check(t, func(t *rapid.T) {
		some := func(of []string, label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 6, rapid.ID).Draw(t, label)
		}
		text := "#!/bin/sh\n"
		for _, o := range some(slices.Concat(large, other), "script") {
			text += "#SBATCH " + o + "\n"
		}
		var args []string
		for _, o := range some(slices.Concat(large, other), "arguments") {
			if o[1] == '-' {
				args = append(args, o)
			} else {
				args = append(args, strings.Fields(o)...)
			}
		}
		env := some(variables, "environment")
		g := grammar.With(&sbatch.Option{Name: "spank", Arg: sbatch.Required})
		cmd, err := g.ParseArgs(append(args, "s.sh"))
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := g.Resolve(cmd, []byte(text), env)
		if err != nil {
			t.Fatal(err)
		}
		c, err := newCanary(cmd, jobs[0], &script{name: "s.sh", text: []byte(text)}, time.Minute, env)
		if err != nil {
			t.Fatal(err)
		}
		cmd, err = g.ParseArgs(c.args)
		if err != nil {
			t.Fatal(err)
		}
		canary, err := g.Resolve(cmd, c.script, c.env)
		if err != nil || len(canary) != 1 {
			t.Fatal(canary, err)
		}
		was, is := jobs[0], canary[0]
		want := map[string]string{"nodes": "1", "ntasks": "1", "time": "3", "ignore-pbs": "", "parsable": ""}
		for name, s := range is.Set {
			switch w, own := want[name]; {
			case own && s.Value != w:
				t.Errorf("%s is %q", name, s.Value)
			case own, name == "comment", name == "job-name":
			case name == "array" && s.Value != fmt.Sprint(strings.Split(was.Set["array"].Value, "-")[0]):
				t.Errorf("array %q", s.Value)
			case slices.Contains(gpuOptions, name):
				if strings.Trim(s.Value, "12345678") == s.Value || strings.ContainsAny(strings.NewReplacer("a100", "", "nvme:1", "").Replace(s.Value), "2345678") {
					t.Errorf("%s is %q", name, s.Value)
				}
			case name == "array", name == "requeue", name == "no-requeue", name == "ntasks-per-node" && s.Value == "1":
			case slices.Contains(notForCanary, name):
				t.Errorf("%s=%q is left", name, s.Value)
			case s.Value != was.Set[name].Value:
				t.Errorf("%s is %q, was %q", name, s.Value, was.Set[name].Value)
			}
		}
		for name := range was.Set {
			if _, ok := is.Set[name]; !ok && !slices.Contains(notForCanary, name) {
				t.Errorf("%s is lost", name)
			}
		}
		if is.Requeue != was.Requeue {
			t.Errorf("requeue %d, was %d", is.Requeue, was.Requeue)
		}
	})
}
