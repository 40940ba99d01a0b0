package tests

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

const quick = "[cycle]\ninterval = \"2s\"\n"

func TestTrialSubmittedLastStartsFirst(t *testing.T) {
	s := newSite(t, quick)
	trainings := s.fill()
	s.submit("--prio-type=be", "--gres=gpu:1", "--time=60", "--wrap", "sleep 600")
	s.submit("--gres=gpu:1", "--time=60", "--comment=mine", "--wrap", "sleep 600")
	before := s.order()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	if got := s.order(); got[len(got)-1] != trial {
		t.Fatalf("Slurm alone does not put the trial last: %v", got)
	}
	d := s.daemon()
	s.wait("the trial to stand first", func() bool { return s.order()[0] == trial })
	if got := s.order()[1:]; !slices.Equal(got, before) {
		t.Errorf("the others stood as %v and now stand as %v", before, got)
	}
	s.slurm("scancel", trainings[0])
	if err := s.lab.WaitJob(s.Context(), trial, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	d.waitLog("wrote: cycle=")
	if status := d.stop(); status != 0 || !strings.Contains(d.log.String(), "stopped") {
		t.Errorf("exit status %d", status)
	}
	// What the log says of a pause, and one number for a cycle in the log and in the history, in the next process too.
	first := wroteIn(d, trial, slurmplug.SiteFactor)[0]
	if out := s.must("explain", "--history", trial); !regexp.MustCompile(fmt.Sprintf(`(?m)^\W*%d\W.*SiteFactor`, first)).MatchString(out) {
		t.Errorf("the log has the write in cycle %d, and the history\n%s", first, out)
	}
	d = s.daemon()
	d.cycles(3)
	s.must("pause", "--why", "maintenance")
	d.waitLog("nothing is written: cycle=")
	s.must("resume")
	d.waitLog("the pause is over: cycle=")
	d.stop()
	for _, m := range regexp.MustCompile(`: cycle=(\d+)`).FindAllStringSubmatch(d.log.String(), -1) {
		if n, _ := strconv.Atoi(m[1]); n <= first+1 {
			t.Errorf("after a restart the log counts from %d, and the first process wrote in cycle %d", n, first)
		}
	}
	if out := s.must("explain", trial); !strings.Contains(out, "TE (trial-and-error), because its tag says type=te") || !strings.Contains(out, "applied") {
		t.Errorf("explain says\n%s", out)
	}
	if out := s.must("explain", "--history", trial); !strings.Contains(out, "SiteFactor") {
		t.Errorf("history says\n%s", out)
	}
}

// The jobs stand in order, and reset leaves nothing behind, with the database and without it.
func TestOrderAndReset(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			s := newSiteOn(t, l, "")
			s.fill()
			be := s.submit("--prio-type=be", "--gres=gpu:1", "--time=60", "--wrap", "sleep 600")
			nice := s.submit("--gres=gpu:1", "--nice=70", "--time=60", "--wrap", "sleep 600")
			te1 := s.submit("--prio-type=te", "--nice=30", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			array := s.submit("--prio-type=te", "--array=1-3", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			s.eligible(4) // since when a job counts; Slurm says so of an array later than of the next job (24.11)
			het := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", ":", "--gres=gpu:2", "--wrap", "sleep 600")
			held := s.submit("--prio-type=te", "--hold", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			s.eligible(6)
			before := s.levers()
			if plan := s.must("run", "--dry-run"); !strings.Contains(plan, "would be written") || s.levers() != before {
				t.Fatalf("dry run says\n%s", plan)
			}
			s.must("run", "--once")
			want := []string{te1, array + "_[1-3]", het + "+0", het + "+1", be, nice, held}
			if got := s.order(); !slices.Equal(got, want) {
				t.Fatalf("the order is %v, want %v\n%s", got, want, s.levers())
			}
			if again := s.must("run", "--once"); !strings.Contains(again, "nothing to write") {
				t.Errorf("the second cycle says\n%s", again)
			}
			if lost {
				matches, _ := filepath.Glob(filepath.Join(s.dir, "state", "priod.db*"))
				for _, m := range matches {
					if err := os.Remove(m); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.must("reset")
			if after := s.levers(); after != before {
				t.Errorf("reset leaves\n%s\nbefore priod it was\n%s", after, before)
			}
			if got := s.order(); slices.Index(got, te1) < slices.Index(got, be) {
				t.Errorf("the trial still stands first: %v", got)
			}
			if out := s.must("run", "--once"); !strings.Contains(out, "nothing is written: paused by") {
				t.Errorf("after reset priod is not paused:\n%s", out)
			}
		})
	}
}

func TestBudgetSplitsAnArray(t *testing.T) {
	s := newSite(t, "[te_budget.user]\ngpus = 2\n")
	s.fill()
	be := s.submit("--gres=gpu:1", "--wrap", "sleep 600")
	array := s.submit("--prio-type=te", "--array=0-9", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(2) // an array is when Slurm first looks at it, other jobs when they are submitted
	time.Sleep(time.Second)
	late := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(3)
	for range 3 { // each doubling of the price is a part of the array
		s.must("run", "--once")
	}
	var want []string
	for task := range 7 {
		want = append(want, fmt.Sprint(array, "_", task))
	}
	want = append(want, array+"_[7-9]", be, late)
	if got := s.order(); !slices.Equal(got, want) {
		t.Fatalf("the order is %v, want %v", got, want)
	}
	out := s.must("explain", late)
	if !strings.Contains(out, "above the TE budget") || !strings.Contains(out, "5 times the share of user") {
		t.Errorf("explain says\n%s", out)
	}
}

func TestPauseAndResume(t *testing.T) {
	s := newOwnSite(t, "")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	s.must("run", "--once")
	s.slurm("scontrol", "update", "JobId="+trial, "SiteFactor=0")
	s.must("pause", "--why", "maintenance")
	if out := s.must("run", "--once"); !strings.Contains(out, "maintenance") {
		t.Errorf("a paused run says\n%s", out)
	}
	if out := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial); strings.TrimSpace(out) != "0" {
		t.Fatalf("written while paused: %s", out)
	}
	s.must("resume")
	s.must("run", "--once")
	if out := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial); strings.TrimSpace(out) == "0" {
		t.Fatal("not written after resume")
	}
}

// slurmctld hangs, dies and comes back: one line each, nothing written, then on.
func TestControllerTrouble(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, quick)
	s.hurries("5s")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	d := s.daemon()
	s.wait("the first write", func() bool {
		return strings.Contains(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial), "000")
	})

	if err := s.lab.Pause("slurmctld"); err != nil {
		t.Fatal(err)
	}
	d.waitLog("timed out")
	if err := s.lab.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}
	d.waitLog("cycles succeed again")

	if err := s.lab.Stop(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	d.wait("a second failure", func() bool { return strings.Count(d.log.String(), "cycle failed") >= 2 })
	s.sleep(5 * time.Second) // further cycles fail the same way
	failures := strings.Count(d.log.String(), "cycle failed")
	if failures > 4 {
		t.Errorf("%d lines about one trouble", failures)
	}
	if err := s.lab.StartDaemon(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	d.wait("the daemon to go on", func() bool { return strings.Count(d.log.String(), "cycles succeed again") >= 2 })
	second := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.wait("the second trial's value", func() bool { return slices.Index(s.order(), second) == 1 })
	if got := s.order(); got[0] != trial {
		t.Errorf("the order is %v", got)
	}
	d.stop()
}

func TestRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acting as other users needs root; make test as root runs this")
	}
	s := newSite(t, "")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	s.become(lab.PlainUser, "")
	out, _, status := s.priod("run", "--once")
	if status != 1 || !strings.Contains(out, "refused") || !strings.Contains(out, "Invalid user id") {
		t.Errorf("without rights: exit status %d\n%s", status, out)
	}
	if out, _, status := s.priod("check", "--all"); status != 1 || !strings.Contains(out, "adminlevel=Operator") {
		t.Errorf("check without rights: exit status %d\n%s", status, out)
	}
	if got := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial); strings.TrimSpace(got) != "0" {
		t.Errorf("SiteFactor is %s", got)
	}
	s.become(lab.OperatorUser, "")
	s.must("check")
	s.must("run", "--once")
	if got := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial); strings.TrimSpace(got) == "0" {
		t.Error("an operator's value did not arrive")
	}
	s.must("reset")
}

