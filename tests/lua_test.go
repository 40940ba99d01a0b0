package tests

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/tests/lab"
)

// luaFile is a file of etc/slurm.
func luaFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../etc/slurm", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// vectors are the tags of slurmplug/jobtag/testdata/vectors.txt, and as many more as are said by changing some of their bytes.
func vectors(t testing.TB, more int) (tags []string) {
	t.Helper()
	text, err := os.ReadFile("../slurmplug/jobtag/testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, tag, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		tags = append(tags, tag)
	}
	const bytes = "&=:,.-x%+0123456789abtev_;B"
	r := rand.New(rand.NewPCG(1, 2))
	for first := len(tags); len(tags) < first+more; {
		tag := []byte(tags[r.IntN(first)])
		for range 1 + r.IntN(2) {
			at := r.IntN(len(tag))
			switch c := bytes[r.IntN(len(bytes))]; r.IntN(3) {
			case 0:
				tag[at] = c
			case 1:
				tag = append(tag[:at], append([]byte{c}, tag[at:]...)...)
			default:
				tag = append(tag[:at], tag[at+1:]...)
			}
		}
		tags = append(tags, string(tag))
	}
	return tags
}

// Lua on the controller and Go agree on which tags count: the vectors, and thousands of tags near them.
func TestLuaGrammar(t *testing.T) {
	t.Parallel()
	tags := vectors(t, 5000)
	l := lab.ForTest(t, lab.Options{
		ExtraConf: []string{"JobSubmitPlugins=lua"},
		ExtraFiles: map[string]string{"prio.lua": luaFile(t, "prio.lua"), "tags.txt": strings.Join(tags, "\n") + "\n", "job_submit.lua": `
local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
local prio = dofile(folder .. "prio.lua")
function slurm_job_submit(job, parts, uid)
  local verdicts = {}
  for line in io.lines(folder .. "tags.txt") do verdicts[#verdicts + 1] = prio.parse(line) and "o" or "b" end
  local out = io.open(job.work_dir .. "/verdicts", "w")
  out:write(table.concat(verdicts))
  out:close()
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
`}})
	dir := filepath.Join(l.Dir, "work")
	out, err := l.Command(t.Context(), "sbatch", "--chdir="+dir, "--hold", "--output=/dev/null", "--wrap", "true").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	verdicts, err := os.ReadFile(filepath.Join(dir, "verdicts"))
	if err != nil || len(verdicts) != len(tags) {
		t.Fatalf("%v; %d verdicts on %d tags", err, len(verdicts), len(tags))
	}
	good := 0
	for i, tag := range tags {
		_, err := jobtag.Parse(tag)
		if (err == nil) != (verdicts[i] == 'o') {
			t.Errorf("%q: Lua says %c, Go %v", tag, verdicts[i], err)
		}
		if err == nil {
			good++
		}
	}
	if good < 100 {
		t.Errorf("only %d tags are valid: the vectors say little", good)
	}
}

