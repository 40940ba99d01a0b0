package verbs

import (
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/workload"
	"slurmprio/tests/papers/colocation"
	"slurmprio/tests/papers/traces"
)

func importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "turn a paper's measurements into a workloads file", ArgsUsage: "gavel|synergy FILE",
		Description: "gavel reads a throughput file (simulation_throughputs.json, physical_cluster_throughputs.json), with\n" +
			"--pairs its speeds on shared GPUs; synergy reads its sensitivity profiles as one JSON file. - is standard input.\n" +
			"    papers import gavel --out workloads.toml simulation_throughputs.json",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "pairs", Usage: "write the speeds on shared GPUs (gavel only)"},
			outFlag(),
		},
		Action: importWorkloads,
	}
}

func importWorkloads(c *cli.Context) error {
	kind, path := c.Args().Get(0), c.Args().Get(1)
	if c.NArg() != 2 || kind != "gavel" && kind != "synergy" {
		return usagef("import: want gavel FILE or synergy FILE")
	}
	if c.Bool("pairs") && kind != "gavel" {
		return usagef("import: --pairs goes with gavel")
	}
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	var (
		all     []workload.Workload
		pairs   []traces.Pair
		err     error
		comment = traces.CommentSynergy
	)
	if kind == "gavel" {
		comment = traces.CommentGavel
		all, pairs, err = traces.ImportGavel(in)
	} else {
		all, err = traces.ImportSynergy(in)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.Bool("pairs") {
		if len(pairs) == 0 {
			return fmt.Errorf("%s: no speeds on shared GPUs in it", path)
		}
		return writeOut(c, func(w io.Writer) error { return colocation.WritePairs(w, pairs) })
	}
	return writeOut(c, func(w io.Writer) error { return workload.WriteTOML(w, comment, all) })
}
