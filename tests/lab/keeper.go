package lab

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeperName is the argv[0] under which a program that imports this package
// becomes the keeper of one lab instead of running its own main.
const keeperName = "slurmprio-lab-keeper"

func init() {
	if len(os.Args) == 2 && os.Args[0] == keeperName {
		os.Exit(keep(os.Args[1]))
	}
}

// keeper is the process that owns every process of a lab. It is their
// subreaper, so that even a daemonised slurmstepd or job comes back to it, and
// it holds one end of a socket pair: when the program that started the lab
// goes, however it goes, the socket closes and the keeper kills what it keeps
// and removes the folder. The daemons in turn die with the keeper
// (PR_SET_PDEATHSIG). Its methods are called over net/rpc.
type keeper struct {
	dir      string
	mu       sync.Mutex
	procs    map[string]*proc
	spawns   chan func() // run on the main thread: PDEATHSIG watches the thread that forked
	stop     chan struct{}
	once     sync.Once
	failed   chan error
	detached bool // the lab outlives the connection that started it
}

type proc struct {
	pid    int
	done   chan struct{}
	status syscall.WaitStatus
}

// The arguments and answers of the keeper. They are aliases of unnamed types
// because net/rpc takes those, and named types only when exported.

// spawnArgs name a process and say how to run it.
type spawnArgs = struct {
	Name  string   // unique among the living
	Argv  []string // Argv[0] an absolute path
	Env   []string
	Dir   string
	Stdin string // file, "" for /dev/null
	Log   string // file that gets standard output and error
}

// signalArgs name a process and a signal.
type signalArgs = struct {
	Name   string
	Signal syscall.Signal
}

// procStatus is what became of a process.
type procStatus = struct {
	PID     int
	Exited  bool
	Message string // "exit status 1", "signal: killed"
	OK      bool   // exited with status 0
}

func keep(dir string) int {
	runtime.LockOSThread()
	syscall.Umask(0o022)
	for fd, name := range []string{"stdin", "stdout", "stderr"} { // the owner's caller may wait for these to close
		if null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
			_ = syscall.Dup3(null, fd, 0)
			_ = syscall.Close(null)
		} else {
			fmt.Fprintln(os.Stderr, name, err)
			return 1
		}
	}
	_ = os.Chdir("/")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // not Ignore, which jobs would inherit
	k := &keeper{dir: dir, procs: map[string]*proc{}, spawns: make(chan func()), stop: make(chan struct{}), failed: make(chan error, 1)}

	lifelineFile := os.NewFile(3, "owner")
	owner, err := net.FileConn(lifelineFile)
	if err != nil {
		return 1
	}
	lifelineFile.Close()
	closeInherited()
	others, err := net.Listen("unix", keeperSocket(dir))
	if err != nil {
		return 1
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Keeper", &keeperAPI{k}); err != nil {
		return 1
	}
	go k.reap()
	go server.ServeConn(lifeline{owner, k})
	go func() {
		for {
			conn, err := others.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(conn)
		}
	}()
	for {
		select {
		case spawn := <-k.spawns:
			spawn()
		case <-term:
			k.end()
		case <-k.stop:
			if err := k.tearDown(); err != nil {
				k.failed <- err
				time.Sleep(time.Second) // for the answer to Close
				return 1
			}
			return 0
		}
	}
}

