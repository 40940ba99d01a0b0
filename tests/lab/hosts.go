package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Backup names the second slurmctld of a lab with Options.Backup. The first is
// "slurmctld"; they share the state folder, and take over from each other as
// SlurmctldTimeout says.
const Backup = "slurmctld/backup"

// The hosts on which the two controllers believe to run.
const (
	PrimaryHost = "ctl1"
	BackupHost  = "ctl2"
)

// addresses of the hosts; both belong to this machine's loopback.
var addresses = map[string]string{PrimaryHost: loopback, BackupHost: "127.0.0.2"}

// controllers are the slurm.conf lines about two controllers.
func controllers(dir string) []string {
	lines := []string{
		"CommunicationParameters=NoCtldInAddrAny",
		"SlurmctldTimeout=4",                                  // a backup waits for this long, and looks every third of it
		"SlurmctldPidFile=" + dir + "/run/host/slurmctld.pid", // a slurmctld kills the one whose file it finds
	}
	for _, h := range []string{PrimaryHost, BackupHost} {
		lines = append(lines, fmt.Sprintf("SlurmctldHost=%s(%s)", h, addresses[h]))
	}
	return lines
}

// hostsFile is /etc/hosts on these hosts.
func hostsFile() string {
	var b strings.Builder
	name, _ := os.Hostname()
	fmt.Fprintf(&b, "%s localhost %s\n", loopback, name)
	for _, h := range []string{PrimaryHost, BackupHost} {
		fmt.Fprintf(&b, "%s %s\n", addresses[h], h)
	}
	return b.String()
}

// On returns a client on one of the hosts of a lab with Options.Backup: what it
// runs sees that host's name and /etc/hosts, and shares all else with this
// machine.
func (l *Lab) On(host string) Client { return Client{lab: l, host: host} }

// onHost wraps a command so that it runs under another host's name, in the
// process that starts it: no child, no second pid.
func (l *Lab) onHost(host string, argv []string) []string {
	const script = `cd "$1" && mount --bind etc/hosts /etc/hosts && mkdir -p "run/$2" && mount --bind "run/$2" run/host &&
		hostname "$2" && cd work && shift 2 && exec "$@"`
	return append([]string{lookup("unshare"), "--uts", "--mount", "--propagation=private", "sh", "-c", script, "sh", l.Dir, host}, argv...)
}

// withHosts wraps a daemon so that it reads the lab's /etc/hosts, where the machine's
// own name is an address that Slurm cannot be reached at from everywhere.
func (l *Lab) withHosts(argv []string) []string {
	if !l.host.Hosts {
		return argv
	}
	return l.withFile("etc/hosts", "/etc/hosts", argv)
}

// withSu wraps a slurmd so that it finds the lab's own su: root's slurmd runs one for a job whose
// submission has --export=NONE, and the machine's su reads the login files of the job's user.
func (l *Lab) withSu(argv []string) []string {
	if os.Geteuid() != 0 || !canUnshare() {
		return argv
	}
	return l.withFile("etc/su", "/bin/su", argv)
}

// su runs what a login would run, without a login: su - USER -c COMMAND.
const su = `#!/bin/sh
while [ $# -gt 3 ]; do shift; done
exec setpriv --reuid="$1" --regid="$(id -g "$1")" --init-groups \
	env -i USER="$1" LOGNAME="$1" HOME=/ SHELL=/bin/sh PATH=/usr/local/bin:/usr/bin:/bin sh -c "$3"
`

// withFile wraps a command so that it and its children see a file of the lab in place of one of the machine.
// What is mounted on the machine later they see, too.
func (l *Lab) withFile(own, machine string, argv []string) []string {
	const script = `mount --bind "$1" "$2" && shift 2 && exec "$@"`
	return append([]string{lookup("unshare"), "--mount", "--propagation=slave", "sh", "-c", script, "sh", l.path(own), machine}, argv...)
}

// canUnshare reports whether this process may start others that have mounts of their own.
var canUnshare = sync.OnceValue(func() bool {
	return exec.Command(lookup("unshare"), "--mount", "--propagation=slave", "true").Run() == nil
})

// WaitSaved waits until slurmctld's folder holds all jobs as they are now: a
// controller that is killed forgets the last few seconds, in real life too. It waits for
// two saves: one that ends after now may have begun before.
func (l *Lab) WaitSaved(ctx context.Context) error {
	for range 2 {
		if err := l.waitSave(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waitSave waits for the end of a save. A job of its own makes sure that there is something
// to save; another one follows when nothing came of it: a slurmctld that has just begun
// forgets that it was to save.
func (l *Lab) waitSave(ctx context.Context) error {
	since, asked := time.Now(), time.Time{}
	return WaitFor(ctx, "slurmctld to save its jobs", func(context.Context) (bool, error) {
		if info, err := os.Stat(l.path("state/job_state")); err == nil && info.ModTime().After(since) {
			return true, nil
		}
		if time.Since(asked) < saveWithin {
			return false, nil
		}
		asked = time.Now()
		id, err := l.Sbatch(ctx, "--hold", "--wrap=true")
		if err != nil {
			return false, err
		}
		_, err = l.Run(ctx, "scancel", id)
		return false, err
	})
}

// saveWithin is longer than slurmctld waits until it saves what has changed: 5 s.
const saveWithin = 10 * time.Second
