package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// windows has jobs run until maintenance, by the minute.
const windows = quick + "[windows]\nenabled = true\nmargin = \"8s\"\npay = 1.0\n[preemption]\nrestart = \"1s\"\n"

// maintain announces maintenance of a node, some seconds ahead, for a minute.
func (e *evictable) maintain(name, node string, ahead int) {
	e.Helper()
	e.slurm("scontrol", "create", "reservation", "ReservationName="+name, "Flags=MAINT,IGNORE_JOBS", "Nodes="+node, fmt.Sprintf("StartTime=now+%d", ahead), "Duration=1", "Users=root")
}

// soon moves a node's window, so that what comes before it does not hang on how long the jobs took to be there.
func (e *evictable) soon(name string, ahead int) {
	e.Helper()
	e.slurm("scontrol", "update", "ReservationName="+name, fmt.Sprintf("StartTime=now+%d", ahead), "Duration=1")
}

// limit is a job's time limit as Slurm shows it.
func (e *evictable) limit(id string) string {
	e.Helper()
	return strings.TrimSpace(e.slurm("squeue", "--noheader", "--format=%l", "--job="+id))
}

func (e *evictable) hasLimit(id, want string) {
	e.Helper()
	e.wait("job "+id+" to have the limit "+want, func() bool { return e.limit(id) == want })
}

// A job with an hour to run starts although its node has maintenance in a minute, leaves before it, has its own limit again,
// and goes on after it; a daemon that starts meanwhile knows of it. Where the window is cancelled while a job runs towards it,
// and at a reset, the job has its own limit at once. One that ignores its signal is requeued when its grace is over, before the
// window. One that agreed to nothing waits.
func TestRunsUntilMaintenance(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "a", Count: 1, GPUType: "a100", GPUs: 4}, {Prefix: "v", Count: 1, GPUType: "v100", GPUs: 4}, {Prefix: "t", Count: 1, GPUType: "t4", GPUs: 4}, {Prefix: "p", Count: 1, GPUType: "p100", GPUs: 4}}})
	e := evictableOn(t, newSiteOn(t, l, windows))
	for _, node := range []string{"a1", "p1", "v1", "t1"} {
		e.maintain("of_"+node, node, 600)
	}
	first := e.worker("first", "a100:4", endless, 5, "save")
	cancelled := e.worker("cancelled", "v100:4", endless, 5, "save")
	reset := e.worker("reset", "t4:4", endless, 5, "save")
	stubborn := e.worker("stubborn", "p100:4", endless, 5, "ignore")
	other := e.submit("--gres=gpu:a100:4", "--time=60", "--wrap", "sleep 600")
	e.sleep(3 * time.Second)
	if got := e.slurm("squeue", "--noheader", "--states=RUNNING"); got != "" {
		t.Fatalf("Slurm alone starts jobs that reach into maintenance:\n%s", got)
	}
	for node, ahead := range map[string]int{"a1": 90, "p1": 90, "v1": 160, "t1": 160} {
		e.soon("of_"+node, ahead)
	}
	d := e.daemon()
	e.begun("first", "cancelled", "reset", "stubborn")
	e.hasLimit(first, "1:01:00") // no more what fits before the window
	e.hasLimit(cancelled, "1:01:00")
	if out := e.must("explain", first); !strings.Contains(out, "runs until the window of ") {
		t.Error(out)
	}
	d.stop()
	d = e.daemon()
	later := time.Now().Add(20 * time.Minute)
	e.slurm("scontrol", "update", "ReservationName=of_t1", "StartTime="+later.Format("2006-01-02T15:04:05"), "Duration=1")
	e.slurm("scontrol", "delete", "ReservationName=of_v1")
	e.hasLimit(cancelled, "1:00:00")
	e.told("first")
	e.told("stubborn")
	e.wait("both to wait with their own limits", func() bool {
		return strings.TrimSpace(e.slurm("squeue", "--noheader", "--format=%T %l", "--job="+first+","+stubborn)) == "PENDING 1:00:00\nPENDING 1:00:00"
	})
	e.wait("maintenance", func() bool {
		return strings.Count(e.slurm("scontrol", "show", "node", "a1,p1"), "+MAINTENANCE") == 2
	})
	if got := e.slurm("squeue", "--noheader", "--nodelist=a1,p1", "--states=RUNNING"); got != "" {
		t.Errorf("in maintenance there run\n%s", got)
	}
	e.wait("explain to know that the window was moved", func() bool {
		return strings.Contains(e.must("explain", reset), "runs until the window of "+later.Format("Mon Jan 2 15:04"))
	})
	if out := e.must("explain", cancelled); strings.Contains(out, "runs until the window of ") {
		t.Errorf("its window was cancelled:\n%s", out)
	}
	e.must("reset")
	e.hasLimit(reset, "1:00:00")
	e.must("resume")
	e.slurm("scancel", other, reset, cancelled)
	e.completes(first)
	e.leftOnce("first")
	e.completes(stubborn)
	all := e.settled()
	for _, x := range all {
		if x.Purpose != "window" || x.State != "done" || (x.How == "forced") != (x.Victim.String() == stubborn) {
			t.Errorf("%+v", x)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d evictions", len(all))
	}
	for _, c := range []struct{ want, args string }{
		{"before the window of_a1", "explain " + first},
		{"Before windows of maintenance", "report preemptions"},
		{"of_a1 ", "report windows"},
	} {
		if out := e.must(strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s does not say %q:\n%s", c.args, c.want, out)
		}
	}
	if text := d.log.String(); strings.Contains(text, "level=ERROR") {
		t.Error(text)
	}
	d.stop()
}

