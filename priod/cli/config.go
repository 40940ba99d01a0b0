package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/report"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "the configuration",
		Subcommands: []*cli.Command{{
			Name: "show", Usage: "print the configuration in effect: the defaults with the file over them",
			Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
			Action: func(c *cli.Context) error {
				cfg, err := loadConfig(c)
				if err != nil {
					return err
				}
				if c.Bool("json") {
					return report.JSON(c.App.Writer, cfg)
				}
				text, err := cfg.TOML()
				if err != nil {
					return err
				}
				source := "built-in defaults only"
				if cfg.Path != "" {
					source = "defaults and " + cfg.Path
				}
				_, err = fmt.Fprintf(c.App.Writer, "# %s\n%s", report.Safe(source), text)
				return err
			},
		}},
		Action: func(c *cli.Context) error {
			return usagef("config: say what to do: config show")
		},
	}
}
