// Package cli is priod's command line: one file for each verb.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"

	"slurmprio/priod/config"
	"slurmprio/priod/live/tail"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

// Exit statuses of every verb.
const (
	exitDone    = 0
	exitProblem = 1
	exitUsage   = 2
)

// usageError is wrong usage: exit status 2.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// WrongUsage makes an error one of exit status 2.
func WrongUsage(err error) error { return usageError{err} }

// isWrong reports whether an error is wrong usage.
func isWrong(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(view.Wrong))
}

// errProblem is something a verb found and already showed: exit status 1.
var errProblem = errors.New("problem found")

// Main runs one command line and returns the exit status.
func Main(version string, args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[1] == tail.Verb { // the child that reads a user's file
		if err := tail.Child(args[2:], os.Stdin, stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return exitProblem
		}
		return exitDone
	}
	if len(args) == 2 && args[1] == "version" { // as many programs have it
		args = []string{args[0], "--version"}
	}
	return Run(App(version), args, stdout, stderr)
}

// Run runs one command line of an app that NewApp made, and returns the exit status.
func Run(app *cli.App, args []string, stdout, stderr io.Writer) int {
	report.Colours(isTerminal(stdout))
	out := &output{to: stdout}
	app.Writer, app.ErrWriter = out, stderr
	var err error
	if last, word := len(args)-1, verb(app, args); last > 0 && args[last] == completeWord {
		complete(out, app, args[1:last])
	} else if err = goneAs(word); err == nil || find(app.Commands, word) != nil {
		err = app.Run(interleave(app, args))
	}
	if err == nil || errors.Is(err, errProblem) {
		err = cmp.Or(out.lost(), err)
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errProblem):
		return exitProblem
	case isWrong(err):
		fmt.Fprintf(stderr, "%s: %s\n", app.Name, report.Safe(err.Error()))
		return exitUsage
	}
	hint := ""
	if errors.Is(err, slurmplug.ErrController) || errors.Is(err, slurmplug.ErrTimeout) {
		hint = "; is Slurm up? scontrol ping; systemctl status slurmdbd"
	}
	fmt.Fprintf(stderr, "%s: %s%s\n", app.Name, report.Safe(err.Error()), hint)
	return exitProblem
}

// App is the command tree; the man page is made from it.
func App(version string) *cli.App {
	app := NewApp("priod", "ranks the jobs of a Slurm cluster; shows, explains and undoes its changes", version, slices.Concat(
		grouped("1. LOOK", checkCommand(), queueCommand(), explainCommand(), etaCommand(), evictionsCommand(), reportCommand(), webCommand()),
		grouped("2. STOP AND UNDO", pauseCommand(), resumeCommand(), resetCommand()),
		grouped("3. TRY", trialCommand(), simulateCommand(), tuneCommand(), profileCommand()),
		grouped("4. RUN AND SET UP", runCommand(), configCommand(), workloadsCommand()),
	)...)
	app.Description = "The daemon (priod run) reads Slurm's queue in cycles, decides order, GPU types, sizes and evictions as priod.toml\n" +
		"says, and writes them into jobs through scontrol. Slurm schedules, with or without priod.\n" +
		"    priod check           what is on, and what does not fit this cluster\n" +
		"    priod explain JOBID   why a job waits, when it starts, what can be done\n" +
		"    priod pause           stop all writing; priod reset also reverts what was written"
	return app
}

// grouped puts commands under one heading of the help.
func grouped(heading string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = heading
	}
	return commands
}

func init() {
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(c.App.Writer, c.App.Name, c.App.Version, runtime.Version()) }
}

