// Package tail reads the end of a run's output, a file that belongs to a user, as that user: never
// through a link, nothing but a regular file, and never more than a bound. The reading is
// done by a child process with the user's uid, so that priod's own rights never count.
package tail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
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

	"slurmprio/priod/plan"
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

// Request says what is read.
type Request struct {
	Path    string
	Earlier plan.Mark // where an earlier run of the job ended; zero: there was none
	Began   time.Time // the run did
}

// As reads the end of what a run wrote, as its user. Only root can become others.
func As(ctx context.Context, uid uint32, r Request) (text []byte, end plan.Mark, err error) {
	switch {
	case uid == 0:
		return nil, end, errors.New("root's own output is not read")
	case os.Geteuid() != 0 && uint32(os.Geteuid()) != uid:
		return nil, end, fmt.Errorf("priod's account cannot become uid %d: only root can", uid)
	case hanging.Load() >= maxHanging:
		return nil, end, errors.New("too many reads of output hang in a file system")
	}
	said, err := child(ctx, uid, r)
	if err != nil {
		return nil, end, err
	}
	first, text, _ := bytes.Cut(said, []byte{'\n'})
	if err := json.Unmarshal(first, &end); err != nil || end.Bytes < 0 {
		return nil, plan.Mark{}, errors.New("what reads it said nothing of use")
	}
	return text, end, nil
}

// child runs priod again, as a user, and gives what it wrote: a mark, and the text.
func child(ctx context.Context, uid uint32, r Request) ([]byte, error) {
	asked, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, Verb)
	c.Env, c.Dir = []string{}, "/"
	c.Stdin = bytes.NewReader(asked)
	out, said := &bounded{left: Most + maxMark}, &bounded{left: 200}
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

// maxRequest and maxMark bound what is sent to the child, and the mark that it sends back.
const maxRequest, maxMark = 6*unix.PathMax + 1000, 200

// Child is the whole of the child: it reads a request from in, and writes a line with the
// mark and then the end of the output.
func Child(in io.Reader, out io.Writer) error {
	if os.Geteuid() == 0 {
		return errors.New("not as root")
	}
	asked, err := io.ReadAll(io.LimitReader(in, maxRequest))
	if err != nil {
		return err
	}
	var r Request
	if err := json.Unmarshal(asked, &r); err != nil {
		return err
	}
	text, end, err := Read(r, Most)
	if err != nil {
		return err
	}
	first, err := json.Marshal(end)
	if err != nil {
		return err
	}
	_, err = out.Write(append(append(first, '\n'), text...))
	return err
}

// Read reads the end of what a run wrote into a regular file that belongs to the reader.
func Read(r Request, most int64) (text []byte, end plan.Mark, err error) {
	if !filepath.IsAbs(r.Path) || strings.IndexByte(r.Path, 0) >= 0 {
		return nil, end, errors.New("no absolute path")
	}
	at, err := find(r.Path)
	if err != nil {
		return nil, end, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, end, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, end, errors.New("no regular file")
	case int(st.Uid) != os.Geteuid():
		return nil, end, errors.New("it belongs to another user")
	}
	// What was found is what is opened: another file cannot be put in its place.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, end, err
	}
	f := os.NewFile(uintptr(fd), "output")
	defer f.Close()
	if text, err = before(f, st.Size, most); err != nil {
		return nil, end, err
	}
	end = mark(st.Size, text)
	from := int64(0)
	switch earlier := r.Earlier; {
	case earlier.Bytes == 0 || earlier.Bytes > st.Size:
	case earlier.Bytes == st.Size:
		if earlier == end && time.Unix(st.Mtim.Unix()).Before(r.Began) {
			from = st.Size // else this run began the file anew, and wrote the same
		}
	default:
		old, err := before(f, earlier.Bytes, most)
		if err != nil {
			return nil, end, err
		}
		if earlier == mark(earlier.Bytes, old) {
			from = earlier.Bytes
		}
	}
	return text[max(int64(len(text))-(st.Size-from), 0):], end, nil
}

// before reads what stands before a place in a file, and no more than most of it.
func before(f io.ReaderAt, place, most int64) ([]byte, error) {
	most = min(most, place)
	return io.ReadAll(io.NewSectionReader(f, place-most, most))
}

// mark is the mark of a place behind a text.
func mark(place int64, text []byte) plan.Mark {
	return plan.Mark{Bytes: place, Sum: fmt.Sprintf("%x", sha256.Sum256(text))}
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
