package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	os.Exit(Main(m, Options{}))
}

func TestGPUTypes(t *testing.T) {
	l := Shared(t)
	ctx := t.Context()
	ids := map[string]string{}
	for _, gpu := range []string{"a100", "v100", "t4"} {
		ids[gpu+" by GRES"] = sbatch(t, l.Client, "--gres=gpu:"+gpu+":2", "--comment=hello "+gpu, "--qos=te", "--wrap=echo $SLURM_GPUS_ON_NODE >"+gpu)
		ids[gpu+" by feature"] = sbatch(t, l.Client, "--gres=gpu:1", "--constraint="+gpu, "--comment=hello "+gpu, "--qos=be", "--wrap=true")
	}
	for what, id := range ids {
		gpu, how, _ := strings.Cut(what, " by ")
		if err := l.WaitJob(ctx, id, "COMPLETED"); err != nil {
			t.Fatal(err)
		}
		gpus, qos := "2", "te"
		if how == "feature" {
			gpus, qos = "1", "be"
		}
		var row []string
		err := WaitFor(ctx, "job "+id+" in the accounts", func(ctx context.Context) (bool, error) {
			out, err := l.Run(ctx, "sacct", "-n", "-P", "-X", "-j", id, "--format=State,QOS,Comment,AllocTRES,NodeList,Account")
			row = strings.Split(strings.TrimSpace(out), "|")
			return len(row) == 6 && row[0] == "COMPLETED" && row[1] != "Unknown", err // the first row to appear lacks the QOS
		})
		if err != nil {
			t.Fatal(err)
		}
		if row[1] != qos || row[2] != "hello "+gpu || !strings.Contains(row[3], "gres/gpu:"+gpu+"="+gpus) || !strings.HasPrefix(row[4], gpu+"-") || row[5] != Physics {
			t.Errorf("job %s (%s): sacct says %q", id, what, row)
		}
	}
	for _, gpu := range []string{"a100", "v100", "t4"} {
		if out, err := os.ReadFile(l.path("work/" + gpu)); err != nil || string(out) != "2\n" {
			t.Errorf("SLURM_GPUS_ON_NODE of the %s job: %q, %v", gpu, out, err)
		}
	}
}

