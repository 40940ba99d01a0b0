package tail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slurmprio/slurmplug"
)

// attacks are what a user's processes try on a child that reads for it, which waits for its request meanwhile.
var attacks = map[string]func(pid int) error{
	"stop": func(pid int) error { return unix.Kill(pid, unix.SIGSTOP) },
	"take": func(pid int) error { // its end of the pipe
		at, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(at, 1, 0)
		}
		return err
	},
	"open": func(pid int) error {
		_, err := unix.Open(fmt.Sprintf("/proc/%d/fd/1", pid), unix.O_WRONLY, 0)
		return err
	},
	"trace": unix.PtraceSeize,
}

// attack is the whole of such a process: it tries until it succeeds, or the child has become its user and stays so,
// says which it was, and holds what it got until it is killed.
func attack(what, victim string) {
	pid, _ := strconv.Atoi(victim)
	for settled := 0; settled < 100; {
		if err := attacks[what](pid); err == nil {
			fmt.Println("success")
			time.Sleep(time.Hour)
		}
		status, err := os.ReadFile("/proc/" + victim + "/status")
		if err != nil {
			fmt.Println("gone")
			os.Exit(0)
		}
		if bytes.Contains(status, fmt.Appendf(nil, "\nUid:\t%d\t", os.Getuid())) {
			settled++
		}
	}
	fmt.Println("denied")
	os.Exit(0)
}

// as runs an attack as a user and says how it went.
func as(t *testing.T, u account, what string, pid int) string {
	cmd := exec.Command("/proc/self/exe", what, strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Error(err)
		return ""
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := make([]byte, 20)
	n, _ := out.Read(said)
	return strings.TrimSpace(string(said[:n]))
}

// A user stops each child that reads for it, as it may. The child is killed when its time is up, the rest of the
// user's files are not tried, and another user's are read while it stands.
func TestStoppedChildren(t *testing.T) {
	evil, other := accountOf(t, "nobody"), accountOf(t, "daemon")
	file, theirs := evil.file(t, "failed"), other.file(t, "theirs")
	r := NewReader()
	read := make(chan struct{})
	var children []int
	r.started = func(uid uint32, pid int) time.Duration {
		if uid == other.uid {
			return time.Hour
		}
		children = append(children, pid)
		if got := as(t, evil, "stop", pid); got != "success" {
			t.Errorf("to stop it: %s", got)
		}
		<-read
		return time.Millisecond
	}
	var readings []*Reading
	for i := range uint32(12) {
		readings = append(readings, r.Begin(Run{Job: slurmplug.Plain(i)}, evil.uid, Request{Path: file}))
	}
	x := r.Begin(Run{Job: slurmplug.Plain(99)}, other.uid, Request{Path: theirs})
	if <-x.Done; string(x.Text) != "theirs" || x.Err != nil {
		t.Errorf("another user's: %q, %v", x.Text, x.Err)
	}
	close(read)
	for _, x := range readings {
		if <-x.Done; x.Err == nil || !strings.Contains(x.Err.Error(), "took more than") {
			t.Errorf("%q, %v", x.Text, x.Err)
		}
	}
	if len(children) != 1 {
		t.Fatalf("children %v", children)
	}
	for unix.Kill(children[0], 0) == nil {
		time.Sleep(time.Millisecond)
	}
}

// A user's processes get hold of nothing of the child: not of its pipe, of which a copy would keep priod waiting.
func TestChildIsClosedToItsUser(t *testing.T) {
	evil := accountOf(t, "nobody")
	r := NewReader()
	r.started = func(_ uint32, pid int) time.Duration {
		for what := range attacks {
			if got := as(t, evil, what, pid); what != "stop" && got != "denied" {
				t.Errorf("to %s it: %s", what, got)
			}
		}
		_ = unix.Kill(pid, unix.SIGCONT)
		return time.Hour
	}
	x := r.Begin(Run{}, evil.uid, Request{Path: evil.file(t, "failed")})
	if <-x.Done; string(x.Text) != "failed" || x.Err != nil {
		t.Errorf("%q, %v", x.Text, x.Err)
	}
}

// A pipe that another process holds all the same, as root can, is closed at priod's end.
func TestPipeHeldByOthers(t *testing.T) {
	u := accountOf(t, "nobody")
	r := NewReader()
	held := -1
	r.started = func(_ uint32, pid int) time.Duration {
		at, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			held, err = unix.PidfdGetfd(at, 1, 0)
			_ = unix.Close(at)
		}
		if err != nil {
			t.Error(err)
		}
		return time.Hour
	}
	x := r.Begin(Run{}, u.uid, Request{Path: u.file(t, "failed")})
	if <-x.Done; !errors.Is(x.Err, exec.ErrWaitDelay) {
		t.Errorf("%q, %v", x.Text, x.Err)
	}
	_ = unix.Close(held)
}
