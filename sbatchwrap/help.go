package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// printHelp tells about our own options.
func printHelp(w io.Writer) {
	fmt.Fprintf(w, "\nOptions of sbatchwrap (%s), spelled in full:\n", prio.Version(version))
	for _, o := range prio.Options {
		line := "      --" + o.Name
		if o.Arg == sbatch.Optional {
			line += "[=" + o.Value + "]"
		} else {
			line += "=" + o.Value
		}
		if len(line) > 28 {
			line += "\n"
			fmt.Fprintf(w, "%s%30s%s\n", line, "", o.Help)
		} else {
			fmt.Fprintf(w, "%-30s%s\n", line, o.Help)
		}
	}
	fmt.Fprint(w, `      --prio-print            show the tag and the command that would run; submit nothing
      --prio-help             this help alone
      --prio-version          the version of sbatchwrap; --version is sbatch's

The same options may stand on #PRIO lines of the script, before its first
command, and, but for the last three, in variables: SBATCHWRAP_TYPE=te. The
command line counts before variables, variables before the script. A bare
number is a time in minutes, as for sbatch --time.
`)
}

// helpOfBoth runs sbatch --help and adds our own.
func helpOfBoth(path, name string, args []string) error {
	cmd := exec.Command(path, args...)
	cmd.Args[0] = argv0(name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exitCode(exit.ExitCode())
	case err != nil:
		return err
	}
	return show(printHelp)
}

// show prints to standard output, and fails when not all of it arrives.
func show(print func(io.Writer)) error {
	var text bytes.Buffer
	print(&text)
	if _, err := text.WriteTo(os.Stdout); err != nil {
		return fmt.Errorf("the output is incomplete: %w", err)
	}
	return nil
}

// printPlan shows what would be submitted.
func printPlan(w io.Writer, tag, path string, args []string) {
	fmt.Fprintf(w, "tag: %s\nruns: %s\n", cmp.Or(tag, "none"), sbatch.CommandLine(append([]string{path}, args...)))
}
