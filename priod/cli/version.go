package cli

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/report"
)

func versionCommand(version string) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print priod's version", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
		Action: func(c *cli.Context) error {
			if c.Bool("json") {
				return report.JSON(c.App.Writer, map[string]string{"version": version, "go": runtime.Version()})
			}
			_, err := fmt.Fprintln(c.App.Writer, "priod", version, runtime.Version())
			return err
		},
	}
}
