package tests

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// runBy are blocks whose commands another test runs: they want a machine of their own,
// or minutes. What stands in that test's file shows that it does.
var runBy = []struct{ page, heading, file, has string }{
	{"docs/install.md", "Install in ten minutes", "packages.sh", `commands docs/install.md "Install in ten minutes"`},
	{"docs/removal.md", "Removal", "packages.sh", "commands docs/removal.md Removal"},
	{"docs/removal.md", "sbatch", "packages.sh", "commands docs/removal.md sbatch"},
	{"docs/removal.md", "The packages", "packages.sh", `commands docs/removal.md "The packages"`},
	{"docs/features/failures.md", "Output", "packages.sh", `commands docs/features/failures.md Output`},
	{"docs/features/hold.md", "The hold: jobs that would start before priod sees them", "packages.sh", `commands docs/features/hold.md "The hold`},
	{"docs/features/job-submit.md", "Slurm's own hooks", "lua_test.go", "func TestLuaGrammar("},
	{"docs/reference/sbatchwrap.md", "In sbatch's place", "packages.sh", `commands docs/reference/sbatchwrap.md "In sbatch's place"`},
	{"docs/users/profiling.md", "", "profile_test.go", "func TestProfilePrintsLinesToCopy("},
	{"docs/users/canary.md", "", "try_first_test.go", "func TestTryFirst("},
	{"docs/two-hosts.md", "", "two_hosts_test.go", "func TestTwoHostsByThePage("},
	{"docs/first-day.md", "2. Walk through your own month", "replay_test.go", "func TestReplayOfALab("},
}

// ends are the exit statuses of commands that the pages show as wrong.
var ends = map[string]int{
	"sbatchwrap --prio-grace soon train.sh":                  2,
	"priod workloads history":                                1, // a daemon learns a minute after its start; wrong usage is 2
	"priod workloads history --out learned.toml":             1,
	"priod eta 4711":                                         1, // an example's job
	"priod tune --from-slurm --since 60d --restart-cost 60s": 1, // the lab has run too few jobs
}

var comment = regexp.MustCompile(`\s+#.*$`)

const nodesOfTheLab = `[[nodes]]
count = 3
gpu_type = "a100"
gpus = 4
cpus = 16
mem_mb = 8000
switch = "leaf1"
[[nodes]]
count = 5
gpu_type = "v100"
gpus = 4
cpus = 16
mem_mb = 8000
switch = "leaf2"
`

// Every command that a page shows succeeds as it stands there, on a Slurm with everything on;
// those of make, of the measurements and those in runBy do so in other tests.
// TestDocsCommandsAreKnown knows these, too.
func TestDocsCommandsRun(t *testing.T) {
	longOnly(t)
	away := runByOthers(t)
	r := newReader(t)
	seen := map[string]bool{}
	for _, b := range pageBlocks(t) {
		if strings.HasPrefix(b.page, "docs/evidence/") {
			continue
		}
		if b.kind == "conf" {
			r.configures(b)
		}
		if away(b) {
			continue
		}
		for _, line := range b.commands() {
			line = comment.ReplaceAllString(line, "")
			if _, err := exec.LookPath("curl"); err != nil && strings.HasPrefix(line, "curl ") {
				continue // the roots of other Slurms have none
			}
			if !seen[line] && !strings.HasPrefix(line, "make ") && !strings.HasPrefix(line, "go run ") {
				seen[line] = true
				r.types(b.page, line)
			}
		}
	}
}

// Each heading of runBy has commands, and a test that runs them: those of a heading with another name would run on this machine.
func TestDocsRunByOthers(t *testing.T) { runByOthers(t) }

