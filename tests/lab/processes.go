package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// parents reads the parent of every process from /proc.
func parents() map[int]int {
	parent := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return parent
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // gone meanwhile
		}
		// pid (name, which may hold anything) state ppid ...
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 {
			parent[pid], _ = strconv.Atoi(string(fields[1]))
		}
	}
	return parent
}

// descendants lists all children of a process, their children and so on.
func descendants(of ...int) []int {
	parent := parents()
	below := map[int]bool{}
	for _, pid := range of {
		below[pid] = true
	}
	var found []int
	for again := true; again; {
		again = false
		for pid, ppid := range parent {
			if below[ppid] && !below[pid] {
				below[pid] = true
				found = append(found, pid)
				again = true
			}
		}
	}
	return found
}

// listens says whether the process holds the listening TCP socket of a port.
func listens(pid, port int) bool {
	fds, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil {
		return false
	}
	held := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			held[target] = true
		}
	}
	// The kernel prints listening sockets first, and each read as many lines as it has room for: with room for one,
	// it seldom walks the table of all others, milliseconds of CPU where that is large. Slurm listens on IPv4 only.
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		return false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 160), 4096)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[0] == "sl" {
			continue
		}
		if f[3] != "0A" { // TCP_LISTEN
			break
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if p, err := strconv.ParseUint(hex, 16, 16); err == nil && int(p) == port && held["socket:["+f[9]+"]"] {
			return true
		}
	}
	return false
}

// killAll kills the processes that find finds, until none are left.
func killAll(find func() []int, none func() bool) error {
	deadline := time.Now().Add(Patience)
	for !none() {
		pids := find()
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not die", pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// strays lists the processes that belong to the lab in dir, found by what they
// hold and not by their parent: Slurm's own that work in the folder (slurmstepd
// overwrites its environment, so its folder and log must do), job processes,
// and everything below these.
func strays(dir string) []int {
	var found []int
	for pid := range parents() {
		proc := "/proc/" + strconv.Itoa(pid)
		if pid != os.Getpid() && (isDaemonIn(proc, dir) || isJobOf(proc, dir)) {
			found = append(found, pid)
		}
	}
	return append(found, descendants(found...)...)
}

// steps lists what runs of the jobs of the lab in dir: slurmstepds and job processes.
func steps(dir string) (found []int) {
	for pid := range parents() {
		proc := "/proc/" + strconv.Itoa(pid)
		name, _ := os.ReadFile(proc + "/comm")
		if string(name) == "slurmstepd\n" && isDaemonIn(proc, dir) || isJobOf(proc, dir) {
			found = append(found, pid)
		}
	}
	return found
}

func isDaemonIn(proc, dir string) bool {
	name, err := os.ReadFile(proc + "/comm")
	if err != nil || !slices.ContainsFunc([]string{"slurm", "munged", "mariadb"}, func(p string) bool { return strings.HasPrefix(string(name), p) }) {
		return false
	}
	cwd, _ := os.Readlink(proc + "/cwd")
	return strings.HasPrefix(cwd, dir+"/")
}

func isJobOf(proc, dir string) bool {
	env, err := os.ReadFile(proc + "/environ")
	if err != nil {
		return false
	}
	vars := strings.Split(string(env), "\x00")
	return slices.Contains(vars, "SLURM_CONF="+dir+"/etc/slurm.conf") &&
		slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "SLURM_JOB_ID=") })
}
