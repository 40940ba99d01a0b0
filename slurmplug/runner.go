package slurmplug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

// Command is one call of one of Slurm's programs.
type Command struct {
	Name  string // program, without a path: "squeue"
	Args  []string
	Stdin []byte // nil for /dev/null
	Merge bool   // standard error goes into Output.Stdout, in the order in which it was written
	Until string // ended as soon as it writes this to Output.Stdout, with ErrUntil; "": runs to its end

	Requests int // that it makes to slurmctld, for one whose arguments do not tell; else 0
}

// Output is what a program wrote.
type Output struct{ Stdout, Stderr []byte }

// Runner runs Slurm's programs: Exec the real ones, a test what it likes. The
// error of a program that ran and failed is a *CommandError with Kind ErrExit,
// and comes with the program's output. ctx bounds the run; when its cause is
// ErrTimeout, so is the error's Kind.
type Runner interface {
	Run(ctx context.Context, cmd Command) (Output, error)
}

// Kinds of CommandError, for errors.Is.
var (
	ErrNotFound      = errors.New("program not found")
	ErrTimeout       = errors.New("timed out")
	ErrOutputTooLong = errors.New("too much output")
	ErrExit          = errors.New("failed")
	ErrUntil         = errors.New("ended after what it wrote")
	// ErrController comes on top of ErrExit when slurmctld or slurmdbd did not
	// answer.
	ErrController = errors.New("no answer from Slurm's controller")
	// ErrRate comes on top of another when slurmctld's limit on requests is why, or may be.
	ErrRate = errors.New("slurmctld's rate limit")
)

// CommandError says how one of Slurm's programs failed.
type CommandError struct {
	Command string // as a person would write it, cut short
	Kind    error  // ErrNotFound, ErrTimeout, ErrOutputTooLong, ErrExit, ErrUntil or ctx's error
	Status  int    // exit status, 0 unless Kind is ErrExit
	Message string // first line of what it wrote to standard error, made printable
	Limit   string // slurmctld's limit on requests, if that may be why
}

