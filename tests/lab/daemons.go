package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Slurmd names the slurmd of a node. The other daemons are called "munged",
// "mariadbd", "slurmdbd", "slurmctld" and, in a lab with Options.Backup, Backup.
func Slurmd(node string) string { return "slurmd/" + node }

// quickInnoDB makes MariaDB small and careless: a lab's database need not
// survive the machine.
var quickInnoDB = []string{
	"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-method=nosync",
	"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
	"--loose-innodb-snapshot-isolation=OFF", // slurmdbd 26.05 wants it off; older servers do not know it
}

// asUser adds what mariadbd wants to hear before it runs as root.
func (l *Lab) asUser(args ...string) []string {
	if os.Geteuid() == 0 {
		return append(args[:len(args):len(args)], "--user=root")
	}
	return args
}

// command gives the command line of a daemon.
func (l *Lab) command(daemon string) ([]string, error) {
	switch daemon {
	case "munged":
		// --force: the lab's folder may lie below one that a group can write
		return []string{lookup("munged"), "--foreground", "--force", "--num-threads=2",
			"--socket=" + l.path("run/munge.sock"), "--key-file=" + l.path("secret/munge.key"),
			"--pid-file=" + l.path("run/munged.pid"), "--seed-file=" + l.path("secret/munged.seed"),
			"--log-file=" + l.path("log/munged.log")}, nil
	case "mariadbd":
		return append([]string{lookup("mariadbd"), "--no-defaults", "--datadir=" + l.path("db/data"), "--tmpdir=" + l.path("db"),
			"--socket=" + l.path("db/sock"), "--pid-file=" + l.path("db/pid"), "--skip-networking", "--skip-grant-tables",
			"--skip-log-bin", "--skip-name-resolve", "--performance-schema=OFF", "--innodb-lock-wait-timeout=900"}, l.asUser(quickInnoDB...)...), nil
	case "slurmdbd":
		return l.withHosts([]string{lookup("slurmdbd"), "-D"}), nil
	case "slurmctld":
		argv := []string{lookup("slurmctld"), "-D"}
		if l.opts.Backup {
			return l.onHost(PrimaryHost, argv), nil
		}
		return l.withHosts(argv), nil
	case Backup:
		if l.opts.Backup {
			return l.onHost(BackupHost, []string{lookup("slurmctld"), "-D"}), nil
		}
	}
	if node, ok := strings.CutPrefix(daemon, "slurmd/"); ok {
		for _, n := range l.Nodes {
			if n == node {
				return l.withSu([]string{lookup("slurmd"), "-D", "-N", node}), nil
			}
		}
	}
	return nil, fmt.Errorf("no daemon is called %q; there are munged, mariadbd, slurmdbd, slurmctld and slurmd/NODE", daemon)
}

// port gives the TCP port that a daemon listens on, 0 for none.
func (l *Lab) port(daemon string) int {
	switch daemon {
	case "slurmdbd":
		return l.ports.Slurmdbd
	case "slurmctld", Backup:
		return l.ports.Slurmctld
	}
	for i, n := range l.Nodes {
		if daemon == Slurmd(n) {
			return l.ports.Slurmd + i
		}
	}
	return 0
}

// logFile is where a daemon's standard output and error go; munged and Slurm's
// own logs lie beside it.
func (l *Lab) logFile(name string) string {
	return l.path("log/" + strings.ReplaceAll(name, "/", ".") + ".out")
}

func (l *Lab) daemonEnv() []string {
	env := []string{"PATH=" + searchPath(), "LC_ALL=C", "HOME=" + l.path("work"), "SLURM_CONF=" + l.Conf(), "MYSQL_UNIX_PORT=" + l.path("db/sock")}
	if tz, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+tz)
	}
	return env
}

func (l *Lab) launch(daemon string) error {
	argv, err := l.command(daemon)
	if err != nil {
		return err
	}
	var pid int
	return l.conn.Call("Keeper.Spawn", spawnArgs{Name: daemon, Argv: argv, Env: l.daemonEnv(), Dir: l.path("work"), Log: l.logFile(daemon)}, &pid)
}

