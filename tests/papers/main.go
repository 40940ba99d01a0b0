// Command papers reproduces the tables of the papers: their policies in rounds and on the virtual Slurm of priod simulate,
// their traces and generators. docs/evidence has the command lines. It is no part of priod.
package main

import (
	"os"

	priod "slurmprio/priod/cli"
	"slurmprio/tests/papers/verbs"
)

func main() {
	os.Exit(priod.Run(verbs.App(), os.Args, os.Stdout, os.Stderr))
}