func (e *CommandError) Error() string {
	s := e.Command + ": " + e.Kind.Error()
	if e.Kind == ErrExit {
		s = fmt.Sprintf("%s: exit status %d", e.Command, e.Status)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if strings.Contains(e.Message, authText) {
		s += " (Slurm says so when munge refuses, or when the commands here are newer than slurmctld)"
	}
	if e.Limit != "" {
		s += "; " + ErrRate.Error() + " may be why: " + e.Limit
	}
	return s
}

// Unwrap makes errors.Is find the kind, and ErrController where it applies.
func (e *CommandError) Unwrap() []error {
	switch {
	case e.Limit != "", e.Kind == ErrExit && isRateLimited(e.Message):
		return []error{e.Kind, ErrRate}
	case e.Kind == ErrExit && isConnectionTrouble(e.Message):
		return []error{e.Kind, ErrController}
	}
	return []error{e.Kind}
}

// ExecOptions say how Exec finds and runs Slurm's programs.
type ExecOptions struct {
	BinDir    string // where they are; "" for this process's PATH
	SlurmConf string // path of slurm.conf; "" for Slurm's default
	MaxOutput int64  // bytes that one program may write; 0 for 1 GiB
}

// Exec is the Runner of the real programs. Each is looked up once and run by
// its absolute path in a process group of its own, in an environment that holds
// PATH, SLURM_CONF and what makes output the same everywhere, nothing else:
// SQUEUE_FORMAT, SLURM_CLUSTERS, TZ and their like change what programs print.
type Exec struct {
	opts  ExecOptions
	env   []string
	paths sync.Map // program to absolute path
	sizes sync.Map // command to the size of its last output
}

// NewExec returns a Runner of the real programs.
func NewExec(o ExecOptions) *Exec {
	if o.MaxOutput == 0 {
		o.MaxOutput = 1 << 30
	}
	o.BinDir, o.SlurmConf = absolute(o.BinDir), absolute(o.SlurmConf) // programs run in /
	path := "PATH=/usr/bin:/bin"
	if o.BinDir != "" {
		path = "PATH=" + o.BinDir + ":/usr/bin:/bin"
	}
	env := []string{
		path,
		"LC_ALL=C",
		"SLURM_TIME_FORMAT=%s",
		"SLURM_BITSTR_LEN=0", // array task lists in full
		"INPUTRC=/dev/null",  // scontrol reads its lines with readline
		"TERM=dumb",
	}
	if o.SlurmConf != "" {
		env = append(env, "SLURM_CONF="+o.SlurmConf)
	}
	return &Exec{opts: o, env: env}
}

func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// killPatience is how long a killed program may take to close its output.
const killPatience = 2 * time.Second

// Run implements Runner. The program dies with this process, even by kill -9: what
// it still does would not be known. Linux kills it when the thread that started it ends, so
// the thread is kept for as long as it runs.
func (e *Exec) Run(ctx context.Context, cmd Command) (Output, error) {
	path, err := e.find(cmd.Name)
	if err != nil {
		return Output{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &capped{left: e.opts.MaxOutput, until: []byte(cmd.Until), end: cancel}
	if size, ok := e.sizes.Load(kind(cmd)); ok {
		stdout.buf.Grow(size.(int))
	}
	stderr := &capped{left: e.opts.MaxOutput, end: cancel}

	c := exec.CommandContext(ctx, path, cmd.Args...)
	c.Env, c.Dir = e.env, "/"
	c.Stdout, c.Stderr = stdout, stderr
	if cmd.Merge {
		c.Stderr = c.Stdout // one pipe: the order stays
	}
	if cmd.Stdin != nil {
		c.Stdin = bytes.NewReader(cmd.Stdin)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = killPatience
	runtime.LockOSThread()
	err = c.Run()
	runtime.UnlockOSThread()
	out := Output{stdout.buf.Bytes(), withoutIgnored(stderr.buf.Bytes())}
	if cmd.Merge {
		out.Stdout = withoutIgnored(out.Stdout)
	}
	if err == nil {
		e.sizes.Store(kind(cmd), len(out.Stdout)+len(out.Stdout)/8)
		return out, nil
	}
	failed := &CommandError{Command: commandLine(cmd), Kind: err, Message: firstLine(out.Stderr)}
	var exit *exec.ExitError
	switch {
	case context.Cause(ctx) != nil:
		failed.Kind = context.Cause(ctx)
	case errors.As(err, &exit):
		failed.Kind, failed.Status = ErrExit, exit.ExitCode()
		if failed.Status < 0 {
			failed.Message = exit.Error() // "signal: killed"
		}
		if failed.Message == "" && cmd.Merge {
			failed.Message = firstLine(out.Stdout)
		}
	}
	return out, failed
}

// withoutIgnored leaves out the errors that every command prints, status 0 and output whole, where slurm.conf sets two
// keys of which one counts, such as DefMemPerCPU and DefMemPerNode (read_config.c; seen on 22.05.8).
func withoutIgnored(text []byte) []byte {
	if !bytes.Contains(text, []byte("mutually exclusive with")) {
		return text
	}
	return ignoredKey.ReplaceAllLiteral(text, nil)
}

// ignoredKey is a whole line with names of keys alone: a line that holds what a user wrote is not left out.
var ignoredKey = regexp.MustCompile(`(?m)^[a-z]+: error: [A-Za-z]+ ignored, since it's mutually exclusive with [A-Za-z]+\n`)

// kind tells commands apart whose output differs in size: a poll of the same
// kind prints about as much as the last one.
func kind(cmd Command) string {
	if len(cmd.Args) == 0 {
		return cmd.Name
	}
	return cmd.Name + " " + cmd.Args[0]
}

func (e *Exec) find(name string) (string, error) {
	if path, ok := e.paths.Load(name); ok {
		return path.(string), nil
	}
	dirs, where := filepath.SplitList(os.Getenv("PATH")), "PATH"
	if e.opts.BinDir != "" {
		dirs, where = []string{e.opts.BinDir}, e.opts.BinDir
	}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			e.paths.Store(name, path)
			return path, nil
		}
	}
	return "", &CommandError{Command: name, Kind: ErrNotFound, Message: "not in " + where}
}

// capped keeps what is written to it up to a limit, or until it holds some words.
type capped struct {
	buf   bytes.Buffer
	left  int64
	until []byte
	end   context.CancelCauseFunc
}

func (w *capped) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left < 0 {
		w.end(ErrOutputTooLong)
		return 0, ErrOutputTooLong
	}
	n, err := w.buf.Write(p)
	if len(w.until) > 0 && bytes.Contains(w.buf.Bytes(), w.until) {
		w.end(ErrUntil)
	}
	return n, err
}

// commandLine is a command for an error message: printable, and without the
// whole of a long argument.
func commandLine(cmd Command) string {
	return printable(strings.Join(append([]string{cmd.Name}, cmd.Args...), " "), 60)
}

// firstLine is the first line that says something, made printable.
func firstLine(text []byte) string {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return printable(string(line), 200)
		}
	}
	return ""
}

// lastLine is the last line that says something, made printable.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return printable(text[strings.LastIndexByte(text, '\n')+1:], 200)
}

// printable replaces what could upset a terminal or a log, and cuts s short.
func printable(s string, limit int) string {
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar { // controls, marks that turn the direction of text
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if cut {
		s += "..."
	}
	return s
}
