package sbatch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Installed is an sbatch on this machine. It knows its own grammar best: its
// release and the options of the site's SPANK plugins. Asking costs a few runs
// of sbatch, none of which contacts a controller or submits anything.
type Installed struct {
	Path string
	Env  []string // as for exec.Cmd: nil is the environment of this process
}

// askArg marks an option of a SPANK plugin: its help does not tell surely
// whether it takes an argument.
const askArg Arg = 0xff

// InstalledError is an sbatch that could not say what it was asked, for
// instance because it finds no configuration. Then it can't submit either.
type InstalledError struct {
	Args   []string
	Stderr string // its own words
	Code   int    // its exit status; 0 when it did not run
	Err    error
}

func (e *InstalledError) Error() string {
	return fmt.Sprintf("sbatch %s: %v: %s", strings.Join(e.Args, " "), e.Err, strings.TrimSpace(e.Stderr))
}

func (e *InstalledError) Unwrap() error { return e.Err }

// Grammar asks for the release and for the options of SPANK plugins.
func (s Installed) Grammar() (*Grammar, error) {
	var help []byte
	var helpErr error
	done := make(chan struct{})
	go func() { // a user waits
		defer close(done)
		help, helpErr = s.run("--help")
	}()
	version, err := s.run("--version")
	<-done
	if err = cmp.Or(err, helpErr); err != nil {
		return nil, err
	}
	release, err := ParseRelease(string(version))
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", s.Path, err)
	}
	g := For(release).With(spankOptions(help)...)
	g.ask = s.argument
	return g, nil
}

// spankOptions reads the last part of sbatch --help (spank_print_options in
// src/common/plugstack.c).
func spankOptions(help []byte) (options []*Option) {
	_, section, _ := bytes.Cut(help, []byte("\nOptions provided by plugins:\n"))
	for line := range bytes.Lines(section) {
		name, ok := bytes.CutPrefix(bytes.TrimLeft(line, " "), []byte("--"))
		if !ok {
			continue
		}
		if end := bytes.IndexAny(name, "= \n"); end > 0 {
			options = append(options, &Option{Name: string(name[:end]), Arg: askArg})
		}
	}
	return options
}

// argument finds out whether an option takes the next word: when it doesn't,
// sbatch reads that word as --version and stops there; when it does, sbatch has
// no script and refuses the empty one.
func (s Installed) argument(o *Option) (Arg, error) {
	out, err := s.run("--"+o.Name, "--version")
	var exit *exec.ExitError
	switch {
	case err == nil && len(out) > 0:
		return Optional, nil
	case errors.As(err, &exit):
		return Required, nil
	}
	return 0, err
}

func (s Installed) run(args ...string) ([]byte, error) {
	cmd := exec.Command(s.Path, args...)
	cmd.Env = s.Env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		failed := &InstalledError{Args: args, Stderr: stderr.String(), Err: err}
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			failed.Code = exit.ExitCode()
		}
		return out, failed
	}
	return out, nil
}
