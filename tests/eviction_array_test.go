package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"slurmprio/tests/shim"

	"slurmprio/tests/lab"
)

// sweep is an array of BE jobs of which tasks wait while others run, on the half of the
// t4 nodes that no other job holds.
type sweep struct {
	*evictable
	id    string
	tasks int
}

func (e *evictable) sweep(tasks int, limit, gres string, grace int, conduct string) *sweep {
	e.Helper()
	e.blocker("t4:4")
	a := &sweep{e, e.worker("a", gres, endless, grace, conduct, fmt.Sprintf("--array=1-%d%s", tasks, limit)), tasks}
	e.begun("a1")
	e.wait("the others to wait", func() bool {
		return strings.Contains(e.slurm("squeue", "--noheader", "--states=PENDING", "--format=%i"), a.id+"_")
	})
	return a
}

// signals counts those that all tasks got.
func (a *sweep) signals() (n int) {
	for i := range a.tasks {
		n += strings.Count(a.log(fmt.Sprint("a", i+1)), "signal ")
	}
	return n
}

// done waits until each task has done all of its work, and Slurm calls it completed.
func (a *sweep) done() {
	a.Helper()
	if err := os.WriteFile(a.state("a.enough"), nil, 0o644); err != nil {
		a.Fatal(err)
	}
	a.wait("all tasks to complete", func() bool {
		return strings.Count(a.slurm("squeue", "--noheader", "--array", "--states=COMPLETED", "--jobs="+a.id, "--format=%i"), a.id+"_") == a.tasks
	})
	for i := range a.tasks {
		if text := a.log(fmt.Sprint("a", i+1)); strings.Count(text, "complete") != 1 {
			a.Errorf("task %d:\n%s", i+1, text)
		}
	}
}

// While tasks of an array wait, Slurm signals one that runs and says that it did not, and
// scancel would signal it on and on. It gets one signal, leaves or is ended once, comes
// back and completes, and so do the others; no cycle waits for it.
func TestEvictionOfWaitingArrays(t *testing.T) {
	for _, c := range []struct {
		name, limit, gres string
		tasks, grace      int
		conduct, how      string
	}{
		{name: "saves and exits 0", tasks: 3, limit: "%1", gres: "t4:4", grace: 20, conduct: "leave", how: "exited"},
		{name: "ignores its signal", tasks: 3, limit: "%1", gres: "t4:4", grace: 12, conduct: "ignore", how: "forced"},
		{name: "saves and exits", tasks: 3, limit: "%1", gres: "t4:4", grace: 20, conduct: "save", how: "exited"},
		{name: "saves, two at a time", tasks: 6, gres: "t4:2", grace: 20, conduct: "save", how: "exited"},
		{name: "ignores, two at a time", tasks: 6, gres: "t4:2", grace: 12, conduct: "ignore", how: "forced"},
	}[:rounds(1, 5)] {
		t.Run(c.name, func(t *testing.T) {
			e := newEvictable(t, evicting)
			a := e.sweep(c.tasks, c.limit, c.gres, c.grace, c.conduct)
			d := e.daemon()
			d.waitLog("started")
			e.completes(e.trial("t4:2"))
			a.done()
			if all := e.settled(); len(all) != 1 || all[0].State != "done" || all[0].How != c.how || all[0].ClaimState != "started" {
				t.Errorf("%+v", all)
			}
			if n := a.signals(); n != 1 {
				t.Errorf("%d signals", n)
			}
			d.stop()
			if text := d.log.String(); strings.Contains(text, "[WARN]") || strings.Contains(text, "[ERROR]") {
				t.Errorf("the log warns:\n%s", text)
			}
		})
	}
}

// However the command fails that tells a task to leave, and whether the signal arrived or
// not: a task that left is requeued, one that did not is told, none is lost.
func TestEvictionWhereTheSignalFails(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{})
	for _, f := range []shim.Fault{
		{When: "after", Do: shim.Mute},
		{When: "after", Do: shim.Kill},
		{When: "after", Do: shim.Hang},
		{When: "before", Do: shim.Die},
		{When: "after", Do: shim.Die},
		{When: "before", Do: shim.Fail},
		{When: "after", Do: shim.Fail},
		{When: "before", Do: shim.Hang},
		{When: "before", Do: shim.Kill},
	}[:rounds(1, 9)] {
		f.Command, f.Call = "scancel", 1
		t.Run(f.When+" "+f.Do, func(t *testing.T) {
			e := evictableOn(t, newSiteOn(t, l, evicting))
			if f.Do == shim.Hang {
				e.hurry = "5s"
			}
			shims := e.shimmed(evicting)
			a := e.sweep(3, "%1", "t4:4", 25, "save")
			e.throw(shims, f)
			d := e.doomed()
			d.waitLog("started")
			trial := e.trial("t4:2")
			e.wait("the fault", func() bool { return len(shims.Thrown()) > 0 })
			if f.Do == shim.Kill {
				d.ends()
				e.throw(shims)
				d = e.daemon()
			}
			e.completes(trial)
			a.done()
			if all := e.settled(); len(all) != 1 || all[0].State != "done" || all[0].How != "exited" || all[0].ClaimState != "started" {
				t.Errorf("%+v", all)
			}
			if n := a.signals(); n != 1 {
				t.Errorf("%d signals", n)
			}
			d.stop()
		})
	}
}

