package tests

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/store"
	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// killed is a moment at which priod is killed with -9: at a command of the
// first turn in which that command comes, or once the journal shows a state of
// the eviction or of the claim, whose TE job may have been cancelled before.
type killed struct {
	name, command, when string
	call                int
	state, claim        string
	cancelled           bool
}

var kills = []killed{
	{name: "recorded, not signalled", command: "scancel", when: "before", call: 1},
	{name: "recorded, signalled", command: "scancel", when: "after", call: 1},
	{name: "left, not requeued", command: "scontrol requeue", when: "before", call: 1},
	{name: "left, requeued", command: "scontrol requeue", when: "after", call: 1},
	{name: "signalled", state: "signalled"},
	{name: "requeued", state: "requeued"},
	{name: "restored", state: "restored"},
	{name: "holding", claim: "holding"},
	{name: "started", claim: "started"},
	{name: "released", claim: "released", cancelled: true},
	{name: "planned, ranked", command: "scontrol update", when: "after", call: 1},
	{name: "planned, not pinned", command: "scontrol update", when: "before", call: 2},
	{name: "planned, pinned", command: "scontrol update", when: "after", call: 2},
	{name: "an update after the signal", command: "scontrol update", when: "before", call: 3},
	{name: "done with an update after the signal", command: "scontrol update", when: "after", call: 3},
}

// In whichever state priod is killed, the next one goes on.
func TestEvictionSurvivesKill(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, k := range kills[:rounds(2, len(kills))] {
		t.Run(k.name, func(t *testing.T) { k.survived(t, l, false) })
	}
}

// survived kills priod in an eviction, and has the next one go on, with the database or from the journal beside it alone: one
// eviction, no lost job, no place and no reservation held for ever.
func (k *killed) survived(t *testing.T, l *lab.Lab, lose bool) {
	e := evictableOn(t, newSiteOn(t, l, evicting))
	d := e.shimmed(evicting)
	grace, conduct := 20, "save"
	if k.cancelled {
		grace, conduct = 5, "ignore"
	}
	victim := e.full(grace, conduct)
	trial := e.trial("t4:2")
	if k.command != "" {
		e.throw(d, shim.Fault{Command: k.command, When: k.when, Call: k.call, Do: shim.Kill})
	}
	first := e.doomed()
	if k.cancelled {
		e.told("w")
		e.slurm("scancel", trial)
	}
	e.wait("the moment", func() bool {
		if k.command != "" {
			return len(d.Thrown()) > 0
		}
		all := e.known()
		return len(all) > 0 && (all[0].State == k.state || all[0].ClaimState == k.claim || !all[0].Ended.IsZero())
	})
	first.cmd.Process.Kill() // the shim may have done it
	first.ends()
	e.throw(d)
	if lose {
		e.loseDatabase()
	}
	second := e.daemon()
	second.waitLog("started")
	place := "started"
	if k.cancelled {
		place = "released"
	} else {
		e.completes(trial)
	}
	e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 }) // it has failed until then
	e.completes(victim)
	if !k.cancelled {
		e.leftOnce("w")
	}
	if all := e.settled(); len(all) != 1 || all[0].State != "done" || !lose && all[0].ClaimState != place {
		t.Errorf("%+v", all)
	}
	if text := e.log("w"); strings.Count(text, "signal ") != 1 || strings.Count(text, "start ") != 2 {
		t.Errorf("the victim:\n%s", text)
	}
	if e.reserved() {
		t.Error("a reservation is left")
	}
	second.stop()
}

// known is journal for a store that may not be there yet.
func (e *evictable) known() []store.Eviction {
	e.Helper()
	if _, err := os.Stat(filepath.Join(e.dir, "state", "priod.db")); err != nil {
		return nil
	}
	r, err := store.OpenReader(context.Background(), filepath.Join(e.dir, "state"))
	if err != nil {
		return nil
	}
	defer r.Close()
	all, _ := r.Evictions(context.Background(), 1000) // being made
	return all
}

// priod is killed when it makes the reservation of such a place, or deletes it:
// the next one knows it, and the TE job waits for no reservation that is left.
func TestEvictionSurvivesKillAtTheReservation(t *testing.T) {
	longOnly(t)
	t.Parallel()
	for _, command := range []string{"scontrol create", "scontrol delete"} {
		for _, when := range []string{"before", "after"} {
			t.Run(command+", "+when, func(t *testing.T) {
				e := newEvictable(t, evicting)
				d := e.shimmed(evicting)
				e.blocker("t4:4")
				early := e.worker("early", "t4:2", endless, 8, "save")
				late := e.worker("late", "t4:2", endless, 8, "ignore")
				e.begun("early", "late")
				trial := e.trial("t4:4")
				e.throw(d, shim.Fault{Command: command, When: when, Call: 1, Do: shim.Kill})
				first := e.doomed()
				e.wait("the kill", func() bool { return len(d.Thrown()) > 0 })
				first.ends()
				e.throw(d)
				second := e.daemon()
				for _, id := range []string{trial, early, late} {
					e.completes(id)
				}
				e.leftOnce("early")
				if all := e.settled(); len(all) != 2 || all[0].ClaimState != "started" || all[1].ClaimState != "started" {
					t.Errorf("%+v", all)
				}
				if left := e.slurm("scontrol", "show", "reservation"); strings.Contains(left, "priod_") {
					t.Errorf("a reservation is left:\n%s", left)
				}
				if text := second.log.String(); strings.Contains(text, "priority alone") {
					t.Errorf("the place is not reserved any more:\n%s", text)
				}
				second.stop()
			})
		}
	}
}

