package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/store"
	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// hostPair are two hosts of one lab that share a folder; one of them acts and will be lost.
type hostPair struct {
	*lab.Lab
	acts, stays *evictable
	controller  string // of the host that acts
	backup      bool   // which is the second one
}

// sharing are the settings of docs/reference/high-availability.md, with another folder, and
// everything on.
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
	return settings + "[locality]\nenabled = true\nwait_weight = 45.0\nqueue_weight = 0.0\n[retry]\nenabled = true\nmin_run = \"0s\"\n"
}

// newHostPair starts a lab of two hosts, on one of which Slurm acts; backup: on the second.
func newHostPair(t *testing.T, backup bool, o lab.Options) *hostPair {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("two controllers need root; make test as root runs this")
	}
	o.Backup, o.NoAccounting = true, true
	l := lab.ForTest(t, o)
	settings := sharing(t, t.TempDir())
	a := newSiteOn(t, l, settings)
	a.host = lab.PrimaryHost
	b := a.beside(settings)
	b.host = lab.BackupHost
	acts := evictableOn(t, a)
	p := &hostPair{l, acts, &evictable{site: b, work: acts.work}, "slurmctld", backup}
	if backup {
		p.acts, p.stays, p.controller = p.stays, p.acts, lab.Backup
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.Run(context.Background(), "scontrol", "--oneliner", "show", "job"))
			t.Log(l.Run(context.Background(), "scontrol", "--oneliner", "show", "node"))
		}
	})
	return p
}

// begin lets the host act that will be lost, and starts priod on the other one. Jobs that run
// have to be there before.
func (p *hostPair) begin(t *testing.T) (d *shim.Dir, standby *running) {
	t.Helper()
	if p.backup {
		saved(t, p.Lab)
		if err := p.Kill(t.Context(), "slurmctld"); err != nil {
			t.Fatal(err)
		}
	}
	d = p.acts.shimmed(sharingOf(p.acts.site))
	standby = p.stays.daemon()
	standby.waitLog("the active slurmctld is on " + p.acts.host)
	p.acts.wait("Slurm to answer", func() bool {
		_, err := p.Run(t.Context(), "squeue")
		return err == nil
	})
	return d, standby
}

// lose ends the host that acts for ever, with its state folder, and waits until the other one
// has taken over.
func (p *hostPair) lose(t *testing.T, priod, standby *running) {
	t.Helper()
	priod.cmd.Process.Kill() // the shim may have done it
	priod.ends()
	saved(t, p.Lab)
	if err := p.Kill(t.Context(), p.controller); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(p.acts.dir, "state")); err != nil {
		t.Fatal(err)
	}
	if p.backup {
		if err := p.StartDaemon(t.Context(), "slurmctld"); err != nil {
			t.Fatal(err)
		}
	}
	standby.wait("the other host to take over", func() bool { return strings.Contains(standby.log.String(), "took over") })
}

// eitherHost runs a test for the loss of each host: in the bounded form of one of them.
func eitherHost(t *testing.T, n int, name string, run func(t *testing.T, backup bool)) {
	for i, host := range []string{"the first", "the second"} {
		if long() || n%2 == i {
			t.Run(name+", "+host, func(t *testing.T) {
				t.Parallel()
				run(t, i == 1)
			})
		}
	}
}

// A host is lost for ever, with its priod in whichever state of an eviction, and its state
// folder with it: the other one goes on, with everything on. One eviction, no lost job, and
// in the end reset gives every job back what its user asked for.
func TestEitherHostIsLost(t *testing.T) {
	t.Parallel()
	for n, k := range kills[:rounds(1, len(kills))] {
		eitherHost(t, n, k.name, func(t *testing.T, backup bool) { loseHost(t, k, backup) })
	}
}