// A victim that leaves while priod is stopped is requeued by reset.
func TestResetRequeuesVictims(t *testing.T) {
	e := newEvictable(t, evicting)
	victim := e.full(20, "save")
	e.trial("t4:2")
	shims := e.shimmed(evicting)
	e.throw(shims, shim.Fault{Command: "scancel", When: "after", Call: 1, Do: shim.Kill})
	e.eligible(1)
	d := e.doomed()
	e.told("w")
	d.ends()
	e.throw(shims)
	e.wait("the victim to have left", func() bool {
		return strings.TrimSpace(e.slurm("squeue", "--noheader", "--states=FAILED", "--jobs="+victim, "--format=%i")) == victim
	})
	if out := e.must("reset", "--dry-run"); !strings.Contains(out, "would be requeued, which priod evicted: "+victim) {
		t.Error(out)
	}
	if out := e.must("reset"); !strings.Contains(out, "1 job requeued, which priod had evicted: "+victim) {
		t.Error(out)
	}
	// Not at once: a run that starts within the second in which the one before ended is lost (24.11.5).
	e.slurm("scontrol", "update", "JobId="+victim, "StartTime=now+2")
	e.completes(victim)
	e.leftOnce("w")
	if out := e.must("reset"); strings.Contains(out, "told to leave") {
		t.Error(out)
	}
}

// A TE job that prefers features gets room on nodes that have them, though another would
// cost less, and starts there; Slurm never says that no node satisfies it.
func TestEvictionForOneThatPrefers(t *testing.T) {
	longOnly(t)
	e := evictableOn(t, newOwnSite(t, evicting))
	e.slurm("scontrol", "update", "NodeName=a100-[2-3],v100-[1-3]", "State=DRAIN", "Reason=test")
	e.full(20, "save")
	e.worker("cheaper", "a100:4", endless, 5, "save")
	e.begun("cheaper")
	d := e.daemon()
	d.waitLog("started")
	trial := e.trial("2", "--prefer=t4", "--exclusive", "--array=0-1%1")
	e.wait("both tasks to complete", func() bool {
		out := e.slurm("squeue", "--noheader", "--array", "--states=all", "--jobs="+trial, "--format=%i %T %r")
		if strings.Contains(out, "BadConstraints") {
			t.Fatalf("no node satisfies it:\n%s", out)
		}
		return strings.Count(out, "COMPLETED") == 2
	})
	for _, x := range e.settled() {
		if !strings.HasPrefix(x.Nodes, "t4-") || x.How != "exited" || x.ClaimState != "started" {
			t.Errorf("%+v", x)
		}
	}
	if text := e.log("cheaper"); strings.Contains(text, "signal") {
		t.Errorf("a job on a node that is not preferred left:\n%s", text)
	}
	d.stop()
}

// Nobody leaves for the second task of a TE array that lets one run at a time while the
// first has a place or runs.
func TestEvictionForALimitedArray(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	e.blocker("t4:4")
	for _, name := range []string{"w1", "w2"} {
		e.worker(name, "t4:2", endless, 12, "ignore")
	}
	e.begun("w1", "w2")
	d := e.daemon()
	d.waitLog("started")
	trial := e.trial("t4:2", "--array=0-1%1")
	e.wait("the second task to wait for the first", func() bool {
		said, _, _ := e.priod("explain", trial+"_1") // nothing before the first cycle
		return strings.Contains(said, "its array's task limit is reached")
	})
	for _, task := range []string{"_0", "_1"} {
		e.completes(trial + task)
	}
	all := e.settled()
	if all[0].ClaimState != "started" || all[0].For.Task != 0 {
		t.Errorf("%+v", all[0])
	}
	for i := range all[1:] {
		if x := all[i+1]; !x.Recorded.After(all[i].ClaimEnded) {
			t.Errorf("%s leaves for %s while %s has a place", x.Victim, x.For, all[i].For)
		}
	}
	d.stop()
}
