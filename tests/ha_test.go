package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// controllerHosts are two sites, priod on each of the two hosts of one lab.
func controllerHosts(t *testing.T) (first, second *site) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("two controllers need root; make test as root runs this")
	}
	l := lab.ForTest(t, lab.Options{Backup: true, NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}}})
	on := func(host string) *site {
		s := bareSite(t, l)
		s.host = host
		s.hurry = "8s" // a controller that hangs; below MessageTimeout, which check tells
		s.configure(quick + "follow_controller = true\n[te_budget.user]\ngpus = 0\n")
		return s
	}
	return on(lab.PrimaryHost), on(lab.BackupHost)
}

// The controller falls and comes back: each time priod on the acting
// controller's host takes over what the other one wrote, and only it writes.
func TestFollowsTheController(t *testing.T) {
	t.Parallel()
	a, b := controllerHosts(t)
	a.fill()
	a.submit("--gres=gpu:1", "--time=60", "--wrap", "sleep 600")
	var trials []string
	trial := func() {
		t.Helper()
		trials = append(trials, a.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600"))
	}
	inOrder := func() bool {
		got := a.order()
		return len(got) > len(trials) && slices.Equal(got[:len(trials)], trials)
	}
	saved := func() {
		t.Helper()
		a.wait("the trials to stand first", inOrder)
		if err := a.lab.WaitSaved(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	trial()
	first, second := a.daemon(), b.daemon()
	const takesOver, onFirst, onSecond = "and so does priod", "the active slurmctld is on ctl1", "the active slurmctld is on ctl2"
	second.waitLog(onFirst)
	saved()
	if text := second.log.String(); strings.Contains(text, "wrote:") {
		t.Errorf("priod writes while it stands by:\n%s", text)
	}
	if out := b.must("run", "--dry-run"); !strings.Contains(out, "nothing to write") {
		t.Errorf("the peer's values are not taken for priod's own:\n%s", out)
	}
	if out, _, _ := b.priod("check", "--all"); !strings.Contains(out, onFirst) || !strings.Contains(out, "(MessageTimeout, 10s)") {
		t.Errorf("check says\n%s", out)
	}
	began := strings.Count(first.log.String(), takesOver) // none when Slurm was slow at the start
	for round := 1; round <= rounds(1, 5); round++ {
		times := func(d *running, text string, n int) func() bool {
			return func() bool { return strings.Count(d.log.String(), text) >= n }
		}
		if err := a.lab.Kill(t.Context(), "slurmctld"); err != nil {
			t.Fatal(err)
		}
		b.wait("the other host to take over", times(second, takesOver, round))
		b.wait("the first host to stand by", times(first, onSecond, round))
		trial()
		saved()

		if err := a.lab.StartDaemon(t.Context(), "slurmctld"); err != nil {
			t.Fatal(err)
		}
		a.wait("the first host to take over again", times(first, takesOver, began+round))
		b.wait("the other host to stand by again", times(second, onFirst, round+1))
		trial()
		saved()
		// A backup of 22.05 that has never been started again hangs when it hands
		// over for the fourth time.
		if err := a.lab.Kill(t.Context(), lab.Backup); err != nil {
			t.Fatal(err)
		}
		if err := a.lab.StartDaemon(t.Context(), lab.Backup); err != nil {
			t.Fatal(err)
		}
	}
	a.wait("both controllers to answer", func() bool { // scontrol ping waits for one that starts
		out, err := a.lab.Run(t.Context(), "scontrol", "ping")
		return err == nil && strings.Count(out, " is UP") == 2
	})
	if _, errs, status := b.priod("reset"); status != 1 || !strings.Contains(errs, onFirst) {
		t.Errorf("reset on the host that stands by: exit status %d, %s", status, errs)
	}
	a.must("reset")
	if left := a.slurm("sprio", "--noheader", "--format=%S"); strings.Trim(left, " 0\n") != "" {
		t.Errorf("reset leaves\n%s", left)
	}
	if status := second.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	first.stop()

	for _, d := range []*running{first, second} {
		actsWithinTwoCycles(t, d)
	}

	by := writers(t, first, second)
	if len(by) != len(trials) {
		t.Errorf("%d trials took %d values", len(trials), len(by))
	}
}

// write is a value that a priod wrote, by its log.
type write struct {
	by        *running
	at, since string // when it was logged; when that priod took over last before
}

var takesOverOrWrites = regexp.MustCompile(`(?m)^(\S+) \[INFO\]  priod: (?:(took over): |wrote: .*job=(\S+) lever=\S+ before=\S+ after=(\S+))`)

// writers lists the values that priods wrote, by their logs, with the priod that did; no
// value is written by two.
func writers(t *testing.T, daemons ...*running) map[string]*running {
	t.Helper()
	by := map[string]*running{}
	for value, all := range writes(daemons...) {
		by[value] = all[0].by
		for _, w := range all {
			if w.by != by[value] {
				t.Errorf("%s is written by the priods of %s and of %s", value, w.by.host, by[value].host)
			}
		}
	}
	return by
}

// writes are the values that priods wrote, each with its writers in the order of their logs' times.
func writes(daemons ...*running) map[string][]write {
	all := map[string][]write{}
	for _, d := range daemons {
		since := ""
		for _, m := range takesOverOrWrites.FindAllStringSubmatch(d.log.String(), -1) {
			if m[2] != "" {
				since = m[1]
				continue
			}
			value := m[3] + "=" + m[4]
			all[value] = append(all[value], write{d, m[1], since})
		}
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b write) int { return strings.Compare(a.at, b.at) })
	}
	return all
}

// actsWithinTwoCycles holds a priod's log against its promise: the cycle after
// the first one that finds this host's slurmctld acting acts.
func actsWithinTwoCycles(t *testing.T, d *running) {
	t.Helper()
	line := regexp.MustCompile(`(?:stand-by: poll=(\d+) why="the slurmctld of this host acts;|and so does priod: cycle=\d+ poll=(\d+))`)
	looked := 0
	for _, m := range line.FindAllStringSubmatch(d.log.String(), -1) {
		if m[1] != "" {
			looked, _ = strconv.Atoi(m[1])
			continue
		}
		if acts, _ := strconv.Atoi(m[2]); looked != 0 && acts != looked+1 {
			t.Errorf("cycle %d finds that the slurmctld acts, and cycle %d is the first to act", looked, acts)
		}
		looked = 0
	}
}

// The active controller hangs until the other one takes over, then goes on as if
// nothing had happened, and Slurm sorts out who acts. priod writes nothing while
// it cannot know, and goes on in the right order, one of the two.
func TestControllerHangsAndComesBack(t *testing.T) {
	longOnly(t)
	a, b := controllerHosts(t)
	a.fill()
	a.submit("--gres=gpu:1", "--time=60", "--wrap", "sleep 600")
	trials := []string{a.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")}
	first, second := a.daemon(), b.daemon()
	first.waitLog("wrote:")
	second.waitLog("the active slurmctld is on ctl1")
	if err := a.lab.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.lab.Pause("slurmctld"); err != nil {
		t.Fatal(err)
	}
	a.wait("the other controller to take over", func() bool {
		text, _ := os.ReadFile(filepath.Join(a.lab.Dir, "log", "slurmctld.backup.out"))
		return strings.Contains(string(text), "Running as primary controller")
	})
	a.wait("both priods to say that Slurm cannot be asked", func() bool {
		return strings.Contains(first.log.String(), "cycle failed") && strings.Contains(second.log.String(), "cycle failed")
	})
	if n := len(writers(t, first, second)); n != 1 {
		t.Errorf("%d values written, and only one trial before Slurm hung", n)
	}
	if err := a.lab.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}
	a.wait("Slurm to take jobs again", func() bool {
		out, err := a.lab.Run(t.Context(), filepath.Join(bin, "sbatchwrap"), "--parsable", "--output=/dev/null", "--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
		if err == nil {
			trials = append(trials, strings.TrimSpace(out))
		}
		return err == nil
	})
	a.wait("the trials to stand first", func() bool {
		out, err := a.lab.Run(t.Context(), "squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i")
		got := strings.Fields(out)
		return err == nil && len(got) > len(trials) && slices.Equal(got[:len(trials)], trials)
	})
	if n := len(writers(t, first, second)); n != len(trials) {
		t.Errorf("%d values written for %d trials", n, len(trials))
	}
	first.stop()
	second.stop()
}
