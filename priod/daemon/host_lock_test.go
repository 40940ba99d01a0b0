package daemon

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"slurmprio/priod/cluster"
)

func TestHostLock(t *testing.T) {
	cluster := t.Name() + t.TempDir()
	c, err := NewHostLock(cluster, "/var/lib/\x1b[2Jpriod\nx")
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewHostLock(cluster, t.TempDir())
	var other *OtherPriodError
	if !errors.As(err, &other) || other.PID != os.Getpid() || strings.ContainsRune(err.Error(), '\x1b') || !strings.Contains(err.Error(), "[2Jpriod") {
		t.Errorf("%v", err)
	}
	if other, err := NewHostLock(cluster+"2", t.TempDir()); err != nil {
		t.Error(err)
	} else {
		other.Close()
	}
	c.Close()
	if c, err = NewHostLock(cluster, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// listenAs listens on an address as another user; the kernel keeps whose socket
// it is.
func listenAs(t *testing.T, uid int, address *net.UnixAddr) *net.UnixListener {
	t.Helper()
	runtime.LockOSThread() // the raw call changes this thread only
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); no != 0 {
			t.Fatal(no)
		}
	}
	become(uid)
	l, err := net.ListenUnix("unix", address)
	become(0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A user without a say here cannot keep priod from its work by squatting on its
// socket: that is said once, and the lock taken when he has gone.
func TestUntrustedHolderStopsNoDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acting as other users needs root; make test as root runs this")
	}
	f := &fake{jobs: []cluster.Job{trialJob()}}
	d, log := newDaemon(t, f)
	d.Lock, d.Config.State.Dir = NewHostLock, t.TempDir()
	name, _ := f.Identity(t.Context())
	address, err := lockAddress(name)
	if err != nil {
		t.Fatal(err)
	}
	l := listenAs(t, 65534, address)
	turn(t, d)
	turn(t, d)
	if len(f.applied) != 1 || d.peers.lock != nil || strings.Count(log.String(), "neither root nor priod's user") != 1 {
		t.Errorf("%d applied, lock %v, log\n%s", len(f.applied), d.peers.lock, log)
	}
	l.Close()
	turn(t, d)
	if d.peers.lock == nil {
		t.Error("no lock although the other has gone")
	}
	d.peers.lock.Close()

	// The owner of the state folder counts, whoever runs this.
	l = listenAs(t, 65534, address)
	defer l.Close()
	if err := os.Chown(d.Config.State.Dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := NewHostLock(name, d.Config.State.Dir); !errors.As(err, new(*OtherPriodError)) {
		t.Errorf("%v", err)
	}
}