// runToEnd runs a helper program under the keeper.
func (l *Lab) runToEnd(ctx context.Context, name string, argv []string, stdin string) error {
	var pid int
	args := spawnArgs{Name: name, Argv: argv, Env: l.daemonEnv(), Dir: l.path("work"), Stdin: stdin, Log: l.logFile(name)}
	if err := l.conn.Call("Keeper.Spawn", args, &pid); err != nil {
		return err
	}
	var s procStatus
	if err := l.call(ctx, "Keeper.Wait", name, &s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !s.OK {
		return fmt.Errorf("%s: %s\n%s", name, s.Message, tail(l.logFile(name), 20))
	}
	return nil
}

// call is an RPC that gives up with ctx.
func (l *Lab) call(ctx context.Context, method string, args, reply any) error {
	c := l.conn.Go(method, args, reply, nil)
	select {
	case <-c.Done:
		return c.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await blocks until a daemon takes connections, or has ended.
func (l *Lab) await(ctx context.Context, daemon string) error {
	for {
		var s procStatus
		if err := l.conn.Call("Keeper.Status", daemon, &s); err != nil {
			return err
		}
		if s.Exited {
			text := l.tails(daemon)
			err := fmt.Errorf("%s ended before it was ready: %s\n%s", daemon, s.Message, text)
			if strings.Contains(strings.ToLower(text), errPortTaken.Error()) {
				err = fmt.Errorf("%w (%w)", err, errPortTaken)
			}
			return err
		}
		if l.ready(daemon, s.PID) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", daemon, ctx.Err(), l.tails(daemon))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (l *Lab) ready(daemon string, pid int) bool {
	if port := l.port(daemon); port != 0 {
		return listens(pid, port)
	}
	socket := l.path("run/munge.sock")
	if daemon == "mariadbd" {
		socket = l.path("db/sock")
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// StartDaemon starts a daemon that was stopped or killed, and waits until it
// takes connections.
func (l *Lab) StartDaemon(ctx context.Context, daemon string) error {
	if err := l.launch(daemon); err != nil {
		return err
	}
	return l.await(ctx, daemon)
}

// Stop asks a daemon to end (SIGTERM) and kills it when it has not after five
// seconds: a slurmd that cannot reach its controller would not for long.
func (l *Lab) Stop(ctx context.Context, daemon string) error {
	if err := l.signal(daemon, syscall.SIGTERM); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if l.call(patience, "Keeper.Wait", daemon, &procStatus{}) == nil {
		return nil
	}
	return l.Kill(ctx, daemon)
}

// Kill ends a daemon at once (SIGKILL). The steps of a killed slurmd live on,
// as they do in real life.
func (l *Lab) Kill(ctx context.Context, daemon string) error {
	var s procStatus
	if err := l.conn.Call("Keeper.Status", daemon, &s); err != nil {
		return err
	}
	if s.Exited {
		return nil
	}
	if err := l.signal(daemon, syscall.SIGKILL); err != nil {
		return err
	}
	return l.call(ctx, "Keeper.Wait", daemon, &procStatus{})
}

// Restart stops a daemon and starts it again.
func (l *Lab) Restart(ctx context.Context, daemon string) error {
	if err := l.Stop(ctx, daemon); err != nil {
		return err
	}
	return l.StartDaemon(ctx, daemon)
}

// Pause stops a daemon in its tracks (SIGSTOP): it still accepts connections,
// through the kernel, and never answers.
func (l *Lab) Pause(daemon string) error { return l.signal(daemon, syscall.SIGSTOP) }

// Continue lets a paused daemon go on.
func (l *Lab) Continue(daemon string) error { return l.signal(daemon, syscall.SIGCONT) }

// PID is the process id of a running daemon.
func (l *Lab) PID(daemon string) (int, error) {
	var s procStatus
	if err := l.conn.Call("Keeper.Status", daemon, &s); err != nil {
		return 0, err
	}
	if s.Exited {
		return 0, fmt.Errorf("%s is not running: %s", daemon, s.Message)
	}
	return s.PID, nil
}

func (l *Lab) signal(daemon string, sig syscall.Signal) error {
	return l.conn.Call("Keeper.Signal", signalArgs{Name: daemon, Signal: sig}, &struct{}{})
}

// tails gives the end of a daemon's log, or of what it said before it had one.
func (l *Lab) tails(daemon string) string {
	base := l.path("log/" + strings.ReplaceAll(daemon, "/", "."))
	if text := tail(base+".log", 10); text != "" {
		return text
	}
	return tail(base+".out", 10)
}

// daemons names all daemons that a lab can have.
func (l *Lab) daemons() []string {
	names := []string{"munged", "mariadbd", "slurmdbd", "slurmctld", Backup}
	for _, n := range l.Nodes {
		names = append(names, Slurmd(n))
	}
	return names
}

// Logs says which daemons are not running, and why, and gives the last lines of
// every log of the lab, for a failed test.
func (l *Lab) Logs(lines int) string {
	var b strings.Builder
	for _, d := range l.daemons() {
		var s procStatus
		if l.conn.Call("Keeper.Status", d, &s) == nil && s.Exited {
			// What the C library says of a crash is in no log of Slurm's.
			fmt.Fprintf(&b, "--- %s is not running: %s\n%s", d, s.Message, tail(l.logFile(d), lines))
		}
	}
	files, _ := filepath.Glob(l.path("log/*"))
	for _, f := range files {
		if _, err := os.Stat(strings.TrimSuffix(f, ".out") + ".log"); err == nil && strings.HasSuffix(f, ".out") {
			continue // Slurm's daemons say everything twice when in the foreground
		}
		if text := tail(f, lines); text != "" {
			fmt.Fprintf(&b, "--- %s\n%s", filepath.Base(f), text)
		}
	}
	return b.String()
}

func tail(file string, lines int) string {
	data, err := os.ReadFile(file)
	if err != nil || len(data) == 0 {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n") + "\n"
}

// searchPath is PATH with the folders of the daemons, which only root has.
func searchPath() string {
	dirs := "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
	if path := os.Getenv("PATH"); path != "" {
		return path + ":" + dirs
	}
	return dirs
}

// lookup finds a program on searchPath; "" when there is none.
func lookup(name string) string {
	for _, dir := range filepath.SplitList(searchPath()) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}