// Names and comments made to forge records or to upset a terminal.
func TestHostileText(t *testing.T) {
	s := newSite(t, "")
	s.fill()
	evil := "x\n999\x1f999\x1e\x1b[2J|;$(touch /tmp/owned) 'q\" \xff\xfe"
	for _, comment := range []string{
		evil,
		"prio:type=te&v=1&" + evil,
		"prio:type=te&v=1 " + evil,
		"prio:type=te&type=be&v=1",
		"prio:type=te&v=1&speed=" + strings.Repeat("a", 900),
		"prio:type=%74e&v=1",
	} {
		s.slurm("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "--time=5", "--job-name="+evil, "--comment="+comment, "--wrap", "sleep 600")
	}
	s.eligible(6)
	var plan struct {
		Jobs, Ranked, TE int
	}
	s.json(&plan, "run", "--once")
	if plan.Jobs != 14 || plan.Ranked != 6 || plan.TE != 2 {
		t.Errorf("%+v: want 14 jobs, 6 ranked, 2 of them TE", plan)
	}
	outputs := s.must("queue") + s.must("report", "history")
	for _, id := range s.order() {
		outputs += s.must("explain", id) + s.must("explain", "--history", id)
	}
	for _, r := range outputs {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%U reaches the terminal in\n%q", r, outputs)
		}
	}
	if !strings.Contains(outputs, "stands twice") {
		t.Errorf("explain does not say why a tag is not valid:\n%s", outputs)
	}
}

