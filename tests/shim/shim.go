// Package shim stands in front of Slurm's commands and throws faults at named
// points of a plan: COMMAND/WHEN, such as "squeue/after" or "scontrol
// update/during". A folder of links to its program, with a plan beside them, is
// what slurm.bin_dir names; priod gives its commands an environment of their
// own, so the plan is a file.
package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Commands are the programs that priod runs.
var Commands = []string{"squeue", "sacct", "scontrol", "sdiag", "sprio", "sacctmgr", "scancel", "sstat"}

// Kinds of fault, for Fault.Do.
const (
	Kill  = "kill"  // kill -9 of the parent, which is priod
	Die   = "die"   // kill -9 of the command itself
	Cut   = "cut"   // only a part of the output, exit status 0
	Noise = "noise" // Text in the place of the output, exit status 0
	Slow  = "slow"  // go on after Delay
	Hang  = "hang"  // never end
	Fail  = "fail"  // exit status 1
	Mute  = "mute"  // exit status 229, nothing said
	Warn  = "warn"  // Text on standard error
	Run   = "run"   // another command, such as the owner's, runs just then
	Late  = "late"  // sacct knows nothing of the last Delay
)

// Fault is thrown once, at one call of one command.
type Fault struct {
	Command string        `json:"command"` // "squeue", "scontrol show node", "scontrol update"
	When    string        `json:"when"`    // before, during, after
	Call    int           `json:"call"`    // the first is 1; not with Has
	Has     string        `json:"has"`     // only the first call in whose arguments or input this expression is found
	Do      string        `json:"do"`
	Part    float64       `json:"part,omitempty"` // of the output that Cut leaves, 0 to 1
	Delay   time.Duration `json:"delay,omitempty"`
	Text    string        `json:"text,omitempty"`
	Argv    []string      `json:"argv,omitempty"`
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s/%s call %d: %s", f.Command, f.When, f.Call, f.Do)
	if f.Has != "" {
		s = fmt.Sprintf("%s/%s of %s: %s", f.Command, f.When, f.Has, f.Do)
	}
	switch f.Do {
	case Cut:
		s += fmt.Sprintf(" at %.6f", f.Part)
	case Slow, Late:
		s += " " + f.Delay.String()
	case Warn, Noise:
		s += fmt.Sprintf(" %q", f.Text)
	case Run:
		s += " " + strings.Join(f.Argv, " ")
	}
	return s
}

// Plan is the file beside the links.
type Plan struct {
	Real   map[string]string `json:"real"` // where the real programs are
	Env    []string          `json:"env"`  // of the commands that Run runs
	Faults []Fault           `json:"faults"`
}

// Dir is a folder of links with its plan.
type Dir struct {
	path string
	plan Plan
}

// Install links program under the names of Slurm's commands into dir.
func Install(dir, program string, real map[string]string, env []string) (*Dir, error) {
	d := &Dir{dir, Plan{Real: real, Env: env}}
	for name := range real {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return d, d.Throw()
}

// Throw replaces the plan and counts calls anew.
func (d *Dir) Throw(faults ...Fault) error {
	old, err := filepath.Glob(filepath.Join(d.path, "*.calls"))
	if err != nil {
		return err
	}
	for _, f := range append(old, filepath.Join(d.path, "thrown")) {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	d.plan.Faults = faults
	text, err := json.Marshal(d.plan)
	if err != nil {
		return err
	}
	next := filepath.Join(d.path, "plan.next")
	return errors.Join(os.WriteFile(next, text, 0o644), os.Rename(next, filepath.Join(d.path, "plan")))
}

// Thrown lists the faults that were thrown since the last Throw.
func (d *Dir) Thrown() []string {
	text, _ := os.ReadFile(filepath.Join(d.path, "thrown")) // none: nothing was
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:bytes.Count(text, []byte{'\n'})]
}

// kind is the command that a call is one of.
func kind(name string, args []string) string {
	if name != "scontrol" {
		return name
	}
	if at := slices.Index(args, "show"); at >= 0 && at+1 < len(args) {
		return "scontrol show " + args[at+1]
	}
	if len(args) == 0 || args[0] == "update" || args[0] == "release" {
		return "scontrol update"
	}
	return "scontrol " + args[0]
}

// call is one run of the shim.
type call struct {
	Fault
	dir  string
	real string
	args []string
	in   []byte // what scontrol reads its lines from
	plan *Plan
}

// Main is the program behind the links; it returns the exit status.
func Main() int {
	dir, name := filepath.Split(os.Args[0])
	text, err := os.ReadFile(filepath.Join(dir, "plan"))
	var plan Plan
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		return problem(err)
	}
	c := call{dir: dir, real: plan.Real[name], args: os.Args[1:], plan: &plan}
	command := kind(name, c.args)
	number, err := count(filepath.Join(dir, strings.ReplaceAll(command, " ", "-")+".calls"))
	if err != nil {
		return problem(err)
	}
	at := slices.IndexFunc(plan.Faults, func(f Fault) bool { return f.Command == command && (f.Has != "" || f.Call == number) })
	if at < 0 {
		return problem(syscall.Exec(c.real, append([]string{name}, c.args...), os.Environ()))
	}
	c.Fault = plan.Faults[at]
	status, err := c.meet()
	if err != nil {
		return problem(err)
	}
	return status
}

