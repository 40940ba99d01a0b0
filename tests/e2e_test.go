package tests

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// bin holds the two programs, the shim and the training.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // other users run them too
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, p := range []string{"priod", "sbatchwrap", "tests/shim/cmd/shim", "tests/training/cmd/training"} {
			path, err := lab.Build(dir, p, buildEnv(p)...)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			bin = filepath.Dir(path)
		}
		return lab.Main(m, lab.Options{})
	}())
}

// watchesRaces reports whether every priod runs with Go's race detector, and ends at
// the first race that it finds: make test-race.
func watchesRaces() bool { return os.Getenv("SLURMPRIO_RACE") == "1" }

// buildEnv are variables of the build of a program.
func buildEnv(program string) []string {
	if !watchesRaces() || program != "priod" {
		return nil
	}
	return []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -race"}
}

// long reports whether what takes more than some seconds runs too: make test-long.
func long() bool { return os.Getenv("SLURMPRIO_LONG") == "1" }

// longOnly skips a test that does.
func longOnly(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("make test-long runs this")
	}
}

// site is a lab with priod alongside it: a state folder and a configuration.
type site struct {
	testing.TB
	lab        *lab.Lab
	user       string // who runs priod; "" for the lab's own user
	host       string // where, in a lab with a backup controller
	dir        string
	config     string
	binDir     string   // where priod looks for Slurm's commands; "" for PATH
	program    string   // of priod; "" for the one that TestMain built
	ahead      string   // of the machine's clock is that of this program
	hurry      string   // how long priod waits for a command that may hang; "" for a minute: none does
	partitions []string // of [slurm]; nil: gpu
	profile    string
	settings   string // of configure
	life       life
}

// newSite is a site on a lab that tests use one after the other, its queue cleared. settings are lines of priod.toml that
// follow its [slurm] and [state].
func newSite(t testing.TB, settings string) *site {
	t.Helper()
	s := newSiteOn(t, sharedLab(t), settings)
	s.whole()
	return s
}

// sharedLab lets the test run beside others, on a lab that is its own meanwhile. Subtests stay one after the other.
func sharedLab(t testing.TB) *lab.Lab {
	t.Helper()
	if t, is := t.(*testing.T); is && !strings.Contains(t.Name(), "/") {
		t.Parallel()
	}
	return lab.Shared(t)
}

// whole waits until all nodes of the lab that tests share can run jobs: one may not have answered for a moment,
// and one that an earlier test left drained is named here.
func (s *site) whole() {
	s.Helper()
	states := ""
	defer func() {
		if s.Failed() {
			s.Logf("nodes:\n%s", states)
		}
	}()
	// A claim's reservation outlives a priod that a test killed, for two minutes.
	for line := range strings.Lines(s.slurm("scontrol", "show", "reservation", "--oneliner")) {
		if name, is := strings.CutPrefix(line, "ReservationName="); is {
			s.slurm("scontrol", "delete", "ReservationName="+strings.Fields(name)[0])
		}
	}
	s.wait("all nodes to be up", func() bool {
		states = s.slurm("sinfo", "--noheader", "--Node", "--format=%N %T %E", "--partition=gpu")
		for line := range strings.Lines(states) {
			if f := strings.Fields(line); len(f) > 1 && f[1] != "idle" && f[1] != "completing" {
				return false
			}
		}
		return true
	})
}

// newOwnSite is newSite on a lab of the test's own, beside other such tests: for
// those that mostly wait.
func newOwnSite(t *testing.T, settings string) *site {
	t.Helper()
	t.Parallel()
	return newSiteOn(t, lab.ForTest(t, lab.Options{}), settings)
}

// newSiteOn is newSite on a lab of the test's own.
func newSiteOn(t testing.TB, l *lab.Lab, settings string) *site {
	t.Helper()
	s := bareSite(t, l)
	s.configure(settings)
	t.Cleanup(s.clear)
	s.clear()
	return s
}

