package tests

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// slurmctld and slurmdbd hang, stop, die and come back in the middle of a cycle's
// reads and of its writes.
func TestSlurmDaemonFaults(t *testing.T) {
	longOnly(t)
	seed := seedOf(t)
	s := newOwnSite(t, roomy)
	d := s.shimmed(roomy)
	q := (*queue)(nil)

	pid := func(daemon string) string {
		n, err := s.lab.PID(daemon)
		if err != nil {
			s.Fatal(err)
		}
		return strconv.Itoa(n)
	}
	do := func(err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
	}
	signal := func(sig, daemon string) []string { return []string{"/bin/kill", "-" + sig, pid(daemon)} }
	end := func(daemon string) []string { // and wait for it
		return []string{"/bin/sh", "-c", "kill -TERM $0 && while kill -0 $0 2>/dev/null; do sleep 0.05; done", pid(daemon)}
	}
	at := func(command, when string, argv []string) shim.Fault {
		return shim.Fault{Command: command, When: when, Call: 1, Do: shim.Run, Argv: argv}
	}
	start := func(daemon string) { do(s.lab.StartDaemon(s.Context(), daemon)) }
	threads := func() (n int) {
		m := regexp.MustCompile(`Server thread count: +([0-9]+)\n`).FindStringSubmatch(s.slurm("sdiag"))
		if m == nil {
			s.Fatal("sdiag tells no thread count")
		}
		n, _ = strconv.Atoi(m[1])
		return n
	}
	idle := threads()
	// wake lets slurmctld go on and finish what it was asked while it hung: a write
	// of that time which comes after priod's next one counts as somebody else's.
	wake := func() {
		do(s.lab.Continue("slurmctld"))
		s.slurm("squeue") // was taken in after all of these
		s.wait("slurmctld to have nothing else to do", func() bool { return threads() <= idle })
	}
	// saved waits until slurmctld has written down the queue: killed before, it
	// would forget jobs.
	saved := func() {
		now, id := time.Now(), q.ids[q.names[0]]
		comment := s.comment(id)
		s.wait("slurmctld to save its state", func() bool {
			s.slurm("scontrol", "update", "JobId="+id, "Comment="+comment) // or a save within the first second were the last
			info, err := os.Stat(filepath.Join(s.lab.Dir, "state", "job_state"))
			return err == nil && info.ModTime().After(now.Add(time.Second))
		})
	}

	scenarios := []struct {
		name string
		run  func()
	}{
		{"slurmctld hangs while it is read", func() {
			s.cycleWith(d, at("sprio", "before", signal("STOP", "slurmctld")))
			wake()
		}},
		{"slurmctld hangs between two writes", func() {
			s.cycleWith(d, at("scontrol update", "during", signal("STOP", "slurmctld")))
			wake()
		}},
		{"slurmctld stops between reads and writes", func() {
			s.cycleWith(d, at("sdiag", "after", end("slurmctld")))
			start("slurmctld")
		}},
		{"slurmctld stops between two writes", func() {
			s.cycleWith(d, at("scontrol update", "during", end("slurmctld")))
			start("slurmctld")
		}},
		{"slurmctld is killed while it is read", func() {
			saved()
			s.cycleWith(d, at("squeue", "before", signal("KILL", "slurmctld")))
			start("slurmctld")
		}},
		{"slurmctld is killed between two writes and forgets them", func() {
			saved()
			s.cycleWith(d, at("scontrol update", "during", signal("KILL", "slurmctld")))
			start("slurmctld")
		}},
		{"slurmctld is killed after the writes and forgets them", func() {
			saved()
			s.cycleWith(d, at("scontrol update", "after", signal("KILL", "slurmctld")))
			start("slurmctld")
		}},
		{"slurmdbd is down", func() {
			do(s.lab.Stop(s.Context(), "slurmdbd"))
			s.must("run", "--once")
			start("slurmdbd")
		}},
		{"slurmdbd hangs while it is read", func() {
			s.cycleWith(d, at("sacct", "before", signal("STOP", "slurmdbd")))
			do(s.lab.Continue("slurmdbd"))
		}},
		{"accounting is six hours behind", func() {
			s.cycleWith(d, shim.Fault{Command: "sacct", When: "before", Call: 1, Do: shim.Late, Delay: 6 * time.Hour})
		}},
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(scenarios), func(i, j int) { scenarios[i], scenarios[j] = scenarios[j], scenarios[i] })
	scenarios = scenarios[:rounds(2, len(scenarios))]
	want := undisturbed(newSiteOn(t, lab.Shared(t), roomy), seed, len(scenarios), nil)
	s.clear()
	q = newQueue(s, seed)
	s.settle()
	s.sameEnd(want[0])
	for i, scenario := range scenarios {
		s.sub(t, scenario.name, func() {
			q.step()
			scenario.run()
			s.wait("slurmctld to answer", func() bool { _, err := s.lab.Run(s.Context(), "squeue"); return err == nil })
			s.settle()
			s.sameEnd(want[i+1])
		})
	}
	s.checkReset(want[len(want)-1])
}

// A slurmctld that is killed comes back with the value before the last but one:
// it is priod's own, and is written over.
func TestOlderValueComesBack(t *testing.T) {
	longOnly(t)
	s := newSite(t, roomy)
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	write := func(top string) string {
		s.configure(roomy + "[ranking]\ntop = " + top + "\n")
		s.must("run", "--once")
		return s.siteFactor(trial)
	}
	oldest := write("1900000000")
	if err := s.lab.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if between, last := write("1200000000"), write("600000000"); oldest == between || between == last {
		t.Fatalf("the values are %s, %s, %s", oldest, between, last)
	}
	if err := s.lab.Kill(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	if err := s.lab.StartDaemon(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	s.wait("the trial in the queue", func() bool { return s.siteFactor(trial) != "" })
	if now := s.siteFactor(trial); now != oldest {
		t.Skipf("slurmctld saved its state in between: it shows %s, not %s", now, oldest)
	}
	if out := s.must("run", "--once"); strings.Contains(out, "another program") {
		t.Error(out)
	}
	if now := s.siteFactor(trial); now == oldest {
		t.Errorf("the value stays %s", now)
	}
}
