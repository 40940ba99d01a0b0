package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/tests/lab"
)

// site is the lab with the wrapper in front of its sbatch.
type site struct {
	*lab.Lab
	t      *testing.T
	client lab.Client
	dir    string // where any user may read scripts
}

func newSite(t *testing.T) *site {
	l := lab.Shared(t)
	program(t, wrapperOnce)
	dir, err := os.MkdirTemp(built, "scripts-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &site{Lab: l, t: t, client: l.As(""), dir: dir}
}

// run runs a program of the site in its folder.
func (s *site) run(program string, env []string, stdin string, args ...string) outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lab.Patience)
	defer cancel()
	cmd := s.client.Command(ctx, program, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Dir = s.dir
	cmd.Stdin = strings.NewReader(stdin)
	return finish(s.t, cmd)
}

// submit runs the wrapper and returns the id that it prints, like sbatch.
func (s *site) submit(env []string, stdin string, args ...string) string {
	s.t.Helper()
	o := s.run(program(s.t, wrapperOnce), env, stdin, args...)
	m := regexp.MustCompile(`^(?:Submitted batch job )?([0-9]+)\n$`).FindStringSubmatch(o.stdout)
	if m == nil || o.code != 0 || o.stderr != "" {
		s.t.Fatalf("%q: exit status %d, %q, %s", args, o.code, o.stdout, o.stderr)
	}
	s.t.Cleanup(func() { s.Run(context.Background(), "scancel", m[1]) })
	return m[1]
}

// comments are what Slurm holds for a job's records, one for each.
func (s *site) comments(id string) []string {
	s.t.Helper()
	out, err := s.Run(s.t.Context(), "squeue", "--noheader", "--states=all", "--jobs="+id, "--sort=i", "--Format=Comment:\x01\n")
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out, "\x01\n\n"), "\x01\n\n")
}

// tagged holds a job's comments against what it should say about itself.
func (s *site) tagged(id string, want jobtag.Tag, rests ...string) {
	s.t.Helper()
	comments := s.comments(id)
	if len(comments) != len(rests) {
		s.t.Fatalf("job %s: %d records: %q", id, len(comments), comments)
	}
	for i, comment := range comments {
		text, rest := jobtag.Split(comment)
		tag, err := jobtag.Parse(text)
		if err != nil {
			s.t.Fatalf("job %s: %q: %v", id, comment, err)
		}
		if d := cmp.Diff(want, tag); d != "" || rest != rests[i] {
			s.t.Errorf("job %s: comment %q, want rest %q\n%s", id, comment, rests[i], d)
		}
	}
}

func (s *site) script(name, text string) string {
	return writeFile(s.t, filepath.Join(s.dir, name), text)
}

