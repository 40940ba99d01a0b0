package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "the configuration",
		Subcommands: []*cli.Command{{
			Name: "show", Usage: "print the configuration in effect: the defaults with the file over them",
			Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
			Action: configured(func(c *cli.Context, cfg *config.Config) error {
				source := "built-in defaults only"
				if cfg.Path != "" {
					source = "defaults and " + cfg.Path
				}
				text, err := cfg.TOML()
				if err != nil {
					return err
				}
				return answer(c, cfg, func(w io.Writer) { fmt.Fprintf(w, "# %s\n%s", report.Safe(source), text) })
			}),
		}},
		Action: which("config: say what to do: config show"),
	}
}
