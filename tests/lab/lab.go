package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Lab is a running Slurm cluster.
type Lab struct {
	Client        // runs Slurm's commands as the user that started the lab
	Dir    string // holds everything of the lab: etc, log, state, spool, work, ...
	Nodes  []string

	opts   Options
	user   string
	host   host
	ports  ports
	conn   *rpc.Client
	keeper *exec.Cmd
	mu     sync.Mutex
	closed bool
	began  time.Time
}

var errPortTaken = errors.New("address already in use")

// Start builds a cluster and returns when all its nodes are idle. ctx bounds
// the start only; without a deadline of its own, Patience. The caller ends
// the lab with Close; it also ends when the calling program does.
func Start(ctx context.Context, o Options) (*Lab, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, &MissingError{missing}
	}
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Patience)
		defer cancel()
	}
	for attempt := 1; ; attempt++ {
		l, err := start(ctx, o)
		if err == nil || !errors.Is(err, errPortTaken) || attempt == 5 || ctx.Err() != nil {
			return l, err
		}
	}
}

func start(ctx context.Context, o Options) (*Lab, error) {
	began := time.Now()
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("lab: who am I: %w", err)
	}
	dir := o.Dir
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("lab folder: %w", err)
		}
	}
	if dir, err = makeDir(dir, longestDir(nodeNames(o.Nodes))); err != nil {
		return nil, err
	}
	l := &Lab{Dir: dir, Nodes: nodeNames(o.Nodes), opts: o, user: me.Username, host: thisHost(), began: began}
	l.Client = Client{lab: l}
	if l.ports, err = o.pickPorts(2 + len(l.Nodes)); err == nil {
		l.keeper, l.conn, err = startKeeper(dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := l.startAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("lab: %w", err), l.Close())
	}
	return l, nil
}

// startAll brings up the daemons in the order in which they need each other.
func (l *Lab) startAll(ctx context.Context) error {
	if err := os.Chmod(l.Dir, 0o755); err != nil { // other users' clients read slurm.conf here
		return err
	}
	if err := writeFolder(l.Dir, l.user, l.host, l.ports, l.opts); err != nil {
		return err
	}
	key := make([]byte, 128)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	if err := os.WriteFile(l.path("secret/munge.key"), key, 0o600); err != nil {
		return err
	}
	l.phase("folder")
	if err := l.launch("munged"); err != nil {
		return err
	}
	if !l.opts.NoAccounting {
		if err := l.startAccounting(ctx); err != nil {
			return err
		}
	}
	if err := l.await(ctx, "munged"); err != nil {
		return err
	}
	if err := l.launch("slurmctld"); err != nil {
		return err
	}
	if err := l.await(ctx, "slurmctld"); err != nil {
		return err
	}
	if l.opts.Backup {
		if err := l.StartDaemon(ctx, Backup); err != nil {
			return err
		}
	}
	l.phase("slurmctld")
	if err := l.runSacctmgr(ctx); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		if err := l.launch(Slurmd(n)); err != nil {
			return err
		}
	}
	for _, n := range l.Nodes {
		if err := l.await(ctx, Slurmd(n)); err != nil {
			return err
		}
	}
	l.phase("slurmd")
	if err := l.WaitNodes(ctx); err != nil {
		return err
	}
	l.phase("nodes idle")
	return nil
}

func (l *Lab) startAccounting(ctx context.Context) error {
	if err := l.installDatabase(ctx); err != nil {
		return err
	}
	// A folder is a database. slurmdbd would create its own, on a connection that failed for
	// the lack of it, and that libmariadb 11.8.9 then gives nothing (error 5027).
	if err := os.Mkdir(l.path("db/data/"+accountingDatabase), 0o700); err != nil {
		return err
	}
	l.phase("mariadb-install-db")
	if err := l.launch("mariadbd"); err != nil {
		return err
	}
	if err := l.await(ctx, "mariadbd"); err != nil {
		return err
	}
	l.phase("mariadbd")
	if err := l.await(ctx, "munged"); err != nil {
		return err
	}
	if err := l.launch("slurmdbd"); err != nil {
		return err
	}
	if err := l.await(ctx, "slurmdbd"); err != nil {
		return err
	}
	l.phase("slurmdbd")
	if err := l.runToEnd(ctx, "sacctmgr", []string{lookup("sacctmgr"), "-i"}, l.path("etc/sacctmgr")); err != nil {
		return err
	}
	l.phase("sacctmgr")
	return nil
}

