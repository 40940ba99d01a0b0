package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// HostLock keeps other priods of this host off the cluster: an abstract unix
// socket, so that the kernel gives it back however the process ends, and
// independent of any folder. Network namespaces do not share it.
type HostLock struct{ listener *net.UnixListener }

// OtherPriodError says that another priod of this host is active on the cluster.
type OtherPriodError struct {
	PID     int
	User    string
	Dir     string // its state folder, as it says
	Cluster string
}

func (e *OtherPriodError) Error() string {
	return fmt.Sprintf("another priod is active on cluster %s: process %d of user %s, state folder %s; stop it first, or use its configuration",
		e.Cluster, e.PID, e.User, e.Dir)
}

// UntrustedHolderError says that a process of a user who has no say here holds the
// socket, which therefore protects nothing.
type UntrustedHolderError struct {
	PID  int
	User string
}

func (e *UntrustedHolderError) Error() string {
	return fmt.Sprintf("process %d of user %s (neither root nor priod's user) holds the socket that detects a second priod on this host; stop it", e.PID, e.User)
}

const (
	lockPatience = 2 * time.Second
	maxLockText  = 4096 // a state folder's path, with its length limit in Linux
)

// NewHostLock locks the cluster, named as Cluster.Identity does, for the priod
// with this state folder. The error is a *OtherPriodError, a *UntrustedHolderError or the
// system's.
func NewHostLock(cluster, dir string) (*HostLock, error) {
	address, err := lockAddress(cluster)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		l, err := net.ListenUnix("unix", address)
		if err == nil {
			go answer(l, dir)
			return &HostLock{l}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("claim the cluster %s: %w", cluster, err)
		}
		err = holder(address, cluster, dir)
		if !errors.Is(err, syscall.ECONNREFUSED) || attempt == 3 { // refused: it has just ended
			return nil, err
		}
	}
}

// OtherPriod returns the *OtherPriodError that NewHostLock would for a priod with another state folder, nil where there is none.
func OtherPriod(cluster, dir string) error {
	address, err := lockAddress(cluster)
	if err != nil {
		return err
	}
	var other *OtherPriodError
	if errors.As(holder(address, cluster, dir), &other) && other.Dir != dir {
		return other
	}
	return nil
}

func lockAddress(cluster string) (*net.UnixAddr, error) {
	host, err := os.Hostname() // containers may share a network and no name
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("@slurmprio-priod-%x", sha256.Sum256([]byte(cluster+"\x00"+host)))
	return &net.UnixAddr{Name: name, Net: "unix"}, nil
}

// Close gives the cluster free.
func (c *HostLock) Close() {
	if c != nil {
		_ = c.listener.Close()
	}
}

// answer tells each caller for which priod the cluster is locked.
func answer(l *net.UnixListener, dir string) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(lockPatience) // no file handles are left
			continue
		}
		// One line fits into the socket's buffer, so a slow reader cannot hold this up.
		_ = conn.SetWriteDeadline(time.Now().Add(lockPatience))
		_, _ = fmt.Fprintf(conn, "%d %d %s\n", os.Getpid(), os.Geteuid(), dir)
		_ = conn.Close()
	}
}

// holder finds out who holds the socket. The kernel vouches for process and user;
// the folder is what the holder says, and only a trusted one is asked.
func holder(address *net.UnixAddr, cluster, dir string) error {
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	peer, err := credentials(conn)
	if err != nil {
		return err
	}
	name := userName(peer.Uid)
	if !slices.Contains(trusted(dir), peer.Uid) {
		return &UntrustedHolderError{PID: int(peer.Pid), User: name}
	}
	other := &OtherPriodError{PID: int(peer.Pid), User: name, Dir: "unknown", Cluster: cluster}
	_ = conn.SetReadDeadline(time.Now().Add(lockPatience))
	text, _ := io.ReadAll(io.LimitReader(conn, maxLockText)) // silence changes nothing
	if line, _, whole := strings.Cut(string(text), "\n"); whole {
		if words := strings.SplitN(line, " ", 3); len(words) == 3 {
			other.Dir = printable(words[2])
		}
	}
	return other
}

// trusted are the users whose lock counts: this process's, root, and the owner
// of the state folder, as whom the daemon runs when root runs a verb.
func trusted(dir string) []uint32 {
	uids := []uint32{0, uint32(os.Geteuid())}
	if info, err := os.Stat(dir); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			uids = append(uids, s.Uid)
		}
	}
	return uids
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// lockCluster keeps other priods of this host off the cluster. An untrusted user's
// process that holds the lock must not stop priod, so it is only reported.
func (d *Daemon) lockCluster(ctx context.Context) error {
	if d.peers.lock != nil || d.Lock == nil {
		return nil
	}
	name, err := d.slurm.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	d.peers.lock, err = d.Lock(name, d.Config.State.Dir)
	if errors.As(err, new(*UntrustedHolderError)) {
		if err.Error() != d.peers.unlocked {
			d.peers.unlocked = err.Error()
			d.Log.Warn(d.peers.unlocked)
		}
		return nil
	}
	return err
}