// runByOthers reports of a block whether another test runs it; the test ends where runBy does not fit the pages.
func runByOthers(t *testing.T) func(b block) bool {
	t.Helper()
	there := map[string]bool{}
	for _, e := range runBy {
		if text, err := os.ReadFile(e.file); err != nil || !strings.Contains(string(text), e.has) {
			t.Errorf("%s does not have %q, for %s: %v", e.file, e.has, e.page, err)
		}
		there[e.page+"#"+e.heading] = false
	}
	of := func(b block) string {
		if _, all := there[b.page+"#"]; all {
			return b.page + "#"
		}
		return b.page + "#" + b.heading
	}
	for _, b := range pageBlocks(t) {
		if _, named := there[of(b)]; named && len(b.commands()) > 0 {
			there[of(b)] = true
		}
	}
	for name, has := range there {
		if !has {
			t.Errorf("%s has no commands, and runBy names it", name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return func(b block) bool {
		_, named := there[of(b)]
		return named
	}
}

// A reader has what the pages take for granted: a Slurm with jobs that run, wait and are
// done, priod's decisions about them, scripts and files of the names that stand there.
type reader struct {
	*site
	job, running string // JOBID: a trial that waits, and one that runs where the page says so
	address      string // of priod web
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{site: newOwnSite(t, everything)}
	done := r.submit("--gres=gpu:1", "--time=5", "--wrap", "true")
	r.running = r.submit("--time=60", "--wrap", "trap '' USR1; sleep 600")
	if err := r.lab.WaitJob(t.Context(), r.running, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	r.submit("--prio-type=be", "--gres=gpu:a100:4", "--time=60", "--wrap", "sleep 600") // leaves for a trial
	for range r.lab.Nodes[1:] {
		r.submit("--gres=gpu:4", "--time=60", "--wrap", "sleep 600")
	}
	r.wait("all GPUs to be held", func() bool {
		return strings.Count(r.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i"), "\n") == len(r.lab.Nodes)+1
	})
	r.submit("--prio-type=te", "--gres=gpu:a100:1", "--time=5", "--wrap", "sleep 600")
	r.job = r.submit("--prio-type=te", "--gres=gpu:t4:1", "--time=5", "--wrap", "sleep 600")
	r.eligible(2)
	r.wait("accounting to know a job that is done", func() bool {
		return strings.Contains(r.slurm("sacct", "--noheader", "-X", "--jobs="+done, "--format=State,End%30"), "COMPLETED")
	})
	r.must("run", "--once")
	for name, text := range map[string]string{
		"train.sh":   "#!/bin/bash\n#SBATCH --gres=gpu:1 --time=10\n#PRIO --prio-speed=a100:1,v100:0.5,t4:0.1\nsleep 600\n",
		"try.sh":     "#!/bin/bash\nsleep 600\n",
		"jobs.csv":   "job_id,submit_s,gpus,duration_s,start_s,end_s\n1,0,2,800,0,800\n2,1,2,60,808,868\n",
		"nodes.toml": nodesOfTheLab,
		// One program of Gavel's measurements; the real file is not part of the repository.
		"simulation_throughputs.json": `{"v100": {"('A3C', 1)": {"null": 9.27, "('A3C', 1)": [4.7, 4.7]}}, "p100": {"('A3C', 1)": {"null": 8.1, "('A3C', 1)": [4.1, 4.1]}}, "k80": {"('A3C', 1)": {"null": 5.6, "('A3C', 1)": [2.9, 2.9]}}}`,
	} {
		r.write(name, text)
	}
	r.serve()
	return r
}

func (r *reader) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755); err != nil {
		r.Fatal(err)
	}
}

// serve has priod web answer at r.address, a port that was free a moment ago.
func (r *reader) serve() {
	r.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	r.address = free.Addr().String()
	free.Close()
	c := r.command("web", "--listen", r.address)
	out, err := c.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		r.Fatal(line, err)
	}
}

// configures looks that Slurm knows the keys of a piece of slurm.conf.
func (r *reader) configures(b block) {
	r.Helper()
	known := r.slurm("scontrol", "show", "config")
	for line := range strings.Lines(b.text) {
		key, _, _ := strings.Cut(line, "=")
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `\s+= `).MatchString(known) {
			r.Errorf("%s: slurm.conf has no %q", b.page, line)
		}
	}
}

// types runs a line of a page in a shell, with the job's number and the address of the pages
// filled in.
func (r *reader) types(page, line string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), lab.Patience)
	defer cancel()
	job := r.job
	if page == "docs/users/checkpointing.md" {
		job = r.running
	}
	// A page's command must not change this machine: its system folders are read-only where that is possible.
	shell := []string{"/bin/bash"}
	if os.Geteuid() == 0 && exec.Command("unshare", "--mount", "true").Run() == nil {
		shell = []string{"unshare", "--mount", "--propagation=private", "/bin/sh", "-c",
			`for d in /usr /etc; do mount --bind $d $d && mount -o remount,bind,ro $d || exit; done; exec "$@"`, "sh", "/bin/bash"}
	}
	c := r.lab.Command(ctx, shell[0], append(shell[1:], "-ec", strings.NewReplacer("JOBID", job, "127.0.0.1:9818", r.address).Replace(line))...)
	c.Dir = r.dir
	c.Env = append(c.Env, "PRIOD_CONFIG="+r.config, "CLUSTER=lab", "PATH="+bin+":"+os.Getenv("PATH"),
		"EDITOR=sed -i s/20000/20/", "SBATCH_OUTPUT=/dev/null")
	out, _ := c.CombinedOutput()
	if got, want := c.ProcessState.ExitCode(), ends[line]; got != want {
		r.Errorf("%s: %s: exit status %d, want %d\n%s", page, line, got, want, out)
	}
}
