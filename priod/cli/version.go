package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/urfave/cli/v2"
)

func versionCommand(version string) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print priod's version", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
		Action: func(c *cli.Context) error {
			return answer(c, map[string]string{"version": version, "go": runtime.Version()}, func(w io.Writer) {
				fmt.Fprintln(w, "priod", version, runtime.Version())
			})
		},
	}
}
