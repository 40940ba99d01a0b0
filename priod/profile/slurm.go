package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slurmprio/slurmplug"
)

// Slurm is the cluster that the user is logged in to. It needs sbatch, srun,
// squeue and scancel, and no rights beyond those of any user.
type Slurm struct {
	Script Script
	File   string // progress is read from this file as well; "" for none
	Env    []string
	Runner slurmplug.Runner // for squeue and scancel
}

// commandTime bounds a command that asks Slurm for something.
const commandTime = 30 * time.Second

// Submit runs sbatch to its end even when ctx is done meanwhile: a job whose id
// is not known could not be cancelled.
func (s *Slurm) Submit(ctx context.Context, r Request) (string, error) {
	args, err := s.Script.Arguments(r)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*commandTime)
	defer stop()
	cmd := exec.CommandContext(ctx, "sbatch", args...)
	// What SBATCH_* variables say is among the arguments already.
	cmd.Env = without(s.Env, "SBATCH_")
	cmd.SysProcAttr = apart()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("sbatch: %s", cmp.Or(lastLine(stderr.String()), err.Error()))
	}
	job, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";")
	if job == "" || strings.Trim(job, "0123456789") != "" {
		return "", fmt.Errorf("sbatch --parsable printed %.40q, which is no job id", job)
	}
	return job, nil
}

// State asks squeue, which knows a job for some minutes after its end.
func (s *Slurm) State(ctx context.Context, job string) (State, error) {
	ctx, stop := context.WithTimeout(ctx, commandTime)
	defer stop()
	out, err := s.Runner.Run(ctx, slurmplug.Command{Name: "squeue", Args: []string{
		"--noheader", "--states=all", "--jobs=" + job, "-O", "State:|,Reason:|,tres-alloc:|"}})
	if err != nil && !bytes.Contains(out.Stderr, []byte("Invalid job id")) {
		return State{}, err
	}
	fields := strings.Split(strings.TrimSpace(string(out.Stdout)), "|")
	if len(fields) < 3 {
		return State{Ended: true, Name: "it is no longer in the queue"}, nil
	}
	state := State{Name: fields[0], Reason: fields[1]}
	switch state.Name {
	case "PENDING", "CONFIGURING":
	case "RUNNING":
		state.Running = true
		if tres, err := slurmplug.ParseTRES(fields[2]); err == nil {
			state.MemMB, _ = tres.Get("mem")
		}
	default:
		state.Ended = true
	}
	return state, nil
}

// Cancel is done when Slurm has heard it; a job that is gone already is fine.
func (s *Slurm) Cancel(ctx context.Context, job string) error {
	ctx, stop := context.WithTimeout(ctx, commandTime)
	defer stop()
	out, err := s.Runner.Run(ctx, slurmplug.Command{Name: "scancel", Args: []string{job}})
	if err != nil && bytes.Contains(out.Stderr, []byte("Invalid job id")) {
		return nil
	}
	return err
}

// start runs on the node, as a shell's own words. It takes the script from
// standard input, as an open file without a name, says that it has it, and
// becomes the script's interpreter. With a file to watch, what is added to that
// file is printed for as long as the interpreter lives.
const start = `f=$(mktemp) && cat >"$f" && exec 3<"$f" && rm -f -- "$f" || exit
echo "$1"
if [ -n "$2" ]; then tail -q --pid=$$ -s 0.2 -n 0 -F -- "$2" 2>/dev/null & fi
shift 2
exec "$@" </dev/null`

