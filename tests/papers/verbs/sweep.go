package verbs

import (
	"github.com/urfave/cli/v2"

	priod "slurmprio/priod/cli"
)

func sweepCommand() *cli.Command {
	return &cli.Command{
		Name: "sweep", Usage: "simulate a grid of policies, loads and seeds", ArgsUsage: "FILE",
		Description: "FILE is TOML: title, metrics, [base] and [grid], whose keys are simulate's flags. Every point is kept in a file of its\n" +
			"own, so an interrupted sweep can be resumed. The seed axis is averaged over.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "keep results and the page in `FOLDER` (default: FILE without .toml, .results)"},
			&cli.IntFlag{Name: "workers", DefaultText: "all cores", Usage: "simulate `POINTS` in parallel"},
			&cli.StringFlag{Name: "part", Usage: "simulate only part `K/N` of the points, K from 0"},
			&cli.BoolFlag{Name: "show", Usage: "simulate nothing, show existing results"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("sweep: name the study's FILE")
			}
			return priod.RunSweep(c, priod.Sweep{Simulate: simulatePoint, File: c.Args().First(), Verb: []string{"sweep"}, Tasks: 1})
		},
	}
}
