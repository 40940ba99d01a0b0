package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "print the configuration in effect",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "effective", Usage: "print the configuration in effect, and the source of each value that is not a default"}},
		Subcommands: []*cli.Command{{
			Name: "show", Usage: "print the configuration in effect: the defaults with the file over them",
			Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
			Action: configured(showConfig),
		}, {
			Name: "lua", Usage: "print prio_rules.lua for etc/slurm/job_submit.lua",
			Flags:  []cli.Flag{&cli.DurationFlag{Name: "hold", Value: 20 * time.Second, Usage: "`TIME` to hold jobs that priod may steer or size, up to 1m"}, outFlag()},
			Before: noArgs, Action: configured(luaRules),
		}},
		Action: func(c *cli.Context) error {
			if c.Bool("effective") && c.NArg() == 0 {
				return configured(showConfig)(c)
			}
			return which("config: say what to do: config show, or config --effective")(c)
		},
	}
}

func showConfig(c *cli.Context, cfg *config.Config) error {
	source := "built-in defaults only"
	if cfg.Path != "" {
		source = "defaults and " + cfg.Path
	}
	text, err := cfg.Effective()
	if err != nil {
		return err
	}
	return answer(c, cfg, func(w io.Writer) { fmt.Fprintf(w, "# %s\n%s", report.Safe(source), text) })
}
