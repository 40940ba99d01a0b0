package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"slurmprio/priod/workload"
	"slurmprio/tests/lab"
)

// profileSite is a site for a user without rights.
func profileSite(t *testing.T, l *lab.Lab) *site {
	s := newSiteOn(t, l, "")
	if os.Geteuid() == 0 {
		s.become(lab.PlainUser, "")
	}
	return s
}

// script writes a job script that everybody can read.
func (s *site) script(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "training ", filepath.Join(bin, "training")+" ")), 0o755); err != nil {
		s.Fatal(err)
	}
	return path
}

// start starts a command, which does not outlive the test.
func (s *site) start(cmd *exec.Cmd) {
	s.Helper()
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
			s.Logf("%v said %s", cmd.Args, cmd.Stderr)
		}
	})
}

// empty waits until nothing is left in the queue.
func (s *site) empty() {
	s.Helper()
	s.wait("an empty queue", func() bool { return s.slurm("squeue", "--noheader") == "" })
}

// short are options for a program that takes a second, not a minute.
var short = []string{"--warmup=200ms", "--measure=700ms", "--patience=15s", "--budget=1m"}

type profiled struct {
	Types []struct {
		GPUType string `json:"gpu_type"`
		Points  []struct {
			CPUs     int     `json:"cpus_per_gpu"`
			Relative float64 `json:"relative_speed"`
		} `json:"points"`
	} `json:"types"`
	Options  []string `json:"options"`
	Workload string   `json:"workload_toml"`
}

// near checks the relative speeds against the program's own curve. The machine
// may be slow, so only large errors count.
func (p *profiled) near(t *testing.T, want map[string]map[int]float64, factor float64) {
	t.Helper()
	found := 0
	for _, typ := range p.Types {
		for _, q := range typ.Points {
			w, ok := want[typ.GPUType][q.CPUs]
			if found++; ok && (q.Relative > w*factor || q.Relative < w/factor) {
				t.Errorf("%s with %d CPUs: %v, want about %v", typ.GPUType, q.CPUs, q.Relative, w)
			}
		}
	}
	if len(p.Types) != len(want) || found < 3*len(want) {
		t.Errorf("too little was measured: %+v", p.Types)
	}
}