// TestSubmissions submits in every way that sbatch knows and reads the tag
// back from the queue.
func TestSubmissions(t *testing.T) {
	s := newSite(t)
	te := jobtag.Tag{Type: "te"}
	full := jobtag.Tag{Type: "be", Grace: 5 * time.Minute, Ckpt: time.Hour, Signal: "B:USR1", Workload: "resnet50", Retry: "infra",
		Speed: map[string]float64{"a100": 1, "v100": 0.45}, CPU: map[string]jobtag.Curve{"a100": {{Amount: 3, Speed: 1}, {Amount: 9, Speed: 2.4}}}}
	const options = "--prio-type be --prio-grace 5:00 --prio-ckpt=1h --prio-signal B:USR1 --prio-workload resnet50 --prio-retry infra --prio-speed a100:1,v100:0.45 --prio-cpu a100:3x1-9x2.4"
	s.script("plain.sh", "#!/bin/sh\nsleep 100\n")
	s.script("full.sh", "#!/bin/sh\n#SBATCH -H --comment=\"the user's own words\"\n#PRIO "+options+"\nsleep 100\n")
	s.script("het.sh", "#!/bin/sh\n#SBATCH -H --comment=first\n#SBATCH hetjob\n#SBATCH --comment=second\nsleep 100\n")
	fullArgs := strings.Fields(options)

	s.tagged(s.submit(nil, "", "-H", "--prio-type", "te", "plain.sh"), te, "")
	s.tagged(s.submit(nil, "", "full.sh"), full, "the user's own words")
	s.tagged(s.submit(nil, "", append(fullArgs, "-H", "--comment", "from the command line", "plain.sh")...), full, "from the command line")
	s.tagged(s.submit([]string{"SBATCHWRAP_TYPE=te"}, "", "-H", "plain.sh"), te, "")
	s.tagged(s.submit(nil, "#!/bin/sh\n#SBATCH -H --comment=piped\n#PRIO --prio-type te\nsleep 100\n"), te, "piped")
	s.tagged(s.submit(nil, "", "-H", "--prio-type=te", "--wrap=sleep 100"), te, "")
	s.tagged(s.submit(nil, "", "--parsable", "-H", "--prio-type=te", "--array=1-3", "--comment=array", "plain.sh"), te, "array")
	s.tagged(s.submit(nil, "", "-H", "-N1", "--comment=a", ":", "-N1", "--comment=b", "--prio-type=te", "plain.sh"), te, "a", "b")
	s.tagged(s.submit(nil, "", "--prio-type=te", "het.sh"), te, "first", "second")
	s.tagged(s.submit(nil, "", "-H", "--prio-type=te", "--comment=\xff\xfe\xc3\x28", "plain.sh"), te, "\xff\xfe\xc3\x28")
	s.tagged(s.submit(nil, "", "-H", "--prio-type=te", "--comment="+strings.Repeat("c", 1024-len("prio:type=te&v=1 ")), "plain.sh"), te, strings.Repeat("c", 1024-len("prio:type=te&v=1 ")))

	// Nothing said: the comment is what it is without the wrapper.
	if got := s.comments(s.submit(nil, "", "-H", "--comment=mine", "plain.sh")); !cmp.Equal(got, []string{"mine"}) {
		t.Errorf("comment is %q", got)
	}
	// An array's tasks keep the tag when Slurm splits them off.
	id := s.submit(nil, "", "--parsable", "--prio-type=te", "--array=1-2", "--comment=running", "plain.sh")
	if err := s.WaitJob(t.Context(), id+"_1", "RUNNING"); err != nil {
		t.Fatal(err)
	}
	s.tagged(id+"_1", te, "running")

	// bash's <(command) is a pipe that can be read once.
	o := s.run("/bin/bash", nil, "", "-c", program(t, wrapperOnce)+" --parsable <(cat full.sh)")
	id = strings.TrimSpace(o.stdout)
	if _, err := strconv.Atoi(id); err != nil {
		t.Fatalf("%+v", o)
	}
	t.Cleanup(func() { s.Run(context.Background(), "scancel", id) })
	s.tagged(id, full, "the user's own words")
	body, err := s.Run(t.Context(), "scontrol", "write", "batch_script", id, "-")
	want, _ := os.ReadFile(s.dir + "/full.sh")
	if err != nil || strings.TrimRight(body, "\x00\n") != strings.TrimRight(string(want), "\n") {
		t.Errorf("script of job %s is %q, %v", id, body, err)
	}
}

// TestAbbreviation uses options that only the installed sbatch can explain.
func TestAbbreviation(t *testing.T) {
	s := newSite(t)
	s.script("s.sh", "#!/bin/sh\n#SBATCH --comm='abbreviated in the script'\nsleep 100\n")
	te := jobtag.Tag{Type: "te"}
	s.tagged(s.submit(nil, "", "-H", "--part=gpu", "--comme", "abbreviated", "--prio-type", "te", "s.sh"), te, "abbreviated")
	s.tagged(s.submit(nil, "", "-H", "--prio-type", "te", "s.sh"), te, "abbreviated in the script")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--prio-type=te", "--par=x", "s.sh"}, 255, "ambiguous"},
		{[]string{"--prio-type=te", "--nonsense", "s.sh"}, 255, "sbatch: unrecognized option '--nonsense'"},
		{[]string{"--prio-type=te", "--nonsense=1", "s.sh"}, 255, "sbatch: unrecognized option '--nonsense=1'"},
		{[]string{"--prio-tpye", "te", "s.sh"}, 2, `sbatchwrap: command line: unknown option "--prio-tpye": sbatchwrap --prio-help lists those that there are; they are spelled in full`},
		{[]string{"--prio-typ=te", "s.sh"}, 255, "unrecognized option '--prio-typ=te'"},
	} {
		o := s.run(program(t, wrapperOnce), nil, "", c.args...)
		if o.code != c.code || !strings.Contains(o.stderr, c.want) || o.stdout != "" {
			t.Errorf("%q: %d %s, want %d %s", c.args, o.code, o.stderr, c.code, c.want)
		}
	}
	// Without a configuration it is sbatch that says so.
	conf := s.script("broken.conf", "Nonsense=1\n")
	o := s.run(program(t, wrapperOnce), []string{"SLURM_CONF=" + conf}, "", "--prio-type=te", "--part=x", "s.sh")
	if o.code == 0 || !strings.Contains(o.stderr, "Nonsense") || strings.Contains(o.stderr, "sbatchwrap") {
		t.Errorf("%d %s", o.code, o.stderr)
	}
}

