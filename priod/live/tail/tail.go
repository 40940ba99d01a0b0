// Package tail reads the end of a run's output, a file that belongs to a user, as that user: never
// through a link, nothing but a regular file, and never more than a bound. The reading is
// done by a child process with the user's uid, so that priod's own rights never count (tail.go is what the child does).
// That user can stop the child and its file system can hang: cycles do not wait for it, and other users' output is
// read meanwhile (reader.go).
package tail

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slurmprio/priod/plan"
)

// Most is how much of a file is read.
const Most = 64 << 10

// Verb is the hidden verb of priod that is the child.
const Verb = "read-output"

// Request says what is read.
type Request struct {
	Path    string
	Earlier plan.Mark // where an earlier run of the job ended; zero: there was none
	Began   time.Time // the run did
}

// maxRequest and maxMark bound what is sent to the child, and the mark that it sends back.
const maxRequest, maxMark = 6*unix.PathMax + 1000, 200

// Child is the whole of the child: it becomes the user that its arguments name, reads a request from in,
// and writes a line with the mark and then the end of the output.
func Child(args []string, in io.Reader, out io.Writer) error {
	if err := become(args); err != nil {
		return err
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

// become makes this process the user and its groups: uid, gid, then the others. Without arguments it stays
// who it is. Other processes of the user can then neither trace it nor take its files: the kernel makes what changes
// its uid not dumpable in that moment. Were the uid changed before the program begins, it would be dumpable.
func become(args []string) error {
	ids := make([]int, len(args))
	for i, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 32)
		if err != nil {
			return err
		}
		ids[i] = int(id)
	}
	if len(ids) > 1 {
		uid, gid, groups := ids[0], ids[1], ids[2:]
		if err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid)); err != nil {
			return err
		}
	}
	err := errors.Join(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), // again: fs.suid_dumpable may be 1
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	if err != nil {
		return err
	}
	if real, effective, saved := unix.Getresuid(); real == 0 || effective == 0 || saved == 0 {
		return errors.New("not as root")
	}
	return nil
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