// While no priod runs, no job that runs until maintenance ends by a limit of priod's: it runs into the window, and has its own
// limit again when priod is back.
func TestPriodDiesBeforeMaintenance(t *testing.T) {
	if !long() {
		t.Skip("takes three minutes: SLURMPRIO_LONG=1")
	}
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "a", Count: 1, GPUType: "a100", GPUs: 4}}})
	e := evictableOn(t, newSiteOn(t, l, windows))
	e.maintain("of_a1", "a1", 600)
	job := e.worker("job", "a100:4", endless, 5, "save")
	e.soon("of_a1", 80)
	d := e.daemon()
	e.begun("job")
	e.hasLimit(job, "1:01:00")
	d.kill()
	in := func() bool { return strings.Contains(e.slurm("scontrol", "show", "node", "a1"), "+MAINTENANCE") }
	e.wait("maintenance", in)
	e.wait("its end", func() bool { return !in() })
	if got := strings.TrimSpace(e.slurm("squeue", "--noheader", "--format=%T %l", "--job="+job)); got != "RUNNING 1:01:00" {
		t.Errorf("after the window the job is %q", got)
	}
	e.daemon()
	e.hasLimit(job, "1:00:00")
}

// A job that started by a limit of priod's, after the last cycle of a priod that died, ends by it: when priod is back the job is
// requeued and has its own limit.
func TestJobEndsByALimitOfPriods(t *testing.T) {
	if !long() {
		t.Skip("takes three minutes: SLURMPRIO_LONG=1")
	}
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "a", Count: 1, GPUType: "a100", GPUs: 4}}})
	e := evictableOn(t, newSiteOn(t, l, strings.Replace(windows, "2s", "60s", 1)+"[retry]\nenabled = true\n"))
	e.maintain("of_a1", "a1", 600)
	job := e.worker("job", "a100:4", endless, 5, "save")
	e.soon("of_a1", 110)
	d := e.daemon()
	e.begun("job")
	d.kill()
	e.hasLimit(job, "1:00")
	shows := func(want string) func() bool {
		return func() bool { return strings.Contains(e.slurm("scontrol", "show", "job", job), want) }
	}
	e.wait("the job to end by it", shows("JobState=TIMEOUT"))
	d = e.daemon()
	e.wait("a requeue", shows("Restarts=1"))
	d.stop()
	e.daemon()
	e.hasLimit(job, "1:00:00")
	if out := e.must("explain", job); !strings.Contains(out, "the time limit that ended it was priod's") {
		t.Error(out)
	}
}
