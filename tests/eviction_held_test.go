package tests

import (
	"strings"
	"testing"
)

// A running job that its user holds would not come back: Slurm holds it as an
// administrator once it is requeued, and its user may not release it. It stays.
func TestEvictionSparesOneOnHold(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	for _, name := range []string{"held", "free"} {
		e.worker(name, "t4:4", endless, 5, "save", "--nodelist="+map[string]string{"held": "t4-1", "free": "t4-2"}[name])
	}
	e.begun("held", "free")
	held := strings.TrimSpace(e.slurm("squeue", "--noheader", "--nodelist=t4-1", "--format=%A"))
	e.slurm("scontrol", "hold", held)
	d := e.daemon()
	d.waitLog("started")
	trial := e.trial("t4:4")
	e.completes(trial)
	if strings.Contains(e.log("held"), "signal") || !strings.Contains(e.log("free"), "signal") {
		t.Errorf("held:\n%s\nfree:\n%s", e.log("held"), e.log("free"))
	}
	if on := strings.TrimSpace(e.slurm("squeue", "--noheader", "--states=all", "--jobs="+trial, "--format=%N")); on != "t4-2" {
		t.Errorf("it ran on %q", on)
	}
	e.slurm("scontrol", "release", held)
}
