package tests

import (
	"strings"
	"testing"
)

// A job that was requeued, and whose run still ends when reset looks, gets its own
// constraint back as soon as it waits.
func TestResetWaitsForRunsThatEnd(t *testing.T) {
	b := &bindable{newOwnSite(t, steering)}
	first := b.fill()
	const own = "a100|v100"
	job := b.submit("--prio-type=be", "--prio-speed=a100:4,v100:2", "--time=30", "--gres=gpu:1", "--constraint="+own, "--wrap", "trap '' TERM; for i in $(seq 600); do sleep 1; done")
	d := b.daemon()
	b.wait("the job to be bound", func() bool { return bound(own, b.constraints()[job], "a100", "v100") })
	d.stop()
	for _, id := range first {
		b.slurm("scancel", id)
	}
	b.wait("the job to run", func() bool {
		return strings.TrimSpace(b.slurm("squeue", "--noheader", "--jobs="+job, "--format=%T")) == "RUNNING"
	})
	b.slurm("scontrol", "requeue", job)
	if state := strings.TrimSpace(b.slurm("squeue", "--noheader", "--jobs="+job, "--format=%T")); state != "COMPLETING" {
		t.Fatalf("it is %s, and no longer ends", state)
	}
	out := b.must("reset")
	f := strings.Fields(b.slurm("squeue", "--noheader", "--jobs="+job, "--format=%T %f"))
	if len(f) != 2 || f[0] != "PENDING" || f[1] != own {
		t.Errorf("after reset the job is %v, its own constraint is %q:\n%s", f, own, out)
	}
}
