package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// turns are short rounds without preemption, and without a lead: who is owed is a
// matter of seconds.
const turns = steering + `
[preemption]
min_run = "0s"
restart = "0s"
[rounds]
enabled = true
length = "5s"
min_gain_ratio = 1.0
finish_bonus = "0s"
`

// newTurns is a queue on one node of a fast type, beside one of a slow type that is
// taken.
func newTurns(t *testing.T) *evictable {
	e := evictableOn(t, newOwnSite(t, turns))
	others := "NodeName=a100-[2-3],v100-[2-3],t4-[1-2]"
	e.slurm("scontrol", "update", others, "State=DRAIN", "Reason=rounds")
	e.blocker("v100:4")
	return e
}

// A job that has had more than its due of the fast type leaves at the end of a round
// for one that waits for it, had nothing and has less work left, and comes back with all of its work.
func TestRoundEnds(t *testing.T) {
	e := newTurns(t)
	rich := e.worker("rich", "4", endless, 5, "save", "--prio-speed=a100:4,v100:1")
	e.begun("rich")
	poor := e.worker("poor", "4", 10, 5, "save", "--prio-speed=a100:4,v100:1", "--time=30")
	e.eligible(1)
	d := e.daemon()
	b := &bindable{e.site}
	b.boundTo(poor, "a100")
	e.told("rich")
	e.completes(poor)
	e.completes(rich)
	e.leftOnce("rich")
	if text := e.log("poor"); strings.Count(text, "start ") != 1 || strings.Contains(text, "signal") {
		t.Errorf("the one that was owed:\n%s", text)
	}
	all := e.settled()
	if len(all) != 1 || all[0].Purpose != "round" || all[0].For.String() != poor || all[0].Nodes != "a100-1" || all[0].State != "done" || all[0].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	for _, c := range []struct{ want, args string }{
		{"at the end of a round, for job " + poor, "explain " + rich},
		{"job " + rich + " of", "explain " + poor},
		{"round " + poor, "evictions"},
		{"At the end of rounds", "report preemptions"},
		{"No job was evicted for a TE job", "report preemptions"},
	} {
		if out := e.must(strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s does not say %q:\n%s", c.args, c.want, out)
		}
	}
	d.stop()
}

// An array waits unsplit, each task for the same type: the task that starts next gets
// a place, and Slurm gives it a record of its own.
func TestRoundForAnArray(t *testing.T) {
	longOnly(t)
	e := newTurns(t)
	rich := e.worker("rich", "4", endless, 5, "save", "--prio-speed=a100:4,v100:1")
	e.begun("rich")
	array := e.worker("poor", "4", 10, 5, "save", "--prio-speed=a100:100,v100:1", "--time=30", "--array=3-4") // both for the fast type: one record
	e.eligible(1)
	d := e.daemon()
	e.told("rich")
	e.completes(array + "_3")
	all := e.journal()
	if len(all) == 0 || all[0].Purpose != "round" || all[0].Victim.String() != rich || all[0].For.String() != array+"_3" || all[0].Nodes != "a100-1" || all[0].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	if text := e.log("poor3"); strings.Count(text, "start ") != 1 || strings.Contains(text, "signal") {
		t.Errorf("the task that was owed:\n%s", text)
	}
	e.slurm("scancel", rich, array)
	d.stop()
}

// Three jobs have one node in turn, each with less work left than the one before, while priod is killed now and
// then: each comes back with all of its work, and none is told to leave twice in one
// run.
func TestRoundsTakeTurns(t *testing.T) {
	longOnly(t)
	e := newTurns(t)
	names := []string{"one", "two", "three"}
	work := func(i int) string {
		return e.worker(names[i], "4", 130, 5, "save", "--prio-speed=a100:4,v100:1", fmt.Sprintf("--time=%d", 60>>i))
	}
	ids := []string{work(0)}
	e.begun("one")
	for i, name := range names[:2] {
		ids = append(ids, work(i+1))
		d := e.daemon()
		e.told(name)
		d.kill()
	}
	d := e.daemon()
	ctx, cancel := context.WithTimeout(e.Context(), 2*lab.Patience)
	defer cancel()
	for i, name := range names {
		// One that was told to leave once more has failed, until priod requeues it.
		if err := lab.WaitFor(ctx, name+" to be complete", func(context.Context) (bool, error) { return strings.Contains(e.log(name), "complete"), nil }); err != nil {
			t.Fatal(err)
		}
		e.completes(ids[i])
		text := e.log(name)
		told, saved := strings.Count(text, "signal "), "0"
		if told == 0 && i < 2 || strings.Count(text, "start ") != told+1 || strings.Count(text, "complete") != 1 {
			t.Errorf("%s:\n%s", name, text)
		}
		for line := range strings.Lines(text) {
			if _, from, starts := strings.Cut(strings.TrimSpace(line), " from="); starts && from != saved {
				t.Errorf("%s begins at %s and had saved %s:\n%s", name, from, saved, text)
			}
			if _, at, signal := strings.Cut(line, " at="); signal {
				saved, _, _ = strings.Cut(at, " ")
			}
		}
	}
	all := e.settled() // by the daemon
	d.stop()
	for _, x := range all {
		t.Logf("%s yielded to %s: %s, %s", x.Victim, x.For, x.State, x.ClaimState)
		// The last rounds end while jobs complete by themselves.
		itself := x.State == "called-off" && x.Reason == "its run ended before it was signalled" && x.Signalled.IsZero()
		if x.Purpose != "round" || x.State != "done" && !itself || x.ClaimState != "started" {
			t.Errorf("%+v", x)
		}
	}
}
