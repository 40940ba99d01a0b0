package lab

import (
	"syscall"
	"testing"
)

// A number that a daemon had is given to an orphan later: its end is not the daemon's.
func TestNumberUsedTwice(t *testing.T) {
	daemon := &proc{pid: 7, done: make(chan struct{})}
	k := &keeper{procs: map[string]*proc{"slurmctld": daemon}}
	killed := syscall.WaitStatus(syscall.SIGKILL)
	k.ended(7, killed)
	k.ended(7, 0)
	if !daemon.exited() || daemon.status != killed {
		t.Errorf("ended: %v, by %v", daemon.exited(), daemon.status)
	}
}