// bareSite is a site without a configuration.
func bareSite(t testing.TB, l *lab.Lab) *site {
	dir := t.TempDir()
	return &site{TB: t, lab: l, dir: dir, config: filepath.Join(dir, "priod.toml"), life: lifeOf(t)}
}

func (s *site) configure(settings string) {
	s.Helper()
	if !strings.Contains(settings, "[wake]") {
		settings += "\n[wake]\nlisten = []\n" // the default is one place for the whole machine
	}
	s.settings = settings
	partitions := s.partitions
	if partitions == nil {
		partitions = []string{"gpu"}
	}
	text := fmt.Sprintf("profile = %q\n[slurm]\npartitions = [%s]\ncommand_timeout = %q\nbin_dir = %q\n[state]\ndir = %q\n%s", s.profile, quoted(partitions), cmp.Or(s.hurry, "60s"), s.binDir, filepath.Join(s.dir, "state"), settings)
	if err := replaceFile(s.config, text); err != nil {
		s.Fatal(err)
	}
}

// quoted is a list of texts as TOML writes it, without its brackets.
func quoted(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return `"` + strings.Join(texts, `", "`) + `"`
}

// hurries lets priod wait for a command for so long; "": for a minute.
func (s *site) hurries(most string) {
	s.Helper()
	s.hurry = most
	s.configure(s.settings)
}

// replaceFile writes a file at once: a daemon that reloads meanwhile reads the old text or the new one.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// openDir is a folder that other users may enter: TempDir's parent is closed to them.
func openDir(t testing.TB, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "open-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// become lets another user run priod, with a state folder of its own.
func (s *site) become(user, settings string) {
	s.Helper()
	s.user, s.dir = user, openDir(s, 0o777)
	s.config = filepath.Join(s.dir, "priod.toml")
	s.configure(settings)
}

// clear ends every job and waits until none is left.
func (s *site) clear() {
	s.Helper()
	me, err := user.Current()
	if err != nil {
		s.Fatal(err)
	}
	var left string
	err = lab.WaitFor(context.Background(), "an empty queue", func(ctx context.Context) (bool, error) {
		// A call that hangs must not take the whole wait with it.
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if out, err := s.lab.Run(ctx, "scancel", "--quiet", "--user="+me.Username); err != nil {
			left = fmt.Sprintf("scancel: %v %s", err, out)
			return false, nil // slurmctld may be on its way up
		}
		out, err := s.lab.Run(ctx, "squeue", "--noheader", "--format=%i %T %N %r")
		if err != nil {
			left = fmt.Sprintf("squeue: %v", err)
			return false, nil
		}
		left = strings.TrimSpace(out)
		return left == "", nil
	})
	if err != nil {
		s.Errorf("%v; at last: %s", err, left)
	}
}

func (s *site) client() lab.Client {
	if s.host != "" {
		return s.lab.On(s.host)
	}
	if s.user == "" {
		return s.lab.Client
	}
	return s.lab.As(s.user)
}

func (s *site) command(args ...string) *exec.Cmd {
	name := cmp.Or(s.program, filepath.Join(bin, "priod"))
	if s.host != "" && s.user != "" {
		name, args = "setpriv", append([]string{"--reuid=" + s.user, "--regid=" + s.user, "--clear-groups", name}, args...)
	}
	cmd := s.client().Command(context.Background(), name, args...)
	cmd.Env = append(cmd.Env, "PRIOD_CONFIG="+s.config, "GORACE=halt_on_error=1", "CLOCK_AHEAD="+s.ahead)
	return cmd
}

// priod runs a verb to its end.
func (s *site) priod(args ...string) (stdout, stderr string, status int) {
	s.Helper()
	cmd := s.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatalf("priod %v: %v", args, err)
	}
	if strings.Contains(errs.String(), dataRace) {
		s.Fatalf("priod %v: %s", args, &errs)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs a verb that has to succeed and returns its output.
func (s *site) must(args ...string) string {
	s.Helper()
	out, errs, status := s.priod(args...)
	if status != 0 {
		s.Fatalf("priod %v: exit status %d\n%s%s", args, status, out, errs)
	}
	return out
}

// explains waits until explain says words of a job: those of a job that has just started are of the next cycle.
func (s *site) explains(job string, words ...string) {
	s.Helper()
	out := ""
	defer func() {
		if s.Failed() {
			s.Logf("explain of job %s:\n%s", job, out)
		}
	}()
	s.wait(fmt.Sprintf("explain to say %q of job %s", words, job), func() bool {
		out, _, _ = s.priod("explain", job)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(out, word) })
	})
}