// Run runs srun from outside of the job. The step takes nothing away from steps
// that the script itself starts (--overlap), and the number of CPUs reaches
// those too (SRUN_CPUS_PER_TASK).
func (s *Slurm) Run(ctx context.Context, job string, cpus int, line func(string)) error {
	interpreter, err := s.Script.interpreter()
	if err != nil {
		return err
	}
	hello := rand.Text()
	args := []string{"--jobid=" + job, "--nodes=1", "--ntasks=1", fmt.Sprintf("--cpus-per-task=%d", cpus),
		"--exact", "--overlap", "--mem=0", "--unbuffered", "--quiet"}
	for _, name := range []string{"chdir", "export"} {
		if o, has := s.Script.Job.Set[name]; has {
			args = append(args, "--"+name+"="+o.Value)
		}
	}
	args = append(args, "sh", "-c", start, "sh", hello, s.File)
	args = append(append(append(args, interpreter...), "/dev/fd/3"), s.Script.Args...)
	cmd := exec.CommandContext(ctx, "srun", args...)
	cmd.Env = append(without(s.Env, "SLURM_", "SRUN_"),
		fmt.Sprintf("SRUN_CPUS_PER_TASK=%d", cpus), "PYTHONUNBUFFERED=1", "PRIOD_PROFILE=1")
	cmd.SysProcAttr = apart()
	var left error // what keeps the script's own steps from ending
	cmd.Cancel = func() error {
		// Steps whose srun is killed first take seconds to end.
		left = s.endSteps(ctx, job, 1)
		return cmd.Process.Signal(syscall.SIGTERM) // and srun kills the step
	}
	cmd.WaitDelay = 20 * time.Second
	cmd.Stdin = bytes.NewReader(s.Script.Text)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w // tqdm and its like write to standard error
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	began, before := false, ""
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines(r, func(text string) {
			switch {
			case ctx.Err() != nil: // "STEP 17.0 CANCELLED" is no progress
			case text == hello:
				began = true
			case began:
				line(text)
			case text != "":
				before = text
			}
		})
	}()
	err = cmd.Wait()
	if left == nil {
		left = s.endSteps(ctx, job, 0)
	}
	select {
	case <-read:
	case <-time.After(time.Second): // another process holds the pipe
		r.Close()
		<-read
	}
	if !began {
		if ctx.Err() != nil {
			return fmt.Errorf("srun has not started the program yet: %s", cmp.Or(before, "it says nothing"))
		}
		return fmt.Errorf("srun could not start the program: %s", cmp.Or(before, fmt.Sprint(err)))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = &ExitError{exit.ExitCode()}
	}
	return cmp.Or(left, ctx.Err(), err)
}

// endSteps ends the steps of a job but for the first so many, and returns when
// they are gone. The first is that of Run; the script may have begun others by
// srun, which outlive it and would hold the CPUs of the next run.
func (s *Slurm) endSteps(ctx context.Context, job string, first int) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
	defer stop()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		out, err := s.Runner.Run(ctx, slurmplug.Command{Name: "squeue", Args: []string{"--noheader", "--steps", "--jobs=" + job, "--format=%i"}})
		if err != nil && !bytes.Contains(out.Stderr, []byte("Invalid job id")) {
			return err
		}
		var steps []int
		for id := range strings.FieldsSeq(string(out.Stdout)) {
			number, _ := strings.CutPrefix(id, job+".")
			if n, err := strconv.Atoi(number); err == nil { // not the batch step
				steps = append(steps, n)
			}
		}
		if len(steps) <= first {
			return nil
		}
		slices.Sort(steps)
		args := []string{"--signal=KILL"}
		for _, n := range steps[first:] {
			args = append(args, fmt.Sprintf("%s.%d", job, n))
		}
		// One that ended meanwhile is an error of scancel's and none of ours.
		_, _ = s.Runner.Run(ctx, slurmplug.Command{Name: "scancel", Args: args})
		time.Sleep(pause)
	}
}

// interpreter is what the first line of the script names, in the kernel's way:
// a program and at most one argument.
func (s *Script) interpreter() ([]string, error) {
	first, _, _ := bytes.Cut(s.Text, []byte("\n"))
	words, ok := strings.CutPrefix(string(first), "#!")
	program, arg, _ := strings.Cut(strings.TrimSpace(words), " ")
	if !ok || program == "" {
		return nil, errors.New("the script's first line is not #! and an interpreter, such as #!/bin/bash")
	}
	if arg = strings.TrimSpace(arg); arg != "" {
		return []string{program, arg}, nil
	}
	return []string{program}, nil
}

// longest is the longest line that is kept whole.
const longest = 64 << 10

// lines hands over what is read, cut at newlines and at the carriage returns of
// a progress bar.
func lines(r io.Reader, line func(string)) {
	in := bufio.NewReaderSize(r, longest)
	var text []byte
	for {
		b, err := in.ReadByte()
		switch {
		case err != nil:
			if len(text) > 0 {
				line(string(text))
			}
			return
		case b == '\n' || b == '\r':
			line(string(text))
			text = text[:0]
		case len(text) < longest:
			text = append(text, b)
		}
	}
}

// without leaves out variables whose names begin with one of the prefixes, but
// for the one that names the cluster.
func without(env []string, prefixes ...string) (rest []string) {
	for _, e := range env {
		out := false
		for _, p := range prefixes {
			out = out || strings.HasPrefix(e, p)
		}
		if !out || strings.HasPrefix(e, "SLURM_CONF=") {
			rest = append(rest, e)
		}
	}
	return rest
}

// apart keeps the terminal's Ctrl-C from a child: it is this program that ends
// what it began, in order.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func lastLine(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimPrefix(strings.TrimSpace(all[len(all)-1]), "sbatch: error: ")
}
