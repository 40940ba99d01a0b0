package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Client runs Slurm's commands in a lab as one user.
type Client struct {
	lab  *Lab
	user string // "" for the user that started the lab
	host string // "" for this machine; see On
}

// As returns a client of another local user, such as PlainUser. Only a lab
// started by root can act as somebody else.
func (l *Lab) As(user string) Client { return Client{lab: l, user: user} }

// Command prepares a command with the lab's environment and nothing else of
// the caller's, so that SQUEUE_FORMAT and the like stay out. It runs in the
// lab's work folder, where anybody may write, and dies with its caller.
func (c Client) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path := name
	if !strings.Contains(name, "/") {
		path = lookup(name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	if path == "" {
		cmd.Err = fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	cmd.Args[0] = name
	if c.host != "" {
		argv := c.lab.onHost(c.host, append([]string{path}, args...))
		cmd.Path, cmd.Args = argv[0], argv
	}
	cmd.Dir = c.lab.path("work")
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	login := c.lab.user
	if c.user != "" && c.user != c.lab.user {
		login = c.user
		credential, err := credentialOf(c.user)
		if err != nil {
			cmd.Err = err
		}
		cmd.SysProcAttr.Credential = credential
	}
	cmd.Env = append([]string{"PATH=" + searchPath(), "LC_ALL=C", "HOME=" + c.lab.path("work"), "USER=" + login, "LOGNAME=" + login}, c.lab.Env()...)
	return cmd
}

func credentialOf(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("only a lab started by root can run commands as %s", name)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Run runs a command and returns its standard output. The error of a command
// that failed holds its standard error.
func (c Client) Run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := c.Command(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// Sbatch submits a job and returns its id, that of the array for an array.
func (c Client) Sbatch(ctx context.Context, args ...string) (string, error) {
	out, err := c.Run(ctx, "sbatch", append([]string{"--parsable"}, args...)...)
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	return id, err
}

// Patience bounds every wait whose context has no deadline. It only ends tests that fail: on a machine with much
// to do what takes a second elsewhere takes a minute, and Slurm itself tells of an end that was lost once a minute.
const Patience = 5 * time.Minute

// WaitFor asks again and again until condition holds or fails, or ctx ends, after
// Patience at the latest when it has no deadline. The error of a wait in vain
// says what was waited for.
func WaitFor(ctx context.Context, what string, condition func(context.Context) (bool, error)) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Patience)
		defer cancel()
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		began := time.Now()
		ok, err := condition(ctx)
		took := time.Since(began)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, context.Cause(ctx))
		case <-time.After(max(pause, min(4*took, time.Second))): // a busy machine is not kept busy by questions
		}
	}
}

// WaitJob waits until a job is in one of the states, in Slurm's long words
// such as RUNNING, and fails as soon as it is in another final one.
func (l *Lab) WaitJob(ctx context.Context, id string, states ...string) error {
	if id == "" {
		return errors.New("no job to wait for: its id is empty")
	}
	last := "unknown"
	err := WaitFor(ctx, fmt.Sprintf("job %s to be %s", id, strings.Join(states, " or ")), func(ctx context.Context) (bool, error) {
		out, err := l.Run(ctx, "squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T %r")
		if err != nil {
			return false, err
		}
		last, _, _ = strings.Cut(strings.TrimSpace(out), "\n")
		state, _, _ := strings.Cut(last, " ")
		if slices.Contains(states, state) {
			return true, nil
		}
		switch state {
		case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT":
			return false, errors.New("it ended")
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last seen %s", err, last)
	}
	return nil
}

// WaitNodes waits until every node answers and is up.
func (l *Lab) WaitNodes(ctx context.Context) error {
	last := ""
	err := WaitFor(ctx, "all nodes to be up", func(ctx context.Context) (bool, error) {
		out, err := l.Run(ctx, "sinfo", "--noheader", "--Node", "--all", "--format=%N %T")
		if err != nil {
			last = err.Error()
			if _, err := l.PID("slurmctld"); err != nil && !l.opts.Backup { // 26.05 listens before it has loaded its plugins
				return false, fmt.Errorf("slurmctld ended: %w\n%s", err, l.tails("slurmctld"))
			}
			return false, nil // slurmctld may not answer yet
		}
		last = out
		up := map[string]bool{}
		for line := range strings.Lines(out) {
			name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch strings.TrimSuffix(state, "-") { // the mark is for nodes that backfill has plans for
			case "idle", "mixed", "allocated", "completing":
				up[name] = true
			}
		}
		return len(up) == len(l.Nodes), nil
	})
	if err != nil {
		return fmt.Errorf("%w; last seen:\n%s", err, last)
	}
	return nil
}
