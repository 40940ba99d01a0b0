// Shim is the program behind the links of package shim.
package main

import (
	"os"

	"slurmprio/tests/shim"
)

func main() { os.Exit(shim.Main()) }