// closeInherited closes what the owner's caller left open in it, a pipe of make
// or a file of a script, so that nobody waits for it on account of a lab. Go's
// own descriptors are all close-on-exec, the inherited ones are not.
func closeInherited() {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range fds {
		fd, err := strconv.Atoi(filepath.Base(name))
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

func keeperSocket(dir string) string { return filepath.Join(dir, "keeper.sock") }

func (k *keeper) end() { k.once.Do(func() { close(k.stop) }) }

// reap collects every child that ends, its own and the orphans that came to it.
func (k *keeper) reap() {
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	for range sigchld {
		k.mu.Lock()
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			k.ended(pid, ws)
		}
		k.mu.Unlock()
	}
}

// ended notes how a process ended. An orphan may have the number of one that ended before.
func (k *keeper) ended(pid int, ws syscall.WaitStatus) {
	for _, p := range k.procs {
		if p.pid == pid && !p.exited() {
			p.status = ws
			close(p.done)
		}
	}
}

// tearDown kills until nothing is left to wait for, then removes the folder.
func (k *keeper) tearDown() error {
	if err := killAll(func() []int { return descendants(os.Getpid()) }, childless); err != nil {
		return fmt.Errorf("lab %s: %w", k.dir, err)
	}
	return os.RemoveAll(k.dir)
}

// childless asks the kernel whether this process has no children, not even
// zombies; for a subreaper that means no descendants.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// keeperAPI is what the keeper answers to.
type keeperAPI struct{ k *keeper }

func (a *keeperAPI) Spawn(args spawnArgs, pid *int) error {
	result := make(chan error)
	a.k.spawns <- func() {
		p, err := a.k.spawn(args)
		*pid = p
		result <- err
	}
	return <-result
}

func (k *keeper) spawn(args spawnArgs) (int, error) {
	stdin := args.Stdin
	if stdin == "" {
		stdin = os.DevNull
	}
	in, err := os.Open(stdin)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(args.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	k.mu.Lock() // the reaper waits until the process is in the table
	defer k.mu.Unlock()
	if p := k.procs[args.Name]; p != nil && !p.exited() {
		return 0, fmt.Errorf("%s is running already (pid %d)", args.Name, p.pid)
	}
	pid, err := syscall.ForkExec(args.Argv[0], args.Argv, &syscall.ProcAttr{
		Dir:   args.Dir,
		Env:   args.Env,
		Files: []uintptr{in.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", args.Argv[0], err)
	}
	k.procs[args.Name] = &proc{pid: pid, done: make(chan struct{})}
	return pid, nil
}

func (p *proc) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Status says what became of a process; it does not wait.
func (a *keeperAPI) Status(name string, s *procStatus) error {
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	p := a.k.procs[name]
	if p == nil {
		return fmt.Errorf("%s was never started", name)
	}
	*s = procStatus{PID: p.pid, Exited: p.exited()}
	if s.Exited {
		s.OK = p.status.Exited() && p.status.ExitStatus() == 0
		if p.status.Signaled() {
			s.Message = "signal: " + p.status.Signal().String()
		} else {
			s.Message = fmt.Sprintf("exit status %d", p.status.ExitStatus())
		}
	}
	return nil
}

// Wait blocks until a process has ended.
func (a *keeperAPI) Wait(name string, s *procStatus) error {
	a.k.mu.Lock()
	p := a.k.procs[name]
	a.k.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s was never started", name)
	}
	<-p.done
	return a.Status(name, s)
}

// Signal sends a signal to a process that has not been reaped.
func (a *keeperAPI) Signal(args signalArgs, _ *struct{}) error {
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	p := a.k.procs[args.Name]
	if p == nil || p.exited() {
		return fmt.Errorf("%s is not running", args.Name)
	}
	return syscall.Kill(p.pid, args.Signal)
}

// Detach lets the lab live on when the connection that started it ends.
func (a *keeperAPI) Detach(_ struct{}, _ *struct{}) error {
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	a.k.detached = true
	return nil
}

// Close ends the lab. It answers only when that failed: else the caller sees
// the connection close, which the kernel does when the keeper is gone too.
func (a *keeperAPI) Close(_ struct{}, _ *struct{}) error {
	a.k.end()
	return <-a.k.failed
}

// lifeline is the connection to the program that started the lab; its end is
// the end of the lab, unless that program let go of it.
type lifeline struct {
	net.Conn
	k *keeper
}

func (l lifeline) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil {
		l.k.mu.Lock()
		detached := l.k.detached
		l.k.mu.Unlock()
		if !detached {
			l.k.end()
		}
	}
	return n, err
}

// startKeeper makes a keeper for dir out of this very program.
func startKeeper(dir string) (*exec.Cmd, *rpc.Client, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "owner")
	defer ours.Close()
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{keeperName, dir}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the owner
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("start the lab's keeper: %w", err)
	}
	return cmd, rpc.NewClient(conn), nil
}

// closeKeeper asks the keeper to end and waits until it is gone.
func closeKeeper(c *rpc.Client) error {
	defer c.Close()
	call := c.Go("Keeper.Close", struct{}{}, &struct{}{}, nil)
	select {
	case <-call.Done:
	case <-time.After(Patience):
		return errors.New("the lab's keeper does not answer")
	}
	if errors.As(call.Error, new(rpc.ServerError)) {
		return call.Error
	}
	return nil // the connection ended, as it should
}