func TestPreemption(t *testing.T) {
	l := Shared(t)
	ctx := t.Context()
	be := sbatch(t, l.Client, "--qos=be", "--nodelist=t4-2", "--exclusive", "--wrap=sleep 1000")
	if err := l.WaitJob(ctx, be, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	te := sbatch(t, l.Client, "--qos=te", "--nodelist=t4-2", "--exclusive", "--wrap=sleep 1000")
	if err := l.WaitJob(ctx, te, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	if err := l.WaitJob(ctx, be, "PENDING"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(ctx, "scancel", be, te); err != nil {
		t.Fatal(err)
	}
}

func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as other users")
	}
	l := Shared(t)
	ctx := t.Context()
	u, err := user.Lookup(PlainUser)
	if err != nil {
		t.Fatal(err)
	}
	done := sbatch(t, l.As(PlainUser), "--output=uid", "--wrap=id -u")
	id := sbatch(t, l.As(PlainUser), "--account="+Biology, "--hold", "--wrap=true")
	pending := sbatch(t, l.As(PlainUser), "--nodelist=a100-1", "--exclusive", "--dependency=after:"+id, "--wrap=true")
	if err := l.WaitJob(ctx, done, "COMPLETED"); err != nil {
		t.Fatal(err)
	}
	if out, err := os.ReadFile(l.path("work/uid")); err != nil || strings.TrimSpace(string(out)) != u.Uid {
		t.Errorf("the job ran as uid %q (%v), want %s", out, err, u.Uid)
	}
	for name, may := range map[string]bool{OperatorUser: true, PlainUser: false, OtherUser: false} {
		_, err := l.As(name).Run(ctx, "scontrol", "update", "jobid="+pending, "sitefactor=7")
		if (err == nil) != may {
			t.Errorf("%s sets SiteFactor: %v, want it allowed: %v", name, err, may)
		}
	}
	if _, err := l.As(OtherUser).Run(ctx, "scancel", id); err == nil {
		t.Errorf("%s cancelled a job of %s", OtherUser, PlainUser)
	}
	if _, err := l.As("no such user").Run(ctx, "squeue"); err == nil {
		t.Error("a user that does not exist ran squeue")
	}
}

func TestFaults(t *testing.T) {
	l := ForTest(t, Options{NoAccounting: true, Nodes: []NodeSpec{{Count: 2, GPUType: "a100", GPUs: 1}}})
	ctx := t.Context()
	id := sbatch(t, l.Client, "--nodelist=a100-2", "--wrap=sleep 1000")
	if err := l.WaitJob(ctx, id, "RUNNING"); err != nil {
		t.Fatal(err)
	}

	if err := l.Pause("slurmctld"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if out, err := l.Run(soon, "squeue"); err == nil {
		t.Errorf("squeue answered though slurmctld is paused: %q", out)
	}
	if err := l.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}
	if out, err := l.Run(ctx, "squeue", "-h"); err != nil || !strings.Contains(out, id) {
		t.Errorf("squeue after Continue: %q, %v", out, err)
	}

	if err := l.WaitSaved(ctx); err != nil { // or it may forget that the job runs
		t.Fatal(err)
	}
	before, err := l.PID("slurmctld")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Kill(ctx, "slurmctld"); err != nil {
		t.Fatal(err)
	}
	if err := l.Pause("slurmctld"); err == nil {
		t.Error("a dead slurmctld could be paused")
	}
	if logs := l.Logs(5); !strings.HasPrefix(logs, "--- slurmctld is not running: signal: killed\n") {
		t.Errorf("the logs do not say who died: %s", logs)
	}
	if err := l.StartDaemon(ctx, "slurmctld"); err != nil {
		t.Fatal(err)
	}
	after, err := l.PID("slurmctld")
	if err != nil || after == before {
		t.Errorf("pid %d after %d: %v", after, before, err)
	}
	if err := l.Restart(ctx, "slurmctld"); err != nil {
		t.Fatal(err)
	}
	if err := l.Restart(ctx, Slurmd("a100-2")); err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(ctx, Slurmd("a100-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.PID(Slurmd("a100-1")); err == nil {
		t.Error("a stopped slurmd has a pid")
	}
	if err := l.StartDaemon(ctx, Slurmd("a100-1")); err != nil {
		t.Fatal(err)
	}
	if err := l.WaitNodes(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.WaitJob(ctx, id, "RUNNING"); err != nil {
		t.Error(err)
	}
	if err := l.StartDaemon(ctx, Slurmd("a100-1")); err == nil {
		t.Error("a second slurmd of the same node started")
	}
	if err := l.Stop(ctx, "slurmd/nowhere"); err == nil {
		t.Error("the slurmd of no node was stopped")
	}
}

// Two labs at once, each with accounting, see their own jobs only; Close
// leaves nothing of one and does not touch the other.
func TestSideBySide(t *testing.T) {
	type result struct {
		lab *Lab
		err error
	}
	results := make(chan result)
	for range 2 {
		go func() {
			l, err := Start(context.Background(), Options{Nodes: []NodeSpec{{Count: 1, GPUType: "a100", GPUs: 1}}})
			results <- result{l, err}
		}()
	}
	var labs [2]*Lab
	for i := range labs {
		r := <-results
		if missing := new(MissingError); errors.As(r.err, &missing) && os.Getenv(requireEnv) != "1" {
			defer t.Skip(r.err)
			continue
		}
		if r.err != nil {
			t.Fatal(r.err)
		}
		labs[i] = r.lab
		t.Cleanup(func() { r.lab.Close() })
	}
	if labs[0] == nil {
		return
	}
	for i, l := range labs {
		id := sbatch(t, l.Client, "--job-name=of-"+strconv.Itoa(i), "--gres=gpu:a100:1", "--wrap=(setsid sleep 1000 &) ; trap '' TERM; sleep 1001")
		if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range labs {
		if out, err := l.Run(t.Context(), "squeue", "-h", "-o", "%j"); err != nil || out != fmt.Sprintf("of-%d\n", i) {
			t.Errorf("lab %d: squeue says %q, %v", i, out, err)
		}
	}
	if len(processesOf(labs[0].Dir)) < 6 { // keeper, munged, mariadbd, slurmdbd, slurmctld, slurmd, ...
		t.Errorf("the search for processes finds too few: %v", processesOf(labs[0].Dir))
	}
	if err := labs[0].Close(); err != nil {
		t.Error(err)
	}
	gone(t, labs[0].Dir, 0)
	if err := labs[0].Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := labs[1].Run(t.Context(), "sacct"); err != nil {
		t.Error(err)
	}
	if err := labs[1].Close(); err != nil {
		t.Error(err)
	}
	gone(t, labs[1].Dir, 0)
}

// However the program ends that started a lab, the lab ends with it.
func TestOwnerDies(t *testing.T) {
	for _, end := range []string{"SIGKILL", "SIGTERM", "SIGINT", "panic", "exit", "while starting", "keeper"} {
		t.Run(end, func(t *testing.T) {
			role := "lab"
			if end == "while starting" {
				role = "accounting"
			}
			cmd, dir := startChild(t, role, nil)
			switch end {
			case "SIGKILL":
				_ = cmd.Process.Kill()
			case "SIGTERM":
				_ = cmd.Process.Signal(syscall.SIGTERM)
			case "SIGINT":
				_ = cmd.Process.Signal(syscall.SIGINT)
			case "while starting":
				time.Sleep(700 * time.Millisecond)
				_ = cmd.Process.Kill()
			case "keeper": // killed itself: the program cleans up after it
				keeper := descendants(cmd.Process.Pid)
				for _, pid := range keeper {
					if parents()[pid] == cmd.Process.Pid {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				tell(t, cmd, "close")
			default:
				tell(t, cmd, end)
			}
			if err := cmd.Wait(); (err == nil) != (end == "keeper") {
				t.Errorf("the program ended with %v", err)
			}
			gone(t, dir, Patience)
		})
	}
}

// A program without any right starts a lab and runs a GPU job in it.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("all tests run unprivileged")
	}
	credential, err := credentialOf(PlainUser)
	if err != nil {
		t.Fatal(err)
	}
	cmd, dir := startChild(t, "unprivileged", credential)
	tell(t, cmd, "close")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, 0)
}

// Jobs get every signal as they would elsewhere: none is ignored from above.
func TestSignals(t *testing.T) {
	l := Shared(t)
	ctx := t.Context()
	id := sbatch(t, l.Client, "--output=signals", "--wrap=grep SigIgn /proc/self/status; trap 'echo got INT; exit 0' INT; echo ready; sleep 1000 & wait")
	read := func() string {
		b, _ := os.ReadFile(l.path("work/signals"))
		return string(b)
	}
	if err := WaitFor(ctx, "the job's trap", func(context.Context) (bool, error) { return strings.Contains(read(), "ready"), nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(ctx, "scancel", "--batch", "--signal=INT", id); err != nil {
		t.Fatal(err)
	}
	if err := l.WaitJob(ctx, id, "COMPLETED"); err != nil {
		t.Fatal(err)
	}
	got := read()
	var ignored uint64
	if _, err := fmt.Sscanf(got, "SigIgn:\t%x", &ignored); err != nil {
		t.Fatalf("the job wrote %q: %v", got, err)
	}
	const ordinary = 1<<31 - 1 // signals 1 to 31; 32 and 33 are glibc's own
	if ignored&ordinary != 0 || !strings.HasSuffix(got, "got INT\n") {
		t.Errorf("the job wrote %q", got)
	}
}

func TestDetachAndRemove(t *testing.T) {
	skipWithoutSlurm(t)
	o := Options{NoAccounting: true, Dir: filepath.Join(t.TempDir(), "here")}
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
	l.conn.Close()
	go l.keeper.Wait()
	id := sbatch(t, l.Client, "--wrap=sleep 1000")
	if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
		t.Error(err)
	}
	if err := Remove(l.Dir); err != nil {
		t.Error(err)
	}
	gone(t, l.Dir, 0)
	if err := Remove(l.Dir); err == nil {
		t.Error("a lab was removed twice")
	}
	if err := Remove(t.TempDir()); err == nil {
		t.Error("a folder that is no lab was removed")
	}
}

func TestPortTaken(t *testing.T) {
	skipWithoutSlurm(t)
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, daemon := range []string{"slurmctld", "slurmd"} {
		tries := 0
		l, err := Start(t.Context(), Options{NoAccounting: true, pickPorts: func(n int) (ports, error) {
			p, err := freePorts(n)
			if tries++; tries == 1 && daemon == "slurmctld" {
				p.Slurmctld = port
			} else if tries == 1 {
				p.Slurmd = port
			}
			return p, err
		}})
		if err != nil {
			t.Fatalf("%s: %v", daemon, err)
		}
		if tries != 2 {
			t.Errorf("%s: started at try %d, want 2", daemon, tries)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A start that fails says why, in the daemon's own words, and leaves nothing.
func TestStartFails(t *testing.T) {
	skipWithoutSlurm(t)
	dir := filepath.Join(t.TempDir(), "lab")
	_, err := Start(t.Context(), Options{Dir: dir, NoAccounting: true, ExtraConf: []string{"SchedulerType=sched/nonsense"}})
	if err == nil || !strings.Contains(err.Error(), "slurmctld ended") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error: %v", err)
	}
	gone(t, dir, 0)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	gone(t, dir, 0)
}

// A lab runs no login file of the machine's, for --export=NONE neither: here /etc/profile hangs, and each
// login shell reads that first.
func TestLoginFilesThatHang(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's slurmd reads login files")
	}
	const trap = "SLURMPRIO_LAB_TEST_TRAP"
	sprung := os.Getenv(trap)
	if sprung == "" {
		skipWithoutSlurm(t)
		dir := t.TempDir()
		profile, sprung := filepath.Join(dir, "profile"), filepath.Join(dir, "sprung")
		if err := os.WriteFile(profile, []byte("touch "+sprung+"; sleep 3600\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", `mount --bind "$1" /etc/profile && exec "$2" -test.count=1 -test.run='^TestLoginFilesThatHang$'`, "sh", profile, self)
		cmd.Env = append(os.Environ(), trap+"="+sprung)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	l := ForTest(t, Options{NoAccounting: true, Nodes: []NodeSpec{{Count: 1}}})
	for _, c := range []Client{l.Client, l.As(PlainUser)} {
		id := sbatch(t, c, "--export=NONE", "--output="+l.path("work/%j"), "--wrap", "id -un; echo $USER $SLURM_CONF")
		if err := l.WaitJob(t.Context(), id, "COMPLETED"); err != nil {
			t.Fatal(err)
		}
		name := PlainUser
		if c.user == "" {
			name = l.user
		}
		if out, err := os.ReadFile(l.path("work/" + id)); err != nil || string(out) != fmt.Sprintf("%s\n%s %s\n", name, name, l.Conf()) {
			t.Errorf("%q, %v", out, err)
		}
	}
	if _, err := os.Stat(sprung); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a login file was read: %v", err)
	}
}

func TestExtraFiles(t *testing.T) {
	l := ForTest(t, Options{
		NoAccounting: true,
		ExtraConf:    []string{"jobsubmitplugins=lua", "PriorityWeightAge=5"},
		ExtraFiles: map[string]string{"job_submit.lua": `
function slurm_job_submit(job, part, uid) slurm.log_user("lua was here") return slurm.SUCCESS end
function slurm_job_modify(job, rec, part, uid) return slurm.SUCCESS end
`},
	})
	out, err := l.Command(t.Context(), "sbatch", "--wrap=true").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "lua was here") {
		t.Errorf("sbatch: %s %v", out, err)
	}
	if out, err := l.Run(t.Context(), "scontrol", "show", "config"); err != nil || !strings.Contains(out, "PriorityWeightAge       = 5\n") {
		t.Errorf("PriorityWeightAge was not replaced: %v", err)
	}
}

func sbatch(t *testing.T, c Client, args ...string) string {
	t.Helper()
	id, err := c.Sbatch(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func skipWithoutSlurm(t *testing.T) {
	if missing := Missing(); len(missing) > 0 && os.Getenv(requireEnv) != "1" {
		t.Skip(&MissingError{missing})
	}
}

// gone checks that within a time no process and no file of a lab is left.
func gone(t *testing.T, dir string, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		left := processesOf(dir)
		_, err := os.Lstat(dir)
		if len(left) == 0 && errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left of %s: processes %v, folder: %v", dir, left, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processesOf finds every process whose command line, environment, working
// folder or open files name dir, or whose Slurm job belongs to it, but this one.
func processesOf(dir string) []string {
	var found []string
	for pid := range parents() {
		proc := fmt.Sprintf("/proc/%d", pid)
		cmdline, _ := os.ReadFile(proc + "/cmdline")
		environ, _ := os.ReadFile(proc + "/environ")
		cwd, _ := os.Readlink(proc + "/cwd")
		names := []string{string(cmdline), string(environ), cwd}
		fds, _ := filepath.Glob(proc + "/fd/*")
		for _, fd := range fds {
			target, _ := os.Readlink(fd)
			names = append(names, target)
		}
		if pid != os.Getpid() && strings.Contains(strings.Join(names, "\n"), dir) {
			found = append(found, fmt.Sprintf("%d (%s)", pid, strings.ReplaceAll(string(cmdline), "\x00", " ")))
		}
	}
	return found
}

// childRole makes this test binary start a lab in a process of its own.
const childRole = "SLURMPRIO_LAB_TEST_CHILD"

// startChild starts this test binary in a role and returns when it says where
// its lab is.
func startChild(t *testing.T, role string, as *syscall.Credential) (*exec.Cmd, string) {
	t.Helper()
	skipWithoutSlurm(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	cmd.Stderr = os.Stderr
	if role == "lab" {
		cmd.Stderr = nil // it shall panic
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	children[cmd] = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "/") {
		t.Fatalf("the program started no lab: %q", lines.Text())
	}
	return cmd, lines.Text()
}

var children = map[*exec.Cmd]interface{ Write([]byte) (int, error) }{}

func tell(t *testing.T, cmd *exec.Cmd, what string) {
	t.Helper()
	if _, err := children[cmd].Write([]byte(what + "\n")); err != nil {
		t.Fatal(err)
	}
}

// child starts a lab, prints its folder once a stubborn job runs, and ends as
// it is told.
func child(role string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	o := Options{NoAccounting: role == "lab"}
	if role == "accounting" {
		dir, err := os.MkdirTemp("", "lab-")
		if err != nil {
			return fail(err)
		}
		o.Dir = dir
		fmt.Println(dir) // before the lab is there
	}
	l, err := Start(ctx, o)
	if err != nil {
		return fail(err)
	}
	id, err := l.Sbatch(ctx, "--gres=gpu:v100:1", "--wrap=(setsid sleep 1000 &) ; trap '' TERM; sleep 1001")
	if err != nil {
		return fail(err)
	}
	if err := l.WaitJob(ctx, id, "RUNNING"); err != nil {
		return fail(err)
	}
	if role == "unprivileged" {
		out, err := l.Run(ctx, "sacct", "-n", "-X", "-P", "-j", id, "--format=User,Account,NodeList")
		if u, _ := user.Current(); err != nil || !strings.HasPrefix(out, u.Username+"|"+Physics+"|v100-") {
			return fail(fmt.Errorf("sacct says %q, %v", out, err))
		}
	}
	fmt.Println(l.Dir)
	words := bufio.NewScanner(os.Stdin)
	words.Scan()
	switch words.Text() {
	case "panic":
		panic("as told")
	case "close":
		if err := l.Close(); err != nil {
			return fail(err)
		}
		return 0
	}
	return 3
}

// A cluster that takes the place of another one has none of its jobs.
func TestRebuildEndsJobs(t *testing.T) {
	o := Options{Nodes: []NodeSpec{{Count: 1, GPUType: "t4", GPUs: 1}}}
	l := ForTest(t, o)
	if err := l.WaitJob(t.Context(), sbatch(t, l.Client, "--wrap=sleep 600"), "RUNNING"); err != nil {
		t.Fatal(err)
	}
	if err := WaitFor(t.Context(), "the job's processes", func(context.Context) (bool, error) { return len(steps(l.Dir)) > 1, nil }); err != nil {
		t.Fatal(err)
	}
	if err := l.Rebuild(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if left := steps(l.Dir); len(left) > 0 {
		t.Errorf("processes %v of its job run on", left)
	}
}