// From a profile to a tagged job by one line.
func TestProfile(t *testing.T) {
	s := profileSite(t, sharedLab(t))
	script := s.script("train.sh", `#!/bin/bash
#SBATCH --gres=gpu:2 --cpus-per-task=8 --time=2-0 --begin=now+2hours
training -warmup 200ms -rate 20 -curve a100:1x0.25-4x1-8x4-16x4,v100:1x1
`)
	args := append(append([]string{"profile", "--gpu-types=a100,v100", "--cpus=1,4,8"}, short...), "--json", "--", "--mem=8G", script)
	var p profiled
	if err := json.Unmarshal([]byte(s.must(args...)), &p); err != nil {
		t.Fatal(err)
	}
	p.near(t, map[string]map[int]float64{"a100": {1: 0.25, 4: 1, 8: 4}, "v100": {1: 1, 4: 1, 8: 1}}, 1.6)
	s.empty()
	if table, err := workload.Parse("printed", p.Workload); err != nil || table.All()[0].Name != "train" || table.All()[0].Curves["a100"].MemMB[0] != 4096 {
		t.Errorf("%v in\n%s", err, p.Workload)
	}

	out, err := s.client().Run(t.Context(), filepath.Join(bin, "sbatchwrap"), append(append([]string{"--parsable"}, p.Options...), "--mem=8G", script)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.slurm("scancel", strings.TrimSpace(out))
	if tag := s.slurm("squeue", "--noheader", "--format=%k", "--jobs="+strings.TrimSpace(out)); !strings.HasPrefix(tag, "prio:cpu=a100:1x") {
		t.Errorf("the job's comment is %s", tag)
	}
}

// From a profile to a tagged job by pasting one line, whatever the script is called;
// the picture is there, and progress comes from a file, by steps of the script's own.
func TestProfilePrintsLinesToCopy(t *testing.T) {
	longOnly(t)
	t.Parallel()
	s := profileSite(t, lab.ForTest(t, lab.Options{}))
	log := filepath.Join(s.dir, "progress log")
	const odd = "it's my $train; \u00e9.sh"
	script := s.script(odd, "#!/bin/bash -e\n#SBATCH --time=5 --output=/dev/null\nsrun training -rate 20 -curve t4:1x1-4x3 >> \"$1\"\n")
	args := append(append([]string{"profile", "--progress-file", log, "--cpus=1,4", "--name=mine"}, short...), "--", "--gpus=t4:1", script, log)
	out := s.must(args...)
	line := regexp.MustCompile(`(?m)^    (sbatchwrap --prio-cpu t4:1x\S+ .*)$`).FindStringSubmatch(out)
	if line == nil || !strings.Contains(out, "\n    #PRIO --prio-cpu t4:1x") || !strings.Contains(out, `name = "mine"`) || !strings.Contains(out, "####") {
		t.Fatalf("profile prints\n%s", out)
	}
	s.empty()
	cmd := s.client().Command(t.Context(), "bash", "-c", "PATH="+bin+":$PATH; "+line[1])
	said, err := cmd.CombinedOutput()
	job, submitted := strings.CutPrefix(strings.TrimSpace(string(said)), "Submitted batch job ")
	if err != nil || !submitted {
		t.Fatalf("%s\n%v: %s", line[1], err, said)
	}
	defer s.slurm("scancel", job)
	if name := s.slurm("squeue", "--noheader", "--format=%k %j", "--jobs="+job); !strings.HasPrefix(name, "prio:cpu=t4:1x") || !strings.HasSuffix(name, "&v=1 "+odd+"\n") {
		t.Errorf("%s\nbecame %q", line[1], name)
	}
}

// Bad input and bad programs: one error that says what, and nothing is left.
func TestProfileTrouble(t *testing.T) {
	longOnly(t)
	l := sharedLab(t)
	s := profileSite(t, l)
	full := s.slurm("sbatch", "--parsable", "--partition=gpu", "--gres=gpu:t4:4", "--exclusive", "--nodes=2", "--time=5", "--output=/dev/null", "--wrap=sleep 300")
	if err := l.WaitJob(s.Context(), strings.TrimSpace(full), "RUNNING"); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		script string
		args   []string
		status int
		want   string
	}{
		"prints nothing":   {"sleep 60", []string{"--patience=8s"}, 1, "the program printed nothing in"},
		"wrong pattern":    {"training -curve a100:1x1", []string{"--progress=epoch ([0-9]+)", "--patience=8s"}, 1, `matches "epoch ([0-9]+)": give a --progress pattern that does; it printed last: step`},
		"crashes":          {"echo step 1; echo no such module >&2; exit 3", nil, 1, "the program failed with 4 CPUs for each GPU: exit status 3 after"},
		"ends at once":     {"echo step 1", nil, 1, "the program ended by itself with 4 CPUs for each GPU after"},
		"ends its own job": {"echo step 1; scancel $SLURM_JOB_ID; sleep 60", nil, 1, "ended in the middle of it: CANCELLED"},
		"no interpreter":   {"", nil, 1, "/no/such/shell: not found"},
		"no such type":     {"sleep 60", []string{"--gpu-types=h100"}, 2, `GPU type "h100": no node that is up has it; there are a100, t4, v100`},
		"more CPUs":        {"sleep 60", []string{"--cpus=17"}, 2, "no a100 node has so many; at most 16"},
		"no room":          {"sleep 60", []string{"--gpu-types=t4", "--wait=1s"}, 1, "no room: job"},
		"bad options":      {"sleep 60", []string{"--dataset=1G"}, 2, "--epoch-steps is missing"},
		"refused":          {"#SBATCH --account=nobodys\nsleep 60", nil, 1, "sbatch: "},
		"no script":        {"-", nil, 2, "no such file"},
	}
	done := make(chan string)
	for name, c := range cases {
		go func() {
			path := filepath.Join(s.dir, "absent.sh")
			first := "#!/bin/bash\n"
			if c.script == "" {
				first = "#!/no/such/shell\n"
			}
			if c.script != "-" {
				path = s.script(strings.ReplaceAll(name, " ", "-")+".sh", first+c.script+"\n")
			}
			args := append(append([]string{"profile", "--gpu-types=a100", "--cpus=2,4"}, short...), c.args...)
			_, errs, status := s.priod(append(args, "--", "--gres=gpu:1", path)...)
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			last := lines[len(lines)-1]
			if status != c.status || !strings.Contains(last, c.want) || strings.Count(errs, "priod: ") > 2 { // the note on TaskPlugin
				t.Errorf("%s: exit status %d, want %d and %q:\n%s", name, status, c.status, c.want, errs)
			}
			done <- name
		}()
	}
	for range cases {
		<-done
	}
	s.slurm("scancel", strings.TrimSpace(full))
	s.empty()
}