// Users who know nothing of priod: plain sbatch and srun, the Lua files on the controller and the login hosts, class rules and
// consent by the site. Long jobs are held back for a moment and steered, short ones are trials and evict them, a job that
// opts out is left alone, and a broken Lua file stops no submission.
func TestPlainSbatch(t *testing.T) {
	t.Parallel()
	const settings = quick + `
[allocation]
policy = "max-min"
[steering]
enabled = true
[speeds.types]
a100 = 4.0
t4 = 1.0
[preemption]
enabled = true
grace = "5s"
min_run = "1s"
[[class]]
name = "short"
type = "te"
max_time = "10m"
[[consent]]
evict = true
grace = "3s"
gpu_type = true
`
	nodes := []lab.NodeSpec{{Prefix: "a100-", Count: 1, GPUType: "a100", GPUs: 4}, {Prefix: "t4-", Count: 1, GPUType: "t4", GPUs: 4}}
	config := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(config, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	rules, err := exec.Command(filepath.Join(bin, "priod"), "--config", config, "config", "lua", "--hold", "1m").Output()
	if err != nil {
		t.Fatal(err)
	}
	l := lab.ForTest(t, lab.Options{Nodes: nodes, ExtraConf: []string{"JobSubmitPlugins=lua", "CliFilterPlugins=lua"}, ExtraFiles: map[string]string{
		"prio.lua": luaFile(t, "prio.lua"), "job_submit.lua": luaFile(t, "job_submit.lua"), "cli_filter.lua": luaFile(t, "cli_filter.lua"), "prio_rules.lua": string(rules),
	}})
	s := newSiteOn(t, l, settings)
	d := s.daemon()
	d.waitLog("started")
	sbatch := func(env string, args ...string) (id, said string) {
		t.Helper()
		cmd := l.Command(s.Context(), "sbatch", append([]string{"--parsable", "--output=/dev/null"}, append(args, "--wrap", "sleep 600")...)...)
		cmd.Env = append(cmd.Env, env)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("sbatch %v: %v: %s", args, err, stderr.String())
		}
		return strings.TrimSpace(string(out)), stderr.String()
	}
	long, _ := sbatch("A=", "--gres=gpu:4", "--time=60")
	typed, _ := sbatch("A=", "--gres=gpu:t4:1", "--time=60")
	if _, later := s.starts(typed); later {
		t.Error("a job of a type of its own is held back")
	}
	s.begins(long, "a100")
	s.explains(long, "the site's consent for all jobs", "while it runs; as it last waited, not eligible yet")
	out, _ := sbatch("A=", "--gres=gpu:4", "--time=60", "--comment=prio:type=none&v=1 mine")
	_, said := sbatch("A=", "--gres=gpu:1", "--time=5", "--comment=prio:type=x&v=1", "--hold")
	if !strings.Contains(said, "want te, be or none; the job counts as untagged") {
		t.Errorf("a tag that is not valid: sbatch said %q", said)
	}
	if _, said = sbatch("A=", "--gres=gpu:1", "--comment=prio:type=te&v=1", "--hold"); !strings.Contains(said, "no time limit: the job counts as best effort; add --time=60 or less") {
		t.Errorf("a TE job without a time limit: sbatch said %q", said)
	}
	told, _ := sbatch("SBATCHWRAP_TYPE=be", "--gres=gpu:1", "--time=60", "--hold")
	if got := field(s.slurm("scontrol", "show", "job", told), "Comment"); got != "prio:type=be&v=1" {
		t.Errorf("cli_filter wrote comment %q", got)
	}
	trial, _ := sbatch("A=", "--gres=gpu:a100:2", "--time=5")
	if _, later := s.starts(trial); later {
		t.Error("the trial was held back")
	}
	s.explains(trial, "class rule short")
	if text := s.must("evictions"); !strings.Contains(text, long) {
		t.Errorf("the long job was not evicted for the trial:\n%s", text)
	}
	s.explains(out, "type=none")
	text := s.must("check", "--all")
	for _, want := range []string{"class rule short makes TE: all jobs, time limit at most 10m0s", "PASS  lua             version 1 in ", "job_submit.lua holds jobs for 1m0s"} {
		if !strings.Contains(text, want) {
			t.Errorf("check lacks %q:\n%s", want, text)
		}
	}
	if text := s.must("report", "classes"); !strings.Contains(text, "class rule short") {
		t.Errorf("report classes:\n%s", text)
	}
	shell := l.Command(s.Context(), "srun", "--job-name=shell", "--gres=gpu:t4:1", "--time=15", "sleep", "600") // soon over: Slurm plans other jobs' start when the typed one ends
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer s.slurm("scancel", "--name=shell")
	id := func() string {
		return strings.TrimSpace(s.slurm("squeue", "--noheader", "--name=shell", "--states=RUNNING", "--format=%A"))
	}
	s.wait("srun to start", func() bool { return id() != "" })
	s.explains(id(), "RUNNING")
	if text := s.must("explain", "--all", id()); strings.Contains(text, "agrees to evictions") {
		t.Errorf("a job of srun may be evicted:\n%s", text)
	}
	if os.Geteuid() == 0 {
		plain := l.As(lab.PlainUser)
		own, err := plain.Sbatch(s.Context(), "--gres=gpu:t4:1", "--time=15", "--output=/dev/null", "--chdir=/tmp", "--comment=prio:type=be&v=1 mine", "--wrap", "sleep 600")
		if err != nil {
			t.Fatal(err)
		}
		s.starts(own)
		comment := func() string { return field(s.slurm("scontrol", "show", "job", own), "Comment") }
		if out, err := plain.Run(s.Context(), "scontrol", "update", "JobId="+own, "Comment=prio:type=te&v=1"); err != nil || comment() != "prio:type=be&v=1" {
			t.Errorf("a running job's user turned its type: comment %q; scontrol said %q, %v", comment(), out, err)
		}
		s.slurm("scancel", own)
	}
	// On the controller the Lua files are older than the wrapper, then newer: each submission goes through with the whole tag.
	edits := 0
	library := func(text string) {
		t.Helper()
		edits++ // slurmctld reads job_submit.lua anew where that has changed
		for name, text := range map[string]string{"prio.lua": text, "job_submit.lua": luaFile(t, "job_submit.lua") + strings.Repeat("\n", edits)} {
			if err := os.WriteFile(filepath.Join(l.Dir, "etc", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	wrapped := func() {
		t.Helper()
		id := s.submit("--prio-type=be", "--prio-steps=5", "--gres=gpu:1", "--time=60", "--hold", "--wrap", "true")
		if got := s.comment(id); got != "prio:steps=5&type=be&v=1" {
			t.Errorf("comment %q", got)
		}
	}
	library(regexp.MustCompile(`(?m)^  steps = .*$`).ReplaceAllString(luaFile(t, "prio.lua"), ""))
	wrapped()
	if _, said := sbatch("A=", "--gres=gpu:1", "--time=5", "--comment=prio:steps=5&v=1", "--hold"); !strings.Contains(said, `key "steps": no such key`) {
		t.Errorf("older Lua files know all keys: sbatch said %q", said)
	}
	library(strings.Replace(luaFile(t, "prio.lua"), "version = 1,", "version = 2,", 1))
	wrapped()
	if text := s.must("check", "--all"); !strings.Contains(text, "are of version 2, this priod knows 1") {
		t.Errorf("check of newer Lua files:\n%s", text)
	}
	library("x x")
	if again, said := sbatch("SBATCHWRAP_TYPE=te", "--gres=gpu:1", "--time=5", "--hold"); again == "" || strings.Contains(said, "error") {
		t.Errorf("with a broken prio.lua: %q, %q", again, said)
	}
	if text := s.must("check", "--all"); !strings.Contains(text, "no readable prio.lua") {
		t.Errorf("check with a broken prio.lua:\n%s", text)
	}
	library(luaFile(t, "prio.lua"))
	// slurmctld without the plugin, as after an upgrade: rules and consent of priod.toml hold, and check says what is missing.
	s.rewrite("JobSubmitPlugins=lua\n", "", "CliFilterPlugins=lua\n", "")
	s.wait("slurmctld to answer", func() bool { _, err := l.Run(s.Context(), "scontrol", "ping"); return err == nil })
	short, _ := sbatch("A=", "--gres=gpu:1", "--time=5", "--begin=now+1hour")
	s.explains(short, "class rule short")
	if text := s.must("check", "--all"); !strings.Contains(text, "slurm.conf names no lua plugin") {
		t.Errorf("check without the plugin:\n%s", text)
	}
}