func (s *site) json(into any, args ...string) {
	s.Helper()
	out := s.must(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		s.Fatalf("priod %v: %v in\n%s", args, err, out)
	}
}

// submit sends a job through sbatchwrap and returns its id.
func (s *site) submit(args ...string) string {
	s.Helper()
	s.alive()
	args = append([]string{"--parsable", "--output=/dev/null"}, args...)
	out, err := s.lab.Run(context.Background(), filepath.Join(bin, "sbatchwrap"), args...)
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// fill submits BE jobs that take every GPU, and waits until they run.
func (s *site) fill() (ids []string) {
	s.Helper()
	for range s.lab.Nodes {
		ids = append(ids, s.submit("--prio-type=be", "--gres=gpu:4", "--time=60", "--wrap", "sleep 600"))
	}
	for _, id := range ids {
		if err := s.lab.WaitJob(s.Context(), id, "RUNNING"); err != nil {
			s.Fatal(err)
		}
	}
	return ids
}

// order is Slurm's own order of the pending jobs, first to last: the tasks of one
// record as one, whether squeue prints a line for each or not.
func (s *site) order() []string {
	s.Helper()
	out, err := s.lab.Run(context.Background(), "squeue", "--noheader", lab.Records(), "--states=PENDING", "--sort=-p,i", "--format=%A %i")
	if err != nil {
		s.Fatal(err)
	}
	var ids []string
	var tasks []int32
	last := ""
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		array, task, _ := strings.Cut(f[1], "_")
		n, err := strconv.Atoi(task)
		if len(tasks) > 0 && f[0] == last && err == nil {
			tasks = append(tasks, int32(n))
			slices.Sort(tasks)
			ids[len(ids)-1] = array + "_[" + slurmplug.CompactTasks(tasks) + "]"
			continue
		}
		last, tasks = f[0], nil
		if err == nil {
			tasks = []int32{int32(n)}
		}
		ids = append(ids, f[1])
	}
	return ids
}

// slurm runs one of Slurm's commands that has to succeed.
func (s *site) slurm(name string, args ...string) string {
	s.Helper()
	out, err := s.lab.Run(context.Background(), name, args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// levers shows what priod could leave behind: SiteFactor, Nice and priority.
func (s *site) levers() string {
	s.Helper()
	return s.slurm("sprio", "--noheader", "--format=%i %S %N") +
		s.slurm("squeue", "--noheader", "--states=PENDING", "--sort=i", "--Format=JobID:|,Nice:|,Feature:|,Comment:|")
}

// wait waits for what is to happen, however busy the machine is.
func (s *site) wait(what string, condition func() bool) {
	s.Helper()
	s.within(lab.Patience, what, condition)
}

func (s *site) within(patience time.Duration, what string, condition func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := lab.WaitFor(ctx, what, func(context.Context) (bool, error) { return condition(), nil }); err != nil {
		s.Fatal(err)
	}
}

// loseDatabase deletes priod's database; the undo journal stays.
func (s *site) loseDatabase() {
	s.Helper()
	files, _ := filepath.Glob(filepath.Join(s.dir, "state", "priod.db*"))
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			s.Fatal(err)
		}
	}
}

// eligible waits until Slurm counts n pending jobs as eligible: right after a
// submission it does not.
func (s *site) eligible(n int) {
	s.Helper()
	s.wait(fmt.Sprintf("%d eligible jobs", n), func() bool {
		return strings.Count(s.slurm("sprio", "--noheader", "--format=%i"), "\n") == n
	})
}