func TestReload(t *testing.T) {
	s := newSite(t, quick)
	d := s.daemon()
	d.waitLog("started")
	s.configure("[ranking]\nordr = \"owed\"\n")
	d.cmd.Process.Signal(syscall.SIGHUP)
	d.waitLog("the old one stays")
	if !strings.Contains(d.log.String(), `did you mean`) {
		t.Error("the error names no key")
	}
	s.configure(quick + "[ranking]\nte_qos = [\"normal\"]\n")
	d.cmd.Process.Signal(syscall.SIGHUP)
	d.waitLog("configuration reloaded")
	s.fill()
	trial := s.submit("--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.wait("the new class", func() bool { return s.siteFactor(trial) != "0" })
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

func TestSystemdIsTold(t *testing.T) {
	s := newSite(t, quick)
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	var told lockedBuffer
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			told.Write(append(b[:n:n], '\n'))
		}
	}()
	d := s.daemon("NOTIFY_SOCKET=" + path)
	for _, word := range []string{"READY=1", "WATCHDOG=1", "STATUS=cycle 1 at "} {
		s.wait(word, func() bool { return strings.Contains(told.String(), word) })
	}
	d.stop()
	s.wait("STOPPING=1", func() bool { return strings.Contains(told.String(), "STOPPING=1") })
}

func TestSecondDaemonStops(t *testing.T) {
	s := newSite(t, quick)
	d := s.daemon()
	d.waitLog("started")
	_, errs, status := s.priod("run")
	if status != 1 || !strings.Contains(errs, fmt.Sprint(d.cmd.Process.Pid)) {
		t.Errorf("exit status %d: %s", status, errs)
	}
	d.stop()
}

func TestCorruptDatabaseIsSetAside(t *testing.T) {
	s := newSite(t, "")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	s.must("run", "--once")
	value := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial)
	state := filepath.Join(s.dir, "state")
	for _, f := range []string{"priod.db-wal", "priod.db-shm"} {
		os.Remove(filepath.Join(state, f))
	}
	if err := os.WriteFile(filepath.Join(state, "priod.db"), []byte(strings.Repeat("not a database ", 1000)), 0o640); err != nil {
		t.Fatal(err)
	}
	_, errs, status := s.priod("run", "--once")
	if status != 0 || !strings.Contains(errs, "priod.db.broken-") {
		t.Fatalf("exit status %d: %s", status, errs)
	}
	if now := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial); now != value {
		t.Errorf("SiteFactor was %s and is %s", value, now)
	}
	s.must("reset")
	if now := s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial); strings.TrimSpace(now) != "0" {
		t.Errorf("after reset SiteFactor is %s", now)
	}
}

func TestWrongUsage(t *testing.T) {
	s := newSite(t, "")
	for _, args := range [][]string{
		{"frobnicate"}, {"explain"}, {"explain", "seventeen"}, {"explain", "1", "two"}, {"explain", "--schema", "1"}, {"run", "--nope"}, {"queue", "extra"},
		{"report", "history", "--most", "0"}, {"report", "history", "-n", "many"}, {"config"}, {"run", "--json"}, {"--config", "/nowhere/priod.toml", "check"},
	} {
		out, errs, status := s.priod(args...)
		if status != 2 || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("priod %v: exit status %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestSlurmNotFound(t *testing.T) {
	s := newSite(t, "")
	text := fmt.Sprintf("[slurm]\nbin_dir = %q\n[state]\ndir = %q\n", s.dir, filepath.Join(s.dir, "state"))
	if err := os.WriteFile(s.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, errs, status := s.priod("run", "--once")
	if status != 1 || !strings.Contains(errs, "program not found") || strings.Count(errs, "\n") > 2 {
		t.Errorf("exit status %d: %s", status, errs)
	}
}
