package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// plainSettings are those of a site whose users know nothing of priod; times are those of a lab.
const plainSettings = `
profile = "balanced"
[cycle]
interval = "2s"
[slurm]
partitions = ["gpu"]
[ranking]
order = "owed"
[te_budget.user]
share = 0.0
gpu_hours_share = 0.0
time_limit = "2m"
[preemption]
headroom = false
min_run = "1s"
restart = "1s"
grace_share = 0.0
loss_share = 0.0
user_loss_share = 0.0
[speeds]
interval = "2s"
min_run = "1s"
[[class]]
name = "short"
type = "te"
max_time = "2m"
[[class]]
name = "shell"
type = "te"
interactive = true
[[consent]]
partitions = ["gpu"]
evict = true
grace = "2s"
gpu_type = true
size = true
`

// Two users submit 200 jobs with plain sbatch, srun and salloc. There is no wrapper and no tag: the two Lua files, class
// rules and the site's consent do it all. Every job completes, short ones get room by evictions, long ones are held back
// and steered by what accounting has taught by then, and those that ask for more CPUs than they use are sized.
func TestUsersWithoutOptions(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can submit as two users")
	}
	t.Parallel()
	open := openDir(t, 0o777)
	config := filepath.Join(open, "rules.toml")
	if err := os.WriteFile(config, []byte(plainSettings), 0o644); err != nil {
		t.Fatal(err)
	}
	rules, err := exec.Command(filepath.Join(bin, "priod"), "--config", config, "config", "lua", "--hold", "5s").Output()
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]lab.NodeSpec, 3)
	for i, gpuType := range []string{"a100", "v100", "t4"} {
		nodes[i] = lab.NodeSpec{Prefix: gpuType + "-", Count: 2, GPUType: gpuType, GPUs: 4, CPUs: 16, MemoryMB: 16384}
	}
	l := lab.ForTest(t, lab.Options{
		Nodes: nodes, RequeueDelay: studyDelay - 1, ExtraConf: []string{"JobSubmitPlugins=lua", "CliFilterPlugins=lua", "JobAcctGatherType=jobacct_gather/linux"},
		ExtraFiles: map[string]string{
			"prio.lua": luaFile(t, "prio.lua"), "job_submit.lua": luaFile(t, "job_submit.lua"), "cli_filter.lua": luaFile(t, "cli_filter.lua"), "prio_rules.lua": string(rules),
		},
	})
	s := bareSite(t, l)
	// A job takes so many times as long on a slower type; greedy ones keep one of their twelve CPUs busy.
	script := filepath.Join(open, "job.sh")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
