package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/google/go-cmp/cmp"

	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

var update = flag.Bool("update", false, "write etc/man/sbatchwrap.1 anew")

// manPage is the man page in Markdown, its options from the table that parses them.
func manPage() string {
	var b strings.Builder
	b.WriteString(`sbatchwrap 1 "" slurmprio "User Commands"
=================================

# NAME
sbatchwrap - submit a Slurm batch job and say what kind of job it is

# SYNOPSIS
**sbatchwrap** [*sbatch options*] [*--prio options*] [*script* [*arguments*]]

# DESCRIPTION
**sbatchwrap** takes the command line of **sbatch**(1) and the options below. What they say becomes a tag, the first
word of the job's comment, which **priod**(8) reads. All else goes to the real sbatch unchanged: standard input,
environment, output, exit status and signals. Without any of these options it is sbatch.

# OPTIONS
They are spelled in full and stand before the script.

`)
	entry := func(name, value, help string) { fmt.Fprintf(&b, "**--%s**%s\n: %s\n\n", name, value, help) }
	for i := range prio.Options {
		o := &prio.Options[i]
		value := " *" + o.Value + "*"
		if o.Arg == sbatch.Optional {
			value = "[=*" + o.Value + "*]"
		}
		entry(o.Name, value, o.Help+" (variable "+strings.ReplaceAll(o.Variable(), "_", `\_`)+")")
	}
	entry(optionPrint, "", "show the tag and the command that would run; submit nothing")
	entry(optionHelp, "", "explain these options")
	entry(optionVersion, "", "print the version of sbatchwrap")
	b.WriteString(`The same options may stand on *#PRIO* lines of the script, before its first command. The command line counts before
variables, variables before the script. A bare number is a time in minutes, as for sbatch --time; 90s, 5m and 1h30m are
understood too.

# FILES
*/etc/slurmprio/sbatch*
: a link to the real sbatch, where **sbatchwrap** has taken its place (variable SBATCHWRAP\_SBATCH)

*/etc/slurmprio/hold*
: how much later jobs begin that leave their GPU type open and have a speed or workload, or say what CPUs or memory do, such as 20s, so that **priod**(8)
can choose the type or the size; a --begin of their own counts (variable SBATCHWRAP\_HOLD)

# EXIT STATUS
**2** for a value that cannot be right (nothing was submitted), **1** when there is no sbatch to run, else sbatch's own.

# SEE ALSO
**sbatch**(1), **priod**(8)
`)
	return b.String()
}

// The man page is made from the option table; make man writes it.
func TestManPage(t *testing.T) {
	const path = "../etc/man/sbatchwrap.1"
	page := md2man.Render([]byte(manPage()))
	if *update {
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(page)); diff != "" {
		t.Errorf("etc/man/sbatchwrap.1 is not what the option table says; run make man\n%s", diff)
	}
}
