// Package verbs is the command line of tests/papers: one file for each verb.
package verbs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	priod "slurmprio/priod/cli"
	"slurmprio/priod/report"
)

// App is the command tree.
func App() *cli.App {
	return priod.NewApp("papers", "reproduces what the papers of docs/evidence measured", "of this checkout",
		simulateCommand(), sweepCommand(), generateCommand(), allocateCommand(), importCommand())
}

func usagef(format string, a ...any) error { return priod.WrongUsage(fmt.Errorf(format, a...)) }

func noArgs(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s takes no arguments, and got %q", c.Command.FullName(), c.Args().First())
	}
	return nil
}

func outFlag() cli.Flag {
	return &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write to `FILE` (default: standard output)"}
}

func workloadsFlag() cli.Flag {
	return &cli.StringFlag{Name: "workloads", Usage: "read workloads from `FILE` (default: those that priod brings along)"}
}

// writeOut writes to --out.
func writeOut(c *cli.Context, write func(io.Writer) error) error {
	path := c.String("out")
	if path == "" || path == "-" {
		return write(c.App.Writer)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// answer prints one JSON object with --json, else what show prints.
func answer(c *cli.Context, v any, show func(w io.Writer)) error {
	if c.Bool("json") {
		return report.JSON(c.App.Writer, v)
	}
	show(c.App.Writer)
	return nil
}

// kept writes an instance that the optimiser failed on to a file.
func kept(text []byte) string {
	f, err := os.CreateTemp("", "papers-allocate-*.json")
	if err != nil {
		return fmt.Sprintf("and the instance could not be written: %v", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Sprintf("and the instance could not be written: %v", err)
	}
	return "the instance is in " + f.Name()
}
