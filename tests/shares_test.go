package tests

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// What an account owns comes back at once: jobs of others leave that borrow it, and no more of them than it wants. A job that
// could not leave does not start on what others own, free or not, until all is lent; no job within its share leaves.
func TestGuaranteedShare(t *testing.T) {
	settings := evicting + "[[share]]\naccount = \"" + lab.Physics + "\"\ngpus = 8\ngpu_type = \"t4\"\n"
	e := evictableOn(t, newOwnSite(t, settings))
	guest := func(name string) string {
		return e.worker(name, "t4:4", endless, 5, "save", "--account="+lab.Biology)
	}
	guests := []string{guest("a"), guest("b")}
	e.begun("a", "b")
	owner := func() string { return e.submit("--account="+lab.Physics, "--gres=gpu:t4:4", "--time=60", "--wrap", "sleep 600") }
	shown := func(id, name string) string { return field(e.slurm("scontrol", "show", "job", id), name) }
	d := e.daemon()
	d.waitLog("started")
	first := owner()
	e.within(time.Minute, "the owner's job to run", func() bool { return shown(first, "JobState") == "RUNNING" })
	told := func() (n int) {
		for _, name := range []string{"a", "b"} {
			n += strings.Count(e.log(name), "signal")
		}
		return n
	}
	if n := told(); n != 1 {
		t.Errorf("%d guests were told to leave", n)
	}
	second, third := owner(), owner()
	e.within(time.Minute, "the owner's second job to run", func() bool { return shown(second, "JobState") == "RUNNING" })
	e.explains(third, "borrows: beyond the 8 GPUs guaranteed to physics (t4)")
	trial := e.trial("t4:4", "--account="+lab.Biology)
	e.explains(trial, "no evictable jobs make room") // an owner's job is no victim
	e.slurm("scancel", append([]string{trial, third}, guests...)...)
	stays := e.submit("--account="+lab.Biology, "--gres=gpu:t4:4", "--time=60", "--wrap", "sleep 600")
	e.explains(stays, "kept waiting: beyond what is guaranteed to its account (none)")
	e.slurm("scancel", first)
	e.wait("the job to wait for its begin time", func() bool { return shown(stays, "Reason") == "BeginTime" })
	e.sleep(5 * time.Second)
	if state := shown(stays, "JobState"); state != "PENDING" {
		t.Errorf("a job that could not leave is %s on what others own", state)
	}
	e.configure(strings.Replace(settings, "[[share]]", "[shares]\nlend = \"all\"\n[[share]]", 1))
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	e.within(time.Minute, "the job to run once all is lent", func() bool { return shown(stays, "JobState") == "RUNNING" })
	d.stop()
	if n := told(); n != 2 {
		t.Errorf("%d guests were told to leave", n)
	}
}
