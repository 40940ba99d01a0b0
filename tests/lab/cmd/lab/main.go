// Lab starts a real Slurm cluster with fake GPUs on this machine, and removes
// every trace of it.
//
//	eval "$(lab start)"; sinfo; lab stop DIR
//	lab run -- make test
//	lab shell
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"slurmprio/tests/lab"
)

const (
	failed     = 1
	wrongUsage = 2
)

func main() { os.Exit(run(os.Args)) }

func run(args []string) int {
	err := app().Run(args)
	var status exitStatus
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "lab: %v; see tests/lab/lab.sh --help\n", err)
		return wrongUsage
	}
	fmt.Fprintln(os.Stderr, "lab:", strings.TrimPrefix(err.Error(), "lab: "))
	return failed
}

// exitStatus is the status of the command that "lab run" ran.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

type usageError struct{ error }

func onUsageError(_ *cli.Context, err error, _ bool) error { return usageError{err} }

func app() *cli.App {
	options := []cli.Flag{
		&cli.StringFlag{Name: "dir", Usage: "keep the lab in `DIR`, new or empty (default: a new one under the temporary folder)"},
		&cli.StringFlag{Name: "nodes", Usage: "`COUNTxTYPE:GPUS,...` such as 3xa100:4,2xcpu:0 (default: 3xa100:4,3xv100:4,2xt4:4)"},
		&cli.StringFlag{Name: "preempt-mode", Usage: "how te preempts be: REQUEUE, CANCEL, OFF", Value: "REQUEUE"},
		&cli.IntFlag{Name: "max-jobs", Usage: "MaxJobCount (default: 20000)"},
		&cli.IntFlag{Name: "max-array", Usage: "MaxArraySize (default: 20001)"},
		&cli.StringSliceFlag{Name: "conf", Usage: "a `LINE` for slurm.conf; it replaces the lab's own of the same key; may be repeated"},
		&cli.BoolFlag{Name: "no-accounting", Usage: "without MariaDB and slurmdbd: no QOS, no sacct"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say on standard error how long each part of the start took"},
	}
	return &cli.App{
		Name:            "lab",
		Usage:           "a real Slurm cluster with fake GPUs on this machine",
		HideHelpCommand: true,
		// A line of slurm.conf has commas of its own: PrivateData=jobs,users is one value of --conf.
		DisableSliceFlagSeparator: true,

		OnUsageError:   onUsageError,
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usageError{fmt.Errorf("unknown command %q", c.Args().First())}
			}
			return usageError{errors.New("which command? start, stop, run, shell or missing")}
		},
		Commands: []*cli.Command{
			{Name: "start", Usage: "start a lab and leave it running; prints the line to eval", Flags: options, Action: start, OnUsageError: onUsageError},
			{Name: "stop", Usage: "end a lab and remove its folder", ArgsUsage: "DIR", Action: stop, OnUsageError: onUsageError},
			{Name: "run", Usage: "start a lab, run a command in it, end it; exits as the command did", ArgsUsage: "[--] COMMAND [ARGUMENT...]", Flags: options, Action: runCommand, OnUsageError: onUsageError},
			{Name: "shell", Usage: "start a lab and a shell in it; it ends with the shell", Flags: options, Action: shell, OnUsageError: onUsageError},
			{Name: "missing", Usage: "name what a lab needs and this machine lacks; exits 1 if anything", Action: missing, OnUsageError: onUsageError},
		},
	}
}

func startLab(c *cli.Context) (*lab.Lab, error) {
	o := lab.Options{
		Dir:           c.String("dir"),
		PreemptMode:   c.String("preempt-mode"),
		MaxJobs:       c.Int("max-jobs"),
		MaxArrayTasks: c.Int("max-array"),
		ExtraConf:     c.StringSlice("conf"),
		NoAccounting:  c.Bool("no-accounting"),
	}
	if s := c.String("nodes"); s != "" {
		nodes, err := lab.ParseNodes(s)
		if err != nil {
			return nil, usageError{err}
		}
		o.Nodes = nodes
	}
	if c.Bool("verbose") {
		o.OnStartupPhase = func(phase string, seconds float64) { fmt.Fprintf(os.Stderr, "%6.2f s  %s\n", seconds, phase) }
	}
	ctx, done := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer done()
	return lab.Start(ctx, o)
}

func start(c *cli.Context) error {
	if c.NArg() > 0 {
		return usageError{fmt.Errorf("start takes no arguments, got %q", c.Args().First())}
	}
	l, err := startLab(c)
	if err != nil {
		return err
	}
	if err := l.Detach(); err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Printf("export SLURM_CONF=%s\n", l.Conf())
	fmt.Fprintf(os.Stderr, "a lab with %d nodes runs in %s; \"tests/lab/lab.sh stop %s\" ends it\n", len(l.Nodes), l.Dir, l.Dir)
	return nil
}

func stop(c *cli.Context) error {
	if c.NArg() != 1 {
		return usageError{fmt.Errorf("stop takes the folder of one lab, got %d arguments", c.NArg())}
	}
	return lab.Remove(c.Args().First())
}

func runCommand(c *cli.Context) error {
	if c.NArg() == 0 {
		return usageError{errors.New("run what? lab run [--] COMMAND [ARGUMENT...]")}
	}
	return inLab(c, c.Args().Slice())
}

func shell(c *cli.Context) error {
	if c.NArg() > 0 {
		return usageError{fmt.Errorf("shell takes no arguments, got %q", c.Args().First())}
	}
	sh := os.Getenv("SHELL")
	if sh == "" {
		sh = "/bin/sh"
	}
	return inLab(c, []string{sh})
}

// inLab runs a command in a lab of its own and gives back its exit status.
func inLab(c *cli.Context, argv []string) (err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	l, err := startLab(c)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := l.Close(); closeErr != nil {
			fmt.Fprintln(os.Stderr, closeErr)
			if err == nil {
				err = exitStatus(failed)
			}
		}
	}()
	runtime.LockOSThread() // Pdeathsig watches the thread that started the command
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	cmd := exec.Command(path, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Env = append(os.Environ(), l.Env()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt { // the terminal sends that one to the command as well
					_ = cmd.Process.Signal(s)
				}
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		return exitStatus(128 + int(ws.Signal()))
	}
	return exitStatus(exit.ExitCode())
}

func missing(c *cli.Context) error {
	if c.NArg() > 0 {
		return usageError{fmt.Errorf("missing takes no arguments, got %q", c.Args().First())}
	}
	programs := lab.Missing()
	for _, p := range programs {
		fmt.Println(p)
	}
	if len(programs) > 0 {
		return exitStatus(failed)
	}
	return nil
}
