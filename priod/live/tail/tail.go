// Package tail reads the end of a file that belongs to a user, as that user: never
// through a link, nothing but a regular file, and never more than a bound. The reading is
// done by a child process with the user's uid, so that priod's own rights never count.
package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Most is how much of a file is read.
const Most = 64 << 10

// Verb is the hidden verb of priod that is the child.
const Verb = "read-output"

// patience is how long one file may take: a file system may hang.
const patience = 3 * time.Second

// maxHanging children may hang in a file system; then nothing is read until one comes back.
const maxHanging = 4

var hanging atomic.Int32

// As reads the end of a file as a user. Only root can become others.
func As(ctx context.Context, uid uint32, path string) ([]byte, error) {
	switch {
	case uid == 0:
		return nil, errors.New("root's own output is not read")
	case os.Geteuid() != 0 && uint32(os.Geteuid()) != uid:
		return nil, fmt.Errorf("priod's account cannot become uid %d: only root can", uid)
	case hanging.Load() >= maxHanging:
		return nil, errors.New("too many reads of output hang in a file system")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, Verb)
	c.Env, c.Dir = []string{}, "/"
	c.Stdin = strings.NewReader(path)
	out, said := &bounded{left: Most}, &bounded{left: 200}
	c.Stdout, c.Stderr = out, said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		if c.SysProcAttr.Credential, err = credential(uid); err != nil {
			return nil, err
		}
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("read as uid %d: %w", uid, err)
	}
	done := make(chan error, 1)
	hanging.Add(1)
	go func() {
		done <- c.Wait()
		hanging.Add(-1)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err = <-done:
	case <-timer.C:
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		return nil, fmt.Errorf("it took more than %v", patience)
	case <-ctx.Done():
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s", bytes.TrimSpace(append(said.Bytes(), ' ')))
	}
	return out.Bytes(), nil
}

// credential is a user with all of its groups.
func credential(uid uint32) (*syscall.Credential, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	cred := &syscall.Credential{Uid: uid, Gid: uint32(gid)}
	ids, _ := u.GroupIds()
	for _, id := range ids {
		if g, err := strconv.ParseUint(id, 10, 32); err == nil {
			cred.Groups = append(cred.Groups, uint32(g))
		}
	}
	return cred, nil
}

// bounded keeps what is written to it up to a number of bytes.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}

// Child is the whole of the child: it reads a path from in and writes the end of that file.
func Child(in io.Reader, out io.Writer) error {
	if os.Geteuid() == 0 {
		return errors.New("not as root")
	}
	path, err := io.ReadAll(io.LimitReader(in, unix.PathMax))
	if err != nil {
		return err
	}
	text, err := Read(string(path), Most)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// Read reads the end of a regular file that belongs to who reads.
func Read(path string, most int64) ([]byte, error) {
	if !filepath.IsAbs(path) || strings.IndexByte(path, 0) >= 0 {
		return nil, errors.New("no absolute path")
	}
	at, err := find(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("no regular file")
	case int(st.Uid) != os.Geteuid():
		return nil, errors.New("it belongs to somebody else")
	}
	// What was found is what is opened: nobody can put another file in its place.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "output")
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, max(st.Size-most, 0), most))
}

// find finds a file by its path, of which no part is a link, without opening it.
func find(path string) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.6, or forbidden
		return walk(path)
	}
	if err == unix.ELOOP {
		return -1, errors.New("a part of its path is a link")
	}
	return fd, err
}

// walk is find for a Linux that has no openat2.
func walk(path string) (fd int, err error) {
	if fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." {
			continue
		}
		next, err := unix.Openat(fd, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			_ = unix.Close(next)
			return -1, errors.Join(err, errors.New("a part of its path is a link"))
		}
		fd = next
	}
	return fd, nil
}