// TestSameAnswers compares output and exit status with those of sbatch.
func TestSameAnswers(t *testing.T) {
	s := newSite(t)
	s.script("ok.sh", "#!/bin/sh\n#PRIO --prio-type te\nexit 7\n")
	s.script("nomagic.sh", "true\n")
	s.script("empty.sh", "")
	s.script("dos.sh", "#!/bin/sh\r\ntrue\r\n")
	s.script("stray.sh", "#!/bin/sh\n#SBATCH stray\n")
	s.script("quote.sh", "#!/bin/sh\n#SBATCH -J 'x\n")
	numbers := regexp.MustCompile(`[0-9]+|\.[0-9]{3}`)
	times := regexp.MustCompile(`Job N to start at .* using`)
	for _, args := range [][]string{
		{"ok.sh"},
		{"--parsable", "ok.sh"},
		{"-Q", "ok.sh"},
		{"--wait", "-Q", "ok.sh"}, // exit status 7
		{"--test-only", "ok.sh"},
		{"--test-only", "-N999", "ok.sh"},
		{"--version"},
		{"--usage"},
		{"nomagic.sh"},
		{"empty.sh"},
		{"dos.sh"},
		{"stray.sh"},
		{"quote.sh"},
		{"nowhere.sh"},
		{"/tmp"},
		{"--wrap=true", "ok.sh"},
		{"-p", "nowhere", "ok.sh"},
		{"-N", "x", "ok.sh"},
		{"--comment"},
		{"-Z"},
		{"--hold=1"},
		{},
	} {
		direct := s.run("sbatch", nil, "", args...)
		wrapped := s.run(program(t, wrapperOnce), nil, "", args...)
		same := func(text string) string {
			text = strings.ReplaceAll(text, "/usr/bin/sbatch:", "sbatch:")
			return times.ReplaceAllString(numbers.ReplaceAllString(text, "N"), "Job N to start at T using")
		}
		if same(direct.stdout) != same(wrapped.stdout) || same(direct.stderr) != same(wrapped.stderr) || direct.code != wrapped.code {
			t.Errorf("%q\nsbatch %d %s%s\nwrapper %d %s%s", args, direct.code, direct.stdout, direct.stderr, wrapped.code, wrapped.stdout, wrapped.stderr)
		}
		if len(args) == 3 && args[0] == "--wait" && wrapped.code != 7 {
			t.Errorf("--wait: exit status %d, want that of the job", wrapped.code)
		}
	}
	o := s.run(program(t, wrapperOnce), nil, "", "--help")
	help := s.run("sbatch", nil, "", "--help")
	if !strings.HasPrefix(o.stdout, help.stdout) || !strings.Contains(o.stdout[len(help.stdout):], "--prio-type=te|be") {
		t.Error("--help is not sbatch's help and ours")
	}
}

// TestNothingSubmitted holds that a bad option leaves the queue as it was.
func TestNothingSubmitted(t *testing.T) {
	s := newSite(t)
	s.script("s.sh", "#!/bin/sh\nsleep 100\n")
	last := func() string {
		id := s.submit(nil, "", "--parsable", "-H", "--wrap=true")
		return id
	}
	before := last()
	for _, args := range [][]string{
		{"--prio-type=x", "s.sh"}, {"--prio-grace", "s.sh"}, {"--prio-type=te", "--comment=" + strings.Repeat("c", 1024), "s.sh"},
		{"--prio-print", "--prio-type=te", "s.sh"}, {"--prio-help", "s.sh"}, {"--prio-typ", "te", "s.sh"},
	} {
		s.run(program(t, wrapperOnce), nil, "", args...)
	}
	first, _ := strconv.Atoi(before)
	if after := last(); after != strconv.Itoa(first+1) {
		t.Errorf("jobs were submitted: %s after %s", after, before)
	}
}

// TestPlainUser submits without any rights, from a script that only its owner
// may read.
func TestPlainUser(t *testing.T) {
	s := newSite(t)
	if os.Geteuid() != 0 {
		t.Skip("a lab started by a plain user has no other one; its own tests above ran as this one")
	}
	s.client = s.As(lab.PlainUser)
	s.script("s.sh", "#!/bin/sh\n#PRIO --prio-type te\nsleep 100\n")
	id := s.submit(nil, "", "-H", "--comment=mine", "s.sh")
	s.tagged(id, jobtag.Tag{Type: "te"}, "mine")
	s.tagged(s.submit(nil, "#!/bin/sh\nsleep 1\n", "-H", "--prio-type=te"), jobtag.Tag{Type: "te"}, "")
	out, err := s.Run(t.Context(), "squeue", "--noheader", "--jobs="+id, "--format=%u")
	if err != nil || strings.TrimSpace(out) != lab.PlainUser {
		t.Errorf("job %s belongs to %q, %v", id, out, err)
	}
	if err := os.Chmod(s.dir+"/s.sh", 0o600); err != nil {
		t.Fatal(err)
	}
	direct, wrapped := s.run("sbatch", nil, "", "s.sh"), s.run(program(t, wrapperOnce), nil, "", "--prio-type=te", "s.sh")
	if wrapped.code != direct.code || wrapped.stderr != direct.stderr {
		t.Errorf("a script that can't be read: %d %s, sbatch says %d %s", wrapped.code, wrapped.stderr, direct.code, direct.stderr)
	}
}