// runSacctmgr runs the commands of Options.Sacctmgr. They may name GPUs as TRES, which slurmctld
// registers with slurmdbd: on 24.11 after it answers.
func (l *Lab) runSacctmgr(ctx context.Context) error {
	if len(l.opts.Sacctmgr) == 0 || l.opts.NoAccounting {
		return nil
	}
	err := WaitFor(ctx, "slurmdbd to know gres/gpu", func(ctx context.Context) (bool, error) {
		out, err := l.Run(ctx, "sacctmgr", "--noheader", "--parsable2", "show", "tres")
		return strings.Contains(out, "gres|gpu"), err
	})
	if err != nil {
		return err
	}
	return l.runToEnd(ctx, "sacctmgr", []string{lookup("sacctmgr"), "-i"}, l.path("etc/sacctmgr.site"))
}

// phase reports how long the start took up to here.
func (l *Lab) phase(name string) {
	if l.opts.OnStartupPhase != nil {
		l.opts.OnStartupPhase(name, time.Since(l.began).Seconds())
	}
}

// Close ends the lab: every process of it is killed, jobs included, and its
// folder removed. It returns when both are gone. A second Close does nothing.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	err := closeKeeper(l.conn)
	if err != nil {
		_ = l.keeper.Process.Kill() // and its daemons with it
	}
	_ = l.keeper.Wait()
	return errors.Join(err, sweep(l.Dir))
}

// Detach lets the lab outlive this program, until Remove ends it.
func (l *Lab) Detach() error { return l.conn.Call("Keeper.Detach", struct{}{}, &struct{}{}) }

// Remove ends the lab in dir, whoever started it, and whatever is left of it.
func Remove(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(keeperSocket(dir)); err != nil || info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("lab: %s is not the folder of a lab", dir)
	}
	conn, err := rpc.Dial("unix", keeperSocket(dir))
	switch {
	case err == nil:
		if err := closeKeeper(conn); err != nil {
			return err
		}
	case !errors.Is(err, syscall.ECONNREFUSED): // refused: a keeper that was killed
		return fmt.Errorf("lab: %w", err)
	}
	return sweep(dir)
}

// sweep does what is left to do when somebody killed the keeper. The daemons
// have died with it; steps and jobs may live on.
func sweep(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	find := func() []int { return strays(dir) }
	if err := killAll(find, func() bool { return len(find()) == 0 }); err != nil {
		return fmt.Errorf("lab %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// Conf is the path of slurm.conf.
func (l *Lab) Conf() string { return l.path("etc/slurm.conf") }

// Env is what a client of the lab needs in its environment.
func (l *Lab) Env() []string { return []string{"SLURM_CONF=" + l.Conf()} }

func (l *Lab) path(name string) string { return filepath.Join(l.Dir, name) }

// thisHost finds the loopback address of the host's own name, which is what
// Slurm's daemons bind to when told to stay off the other interfaces.
func thisHost() host {
	name, err := os.Hostname()
	if err != nil {
		return host{}
	}
	out, err := exec.Command("getent", "ahostsv4", name).Output() // glibc's answer, as Slurm will get it
	if err != nil {
		return host{}
	}
	addr, _, _ := strings.Cut(string(out), " ")
	if ip := net.ParseIP(addr); ip == nil || !ip.IsLoopback() {
		return host{}
	}
	h := host{Addr: addr}
	h.Hosts = addr != loopback && os.Geteuid() == 0 && canUnshare()
	return h
}

// freePorts finds n ports in a row that nobody listens on now, below the range
// from which Linux gives out ports by itself. Start tries again should somebody
// take one before the daemons do.
func freePorts(n int) (ports, error) {
	low, high := 10000, 32768
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if first, err := strconv.Atoi(strings.Fields(string(data))[0]); err == nil && first > low+n {
			high = first
		}
	}
	if n > high-low {
		return ports{}, fmt.Errorf("lab: %d nodes need more ports than there are between %d and %d", n-2, low, high)
	}
	for range 100 {
		offset, err := rand.Int(rand.Reader, big.NewInt(int64(high-low-n+1)))
		if err != nil {
			return ports{}, err
		}
		base := low + int(offset.Int64())
		if allFree(base, n) {
			return ports{Slurmctld: base, Slurmdbd: base + 1, Slurmd: base + 2}, nil
		}
	}
	return ports{}, fmt.Errorf("lab: no %d free ports in a row between %d and %d", n, low, high)
}

func allFree(base, n int) bool {
	for p := base; p < base+n; p++ {
		s, err := net.Listen("tcp", ":"+strconv.Itoa(p))
		if err != nil {
			return false
		}
		s.Close()
	}
	return true
}