case $SLURM_JOB_NODELIST in a100*) n=$1 ;; v100*) n=$(($1 * 2)) ;; *) n=$(($1 * 3)) ;; esac
[ "$2" = greedy ] && exec python3 -c "import time
end = time.time() + $n
while time.time() < end: sum(range(20000)); time.sleep(0.02)"
exec sleep $n
`), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s[wake]\nlisten = []\n[state]\ndir = %q\n", plainSettings, filepath.Join(s.dir, "state"))
	if err := os.WriteFile(s.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d := s.daemon()
	d.waitLog("started")
	r := rand.New(rand.NewPCG(7, 7))
	var waiting sync.WaitGroup
	trials, greedy, interactive := map[string]bool{}, map[string]bool{}, 0
	for i := range 200 {
		client := l.As([]string{lab.PlainUser, lab.OtherUser}[i%2])
		args := []string{"--output=/dev/null", "--chdir=" + open}
		switch kind := r.IntN(100); {
		case kind < 8: // in a terminal
			interactive++
			command := []string{"srun", "--gres=gpu:1", "--time=10", "--job-name=shell", "sleep", "4"}
			if i%2 == 0 {
				command = []string{"salloc", "--quiet", "--gres=gpu:1", "--time=10", "--job-name=shell", "sleep", "4"}
			}
			waiting.Go(func() {
				cmd := client.Command(s.Context(), command[0], command[1:]...)
				cmd.Dir = open
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %v: %s", command, err, out)
				}
			})
		case kind < 35: // a trial
			id, err := client.Sbatch(s.Context(), append(args, "--job-name=try", "--time=2", fmt.Sprintf("--gres=gpu:%d", 1+r.IntN(2)), script, "1")...)
			if err != nil {
				t.Fatal(err)
			}
			trials[id] = true
		case kind < 55:
			id, err := client.Sbatch(s.Context(), append(args, "--job-name=greedy", "--time=30", "--gres=gpu:1", "-c", "12", script, "3", "greedy")...)
			if err != nil {
				t.Fatal(err)
			}
			greedy[id] = true
		default:
			name := []string{"resnet", "bert", "gan"}[r.IntN(3)]
			if _, err := client.Sbatch(s.Context(), append(args, "--job-name="+name, "--time=30", fmt.Sprintf("--gres=gpu:%d", []int{1, 1, 2, 4}[r.IntN(4)]), script, fmt.Sprint(4+r.IntN(8)))...); err != nil {
				t.Fatal(err)
			}
		}
		s.sleep(500 * time.Millisecond)
	}
	waiting.Wait()
	s.wait("the queue to be empty", func() bool { return s.slurm("squeue", "--noheader", "--format=%A") == "" })

	states, names := map[string]int{}, map[string]string{}
	held, heldTrials := 0, 0
	s.wait("accounting to have all jobs", func() bool {
		last := map[string]string{} // an evicted job has a row for each run, in a state that differs between releases
		held, heldTrials = 0, 0
		for line := range strings.Lines(s.slurm("sacct", "--allusers", "--noheader", "--allocations", "--parsable2", "--format=JobID,State,Submit,Eligible,JobName")) {
			f := strings.Split(strings.TrimSpace(line), "|")
			last[f[0]], names[f[0]] = f[1], f[4]
			if f[3] > f[2] {
				if trials[f[0]] {
					heldTrials++
				}
				held++
			}
		}
		clear(states)
		for _, state := range last {
			states[state]++
		}
		return states["COMPLETED"] == 200
	})
	if len(states) != 1 || states["COMPLETED"] != 200 {
		t.Errorf("jobs ended as %v, want 200 COMPLETED", states)
	}
	var evictions struct {
		Evictions []struct{ Victim, State string }
	}
	s.json(&evictions, "evictions")
	evicted := len(evictions.Evictions)
	for _, e := range evictions.Evictions {
		if name := names[e.Victim]; name == "shell" || name == "try" || name == "" {
			t.Errorf("job %s (%s) was evicted", e.Victim, name)
		}
	}
	var history struct {
		Writes []struct {
			Job    string
			Lever  slurmplug.Lever
			Status slurmplug.Status
			Reason string
		}
	}
	s.json(&history, "report", "history", "--most", "1000000")
	sized, steered := map[string]bool{}, map[string]bool{}
	for _, w := range history.Writes {
		switch {
		case w.Status != slurmplug.Applied:
		case w.Lever == slurmplug.Size:
			sized[w.Job] = true
		case w.Lever == slurmplug.Features:
			steered[w.Job] = true
		}
	}
	var learned struct{ Jobs, Better, Worse, Misled int }
	s.json(&learned, "report", "learning")
	classes := s.must("report", "classes")
	t.Logf("%d jobs of srun and salloc, %d trials, %d greedy; %d evictions; held back: %d; steered: %d; sized: %d; by learned speeds: %+v\n%s\n%s",
		interactive, len(trials), len(greedy), evicted, held, len(steered), len(sized), learned, classes, s.must("report", "learning"))
	if evicted == 0 || held < 60 || heldTrials > 0 || len(steered) < 40 || len(sized) < 3 {
		t.Errorf("%d evictions, %d jobs held back, %d of them trials, %d steered, %d sized", evicted, held, heldTrials, len(steered), len(sized))
	}
	if learned.Jobs < 20 || learned.Better == 0 || learned.Misled > learned.Jobs/4 {
		t.Errorf("GPU types by learned speeds: %+v", learned)
	}
	for _, want := range []string{"class rule short", "the site's consent for partition gpu"} {
		if !strings.Contains(classes, want) {
			t.Errorf("report classes lacks %q:\n%s", want, classes)
		}
	}
}

// A user without rights tries to get more out of class rules and consent than they give: a tag in the job's name, an
// array of 5,000 trials, a tag that changes each second, control characters, rules that the site got wrong. Budgets
// hold, what is beyond them leaves for another user's trial, and priod's cycles go on without an error.
func TestHostilePlainUsers(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can submit as another user")
	}
	t.Parallel()
	const settings = quick + `