// TestClients submits as programs do that call sbatch by themselves: the tag comes from a variable of the login host, and
// what they read of sbatch's answer is as they know it.
func TestClients(t *testing.T) {
	s := newSite(t)
	env := []string{"SBATCHWRAP_TYPE=be", "SBATCHWRAP_GRACE=1"}
	be := jobtag.Tag{Type: "be", Grace: time.Minute}
	s.script("dask.sh", "#!/usr/bin/env bash\n\n#SBATCH -J dask-worker\n#SBATCH -p gpu\n#SBATCH -n 1\n#SBATCH --cpus-per-task=2\n#SBATCH --mem=1G\n#SBATCH -t 00:30:00\n#SBATCH -H\n\nsleep 100\n")
	s.script("submission_file.sh", "#!/bin/bash\n\n# Parameters\n#SBATCH --array=0-2%2\n#SBATCH --cpus-per-task=2\n#SBATCH --error=%A_%a_0_log.err\n#SBATCH --gpus-per-node=1\n#SBATCH --hold\n"+
		"#SBATCH --job-name=submitit\n#SBATCH --mem=1GB\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --open-mode=append\n#SBATCH --output=%A_%a_0_log.out\n"+
		"#SBATCH --partition=gpu\n#SBATCH --signal=USR2@90\n#SBATCH --time=5\n#SBATCH --wckey=submitit\n\n# command\nexport SUBMITIT_EXECUTOR=slurm\nsrun --unbuffered sleep 100\n")
	for _, c := range []struct {
		name, answer string
		args         []string
		rest         string
	}{
		{"dask-jobqueue", `^Submitted batch job (\d+)\n$`, []string{"dask.sh"}, ""},
		{"submitit", `^Submitted batch job (\d+)\n$`, []string{"submission_file.sh"}, ""},
		{"snakemake 7 --slurm", `^Submitted batch job (\d+)\n$`, []string{"--hold", "--job-name", "0f1e2d3c", "--output", "slurm_logs/%j.log", "--export=ALL", "--comment", "train_model", "-p", "gpu", "-t", "10", "--mem", "1000", "--ntasks=1",
			"--cpus-per-task=1", "-D", s.dir, "--wrap=python3 -m snakemake --snakefile 'Snakefile' --target-jobs 'train:n=1' --mode 2"}, "train_model"},
		{"nextflow", `^(\d+)\n$`, []string{"--parsable", "--hold", "dask.sh"}, ""},
	} {
		o := s.run(program(t, wrapperOnce), env, "", c.args...)
		m := regexp.MustCompile(c.answer).FindStringSubmatch(o.stdout)
		if m == nil || o.code != 0 || o.stderr != "" {
			t.Errorf("%s: %+v", c.name, o)
			continue
		}
		t.Cleanup(func() { s.Run(context.Background(), "scancel", m[1]) })
		s.tagged(m[1], be, c.rest)
	}
}

// TestSignals interrupts a waiting sbatchwrap as a terminal would.
func TestSignals(t *testing.T) {
	s := newSite(t)
	cmd := s.client.Command(t.Context(), program(t, wrapperOnce), "--parsable", "--wait", "-H", "--prio-type=te", "--wrap=true")
	var stdout bytes.Buffer
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	buf := make([]byte, 64)
	n, err := read.Read(buf) // the job's id: sbatch now waits
	stdout.Write(buf[:n])
	id := strings.TrimSpace(stdout.String())
	if err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
	t.Cleanup(func() { s.Run(context.Background(), "scancel", id) })
	exe, err := os.Readlink("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/exe")
	if real, _ := exec.LookPath("sbatch"); err != nil || filepath.Base(exe) != filepath.Base(real) {
		t.Errorf("the process is %s, %v", exe, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("after Ctrl-C: %v", cmd.ProcessState)
	}
	s.tagged(id, jobtag.Tag{Type: "te"}, "") // the job is where it was
}
