package tests

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// seedEnv repeats a run of the fault harness; every run prints its seed.
const seedEnv = "SLURMPRIO_SEED"

// random returns the harness's source of chance for this run.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seedOf(t), 0))
}

// boundedSeed is make test's: the same faults each time, so that a change and
// not chance turns it red. Chance has its turn in make test-long.
const boundedSeed = 7

// seedOf returns the seed of this run and prints it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(boundedSeed)
	if long() {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv(seedEnv); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: want a number", seedEnv, text)
		}
		seed = n
	}
	t.Logf("to repeat: %s=%d", seedEnv, seed)
	return seed
}

// rounds is how many faults a test throws: few in make test, many in make
// test-long.
func rounds(few, many int) int {
	if long() {
		return many
	}
	return few
}

// change does something to the queue that users do.
func (s *site) change(r *rand.Rand) {
	s.Helper()
	pending := s.order()
	some := func() string { return pending[r.IntN(len(pending))] }
	switch n := r.IntN(10); {
	case n < 4 || len(pending) < 5:
		s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	case n < 6:
		s.submit("--gres=gpu:1", "--time=5", "--nice="+strconv.Itoa(r.IntN(100)), "--wrap", "sleep 600")
	case n < 7:
		s.submit("--prio-type=te", "--array=1-3", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	case n < 9:
		s.slurm("scancel", some())
	default: // a value that priod has to put back
		s.slurm("scontrol", "update", "JobId="+some(), "SiteFactor=0")
	}
}

// Whenever priod is killed with -9, the next run finds its way: the order comes
// out as if nothing had happened, and reset still takes back everything.
func TestKilledAtAnyMoment(t *testing.T) {
	s := newOwnSite(t, "[te_budget.user]\ngpus = 0\n")
	r := random(t)
	s.fill()
	s.submit("--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	begun := time.Now()
	s.must("run", "--once")
	most := time.Since(begun)
	killed := 0
	for range rounds(20, 1000) {
		for range r.IntN(3) {
			s.change(r)
		}
		cmd := s.command("run", "--once")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.Float64() * float64(most)))
		cmd.Process.Kill()
		// About one run in five comes to its end, however long runs take by now:
		// or none would live to its writes.
		if cmd.Wait(); cmd.ProcessState.ExitCode() < 0 {
			killed++
			most += most / 20
		} else {
			most -= most / 5
		}
	}
	t.Logf("killed in the middle %d times", killed)
	if killed == 0 {
		t.Error("every run ended before it was killed: nothing was tested")
	}
	s.settle()
	var history struct{ Writes []store.Write }
	s.json(&history, "report", "history", "--most", "1000000")
	open := 0
	for _, w := range history.Writes {
		if w.Status == slurmplug.Unknown {
			open++
		}
	}
	t.Logf("%d of %d writes were planned and have no outcome", open, len(history.Writes))
	if long() && open == 0 {
		t.Error("no run was killed between its plan and the outcomes")
	}
	s.checkOrder()
	s.must("reset")
	left := s.slurm("sprio", "--noheader", "--format=%S")
	for value := range strings.FieldsSeq(left) {
		if value != "0" {
			t.Fatalf("reset leaves a SiteFactor of %s\n%s", value, s.levers())
		}
	}
}

// settle runs cycles until one has nothing to write.
func (s *site) settle() {
	s.Helper()
	s.wait("a cycle with nothing to write", func() bool {
		return strings.Contains(s.must("run", "--once"), "nothing to write")
	})
}

// checkOrder compares Slurm's own order with what it has to be: TE before the
// others, TE by the time that Slurm calls eligible (which its scheduler sets a
// moment after the submission, and not always in the order of ids).
func (s *site) checkOrder() {
	s.Helper()
	out := s.slurm("squeue", "--noheader", lab.Records(), "--states=PENDING", "--sort=-p,i", "--Format=EligibleTime:|,JobArrayID:|,Comment:|")
	last, others := "", false
	for line := range strings.Lines(out) {
		since, _, _ := strings.Cut(line, "|")
		switch te := strings.Contains(line, "type=te"); {
		case !te:
			others = true
		case others:
			s.Fatalf("a trial stands behind another job: %s\n%s", line, out)
		case since < last:
			s.Fatalf("a trial stands behind a later one: %s\n%s", line, out)
		default:
			last = since
		}
	}
}
