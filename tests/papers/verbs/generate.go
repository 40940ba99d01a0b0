package verbs

import (
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	priod "slurmprio/priod/cli"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/traces"
)

func generateCommand() *cli.Command {
	return &cli.Command{
		Name: "generate", Usage: "make a synthetic trace as one of the papers does; the same seed gives the same bytes",
		Subcommands: generators(func(c *cli.Context, jobs []trace.Job) error {
			return writeOut(c, func(w io.Writer) error { return trace.WriteCSV(w, jobs) })
		}, outFlag()),
		Action: func(*cli.Context) error { return usagef("generate: say which: gavel, synergy, fitgpp or philly") },
	}
}

// generate makes a trace as the words of --generate say.
func generate(words string) (made []trace.Job, err error) {
	app := priod.Within("--generate")
	app.Commands = generators(func(_ *cli.Context, jobs []trace.Job) error {
		made = jobs
		return nil
	})
	app.Action = func(*cli.Context) error {
		return usagef("%.80q: want gavel, synergy, fitgpp or philly and its flags", words)
	}
	for _, g := range app.Commands {
		g.HideHelp = true // its flag is one value for all that run at once
	}
	if err := app.Run(append([]string{app.Name}, strings.Fields(words)...)); err != nil {
		return nil, usagef("--generate %w", err)
	}
	if made == nil { // --help
		return nil, usagef("--generate: see papers generate --help")
	}
	return made, nil
}

// generators are the commands that make a trace, and hand it to emit.
func generators(emit func(*cli.Context, []trace.Job) error, more ...cli.Flag) []*cli.Command {
	rate := func(usual float64) cli.Flag {
		return &cli.Float64Flag{Name: "jobs-per-hour", Value: usual, Usage: "arrivals by a Poisson process of this `RATE`; inf: all jobs at once"}
	}
	multi := &cli.BoolFlag{Name: "multi-gpu", Usage: "jobs of 1, 2, 4 and 8 GPUs (70, 10, 15, 5 %) instead of 1"}
	all := []*cli.Command{
		generator("gavel", "the traces of Gavel (OSDI 2020)", 5000, []cli.Flag{
			rate(5.6), multi,
			&cli.Float64Flag{Name: "high-priority", Usage: "`SHARE` of jobs with weight 5 (paper: 0.2 where it studies priorities)"},
			&cli.BoolFlag{Name: "slo", Usage: "deadlines of 1.2, 2 or 10 times the run time on a V100"},
			workloadsFlag(),
		}, func(c *cli.Context) ([]trace.Job, error) {
			w, err := workload.Load(c.String("workloads"))
			if err != nil {
				return nil, err
			}
			return traces.GenerateGavel(traces.GavelParams{
				Seed: c.Uint64("seed"), Jobs: c.Int("jobs"), JobsPerHour: c.Float64("jobs-per-hour"), MultiGPU: c.Bool("multi-gpu"),
				HighPriority: c.Float64("high-priority"), SLO: c.Bool("slo"), Workloads: w,
			})
		}, emit),
		generator("synergy", "the dynamic traces of Synergy (OSDI 2022)", 12000, []cli.Flag{
			rate(9), multi,
			&cli.StringFlag{Name: "split", Value: "20,70,10", Usage: "`PERCENT` of image, language and speech jobs"},
			workloadsFlag(),
		}, func(c *cli.Context) ([]trace.Job, error) {
			w, err := workload.Load(c.String("workloads"))
			if err != nil {
				return nil, err
			}
			split, err := parseSplit(c.String("split"))
			if err != nil {
				return nil, err
			}
			return traces.GenerateSynergy(traces.SynergyParams{
				Seed: c.Uint64("seed"), Jobs: c.Int("jobs"), JobsPerHour: c.Float64("jobs-per-hour"), MultiGPU: c.Bool("multi-gpu"),
				Split: split, Workloads: w,
			})
		}, emit),
		generator("fitgpp", "the synthetic workload of FitGpp (OpML 2019)", 1<<16, []cli.Flag{
			&cli.StringFlag{Name: "mix", Value: "even", Usage: "demands, which the paper does not give: `MIX` is " + strings.Join(traces.FitGppMixes, " or ")},
			&cli.Float64Flag{Name: "te-share", Value: 0.3, Usage: "`SHARE` of trial-and-error jobs"},
			&cli.Float64Flag{Name: "load", Usage: "Poisson arrivals at this `LOAD` (default: recorded from a FIFO run held at 2.0)"},
			&cli.StringFlag{Name: "nodes", Value: "84:gpu:8:32:262144", Usage: "the nodes that jobs are drawn to fit, `COUNT:TYPE:GPUS:CPUS:MEM_MB`"},
		}, func(c *cli.Context) ([]trace.Job, error) {
			cluster, err := trace.ParseNodes([]string{c.String("nodes")})
			if err != nil {
				return nil, err
			}
			return traces.GenerateFitGpp(traces.FitGppParams{
				Seed: c.Uint64("seed"), Jobs: c.Int("jobs"), Mix: c.String("mix"), TEShare: c.Float64("te-share"),
				Load: c.Float64("load"), Node: cluster.Nodes[0],
			})
		}, emit),
		generator("philly", "a workload like that of Philly (ATC 2019)", 100_000, []cli.Flag{
			rate(traces.PhillyJobsPerHour),
			&cli.BoolFlag{Name: "passed-only", Usage: "no jobs that fail or are killed"},
		}, func(c *cli.Context) ([]trace.Job, error) {
			return traces.GeneratePhilly(traces.PhillyParams{
				Seed: c.Uint64("seed"), Jobs: c.Int("jobs"), JobsPerHour: c.Float64("jobs-per-hour"), Failures: !c.Bool("passed-only"),
			})
		}, emit),
	}
	for _, g := range all {
		g.Flags = append(g.Flags, more...)
	}
	return all
}

// generator is one of them. What it refuses is wrong usage.
func generator(name, usage string, jobs int, flags []cli.Flag, generate func(*cli.Context) ([]trace.Job, error), emit func(*cli.Context, []trace.Job) error) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Before: noArgs,
		Flags: append([]cli.Flag{
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`NUMBER` that settles all that is drawn"},
			&cli.IntFlag{Name: "jobs", Value: jobs, Usage: "how many `JOBS` to make"},
		}, flags...),
		Action: func(c *cli.Context) error {
			made, err := generate(c)
			if err != nil {
				return priod.WrongUsage(err)
			}
			return emit(c, made)
		},
	}
}

func parseSplit(s string) (split [3]float64, err error) {
	parts := strings.Split(s, ",")
	if len(parts) != len(split) {
		return split, usagef("--split %.40q: want three percentages, such as 20,70,10", s)
	}
	for i, p := range parts {
		if split[i], err = strconv.ParseFloat(strings.TrimSpace(p), 64); err != nil {
			return split, usagef("--split %.40q: %.20q is no number", s, p)
		}
	}
	return split, nil
}