// NewApp is a command tree with priod's manners: --config, errors and exit statuses.
func NewApp(name, usage, version string, commands ...*cli.Command) *cli.App {
	app := &cli.App{
		Name: name, Usage: usage, Version: version, Commands: commands, Metadata: map[string]any{},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE` (default: " + config.DefaultPath + " if it exists)", EnvVars: []string{"PRIOD_CONFIG"}},
		},
		UseShortOptionHandling:    true,
		DisableSliceFlagSeparator: true, // a value may have commas
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              onUsageError,
		CommandNotFound:           nil,
		Action: func(c *cli.Context) error {
			if word := c.Args().First(); c.Args().Present() {
				return usagef("no command %q%s; see %s --help", word, nearest(c.App.Commands, word), name)
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, c := range app.Commands {
		prepare(c)
	}
	return app
}

func prepare(c *cli.Command) {
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	for _, f := range c.Flags {
		if b, ok := f.(*cli.BoolFlag); ok {
			b.DisableDefaultText = true // "(default: false)" says nothing
		}
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

// Within is a command line that is read within another one, and prints nothing.
func Within(name string) *cli.App {
	return &cli.App{Name: name, HideHelp: true, DisableSliceFlagSeparator: true, Writer: io.Discard, ErrWriter: io.Discard, ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: onUsageError}
}

// isTerminal reports whether a person sees what is written there.
func isTerminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && isatty.IsTerminal(f.Fd())
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usageError{wrongFlag(c.Command, err)}
}

// nearest proposes the command that was meant.
func nearest(commands []*cli.Command, word string) string {
	for _, c := range commands {
		if smetrics.WagnerFischer(word, c.Name, 1, 1, 1) <= min(2, len(c.Name)/2) {
			return fmt.Sprintf(", did you mean %q?", c.Name)
		}
	}
	return ""
}

// mostFlag is --most, and most reads it.
func mostFlag(value int, usage string) cli.Flag {
	return &cli.IntFlag{Name: "most", Aliases: []string{"n"}, Value: value, Usage: usage}
}

func most(c *cli.Context) (int, error) {
	n := c.Int("most")
	if n < 1 {
		return 0, usagef("%s: --most %d: want at least 1", c.Command.Name, n)
	}
	return n, nil
}

// jsonFlag stands on every verb that shows something.
func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}
}

// noArgs refuses arguments where a verb takes none.
func noArgs(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s takes no arguments, and got %q", c.Command.FullName(), c.Args().First())
	}
	return nil
}

func loadConfig(c *cli.Context) (*config.Config, error) {
	cfg, err := config.Load(c.String("config"), c.StringSlice("set")...)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// configured is the action of a verb that needs the configuration.
func configured(do func(c *cli.Context, cfg *config.Config) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		cfg, err := loadConfig(c)
		if err != nil {
			return err
		}
		return do(c, cfg)
	}
}

// reading is the action of a verb that needs the state folder, too.
func reading(do func(c *cli.Context, cfg *config.Config, r *store.Reader) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		cfg, r, err := openReader(c)
		if err != nil {
			return err
		}
		defer r.Close()
		return do(c, cfg, r)
	}
}

// which is the action of a verb that is nothing without one of its own verbs.
func which(ask string) cli.ActionFunc { return func(*cli.Context) error { return usagef("%s", ask) } }

// answer prints one JSON object with --json, else what show prints; first how sure that is, where the verb says so.
func answer(c *cli.Context, v any, show func(w io.Writer)) error {
	s := stamped(c)
	switch {
	case c.Bool("json") && s != nil:
		return report.JSON(c.App.Writer, s, v)
	case c.Bool("json"):
		return report.JSON(c.App.Writer, v)
	case s != nil:
		s.show(c.App.Writer)
	}
	show(c.App.Writer)
	return nil
}

// tabulate prints a row for each of some things.
func tabulate[T any](w io.Writer, header []string, all []T, row func(x *T) []any) {
	report.Table(w, header, report.TableOf("", header, all, row).Rows)
}

// checked looks at a verb's options and arguments before it does anything, in turn.
func checked(checks ...cli.BeforeFunc) cli.BeforeFunc {
	return func(c *cli.Context) error {
		for _, check := range checks {
			if err := check(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func validMost(c *cli.Context) error {
	_, err := most(c)
	return err
}

// sinceOf reads --since; 0 for none, where that is allowed.
func sinceOf(c *cli.Context, optional bool) (time.Duration, error) {
	text := c.String("since")
	if text == "" && optional {
		return 0, nil
	}
	var d config.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil || d <= 0 {
		return 0, usagef("%s: --since %.40q: want a time such as 12h or 30d", c.Command.FullName(), text)
	}
	return time.Duration(d), nil
}

// stateFlags are those of verbs that read a state folder.
func stateFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "state", Usage: "read this `FOLDER` in place of state.dir: a replay that priod simulate --state recorded, or another state folder"},
		&cli.StringFlag{Name: "at", Usage: "as of a `TIME`: 2026-11-03T14:00, or 14:00 of the day on which what is recorded ends"},
	}
}

// stateConfig is the configuration of a verb that has --state: of a replay its own.
func stateConfig(c *cli.Context) (*config.Config, error) {
	dir := c.String("state")
	if dir == "" {
		return loadConfig(c)
	}
	replay, err := store.ReadableFolder(dir)
	if err != nil {
		return nil, usagef("--state %s: %w", dir, err)
	}
	var cfg *config.Config
	if replay == nil {
		cfg, err = loadConfig(c)
	} else if cfg, err = config.Load(filepath.Join(dir, store.ReplayConfig), replay.Set...); err != nil {
		err = usageError{err}
	}
	if err == nil {
		cfg.State.Dir, cfg.State.Shared = dir, ""
	}
	return cfg, err
}

func newLogger(cfg *config.Config, w io.Writer) hclog.Logger {
	asJSON := cfg.Log.Format == "json"
	return hclog.New(&hclog.LoggerOptions{
		Name: "priod", Level: hclog.LevelFromString(cfg.Log.Level), JSONFormat: asJSON, Output: lineSafe{w, asJSON},
	})
}

// lineSafe keeps control characters of logged text out of the terminal and
// the journal; hclog ends every record with a newline of its own.
type lineSafe struct {
	w    io.Writer
	json bool
}

func (l lineSafe) Write(p []byte) (int, error) {
	lines := strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")
	safe := report.Safe
	if l.json {
		safe = report.SafeJSON
	}
	for i := range lines {
		lines[i] = safe(lines[i])
	}
	if _, err := io.WriteString(l.w, strings.Join(lines, "\n")+"\n"); err != nil {
		return 0, err
	}
	return len(p), nil
}

// newClient talks to the cluster of a configuration.
func newClient(cfg *config.Config) *slurmplug.Client { return cfg.Client(0) }
