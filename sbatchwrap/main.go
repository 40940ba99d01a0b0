// Sbatchwrap stands in for sbatch: it takes sbatch's own command line plus a
// few --prio-* options, writes what they say as a tag into the job's comment,
// and becomes the real sbatch. Where nothing of the kind is said it becomes the
// real sbatch at once. See docs/reference/sbatchwrap.md.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

var version string // set by the linker, as the Makefile has it

// Exit statuses of our own; once the real sbatch runs, its own counts.
const (
	exitProblem = 1 // no sbatch, or the script could not be passed on
	exitUsage   = 2 // a --prio-* option that can't be right; nothing was submitted
)

func main() {
	name := "sbatchwrap"
	var args []string
	if len(os.Args) > 0 {
		name, args = os.Args[0], os.Args[1:]
	}
	err := run(name, args)
	if err == nil {
		return
	}
	var code exitCode
	var asked *sbatch.InstalledError
	switch {
	case errors.As(err, &code):
	case errors.As(err, &asked) && asked.Code > 0:
		// sbatch can't work here, and its own words say best why.
		os.Stderr.WriteString(asked.Stderr)
		code = exitCode(asked.Code)
	case errors.As(err, new(*usageError)):
		code = exitUsage
		fallthrough
	default:
		code = cmp.Or(code, exitProblem)
		fmt.Fprintf(os.Stderr, "sbatchwrap: %v\n", err)
	}
	os.Exit(int(code))
}

// exitCode is the status of an sbatch that ran as a child.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is what the user has to mend.
type usageError = prio.Error

func usagef(format string, args ...any) error { return prio.Errorf(format, args...) }
