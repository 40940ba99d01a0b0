package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// script is the job script as far as sbatch would read directives from it.
type script struct {
	name string // as given; "" for standard input and --wrap
	text []byte // nil for --wrap, and when sbatch will say why it can't be read
	once bool   // a named pipe, not read: it would be gone for sbatch
}

// mostScript bounds what is read from a pipe. slurmctld takes 4 MB
// (max_script_size), so this is never a script.
const mostScript = 64 << 20

// title names the script in an error.
func (s *script) title() string {
	if s.name == "" {
		return "script on standard input"
	}
	return "script " + prio.Quote(s.name)
}

// readScript reads the script where sbatch would, so that sbatch can read it
// again: what comes through a pipe is put back as an unlinked file with the
// same bytes.
func readScript(cmd *sbatch.Command) (*script, error) {
	_, wrapped := cmd.Last("wrap")
	_, external := cmd.Last("external") // 25.05: a job without a script
	switch {
	case wrapped || external:
		return &script{}, nil
	case cmd.Script == nil:
		text, err := readDescriptor(0)
		return &script{text: text}, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	chdir, _ := cmd.Last("chdir")
	s := &script{name: cmd.Script[0]}
	path := sbatch.ScriptPath(s.name, cwd, chdir, os.Getenv("PATH"))
	info, err := os.Stat(path)
	switch fd, isFD := descriptor(path); {
	case err != nil:
	case info.Mode().IsRegular():
		// sbatch opens it once more and says what is wrong with it.
		s.text, _ = os.ReadFile(path)
	case info.Mode()&fs.ModeNamedPipe != 0 && isFD:
		s.text, err = readDescriptor(fd)
		return s, err
	case info.Mode()&fs.ModeNamedPipe != 0:
		s.once = true
	}
	return s, nil
}

// descriptor tells which open file a path such as /dev/fd/63 means, as bash
// gives it for <(command).
func descriptor(path string) (int, bool) {
	if path == "/dev/stdin" {
		return 0, true
	}
	dir, name := filepath.Split(path)
	if dir != "/dev/fd/" && dir != "/proc/self/fd/" {
		return 0, false
	}
	fd, err := strconv.ParseUint(name, 10, 31)
	return int(fd), err == nil
}

// readDescriptor returns what can be read from an open file and leaves the
// descriptor as if it had not been read.
func readDescriptor(fd int) ([]byte, error) {
	offset, err := unix.Seek(fd, 0, io.SeekCurrent)
	if err == nil { // a regular file
		text := make([]byte, 0, 4096)
		for {
			n, err := unix.Pread(fd, text[len(text):cap(text)], offset+int64(len(text)))
			if n <= 0 || err != nil {
				return text, nil // sbatch runs into the same
			}
			if text = text[:len(text)+n]; len(text) == cap(text) {
				text = append(text, 0)[:len(text)]
			}
			if len(text) > mostScript {
				return nil, tooLarge()
			}
		}
	}
	text, err := io.ReadAll(io.LimitReader(open(fd), mostScript+1))
	switch {
	case len(text) > mostScript:
		return nil, tooLarge()
	case err != nil && len(text) == 0:
		return nil, nil // closed, or not for reading: sbatch says so
	case err != nil:
		return nil, err
	}
	return text, replace(fd, text)
}

// open reads an open file that is not ours to close, as an os.File would be in
// the end.
type open int

func (fd open) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func tooLarge() error {
	return usagef("the script is larger than %d MB: is it the right file?", mostScript>>20)
}

// replace puts a file without a name instead of an open file.
func replace(fd int, content []byte) error {
	spool, err := unlinkedFile(content)
	if err != nil {
		return err
	}
	defer spool.Close()
	return os.NewSyscallError("dup3", unix.Dup3(int(spool.Fd()), fd, 0))
}

// unlinkedFile is a file without a name, to be read from its beginning.
func unlinkedFile(content []byte) (*os.File, error) {
	f, err := newUnlinked()
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func newUnlinked() (*os.File, error) {
	if fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC); err == nil {
		return os.NewFile(uintptr(fd), "script"), nil
	}
	// Kernels before 3.17.
	f, err := os.CreateTemp("", "sbatchwrap-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
