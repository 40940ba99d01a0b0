package tests

import (
	"fmt"
	"os/user"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// guests is an account of the lab of these tests that owns no GPUs.
const guests = "guests"

// owned guarantees 8 GPUs to each of two accounts. A begin time lies a minute ahead.
const owned = evicting + "[shares]\nahead = \"1m\"\n[[share]]\naccount = \"" + lab.Physics + "\"\ngpus = 8\ngpu_type = \"t4\"\n[[share]]\naccount = \"" + lab.Biology + "\"\npart = 0.67\ngpu_type = \"a100\"\n"

func newOwned(t *testing.T) *evictable {
	e := evictableOn(t, newOwnSite(t, owned))
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	e.slurm("sacctmgr", "--immediate", "add", "account", guests, "cluster=lab", "qos=normal,te,be")
	e.slurm("sacctmgr", "--immediate", "add", "user", me.Username, "cluster=lab", "account="+guests)
	return e
}

// shown is a field of a job.
func (e *evictable) shown(id, name string) string {
	e.Helper()
	return field(e.slurm("scontrol", "show", "job", id), name)
}

// may is from when on a waiting job may start.
func (e *evictable) may(id string) time.Time {
	e.Helper()
	at, err := time.ParseInLocation("2006-01-02T15:04:05", e.shown(id, "EligibleTime"), time.Local)
	if err != nil {
		e.Fatal(err)
	}
	return at
}

// stays submits a job that does not agree to leave.
func (e *evictable) stays(account string, args ...string) string {
	e.Helper()
	return e.submit(append([]string{"--account=" + account, "--gres=gpu:t4:4", "--time=60"}, append(args, "--wrap", "sleep 600")...)...)
}

// leavesFor fails unless a job starts once so many more workers were told to leave. It logs how long that took.
func (e *evictable) leavesFor(id string, workers []string, leave int) {
	e.Helper()
	before, began := e.toldOf(workers), time.Now()
	e.runs(id)
	e.Logf("job %s runs %.1f s after its submission", id, time.Since(began).Seconds())
	if n := e.toldOf(workers) - before; n != leave {
		e.Errorf("%d jobs left for job %s, not %d", n, id, leave)
	}
}

func (e *evictable) toldOf(workers []string) (n int) {
	for _, name := range workers {
		n += strings.Count(e.log(name), "signal ")
	}
	return n
}

// What accounts own comes back in the shape that they want: a whole node, a gang over two. Jobs that borrow leave, no more
// of them than is wanted, and none within its account's share. A job that may not borrow waits by its begin time, which
// passes once priod has died.
func TestGuaranteedShare(t *testing.T) {
	e := newOwned(t)
	var workers, ids []string
	for i, gres := range []string{"t4:4", "t4:4", "a100:4", "a100:4", "a100:4"} {
		name, conduct := fmt.Sprint("guest", i), "save"
		if i > 1 {
			conduct = "ignore" // Slurm ends it after its grace
		}
		ids = append(ids, e.worker(name, gres, endless, 5, conduct, "--account="+guests))
		workers = append(workers, name)
	}
	e.begun(workers...)
	d := e.daemon()
	d.waitLog("started")
	whole := e.stays(lab.Physics, "--exclusive")
	e.leavesFor(whole, workers, 1)
	gang := e.submit("--account="+lab.Biology, "--nodes=2", "--gres=gpu:a100:4", "--time=60", "--wrap", "sleep 600")
	e.leavesFor(gang, workers, 2)

	own := e.worker("own", "t4:4", endless, 5, "save", "--account="+lab.Physics)
	e.leavesFor(own, workers, 1)
	e.begun("own")
	e.explains(own, "entitled: account physics uses 4 of its share of 8 t4 GPUs")
	trial := e.trial("t4:4", "--account="+guests)
	e.explains(trial, "no evictable jobs make room") // a job within its account's share is no victim
	beyond := e.worker("beyond", "t4:4", endless, 5, "save", "--account="+lab.Physics)
	e.explains(beyond, "has to leave within 2m0s of notice (beyond account physics's share of 8 t4 GPUs, of which 8 are used)")
	e.slurm("scancel", append([]string{trial, beyond}, ids...)...)

	held := e.stays(guests)
	e.explains(held, "account guests has no share; may not borrow: it did not agree to leave (--prio-type be); starts at the latest from ")
	e.wait("the job to wait for its begin time", func() bool { return e.shown(held, "Reason") == "BeginTime" })
	e.slurm("scancel", whole)
	d.cycles(2)
	if state := e.shown(held, "JobState"); state != "PENDING" {
		t.Errorf("a job that could not leave is %s on what others own", state)
	}
	d.kill()
	e.runs(held)
	if e.toldOf([]string{"own"}) > 0 {
		t.Error("a job within its account's share was told to leave")
	}
}

// Where each node has a job that stays, a job that asks for GPUs in all has them on several nodes. One that asks for one node waits.
func TestShareInParts(t *testing.T) {
	e := newOwned(t)
	var workers, ids []string
	for _, node := range []string{"t4-1", "t4-2"} {
		e.blocker("t4:2", "--account="+lab.Physics, "--nodelist="+node)
		workers = append(workers, "guest-"+node)
		ids = append(ids, e.worker("guest-"+node, "t4:2", endless, 5, "save", "--account="+guests, "--nodelist="+node))
	}
	e.begun(workers...)
	d := e.daemon()
	d.waitLog("started")
	asks := func(args ...string) string {
		return e.submit(append([]string{"--account=" + lab.Physics, "--gpus=t4:4", "--time=60", "--wrap", "sleep 600"}, args...)...)
	}
	one := asks("--nodes=1")
	d.cycles(3)
	e.explains(one, "no evictable jobs make room")
	if n := e.toldOf(workers); n != 0 {
		t.Errorf("%d jobs left for a job that wants one node", n)
	}
	e.slurm("scancel", one)
	parts := asks()
	e.leavesFor(parts, workers, 2)
	if on := e.shown(parts, "NumNodes"); on != "2" {
		t.Errorf("it runs on %s nodes", on)
	}
	e.slurm("scancel", append(ids, parts)...)
}

// Of an array so many tasks start, all at once, as its account's share holds; the others wait by their begin time.
func TestArrayInPart(t *testing.T) {
	e := newOwned(t)
	var workers []string
	for i := range 4 {
		workers = append(workers, fmt.Sprint("guest", i))
		e.worker(workers[i], "t4:2", endless, 5, "save", "--account="+guests)
	}
	e.begun(workers...)
	d := e.daemon()
	d.waitLog("started")
	array := e.submit("--account="+lab.Physics, "--array=0-9", "--gres=gpu:t4:2", "--time=60", "--wrap", "sleep 600")
	tasks := func(state string) []string {
		return strings.Fields(e.slurm("squeue", "--noheader", "--jobs="+array, "--states="+state, "--format=%K,%r"))
	}
	began := time.Now()
	e.wait("four tasks to run", func() bool { return len(tasks("RUNNING")) == 4 })
	t.Logf("they run %.1f s after their submission", time.Since(began).Seconds())
	e.wait("the others to wait for their begin time", func() bool { return slices.Equal(tasks("PENDING"), []string{"4-9,BeginTime"}) })
	if n := e.toldOf(workers); n != 4 {
		t.Errorf("%d jobs left", n)
	}
	e.slurm("scancel", array+"_0")
	e.wait("the next task to run", func() bool {
		return len(tasks("RUNNING")) == 4 && slices.Equal(tasks("PENDING"), []string{"5-9,BeginTime"})
	})
}

// A begin time of priod's is moved on after a restart too, not while priod is paused, and is taken back by reset. One of a
// job's user stays as it is.
func TestBeginTimesOfSharesAreTakenBack(t *testing.T) {
	e := newOwned(t)
	fill := []string{e.blocker("t4:4", "--account="+guests), e.blocker("t4:4", "--account="+guests)}
	held, own, changed := e.stays(guests), e.stays(guests, "--begin=now+1hour"), e.stays(guests)
	ahead := func(id string) bool { return e.may(id).After(time.Now()) }
	d := e.daemon()
	e.wait("begin times of priod's", func() bool { return ahead(held) && ahead(changed) })
	begins := e.may(own)
	e.slurm("scontrol", "update", "JobId="+changed, "StartTime=now+2hours")
	moved := e.may(changed)
	d.kill()
	last := e.may(held)
	d = e.daemon()
	e.wait("the next priod to move the begin time on", func() bool { return e.may(held).After(last) })
	e.must("pause")
	e.wait("the begin time to pass while priod is paused", func() bool { return !ahead(held) })
	e.must("resume")
	e.wait("another begin time", func() bool { return ahead(held) })
	d.stop()
	out := e.must("reset")
	if ahead(held) {
		t.Errorf("after reset the job may start from %s on:\n%s", e.may(held), out)
	}
	if e.may(own) != begins || e.may(changed) != moved {
		t.Errorf("begin times of users: %s and %s, not %s and %s:\n%s", e.may(own), e.may(changed), begins, moved, out)
	}
	e.slurm("scancel", fill...)
	e.runs(held)
}