// meet throws the fault, if this call is the one.
func (c *call) meet() (int, error) {
	if len(c.args) == 0 {
		var err error
		if c.in, err = io.ReadAll(os.Stdin); err != nil {
			return 0, err
		}
	}
	if c.Has != "" {
		there, err := regexp.MatchString(c.Has, strings.Join(c.args, " ")+"\n"+string(c.in))
		if err == nil && there {
			var n int
			n, err = count(filepath.Join(c.dir, "has.calls"))
			there = n == 1
		}
		if err != nil || !there {
			out, errs, status, failed := c.pass(c.in)
			return status, errors.Join(err, failed, write(out, errs))
		}
	}
	return c.run(c.in)
}

func problem(err error) int {
	fmt.Fprintln(os.Stderr, "shim:", err)
	return 99
}

// count adds one to a file's length and returns it.
func count(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	if _, err := f.Write([]byte{'.'}); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return int(info.Size()), nil
}

// run runs the real command and throws the fault before, during or after it.
func (c *call) run(in []byte) (int, error) {
	if c.Do == Late {
		end := time.Now().Add(-c.Delay).Unix()
		for i, a := range c.args {
			if strings.HasPrefix(a, "--endtime=") {
				c.args[i] = fmt.Sprintf("--endtime=uts%d", end)
			}
			if strings.HasPrefix(a, "--starttime=") {
				c.args[i] = fmt.Sprintf("--starttime=uts%d", end-24*3600)
			}
		}
	}
	if c.When == "before" {
		if err := c.throw(); err != nil || c.Do == Fail {
			return 1, err
		}
	}
	if c.When == "during" && c.Command == "scontrol update" {
		return c.update(in)
	}
	out, errs, status, err := c.pass(in)
	if err != nil || c.When == "before" {
		return status, errors.Join(err, write(out, errs))
	}
	if c.When == "after" && c.Has != "" && status != 0 { // Slurm did not take it: the moment is still to come
		return status, errors.Join(os.Remove(filepath.Join(c.dir, "has.calls")), write(out, errs))
	}
	if c.When == "during" {
		half := len(out) / 2
		if err := write(out[:half], nil); err != nil {
			return 0, err
		}
		out = out[half:]
	}
	if c.Do == Fail {
		return 1, errors.Join(c.throw(), write(out, errs)) // in this order: priod may end it at what it says
	}
	if err := c.throw(); err != nil {
		return 0, err
	}
	if c.Do == Mute {
		return 229, nil
	}
	if c.Do == Cut {
		out = out[:int(c.Part*float64(len(out)))]
	}
	if c.Do == Noise {
		out = []byte(c.Text)
	}
	return status, write(out, errs)
}

// update throws the fault when half of the lines are carried out; when there is
// one line, while it is.
func (c *call) update(in []byte) (int, error) {
	lines := bytes.SplitAfter(in, []byte{'\n'})
	if len(lines) > 2 {
		half := len(lines) / 2
		_, _, status, err := c.pass(bytes.Join(lines[:half], nil))
		if err = errors.Join(err, c.throw()); err != nil || c.Do == Fail {
			return max(status, 1), err
		}
		_, _, second, err := c.pass(bytes.Join(lines[half:], nil))
		return max(status, second), err
	}
	done := make(chan error, 1)
	var status int
	go func() {
		var err error
		_, _, status, err = c.pass(in)
		done <- err
	}()
	err := c.throw()
	return status, errors.Join(err, <-done)
}

// pass runs the real command to its end, or to this program's. What an update says goes
// out at once: priod reads from it how far a command came that it had to end. scancel is
// ended where priod would end it.
func (c *call) pass(in []byte) (out, errs []byte, status int, err error) {
	cmd := exec.Command(c.real, c.args...)
	cmd.Args[0] = filepath.Base(c.real)
	runtime.LockOSThread() // which the command dies with
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if c.Command == "scancel" {
		cmd.Stderr = writer(func(p []byte) (int, error) {
			e.Write(p)
			if bytes.Contains(e.Bytes(), []byte(", retrying")) {
				return len(p), cmd.Process.Kill()
			}
			return len(p), nil
		})
	}
	if c.Command == "scontrol update" {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if len(c.args) == 0 {
		cmd.Stdin = bytes.NewReader(in)
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, err = exit.ExitCode(), nil
	}
	return o.Bytes(), e.Bytes(), status, err
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func write(out, errs []byte) error {
	_, err1 := os.Stdout.Write(out)
	_, err2 := os.Stderr.Write(errs)
	return errors.Join(err1, err2)
}

// throw throws the fault, first saying so in the file "thrown".
func (c *call) throw() error {
	f, err := os.OpenFile(filepath.Join(c.dir, "thrown"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, c.Fault)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	switch c.Do {
	case Kill:
		return syscall.Kill(os.Getppid(), syscall.SIGKILL)
	case Die:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case Hang:
		time.Sleep(time.Hour) // priod ends it
	case Slow:
		time.Sleep(c.Delay)
	case Warn:
		_, err := fmt.Fprintln(os.Stderr, c.Text)
		return err
	case Run:
		cmd := exec.Command("/usr/bin/env", c.Argv...) // looks in the lab's PATH, not in the shim's
		cmd.Env = c.plan.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", c.Argv, err, out)
		}
	}
	return nil
}
