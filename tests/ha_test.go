package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		s := &site{TB: t, lab: l, host: host, dir: t.TempDir()}
		s.config = filepath.Join(s.dir, "priod.toml")
		s.configure(quick + "follow_controller = true\n[te_budget.user]\ngpus = 0\n")
		return s
	}
	return on(lab.PrimaryHost), on(lab.BackupHost)
}

// The controller falls and comes back: each time priod on the acting
// controller's host takes over what the other one wrote, and only it writes.
func TestFollowsTheController(t *testing.T) {
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
	const takesOver, onFirst, onSecond = "and so does priod", "the acting slurmctld is on ctl1", "the acting slurmctld is on ctl2"
	second.waitLog(onFirst)
	saved()
	if text := second.log.String(); strings.Contains(text, "wrote:") {
		t.Errorf("priod writes while it stands by:\n%s", text)
	}
	if out := b.must("run", "--dry-run"); !strings.Contains(out, "nothing to write") {
		t.Errorf("the peer's values are not taken for priod's own:\n%s", out)
	}
	if out, _, _ := b.priod("check"); !strings.Contains(out, onFirst) {
		t.Errorf("check says\n%s", out)
	}
	for round := 1; round <= rounds(1, 10); round++ {
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
		a.wait("the first host to take over again", times(first, takesOver, round+1))
		b.wait("the other host to stand by again", times(second, onFirst, round+1))
		trial()
		saved()
	}
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

	wrote := regexp.MustCompile(`wrote: .*job=(\S+) lever=\S+ before=\S+ after=(\S+)`)
	by := map[string]string{}
	for name, d := range map[string]*running{"first": first, "second": second} {
		for _, m := range wrote.FindAllStringSubmatch(d.log.String(), -1) {
			value := fmt.Sprintf("%s=%s", m[1], m[2])
			if other := by[value]; other != "" {
				t.Errorf("%s is written by %s and by %s", value, other, name)
			}
			by[value] = name
		}
	}
	if len(by) != len(trials) {
		t.Errorf("%d trials took %d values: %v", len(trials), len(by), by)
	}
}
