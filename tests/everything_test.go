package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/shim"
)

// everything is together in the order of what jobs are owed.
const everything = together + "[ranking]\norder = \"owed\"\n"

// A TE job that suits two types as well is bound to none while both are full, BE jobs
// are; when a GPU of either becomes free, it is the TE job that starts there.
func TestTrialsAreNotBoundToWait(t *testing.T) {
	b := &bindable{newOwnSite(t, everything)}
	var first []string // a GPU each, so that one becomes free at a time
	for _, gpuType := range []string{"v100", "a100"} {
		for range 12 {
			first = append(first, b.submit("--gres=gpu:"+gpuType+":1", "--time=60", "--wrap", "sleep 600"))
		}
	}
	b.wait("the GPUs to be held", func() bool {
		return strings.Count(b.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i"), "\n") == len(first)
	})
	speed := []string{"--prio-speed=a100:4,v100:4", "--time=30", "--mem=100", "--gres=gpu:1", "--constraint=a100|v100"}
	var workers []string
	for range 6 {
		workers = append(workers, b.submit(append(speed, "--prio-type=be", "--wrap", "sleep 600")...))
	}
	trials := []string{b.submit(append(speed, "--prio-type=te", "--wrap", "sleep 600")...), b.submit(append(speed, "--prio-type=te", "--wrap", "sleep 600")...)}
	b.eligible(8)
	d := b.daemon()
	for _, id := range workers {
		b.wait("the BE jobs to be bound", func() bool { return bound("a100|v100", b.constraints()[id], "a100", "v100") })
	}
	for i, leaves := range []string{first[0], first[12]} {
		for _, id := range trials[i:] {
			if now := b.constraints()[id]; now != "a100|v100" {
				t.Errorf("a TE job that cannot start is bound to %q", now)
			}
		}
		b.slurm("scancel", leaves)
		b.wait("somebody to start there", func() bool {
			running := strings.Fields(b.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i"))
			for _, id := range workers {
				if slices.Contains(running, id) {
					t.Fatalf("BE job %s starts before a TE job\n%s", id, b.slurm("squeue"))
				}
			}
			n := 0
			for _, id := range trials {
				if slices.Contains(running, id) {
					n++
				}
			}
			return n > i
		})
	}
	d.stop()
}

// A user changes the features of a TE job just when priod has named the node of its
// claim: nobody leaves for it, and it is not left in BadConstraints, also when priod is
// killed in between.
func TestEditAgainstAPin(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false}[:rounds(1, 2)] {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			e := evictableOn(t, newOwnSite(t, everything))
			d := e.shimmed(everything)
			e.full(20, "save")
			e.blocker("a100:4", "--nodelist=a100-1")
			e.slurm("scontrol", "update", "NodeName=a100-[2-3],v100-[1-3]", "State=DRAIN", "Reason=test")
			trial := e.trial("2", "--constraint=t4")
			e.eligible(1)
			state := func() (reason, nodes, priority string) {
				f := strings.Split(strings.TrimSpace(e.slurm("squeue", "--noheader", "--jobs="+trial, "--Format=Reason:|,ReqNodes:|,PriorityLong:|")), "|")
				return f[0], f[1], f[2]
			}
			e.wait("it to wait for room", func() bool { reason, _, _ := state(); return reason == "Resources" })
			edit := "scontrol update JobId=" + trial + " Features=a100"
			if killed {
				edit += "; kill -9 $(ps -o ppid= -p $PPID)" // the parent of the shim
			}
			e.cycleWith(d, shim.Fault{Command: "scontrol update", When: "after", Call: 2, Do: shim.Run, Argv: []string{"sh", "-c", edit}})
			if killed {
				if _, nodes, _ := state(); nodes == "" {
					t.Fatal("priod was killed before it named a node")
				}
				e.wait("Slurm to find no node", func() bool { reason, _, _ := state(); return reason == "BadConstraints" })
				e.must("run", "--once")
			}
			if reason, nodes, priority := state(); nodes != "" || reason == "BadConstraints" && killed {
				t.Errorf("it waits for %s with priority %s, for nodes %q", reason, priority, nodes)
			}
			e.wait("it to wait for room again", func() bool {
				reason, _, priority := state()
				return priority != "0" && (reason == "Resources" || reason == "Priority")
			})
			if text := e.log("w"); strings.Contains(text, "signal") {
				t.Errorf("a job left in vain:\n%s", text)
			}
			if all := e.journal(); len(all) != 1 || all[0].State != "called-off" || all[0].ClaimState != "released" {
				t.Errorf("the journal: %+v", all)
			}
		})
	}
}

// written are the constraints that priod wrote, by job, the first one first.
func (s *site) written() map[cluster.JobID][]store.Write {
	s.Helper()
	var history struct{ Writes []store.Write }
	s.json(&history, "report", "history", "--most", "1000000")
	all := map[cluster.JobID][]store.Write{}
	for _, w := range slices.Backward(history.Writes) {
		if w.Lever == slurmplug.Features && (w.Status == slurmplug.Applied || w.Status == slurmplug.Unknown) {
			for _, id := range w.Jobs() {
				all[id] = append(all[id], w)
			}
		}
	}
	return all
}

// Forty jobs come within a minute, with everything on, and two minutes later no
// constraint was written back to what it was less than a minute before.
func TestSteeringDoesNotThrash(t *testing.T) {
	longOnly(t)
	e := evictableOn(t, newOwnSite(t, everything))
	e.slurm("scontrol", "update", "NodeName=a100-[2-3],v100-[2-3],t4-2", "State=DRAIN", "Reason=test")
	r := rand.New(rand.NewPCG(4, 15))
	d := e.daemon()
	d.waitLog("started")
	begun := time.Now()
	for i := range 40 {
		e.sleep(time.Until(begun.Add(time.Duration(i) * 1500 * time.Millisecond)))
		speeds := []string{"a100:4,v100:1,t4:1", "a100:1,v100:1,t4:1", "a100:2,v100:1.5,t4:1"}[r.IntN(3)]
		args := []string{"--prio-speed=" + speeds, "-c", fmt.Sprint(1 + r.IntN(4)), "--mem=500", "--prio-cpu=a100:1x1-4x3,v100:1x1-4x2,t4:1x1-4x1.2"}
		gpus := fmt.Sprint(1 + r.IntN(3))
		if r.IntN(4) == 0 {
			e.trial(gpus, args...)
		} else {
			e.worker(fmt.Sprint("w", i), gpus, 25+r.IntN(100), 5, "save", args...)
		}
	}
	e.sleep(time.Until(begun.Add(2 * time.Minute)))
	e.must("pause", "--why", "the count")
	total := 0
	for id, writes := range e.written() {
		total += len(writes)
		for i, w := range writes {
			for _, before := range writes[:i] {
				if left := before.At; w.After == before.Before && w.At.Sub(left) < time.Minute {
					t.Errorf("job %s: %q was written back after %s: %s, then %s", id, w.After, w.At.Sub(left), before.Reason, w.Reason)
				}
			}
		}
	}
	t.Logf("%d constraints written", total)
	if total == 0 {
		t.Error("nobody was steered")
	}
	d.stop()
}