func loseHost(t *testing.T, k killed, backup bool) {
	p := newHostPair(t, backup, lab.Options{Nodes: []lab.NodeSpec{
		{Count: 2, GPUType: "t4", GPUs: 4}, {Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}, {Count: 1, GPUType: "p100", GPUs: 4},
	}})
	acts, stays := p.acts, p.stays
	grace, conduct := 20, "save"
	if k.cancelled {
		grace, conduct = 5, "ignore"
	}
	victim := acts.full(grace, conduct)
	acts.blocker("a100:4")
	acts.blocker("v100:4")
	fast := []string{"--prio-speed=p100:4,v100:1", "--constraint=p100|v100"}
	rich := acts.worker("rich", "4", endless, 5, "save", fast...) // leaves at the end of a round
	acts.begun("rich")
	poor := acts.worker("poor", "4", 10, 5, "save", append(fast, "--time=30")...)
	own := "v100|a100"
	waits := acts.submit("--prio-type=be", "--prio-speed=v100:1,a100:3", "--gres=gpu:4", "--time=60", "--constraint="+own, "--wrap", "sleep 1")
	constraint := func() string {
		return strings.TrimSpace(stays.slurm("squeue", "--noheader", "--jobs="+waits, "--format=%f"))
	}
	d, standby := p.begin(t)
	out, _, _ := stays.priod("check", "--deep")
	for _, want := range []string{"the active slurmctld is on " + acts.host, "PASS  shared folder", "PASS  journal", "PASS  cycle"} {
		if !strings.Contains(out, want) {
			t.Errorf("check --deep of the host that stands by lacks %q:\n%s", want, out)
		}
	}
	trial := ""
	acts.wait("Slurm to take the trial", func() bool {
		out, err := p.Run(t.Context(), filepath.Join(bin, "sbatchwrap"), "--parsable", "--output=/dev/null", "--prio-type=te", "--gres=gpu:t4:2", "--time=5", "--wrap", "sleep 1")
		trial = strings.TrimSpace(out)
		return err == nil
	})
	if k.command != "" {
		acts.throw(d, shim.Fault{Command: k.command, When: k.when, Call: k.call, Do: shim.Kill})
	}
	first := acts.doomed()
	if k.cancelled {
		acts.wait("the signal", func() bool { return strings.Contains(acts.log("w"), "signal") })
		acts.slurm("scancel", trial)
	}
	acts.wait("the moment", func() bool {
		if k.command != "" {
			return len(d.Thrown()) > 0
		}
		all := ofPurpose("te", acts.known())
		return len(all) > 0 && (all[0].State == k.state || all[0].ClaimState == k.claim || !all[0].Ended.IsZero())
	})
	first.cmd.Process.Kill() // the shim may have done it
	first.ends()
	acts.throw(d)
	for name, id := range map[string]string{"w": victim, "rich": rich} {
		acts.launched(name, id)
	}
	left := strings.Contains(acts.log("w"), "signal") && conduct == "save"
	p.lose(t, first, standby)
	stays.wait("the victim to run again", func() bool { return strings.Count(stays.log("w"), "start ") == 2 })
	stays.completes(victim)
	place := "started"
	if k.cancelled {
		place = "released"
	} else {
		stays.completes(trial)
		stays.leftOnce("w")
	}
	stays.wait("the job that a round makes room for", func() bool { return strings.Contains(stays.log("poor"), "complete") })
	stays.completes(poor)
	if all := ofPurpose("te", stays.settled()); len(all) != 1 || all[0].State != "done" || all[0].ClaimState != place {
		t.Errorf("%+v", all)
	}
	stays.wait("the victim of the round to end", func() bool { return strings.Contains(stays.log("rich"), "complete") })
	for name, purpose := range map[string]string{"w": "te", "rich": "round"} {
		text := stays.log(name)
		if n := len(ofPurpose(purpose, stays.journal())); n != 1 || strings.Count(text, "signal ") != 1 || strings.Count(text, "start ") != 2 {
			t.Errorf("%s, %d evictions:\n%s", name, n, text)
		}
	}
	stays.wait("the other job to be given a type", func() bool { return constraint() != own })
	actsWithinTwoCycles(t, standby)
	if left {
		finishedInTwoCycles(t, standby, victim)
	}
	standby.stop()
	stays.must("reset")
	if now := constraint(); now != own {
		t.Errorf("reset leaves the constraint %q", now)
	}
}

// ofPurpose are the evictions whose claims have a purpose.
func ofPurpose(purpose string, all []store.Eviction) []store.Eviction {
	return slices.DeleteFunc(all, func(e store.Eviction) bool { return e.Purpose != purpose })
}

// launched waits until no launch of a worker is under way: a controller that dies while it
// launches a job leaves that held ("launch failed requeued held").
func (e *evictable) launched(name, id string) {
	e.Helper()
	e.wait("no launch to be under way", func() bool {
		f := strings.Fields(e.slurm("squeue", "--noheader", "--states=all", "--jobs="+id, "--Format=State:|,RestartCnt:|"))
		state, restarts, _ := strings.Cut(strings.Trim(strings.Join(f, ""), "|"), "|")
		return state != "RUNNING" || fmt.Sprint(strings.Count(e.log(name), "start ")-1) == restarts
	})
}

// tookOver is the first cycle in which a priod acted after it took over.
func tookOver(t *testing.T, d *running) int {
	t.Helper()
	m := regexp.MustCompile(`and so does priod: cycle=(\d+)`).FindStringSubmatch(d.log.String())
	if m == nil {
		t.Fatalf("%s never acted:\n%s", d.host, d.log)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// finishedInTwoCycles looks that a victim that had left before the take-over was put back into
// the queue by the second cycle after it.
func finishedInTwoCycles(t *testing.T, d *running, victim string) {
	t.Helper()
	m := regexp.MustCompile(`eviction: cycle=(\d+) job=` + victim + ` .*state=(?:requeued|restored|done)`).FindStringSubmatch(d.log.String())
	if m == nil {
		return // it was back in the queue before the host was lost
	}
	if n, _ := strconv.Atoi(m[1]); n > tookOver(t, d)+1 {
		t.Errorf("the victim had left, and is put back in cycle %d after a take-over in cycle %d:\n%s", n, tookOver(t, d), d.log)
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

// sharedBy is the folder that a site shares with the other host.
func sharedBy(t *testing.T, s *site) string {
	t.Helper()
	cfg, err := config.Load(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.State.Shared
}

func saved(t *testing.T, l *lab.Lab) {
	t.Helper()
	if err := l.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
}
