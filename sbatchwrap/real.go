package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"slurmprio/slurmplug/prio"
)

// siteSbatch is where a site says which sbatch is the real one: a symbolic
// link. Needed only when the wrapper has taken sbatch's place in PATH.
const siteSbatch = "/etc/slurmprio/sbatch"

// selfMark stands in every build of this program and in no sbatch, so that a
// copy of the wrapper, of this release or another, is never taken for sbatch.
var selfMark = []byte("This program is sbatchwrap of slurmprio and not sbatch.")

// findSbatch finds the real sbatch: SBATCHWRAP_SBATCH, then siteSbatch, then
// the first one in PATH that is not this program.
func findSbatch() (string, error) {
	for _, named := range []struct{ path, by string }{{os.Getenv(prio.SbatchVariable), prio.SbatchVariable}, {siteSbatch, siteSbatch}} {
		if named.path == "" {
			continue
		}
		if _, err := os.Lstat(named.path); err != nil && named.by == siteSbatch {
			continue
		}
		path, err := filepath.EvalSymlinks(named.path)
		if link, isLink := os.Readlink(named.path); isLink == nil && named.by == siteSbatch {
			named.path = link
		}
		switch {
		case !filepath.IsAbs(named.path) && named.by != siteSbatch:
			return "", fmt.Errorf("%s is %s: want an absolute path", named.by, prio.Quote(named.path))
		case err != nil || !executable(path):
			return "", fmt.Errorf("%s says that sbatch is %s, which is no program that can be run", named.by, prio.Quote(named.path))
		case isSelf(path):
			return "", fmt.Errorf("%s says that sbatch is %s, which is sbatchwrap itself: name the real sbatch", named.by, prio.Quote(named.path))
		}
		return path, nil
	}
	skipped := ""
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// A relative folder could hold any user's sbatch.
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, "sbatch")
		switch {
		case !executable(path):
		case isSelf(path):
			skipped = fmt.Sprintf(" (%s is sbatchwrap itself)", prio.Quote(path))
		default:
			return path, nil
		}
	}
	return "", fmt.Errorf("no sbatch in PATH%s: install Slurm's client, set %s to the path of the real sbatch, or make %s a link to it", skipped, prio.SbatchVariable, siteSbatch)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil
}

// isSelf reports whether the file is this program: the same file under whatever
// name, or a copy.
func isSelf(path string) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	if here, err := os.Stat("/proc/self/exe"); err == nil && os.SameFile(here, there) {
		return true
	}
	if there.Size() < 1<<20 {
		return false // no Go program is that small
	}
	content, err := os.ReadFile(path)
	return err == nil && bytes.Contains(content, selfMark)
}

// become replaces this process by the real sbatch, so that nothing stands
// between it and its caller: same process, descriptors, directory, umask,
// signals to come. It returns only with an error.
func become(path, name string, args []string) error {
	err := syscall.Exec(path, append([]string{argv0(name)}, args...), syscall.Environ())
	if errors.Is(err, syscall.E2BIG) {
		return usagef("the command line and the environment are longer than the system allows")
	}
	return fmt.Errorf("%s: %w", prio.Quote(path), err)
}

// argv0 is the name that sbatch gets: the one that the user called, when that
// was sbatch.
func argv0(name string) string {
	if filepath.Base(name) == "sbatch" {
		return name
	}
	return "sbatch"
}

// guard keeps a script that is installed as sbatch from running sbatchwrap,
// which would run the script, and so on, be it for its help. A binary needs no
// guard (isSelf), and then the environment goes to the job as it is. The variable
// names the process that runs the script and when it began, so that it means
// nothing to the jobs that inherit it.
func guard(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // executable but not readable: a binary
	}
	defer f.Close()
	magic := make([]byte, 2)
	if n, _ := f.Read(magic); n < 2 || string(magic) != "#!" {
		return nil
	}
	if mark := os.Getenv(prio.GuardVariable); mark != "" {
		for pid := os.Getpid(); pid > 1; {
			parent, began := process(pid)
			if mark == fmt.Sprintf("%d:%s", pid, began) {
				return fmt.Errorf("%s is a script that runs sbatchwrap again: set %s to the path of the real sbatch", prio.Quote(path), prio.SbatchVariable)
			}
			pid = parent
		}
	}
	_, began := process(os.Getpid())
	return os.Setenv(prio.GuardVariable, fmt.Sprintf("%d:%s", os.Getpid(), began))
}

// process reads the parent and the start time of a process from /proc.
func process(pid int) (parent int, began string) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, ""
	}
	// The program's name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, ""
	}
	parent, _ = strconv.Atoi(fields[1])
	return parent, fields[19]
}
