// Command priod is slurmprio's priority daemon and the operator's tool. This
// file is the command tree; every verb has a file of its own in priod/cli.
package main

import (
	"os"

	"slurmprio/priod/cli"
)

// version is set by the Makefile.
var version = "unknown"

func main() {
	os.Exit(cli.Main(version, os.Args, os.Stdout, os.Stderr))
}