[te_budget.user]
gpus = 4
time_limit = "10m"
[preemption]
enabled = true
grace = "2s"
min_run = "1s"
[[class]]
name = "nobody"
type = "te"
partitions = ["gone"]
[[class]]
name = "all"
type = "te"
[[consent]]
accounts = ["gone", "\u0007'; --"]
evict = true
[[consent]]
evict = true
gpu_type = true
`
	config := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := exec.Command(filepath.Join(bin, "priod"), "--config", config, "config", "lua", "--hold", "5s").Output()
	if err != nil {
		t.Fatal(err)
	}
	l := lab.ForTest(t, lab.Options{
		Nodes: []lab.NodeSpec{{Prefix: "a100-", Count: 2, GPUType: "a100", GPUs: 4}}, ExtraConf: []string{"JobSubmitPlugins=lua", "CliFilterPlugins=lua"},
		ExtraFiles: map[string]string{"prio.lua": luaFile(t, "prio.lua"), "job_submit.lua": luaFile(t, "job_submit.lua"), "cli_filter.lua": luaFile(t, "cli_filter.lua"), "prio_rules.lua": string(rules)},
	})
	s := newSiteOn(t, l, settings)
	for _, user := range []string{lab.PlainUser, lab.OtherUser} {
		t.Cleanup(func() { s.slurm("scancel", "--user="+user) })
	}
	evil := l.As(lab.PlainUser)
	submit := func(client lab.Client, args ...string) string {
		t.Helper()
		id, err := client.Sbatch(s.Context(), append([]string{"--output=/dev/null", "--chdir=/tmp", "--gres=gpu:1"}, append(args, "--wrap", "sleep 600")...)...)
		if err != nil {
			t.Fatalf("sbatch %v: %v", args, err)
		}
		return id
	}
	d := s.daemon()
	d.waitLog("started")
	unlimited := submit(evil, "--job-name=prio:type=te&v=1", "--time=60")
	array := submit(evil, "--array=0-4999", "--time=1") // tasks beyond the share that run are no victims: they end
	edited := submit(evil, "--time=5", "--hold", "--comment=prio:type=be&v=1")
	for _, text := range []string{"\x1b[2J", "prio:type=te&v=1&v=1", "prio:" + strings.Repeat("a", 600), "prio:type=te&v=9", "'\"\\]]"} {
		submit(evil, "--time=5", "--comment="+text, "--job-name="+text)
	}
	for i := range 8 {
		comment := []string{"prio:type=te&v=1", "prio:type=be&v=1", "x", "prio:type=none&v=1"}[i%4]
		if out, err := evil.Run(s.Context(), "scontrol", "update", "JobId="+edited, "Comment="+comment); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.sleep(time.Second)
	}
	var queue struct {
		Jobs []struct {
			Job, User, Class string
			Tasks            string
			GPUs             int
		}
	}
	s.json(&queue, "queue", "--most", "10000")
	trials := 0
	for _, j := range queue.Jobs {
		if j.Class == "te" && j.User == lab.PlainUser {
			trials += j.GPUs
		}
	}
	if trials > 4*plan.Worth*5 { // of jobs of a minute, which count a fifth; beyond that share they stand among BE jobs
		t.Errorf("%d GPUs of waiting TE jobs of one user, whose share is 4: %+v", trials, queue.Jobs)
	}
	trial := submit(l.As(lab.OtherUser), "--time=5")
	s.wait("the other user's trial to start where a job beyond its user's budget was", func() bool {
		return strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+trial, "--format=%T")) == "RUNNING"
	})
	if text := s.must("explain", unlimited); strings.Contains(text, "trial-and-error (") {
		t.Errorf("a tag in the job's name counts:\n%s", text)
	}
	text := s.must("check", "--all")
	for _, want := range []string{"has no partition gone", "class rule all makes TE: all jobs"} {
		if !strings.Contains(text, want) {
			t.Errorf("check lacks %q:\n%s", want, text)
		}
	}
	s.shown("check", text)
	s.shown("report classes", s.must("report", "classes"))
	s.slurm("scancel", array)
	if log := d.log.String(); strings.Contains(log, "[ERROR]") {
		t.Errorf("priod's log has errors:\n%s", log)
	}
}
