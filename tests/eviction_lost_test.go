package tests

import (
	"fmt"
	"strings"
	"testing"

	"slurmprio/tests/shim"

	"slurmprio/tests/lab"
)

// The database is deleted while priod is down, in whichever state an eviction was.
func TestDatabaseLostInAnEviction(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	some := map[string]bool{"signalled": true, "left, not requeued": true}
	for _, k := range kills {
		if long() || some[k.name] {
			t.Run(k.name, func(t *testing.T) { k.survived(t, l, true) })
		}
	}
}

// A place that becomes free in parts is reserved when the database is lost: the
// reservation goes all the same, whether priod goes on or reset takes it back, and both
// victims come back.
func TestDatabaseLostWithAReservation(t *testing.T) {
	longOnly(t)
	t.Parallel()
	for _, reset := range []bool{false, true} {
		t.Run(fmt.Sprint("reset=", reset), func(t *testing.T) {
			e := newEvictable(t, evicting)
			d := e.shimmed(evicting)
			e.blocker("t4:4")
			early := e.worker("early", "t4:2", endless, 8, "save")
			late := e.worker("late", "t4:2", endless, 8, "ignore")
			e.begun("early", "late")
			trial := e.trial("t4:4")
			e.throw(d, shim.Fault{Command: "scontrol create", When: "after", Call: 1, Do: shim.Kill})
			first := e.doomed()
			e.wait("the kill", func() bool { return len(d.Thrown()) > 0 })
			first.ends()
			e.throw(d)
			e.loseDatabase()
			if !e.reserved() {
				t.Fatal("no reservation to begin with")
			}
			if reset {
				e.must("reset")
				if e.reserved() || e.pinned() != "" {
					t.Errorf("reset leaves a reservation, or places held:\n%s", e.pinned())
				}
				e.must("resume")
			}
			second := e.daemon()
			for _, id := range []string{trial, early, late} {
				e.completes(id)
			}
			e.leftOnce("early")
			all := e.settled()
			if !reset && (len(all) != 2 || all[0].ClaimState != "started" || all[1].ClaimState != "started") {
				t.Errorf("%+v", all)
			}
			if e.reserved() {
				t.Error("a reservation is left")
			}
			second.stop()
		})
	}
}

// reserved reports whether Slurm has a reservation of priod's.
func (e *evictable) reserved() bool {
	e.Helper()
	return strings.Contains(e.slurm("scontrol", "show", "reservation"), "priod_")
}

// A job that was evicted as often as it may be is not evicted again, though the
// database was lost since; and it stays one job with both of its runs.
func TestCapOutlivesTheDatabase(t *testing.T) {
	settings := strings.Replace(evicting, "max_evictions = 0", "max_evictions = 1", 1)
	e := newEvictable(t, settings)
	e.blocker("t4:4")
	victim := e.worker("w", "t4:4", 100_000, 20, "save")
	e.begun("w")
	first := e.daemon()
	e.completes(e.trial("t4:2"))
	e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 })
	e.settled()
	runs := func() int {
		var story struct {
			Intervals []any `json:"intervals"`
		}
		e.json(&story, "explain", victim)
		return len(story.Intervals)
	}
	e.wait("both runs of the victim in its story", func() bool { return runs() == 2 })
	first.kill()
	e.loseDatabase()
	second := e.daemon()
	trial := e.trial("t4:2")
	e.wait("a decision about the second trial", func() bool {
		out, _, _ := e.priod("explain", trial)
		return strings.Contains(out, "no evictable jobs make room")
	})
	if text := e.log("w"); strings.Count(text, "signal ") != 1 {
		t.Errorf("the victim was told twice:\n%s", text)
	}
	if all := e.journal(); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	second.stop()
}

// A victim that left by itself has FAILED, and squeue does not show it: it is requeued
// as the same job, with what priod had written into it still priod's.
func TestVictimStaysOneJob(t *testing.T) {
	longOnly(t)
	e := evictableOn(t, newOwnSite(t, evicting+"[limits]\nwrites_per_cycle = 100\n"))
	e.blocker("t4:4")
	victim := e.worker("w", "t4:4", 100_000, 20, "save")
	e.begun("w")
	d := e.daemon()
	for round := 1; round <= 2; round++ {
		e.completes(e.trial("t4:2"))
		e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == round+1 })
		e.settled()
	}
	var story struct {
		Intervals []any `json:"intervals"`
	}
	e.wait("its three runs", func() bool {
		e.json(&story, "explain", victim)
		return len(story.Intervals) == 3
	})
	if out := e.must("evictions", victim); strings.Count(out, "done (exited)") != 2 {
		t.Errorf("evictions says\n%s", out)
	}
	d.stop()
	if text := d.log.String(); strings.Contains(text, "another program") {
		t.Errorf("the log says\n%s", text)
	}
}

// priod is killed between a write and its record; the job runs, fails, and is requeued.
// What it carries is still priod's, which takes it back when the job counts as TE no more.
func TestValueOfAKilledPriodIsItsOwn(t *testing.T) {
	e := newEvictable(t, evicting)
	d := e.shimmed(evicting)
	e.blocker("t4:4")
	place := e.blocker("t4:4")
	id := e.submit("--prio-type=te", "--gres=gpu:t4:4", "--time=5", "--wrap", "sleep 1; exit 1")
	e.throw(d, shim.Fault{Command: "scontrol update", When: "after", Call: 1, Do: shim.Kill})
	first := e.doomed()
	e.wait("the kill", func() bool { return len(d.Thrown()) > 0 })
	first.ends()
	e.throw(d)
	second := e.daemon()
	e.slurm("scancel", place)
	e.wait("the job to fail and to leave the queue", func() bool {
		var story struct {
			Job struct {
				Left string `json:"left"`
			} `json:"job"`
		}
		e.json(&story, "explain", id)
		return story.Job.Left != ""
	})
	e.blocker("t4:4")
	e.slurm("scontrol", "requeue", id)
	e.slurm("scontrol", "update", "JobId="+id, "Comment=none", "StartTime=now")
	factor := func() string {
		return strings.TrimSpace(e.slurm("sprio", "--noheader", "--jobs="+id, "--format=%S"))
	}
	e.wait("its value to be taken back", func() bool { return factor() == "0" })
	second.stop()
	if text := second.log.String(); strings.Contains(text, "another program") {
		t.Errorf("the log says\n%s", text)
	}
}