// Ctrl-C, a lost terminal and a kill cancel what was submitted, whether it waits
// or runs, even when the program will not end by itself.
func TestProfileInterrupted(t *testing.T) {
	s := profileSite(t, sharedLab(t))
	mark := filepath.Join(s.dir, "began")
	script := s.script("train.sh", "#!/bin/bash\ntrap '' INT TERM HUP\necho >> "+mark+"\nfor((i=0;;i++)); do echo step $((i*i)); sleep 0.1; done\n")
	if err := os.WriteFile(mark, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	os.Chmod(mark, 0o666) // whatever the umask
	for _, c := range []struct {
		signal syscall.Signal
		args   []string
		ready  func() bool
	}{
		{syscall.SIGINT, []string{"--gres=gpu:a100:1"}, func() bool { i, err := os.Stat(mark); return err == nil && i.Size() > 0 }},
		{syscall.SIGTERM, []string{"--gres=gpu:v100:1", "--mem=1G"}, func() bool { return strings.Contains(s.slurm("squeue", "--noheader", "--steps"), ".0 ") }},
		{syscall.SIGHUP, []string{"--gres=gpu:t4:1", "--licenses=none"}, nil},
	} {
		if c.ready == nil { // one that waits
			c.args[1] = "--nodelist=t4-1"
			busy := strings.TrimSpace(s.slurm("sbatch", "--parsable", "--nodelist=t4-1", "--exclusive", "--time=5", "--output=/dev/null", "--wrap=sleep 300"))
			defer s.slurm("scancel", busy)
			if err := s.lab.WaitJob(s.Context(), busy, "RUNNING"); err != nil {
				t.Fatal(err)
			}
			c.ready = func() bool { return strings.Contains(s.slurm("squeue", "--noheader", "--states=PENDING"), "priod") }
		}
		cmd := s.command(append(append([]string{"profile", "--patience=50s", "--budget=2m", "--"}, c.args...), script)...)
		var errs strings.Builder
		cmd.Stderr = &errs
		s.start(cmd)
		s.wait("the profile to be on its way", c.ready)
		cmd.Process.Signal(c.signal)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "stopped: ") {
			t.Errorf("%s: exit status %d\n%s", c.signal, code, &errs)
		}
		s.wait("the profile's job to be gone", func() bool { return !strings.Contains(s.slurm("squeue", "--noheader"), "priod") })
	}
}

// Slurm stops answering while the program runs, and comes back: the error says
// so, and the job is cancelled then.
func TestProfileWhileSlurmIsAway(t *testing.T) {
	s := profileSite(t, sharedLab(t))
	script := s.script("train.sh", "#!/bin/bash\ntraining -curve a100:1x1\n")
	away, asked, dir := filepath.Join(s.dir, "away"), filepath.Join(s.dir, "asked"), filepath.Join(s.dir, "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"squeue", "scancel"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		s.script("bin/"+name, fmt.Sprintf("#!/bin/sh\nif [ -e %s ]; then echo %[2]s >>%s; echo '%[2]s: error: Unable to contact slurm controller (connect failure)' >&2; exit 1; fi\nexec %[4]s \"$@\"\n", away, name, asked, real))
	}
	if err := os.WriteFile(asked, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	os.Chmod(asked, 0o666) // whatever the umask
	cmd := s.command(append(append([]string{"profile"}, short...), "--", "--gres=gpu:a100:1", script)...)
	for i, e := range cmd.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			cmd.Env[i] = "PATH=" + dir + ":" + path
		}
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	s.start(cmd)
	s.wait("a step", func() bool { return strings.Contains(s.slurm("squeue", "--noheader", "--steps"), ".0 ") })
	if err := os.WriteFile(away, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wait("an attempt to cancel", func() bool { text, _ := os.ReadFile(asked); return strings.Contains(string(text), "scancel") })
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "a100: squeue") || !strings.Contains(errs.String(), "Unable to contact slurm controller") {
		t.Errorf("exit status %d\n%s", code, &errs)
	}
	s.empty()
}

// The same with a slurmctld that is killed, on a lab of its own. squeue takes
// 18 s to give up, so a profile rides over less than that.
func TestProfileWhileSlurmIsDown(t *testing.T) {
	longOnly(t)
	l := lab.ForTest(t, lab.Options{NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}}})
	s := profileSite(t, l)
	script := s.script("train.sh", "#!/bin/bash\ntraining -curve a100:1x1\n")
	cmd := s.command(append(append([]string{"profile"}, short...), "--", "--gres=gpu:1", script)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	s.start(cmd)
	s.wait("a step", func() bool { return strings.Contains(s.slurm("squeue", "--noheader", "--steps"), ".0 ") })
	if err := l.Kill(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(45 * time.Second)
	if err := l.StartDaemon(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "Unable to contact slurm controller") {
		t.Errorf("exit status %d\n%s", code, &errs)
	}
	s.empty()
}

// With its own choice of CPU counts and longer windows a profile finds Synergy's
// curves within a tenth.
func TestProfileFindsPublishedCurves(t *testing.T) {
	longOnly(t)
	s := profileSite(t, sharedLab(t))
	curves := "a100:1x0.3-2x0.66-3x1-4x1.25-5x1.53-6x1.75-9x2-12x2.94,v100:1x0.4-2x0.74-3x1-4x1.15"
	script := s.script("train.sh", fmt.Sprintf("#!/bin/bash\n#SBATCH --gres=gpu:1\ntraining -rate 10 -warmup 1s -curve %s\n", curves))
	var p profiled
	out := s.must("profile", "--gpu-types=a100,v100", "--warmup=1s", "--measure=4s", "--patience=30s", "--budget=5m", "--json", "--", script)
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatal(err)
	}
	// Relative to 4 CPUs, the lab's proportional share.
	p.near(t, map[string]map[int]float64{
		"a100": {1: 0.3 / 1.25, 2: 0.66 / 1.25, 3: 0.8, 4: 1, 6: 1.4, 12: 2.94 / 1.25, 16: 2.94 / 1.25},
		"v100": {1: 0.4 / 1.15, 2: 0.74 / 1.15, 3: 1 / 1.15, 4: 1, 16: 1},
	}, 1.1)
}
