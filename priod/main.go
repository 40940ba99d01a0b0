// Command priod is slurmprio's priority daemon and the operator's tool. This
// file is the command tree; every verb has a file of its own in priod/cli.
package main

import (
	"os"

	"slurmprio/priod/cli"
	"slurmprio/slurmplug/prio"
)

var version string // set by the linker, as the Makefile has it

func main() {
	os.Exit(cli.Main(prio.Version(version), os.Args, os.Stdout, os.Stderr))
}
