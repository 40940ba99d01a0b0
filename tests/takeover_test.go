package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// sharing are the settings of docs/reference/high-availability.md, with another folder, and
// everything on but rounds, whose victims would look like those of the trials.
func sharing(t *testing.T, shared string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/high-availability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```toml\n[state]\n")
	state, cycle, found := strings.Cut(block, "[cycle]\n")
	cycle, _, closed := strings.Cut(cycle, "```\n")
	state = strings.Replace(state, `"/slurm/priod"`, fmt.Sprintf("%q", shared), 1)
	if !found || !closed || !strings.Contains(state, shared) {
		t.Fatal("the page does not begin with the settings of a shared folder")
	}
	settings := strings.Replace(everything, quick, state+quick+cycle, 1)
	return strings.Replace(settings, "[rounds]\nenabled = true", "[rounds]\nenabled = false", 1)
}

// sharingHosts are two sites on the two hosts of one lab, which share a folder.
func sharingHosts(t *testing.T) (first, second *evictable) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("two controllers need root; make test as root runs this")
	}
	l := lab.ForTest(t, lab.Options{Backup: true, NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 2, GPUType: "t4", GPUs: 4}, {Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}}})
	settings := sharing(t, t.TempDir())
	a := newSiteOn(t, l, settings)
	a.host = lab.PrimaryHost
	b := a.beside(settings)
	b.host = lab.BackupHost
	first = evictableOn(t, a)
	return first, &evictable{site: b, work: first.work}
}

// A host is lost for ever, with its priod in whichever state of an eviction, and its state
// folder with it: the other one goes on, with everything on. One eviction, no lost job, and
// in the end reset gives every job back what its user asked for.
func TestEitherHostIsLost(t *testing.T) {
	for n, k := range kills[:rounds(2, len(kills))] {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			loseHost(t, k, n%2 == 1)
		})
	}
}

func loseHost(t *testing.T, k killed, backup bool) {
	acts, stays := sharingHosts(t)
	l := acts.lab
	controller, other := "slurmctld", "the acting slurmctld is on ctl1"
	if backup {
		acts, stays = stays, acts
		controller, other = lab.Backup, "the acting slurmctld is on ctl2"
	}
	grace, conduct := 20, "save"
	if k.cancelled {
		grace, conduct = 5, "ignore"
	}
	victim := acts.full(grace, conduct)
	acts.blocker("a100:4")
	acts.blocker("v100:4")
	own := "v100|a100"
	waits := acts.submit("--prio-type=be", "--prio-speed=v100:1,a100:3", "--gres=gpu:4", "--time=60", "--constraint="+own, "--wrap", "sleep 1")
	constraint := func() string {
		return strings.TrimSpace(stays.slurm("squeue", "--noheader", "--jobs="+waits, "--format=%f"))
	}
	if backup {
		saved(t, l)
		if err := l.Kill(t.Context(), "slurmctld"); err != nil {
			t.Fatal(err)
		}
	}
	d := acts.shimmed(sharingOf(acts.site))
	standby := stays.daemon()
	standby.waitLog(other)
	out, _, _ := stays.priod("check", "--deep")
	for _, want := range []string{other, "PASS  shared folder", "PASS  undo journal", "PASS  evictions", "PASS  cycle"} {
		if !strings.Contains(out, want) {
			t.Errorf("check --deep of the host that stands by lacks %q:\n%s", want, out)
		}
	}
	trial := ""
	acts.patiently("Slurm to take the trial", func() bool {
		out, err := l.Run(t.Context(), filepath.Join(bin, "sbatchwrap"), "--parsable", "--output=/dev/null", "--prio-type=te", "--gres=gpu:t4:2", "--time=5", "--wrap", "sleep 1")
		trial = strings.TrimSpace(out)
		return err == nil
	})
	if k.command != "" {
		acts.throw(d, shim.Fault{Command: k.command, When: k.when, Call: k.call, Do: shim.Kill})
	}
	first := acts.doomed()
	if k.cancelled {
		acts.patiently("the signal", func() bool { return strings.Contains(acts.log("w"), "signal") })
		acts.slurm("scancel", trial)
	}
	acts.patiently("the moment", func() bool {
		if k.command != "" {
			return len(d.Thrown()) > 0
		}
		all := acts.known()
		return len(all) > 0 && (all[0].State == k.state || all[0].ClaimState == k.claim || !all[0].Ended.IsZero())
	})
	first.cmd.Process.Kill() // the shim may have done it
	first.ends()
	acts.throw(d)
	saved(t, l)
	// A controller that dies while it launches a job leaves that held: "launch failed requeued held".
	acts.patiently("no launch to be under way", func() bool {
		f := strings.Fields(acts.slurm("squeue", "--noheader", "--states=all", "--jobs="+victim, "--Format=State:|,RestartCnt:|"))
		state, restarts, _ := strings.Cut(strings.Trim(strings.Join(f, ""), "|"), "|")
		return state != "RUNNING" || fmt.Sprint(strings.Count(acts.log("w"), "start ")-1) == restarts
	})
	if err := l.Kill(t.Context(), controller); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(acts.dir, "state")); err != nil {
		t.Fatal(err)
	}
	if backup {
		if err := l.StartDaemon(t.Context(), "slurmctld"); err != nil {
			t.Fatal(err)
		}
	}
	standby.patiently("the other host to take over", func() bool { return strings.Contains(standby.log.String(), "took over") })
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.Run(context.Background(), "scontrol", "--oneliner", "show", "job"))
			t.Log(l.Run(context.Background(), "scontrol", "--oneliner", "show", "node"))
		}
	})
	stays.patiently("the victim to run again", func() bool { return strings.Count(stays.log("w"), "start ") == 2 })
	stays.completes(victim)
	place := "started"
	if k.cancelled {
		place = "released"
	} else {
		stays.completes(trial)
		stays.leftOnce("w")
	}
	if all := stays.settled(); len(all) != 1 || all[0].State != "done" || all[0].ClaimState != place {
		t.Errorf("%+v", all)
	}
	if text := stays.log("w"); strings.Count(text, "signal ") != 1 || strings.Count(text, "start ") != 2 {
		t.Errorf("the victim:\n%s", text)
	}
	stays.wait("the other job to be given a type", func() bool { return constraint() != own })
	actsWithinTwoCycles(t, standby)
	standby.stop()
	stays.must("reset")
	if now := constraint(); now != own {
		t.Errorf("reset leaves the constraint %q", now)
	}
}

// sharingOf are the settings that a site was configured with, without where its state is.
func sharingOf(s *site) string {
	s.Helper()
	text, err := os.ReadFile(s.config)
	if err != nil {
		s.Fatal(err)
	}
	_, settings, _ := strings.Cut(string(text), filepath.Join(s.dir, "state")+"\"\n")
	return settings
}

func saved(t *testing.T, l *lab.Lab) {
	t.Helper()
	if err := l.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
}
