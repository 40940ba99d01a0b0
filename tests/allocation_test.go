package tests

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/priod/store"
	"slurmprio/tests/lab"
)

// shared is what explain --json shows of a job's allocation.
type shared struct{ Share *store.Share }

// Jobs stand in the order of what they are owed: the one that is nearly done first, the one that has
// longest to run last. Each cycle here is a process of its own, which knows what jobs received; reset takes all of
// it back.
func TestOrderByAllocation(t *testing.T) {
	s := newSite(t, quick+"[ranking]\norder = \"owed\"\n[allocation]\npolicy = \"max-min\"\n[allocation.weights]\nbiology = 8.0\n")
	submit := func(args ...string) string {
		return s.submit(append(append([]string{"--prio-type=be", "--gres=gpu:4", "--time=60"}, args...), "--wrap", "sleep 600")...)
	}
	running := []string{submit("--gres=gpu:a100:4", "--time=120")}
	for range len(s.lab.Nodes) - 1 {
		running = append(running, submit())
	}
	for _, id := range running {
		if err := s.lab.WaitJob(s.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	s.must("run", "--once") // sees who runs
	lm := submit("--prio-speed=a100:1,v100:0.4,t4:0.2")
	vision := submit("--prio-workload=imagenet-of-nobody")
	weighty := submit("--prio-speed=a100:1,v100:0.4,t4:0.2", "--time=20", "--account="+lab.Biology)
	trial := s.submit("--prio-type=te", "--gres=gpu:4", "--time=5", "--wrap", "sleep 600")
	s.eligible(4)
	// Once earlier tests of this lab have run for a minute, Slurm's fair share ranks the other account's job first.
	if got := s.order(); got[0] != lm && !(got[0] == weighty && got[1] == lm) {
		t.Fatalf("Slurm alone: %v", got)
	}
	before := s.levers()
	s.must("run", "--once")
	if got := s.order(); got[0] != trial || got[1] != weighty {
		t.Fatalf("the order is %v, want %s, %s first\n%s", got, trial, weighty, s.levers())
	}
	if again := s.must("run", "--once"); !strings.Contains(again, "nothing to write") {
		t.Errorf("the second cycle says\n%s", again)
	}
	out := s.must("explain", "--all", weighty)
	for _, want := range []string{"a100: 1.00, by the job's tag", "a100: 100 % of its time; received 0s there", "Place      behind 1 TE job; otherwise", "it has had no time on a100"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain lacks %q:\n%s", want, out)
		}
	}
	if out := s.must("explain", vision); !strings.Contains(out, "unknown, assumed equal on a100, t4 and v100") || !strings.Contains(out, "and 2 best-effort jobs") {
		t.Errorf("explain says\n%s", out)
	}
	s.must("reset")
	s.must("resume")
	if after := s.levers(); after != before {
		t.Errorf("reset leaves\n%s\nbefore priod it was\n%s", after, before)
	}

	// One that ran is requeued: Slurm alone would put it first. The node that all
	// wait for stays busy.
	ran, busy := running[0], strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+running[1], "--format=%N"))
	s.slurm("scancel", trial, weighty)
	for _, id := range []string{lm, vision} {
		s.slurm("scontrol", "update", "JobId="+id, "ReqNodeList="+busy)
	}
	s.wait("it to have run for seconds that accounting counts, too", func() bool {
		return !strings.Contains("0:00 0:01 0:02", strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+ran, "--format=%M")))
	})
	s.slurm("scontrol", "requeue", ran)
	s.wait("the requeued job to wait", func() bool { return slices.Contains(s.order(), ran) })
	s.slurm("scontrol", "update", "JobId="+ran, "ReqNodeList="+busy)
	s.wait("the requeued job to be eligible", func() bool {
		s.slurm("scontrol", "update", "JobId="+ran, "StartTime=now", "Nice=-200")
		return strings.Contains(s.slurm("sprio", "--noheader", "--format=%i"), ran)
	})
	if got := s.order(); got[0] != ran {
		t.Fatalf("Slurm alone: %v", got)
	}
	s.must("run", "--once")
	if got := s.order(); !slices.Equal(got, []string{lm, vision, ran}) {
		t.Errorf("the order is %v, want %s, that has had its share, last", got, ran)
	}
	received := func() (sum float64) {
		var v shared
		s.json(&v, "explain", "--all", ran)
		for _, g := range v.Share.Types {
			sum += g.ReceivedS
		}
		return sum
	}
	had := received()
	s.slurm("scontrol", "update", "JobId="+ran, "TimeLimit=50") // its row is written anew
	s.slurm("scancel", lm)
	s.must("run", "--once")
	// Accounting tells the end, in whole seconds: up to one less than the polls saw, and
	// more when the job ended after the last of them.
	elapsed, err := strconv.ParseFloat(strings.TrimSpace(s.slurm("sacct", "--duplicates", "--allocations", "--noheader", "--parsable2", "--jobs="+ran, "--state=REQUEUED", "--format=ElapsedRaw")), 64)
	if err != nil {
		t.Fatal(err)
	}
	if now := received(); had <= 0 || now <= had-1 || now > max(had, elapsed)+1 {
		t.Errorf("it received %v s, and %v s after another start of priod; accounting says %v s", had, now, elapsed)
	}
	if out := s.must("explain", "--all", ran); !strings.Contains(out, "the best of allocated over received since") {
		t.Errorf("explain says\n%s", out)
	}
}
