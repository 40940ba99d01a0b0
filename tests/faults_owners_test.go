package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slurmprio/tests/shim"
)

// Owners change their jobs between priod's read and its write: the end is as if
// they had done it before the read.
func TestOwnersBetweenReadAndWrite(t *testing.T) {
	changes := []struct {
		name string
		argv func(id string) []string
	}{
		{"Nice", func(id string) []string { return []string{"scontrol", "update", "JobId=" + id, "Nice=3000"} }},
		{"tag", func(id string) []string {
			return []string{"scontrol", "update", "JobId=" + id, "Comment=prio:type=be&v=1"}
		}},
		{"hold", func(id string) []string { return []string{"scontrol", "hold", id} }},
		{"cancel", func(id string) []string { return []string{"scancel", id} }},
		{"partition", func(id string) []string {
			return []string{"scontrol", "update", "JobId=" + id, "Partition=interactive"}
		}},
	}
	changes = changes[:rounds(2, len(changes))]
	seed := seedOf(t)
	argv := func(q *queue, i int) []string {
		name := q.names[len(q.names)-1] // submitted last: this cycle is to write it
		switch changes[i].name {
		case "cancel":
			q.names = slices.DeleteFunc(q.names, func(n string) bool { return n == name })
		case "hold":
			q.held[name] = true
		}
		return changes[i].argv(q.ids[name])
	}
	first := newOwnSite(t, roomy)
	want := undisturbed(first, seed, len(changes), func(q *queue, i int) {
		a := argv(q, i)
		q.slurm(a[0], a[1:]...)
	})
	s := newSiteOn(t, first.lab, roomy)
	d := s.shimmed(roomy)
	q := newQueue(s, seed)
	s.settle()
	s.sameEnd(want[0])
	for i, change := range changes {
		s.sub(t, change.name, func() {
			q.step()
			s.cycleWith(d, shim.Fault{Command: "sdiag", When: "before", Call: 1, Do: shim.Run, Argv: argv(q, i)})
			s.settle()
			s.sameEnd(want[i+1])
		})
	}
	s.checkReset(want[len(want)-1])
}

// Another tool writes SiteFactor too: priod says so and leaves its value, and
// where the tool takes priod's values back, priod gives up soon.
func TestOtherToolWritesToo(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, roomy)
	d := s.shimmed(roomy)
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	other := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	be := s.submit("--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(3)
	written := func(id string) int {
		var story struct{ Writes []struct{ Status string } }
		s.json(&story, "explain", "--history", id, "--most", "1000")
		return len(story.Writes)
	}
	value := func(id string) string {
		return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+id))
	}
	reported := func(id, why string) {
		t.Helper()
		if out := s.must("explain", id); !strings.Contains(out, why) {
			t.Errorf("explain does not say %q:\n%s", why, out)
		}
		if out := s.must("run", "--dry-run"); !strings.Contains(out, "have a value that another program") {
			t.Errorf("diff says nothing:\n%s", out)
		}
	}

	// Just after priod's own write.
	s.cycleWith(d, shim.Fault{Command: "scontrol update", When: "after", Call: 1, Do: shim.Run,
		Argv: []string{"scontrol", "update", "JobId=" + trial, "SiteFactor=777"}})
	s.slurm("scontrol", "update", "JobId="+be, "SiteFactor=555")
	n := written(trial)
	for range 4 {
		s.must("run", "--once")
	}
	if value(trial) != "777" || value(be) != "555" || written(trial) != n || written(be) != 0 {
		t.Errorf("foreign values became %s and %s, in %d and %d writes", value(trial), value(be), written(trial)-n, written(be))
	}
	reported(trial, "set by another program")
	reported(be, "set by another program")

	// Again and again.
	n = written(other)
	for range 8 {
		s.slurm("scontrol", "update", "JobId="+other, "SiteFactor=0")
		s.must("run", "--once")
	}
	// Three times the same value, and perhaps before that another one, for a place
	// of its own.
	if more := written(other) - n; more < 3 || more > 4 || value(other) != "0" {
		t.Errorf("the fight took %d writes and ends in %s", more, value(other))
	}
	reported(other, "reset by another program")

	// A daemon says it in its log, once, and in its metrics.
	address := freePort(t)
	s.configure(quick + roomy + fmt.Sprintf("[metrics]\nlisten = %q\n", address))
	daemon := s.daemon()
	daemon.waitLog("3 jobs have a value that another program")
	metrics := scraper{daemon, address}
	metrics.waitValue(`priod_unwritten_jobs{reason=foreign-value}`, is(2))
	metrics.waitValue(`priod_unwritten_jobs{reason=taken-back}`, is(1))
	metrics.waitValue(`priod_cycles_total{result=ok}`, atLeast(3))
	daemon.stop()
	if n := strings.Count(daemon.log.String(), "carry a value"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}

	s.must("reset")
	if value(trial) != "777" || value(be) != "555" {
		t.Errorf("reset took foreign values: %s and %s", value(trial), value(be))
	}
}

// The owner cancels what the TE budget leaves of an array just when priod writes the
// other tasks: Slurm writes their value into the record itself. Its own comes back.
func TestOwnerLeavesOnlyTheWrittenTasks(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"at once", "after a cycle", "without the database"} {
		t.Run(when, func(t *testing.T) {
			s := newSite(t, "")
			d := s.shimmed("[te_budget.user]\ngpus = 2\n")
			s.fill()
			array := s.submit("--prio-type=te", "--array=0-9", "--nice=7", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
			s.eligible(1)
			before := s.levers()
			s.cycleWith(d, shim.Fault{Command: "sdiag", When: "before", Call: 1, Do: shim.Run, Argv: []string{"scancel", array + "_[3-9]"}})
			if now := s.levers(); now == before || s.order()[0] != array+"_[0-2]" {
				t.Fatalf("not written into the record:\n%s", now)
			}
			switch when {
			case "after a cycle":
				if out := s.must("run", "--once"); !strings.Contains(out, "nothing to write") {
					t.Errorf("the next cycle says\n%s", out)
				}
			case "without the database":
				s.loseDatabase()
			}
			if out := s.must("reset"); s.levers() != before || !strings.Contains(out, "; 0 jobs left the queue") {
				t.Errorf("before priod it was\n%s, reset leaves\n%s\n%s", before, s.levers(), out)
			}
		})
	}
}
