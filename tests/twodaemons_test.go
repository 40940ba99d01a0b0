package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// beside is a site on the same lab with a state folder of its own.
func (s *site) beside(settings string) *site {
	s.Helper()
	other := bareSite(s.TB, s.lab)
	other.host, other.life = s.host, s.life
	other.configure(settings)
	return other
}

// Two priods on one host with two state folders: the second stops and says why.
func TestSecondStateFolderStops(t *testing.T) {
	s := newSite(t, quick)
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	d := s.daemon()
	d.waitLog("wrote:")
	other := s.beside(quick + "[te_budget.user]\ntime_limit = \"30s\"\n")
	before := s.levers()
	for _, verb := range [][]string{{"run"}, {"run", "--once"}, {"reset"}, {"reset", "--dry-run"}, {"pause"}, {"resume"}} {
		_, errs, status := other.priod(verb...)
		want := fmt.Sprintf("process %d of user root, state folder %s", d.cmd.Process.Pid, filepath.Join(s.dir, "state"))
		if os.Geteuid() != 0 {
			want = fmt.Sprintf("process %d of user ", d.cmd.Process.Pid)
		}
		if status != 1 || !strings.Contains(errs, want) || strings.Contains(errs, "wrote:") {
			t.Errorf("priod %v: exit status %d, %s", verb, status, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(other.dir, "state", "paused")); err == nil {
		t.Error("a pause stands where no priod reads it")
	}
	if after := s.levers(); after != before {
		t.Errorf("the second priod wrote\n%s\nbefore it was\n%s", after, before)
	}
	s.must("reset") // its own daemon's claim does not matter
	if got := strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial)); got != "0" {
		t.Errorf("reset leaves %s", got)
	}
	d.kill()
	other.must("run", "--once") // the kernel has given the cluster free
}

// A user without a say in Slurm runs a priod first, and so has the name by which
// priods notice each other: the centre's own warns of it once and ranks; that
// user's is told to stop.
func TestSquatterIsWarnedAboutAndIgnored(t *testing.T) {
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("acting as other users needs root; make test as root runs this")
	}
	s := newOwnSite(t, quick)
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	other := s.beside(quick)
	other.become(lab.PlainUser, quick)
	squatter := other.daemon()
	squatter.waitLog("Invalid user id") // it tries, and Slurm refuses
	d := s.daemon()
	d.waitLog("wrote:")
	s.wait("the trial to hold a value", func() bool {
		return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial)) != "0"
	})
	s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.wait("a second write", func() bool { return strings.Count(d.log.String(), "wrote:") == 2 })
	want := fmt.Sprintf("process %d of user %s", squatter.cmd.Process.Pid, lab.PlainUser)
	if text := d.log.String(); strings.Count(text, want) != 1 {
		t.Errorf("no single warning of %q in\n%s", want, text)
	}
	s.must("reset")
	squatter.stop()
	s.must("resume")
	s.wait("the squatter's next try to be told to stop", func() bool {
		_, errs, status := other.priod("run", "--once")
		return status == 1 && strings.Contains(errs, fmt.Sprintf("process %d of user root", d.cmd.Process.Pid))
	})
	d.stop()
}

// Two priods on two hosts, with different budgets and no follow_controller: the
// one that came second notices, pauses itself and stays so; the first goes on.
func TestSecondPriodOnAnotherHostGivesWay(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("two hosts need root; make test as root runs this")
	}
	l := lab.ForTest(t, lab.Options{Backup: true, NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}}})
	a := bareSite(t, l)
	a.host = lab.PrimaryHost
	a.configure(quick + "[te_budget.user]\ngpus = 0\n")
	a.fill()
	trials := func(n int) {
		t.Helper()
		for range n {
			a.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
		}
	}
	trials(3)
	first := a.daemon()
	first.waitLog("wrote:")
	a.wait("the first priod to rank all", func() bool { return strings.Contains(a.must("run", "--dry-run"), "nothing to write") })

	b := a.beside(quick + "[te_budget.user]\ntime_limit = \"30s\"\n")
	b.host = lab.BackupHost
	second := b.daemon()
	second.waitLog("wrote:")
	a.wait("the second priod to give way", func() bool {
		trials(1)
		return strings.Contains(second.log.String(), "Stop one of them, then run priod resume")
	})
	if status := second.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	again := b.daemon() // as systemd would
	again.waitLog("started")
	var queue struct{ Hold string }
	b.wait("a paused cycle", func() bool {
		out, _, _ := b.priod("queue", "--json")
		return json.Unmarshal([]byte(out), &queue) == nil && strings.Contains(queue.Hold, "another priod writes to this cluster")
	})
	if text := again.log.String(); strings.Contains(text, "wrote:") {
		t.Errorf("it writes again:\n%s", text)
	}
	if text := first.log.String(); strings.Contains(text, "Stop one of them") {
		t.Errorf("the first one gave way too:\n%s", text)
	}
	again.stop()
	first.stop()
}