// slurmctld falls in the grace and the backup takes over, which may not know of
// the pin any more: one eviction all the same.
func TestEvictionSurvivesFailOver(t *testing.T) {
	t.Parallel()
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("two controllers need root; make test-long as root runs this")
	}
	l := lab.ForTest(t, lab.Options{Backup: true, NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4}}})
	e := evictableOn(t, newSiteOn(t, l, evicting))
	victim := e.worker("w", "t4:4", endless, 10, "ignore")
	e.begun("w")
	trial := e.trial("t4:2")
	if err := l.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := e.daemon()
	e.told("w")
	if err := l.Kill(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 })
	e.wait("all to end", func() bool {
		out, err := l.Run(t.Context(), "squeue", "--noheader", "--states=COMPLETED", "--format=%i")
		return err == nil && slices.Contains(strings.Fields(out), trial) && slices.Contains(strings.Fields(out), victim)
	})
	if all := e.settled(); len(all) != 1 || all[0].How != "forced" || all[0].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	if n := strings.Count(e.log("w"), "signal "); n != 1 {
		t.Errorf("%d signals", n)
	}
	d.stop()
}

// priod dies once the victims are told to leave, and comes back when Slurm has
// forgotten them and the TE jobs: accounting says what became of each, or that its
// owner has to see to it, and nothing stays open.
func TestEvictionForgotten(t *testing.T) {
	t.Parallel()
	longOnly(t)
	l := lab.ForTest(t, lab.Options{ExtraConf: []string{"MinJobAge=2"}, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4}}})
	e := evictableOn(t, newSiteOn(t, l, evicting))
	d := e.shimmed(evicting)
	e.blocker("t4:1")
	how := map[string]string{}
	for name, conduct := range map[string]string{"forgotten": "save", "finished": "finish", "ended": "ignore"} {
		how[e.worker(name, "t4:1", endless, 50, conduct)] = name
	}
	e.begun("forgotten", "finished", "ended")
	var gone []string
	for range how {
		gone = append(gone, e.trial("t4:1"))
	}
	e.throw(d, shim.Fault{Command: "scancel", When: "after", Call: 3, Do: shim.Kill})
	e.eligible(3)
	first := e.doomed()
	for id, name := range how {
		e.told(name)
		if name == "ended" {
			e.slurm("scancel", id)
		}
		gone = append(gone, id)
	}
	e.wait("the kill", func() bool { return len(d.Thrown()) > 0 })
	first.ends()
	e.throw(d)
	e.wait("Slurm to forget them", func() bool {
		known := strings.Fields(e.slurm("squeue", "--noheader", "--states=all", "--format=%i"))
		return !slices.ContainsFunc(gone, func(id string) bool { return slices.Contains(known, id) })
	})
	second := e.daemon()
	all := e.settled()
	if len(all) != len(how) {
		t.Errorf("%+v", all)
	}
	for _, x := range all {
		if x.How != how[x.Victim.String()] || x.ClaimState != "started" || x.TookS == nil || *x.TookS > 30 {
			t.Errorf("%+v", x)
		}
		if again := strings.Contains(x.Reason, "has to resubmit it"); again != (x.How == "forgotten") {
			t.Errorf("%s: %q", x.How, x.Reason)
		}
	}
	if text := second.log.String(); strings.Count(text, "[ERROR]") != 1 || !strings.Contains(text, "has to resubmit it") {
		t.Errorf("the log says\n%s", text)
	}
	second.stop()
}

// With a state folder on each host, the priod that takes over while a victim is in
// its grace tells nobody to leave again; the first one ends what it began.
func TestEvictionLeftToTheOtherHost(t *testing.T) {
	t.Parallel()
	longOnly(t)
	if os.Geteuid() != 0 {
		t.Skip("two controllers need root; make test-long as root runs this")
	}
	l := lab.ForTest(t, lab.Options{Backup: true, NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4}}})
	settings := strings.Replace(evicting, quick, quick+"follow_controller = true\n", 1)
	a := newSiteOn(t, l, settings)
	a.host = lab.PrimaryHost
	b := a.beside(settings)
	b.host = lab.BackupHost
	e, other := evictableOn(t, a), &evictable{site: b}
	victim := e.worker("w", "t4:4", endless, 20, "ignore")
	e.begun("w")
	first, second := e.daemon(), b.daemon()
	second.waitLog("the active slurmctld is on ctl1")
	trial := e.trial("t4:2")
	e.told("w")
	if err := l.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Kill(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	says := func(text string) func() bool {
		return func() bool {
			out, _, _ := b.priod("explain", trial)
			return strings.Contains(out, text)
		}
	}
	b.wait("the other priod to take over", says("this priod took over recently"))
	b.wait("the victim's grace to be over", says("it requests nodes"))
	if n := strings.Count(e.log("w"), "signal "); n != 1 || len(other.journal()) > 0 {
		t.Errorf("%d signals, %+v", n, other.journal())
	}
	if err := l.StartDaemon(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	a.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 })
	a.wait("all to end", func() bool {
		out, err := l.Run(t.Context(), "squeue", "--noheader", "--states=COMPLETED", "--format=%i")
		return err == nil && slices.Contains(strings.Fields(out), trial) && slices.Contains(strings.Fields(out), victim)
	})
	if all := e.settled(); len(all) != 1 || all[0].How != "forced" || all[0].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	if n := strings.Count(e.log("w"), "signal "); n != 1 || len(other.journal()) > 0 {
		t.Errorf("%d signals, %+v", n, other.journal())
	}
	first.stop()
	second.stop()
}
