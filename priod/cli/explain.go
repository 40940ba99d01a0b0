package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"slurmprio/etc"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name: "explain", Usage: "say why a job waits or what became of it, when it starts, and what can be done", ArgsUsage: "JOBID...",
		Description: "Why the job waits or what became of it, when it is expected to start, and what can be done; then what was\n" +
			"known, decided and written in the last cycle. --all adds each figure. --history shows the past decisions, writes and runs\n" +
			"instead, newest first. --victims shows which running jobs would leave now for a TE job, and why others stay, also while\n" +
			"preemption is off; for a gang, which waits though enough GPUs are free, the small jobs that would move: with consent to\n" +
			"evictions (type=be), on part of a node, with room elsewhere, those that lose least work. Only the daemon evicts.\n" +
			"    priod explain 4711\n" +
			"    priod explain 4711_3        # a task of an array\n" +
			"    priod explain 4711+1        # a component of a heterogeneous job\n" +
			"    priod explain --json 4711 4712\n" +
			"    priod explain --victims     # all gangs\n" +
			"Users who may not read the state folder are answered about their own jobs by the daemon, on its host.\n" +
			"For programs --json says all of it as fields, which --schema describes as a JSON Schema (draft 2020-12). Several\n" +
			"jobs cost Slurm no more than one.",
		Flags: append(stateFlags(),
			jsonFlag(), &cli.BoolFlag{Name: "all", Usage: "print every figure"},
			&cli.BoolFlag{Name: "history", Usage: "show all that happened to one job"},
			&cli.BoolFlag{Name: "victims", Usage: "show the jobs that would leave for one job, or without JOBID for all gangs, and why others stay"},
			mostFlag(50, "how many `ROWS` of each table of --history and --victims"),
			&cli.BoolFlag{Name: "schema", Usage: "print the JSON Schema of what --json prints for one job"},
		),
		Before: validMost,
		Action: func(c *cli.Context) error {
			switch {
			case c.Bool("history") && c.Bool("victims"):
				return usagef("explain: --history or --victims, not both")
			case c.Bool("victims") && (c.IsSet("at") || c.IsSet("state")):
				return usagef("explain: --victims asks Slurm as it is now: leave --state and --at out")
			case c.Bool("history"):
				if _, err := oneJob(c); err != nil {
					return err
				}
				return reading(explainHistory)(c)
			case c.Bool("victims"):
				return explainVictims(c)
			case c.Bool("schema") && c.NArg() > 0:
				return usagef("explain: --schema is the same for all jobs: name none")
			case c.Bool("schema"):
				_, err := io.WriteString(c.App.Writer, etc.ExplainSchema)
				return err
			}
			return explainJobs(c)
		},
	}
}

// several are the explanations of several jobs.
type several struct {
	Jobs    []*view.Explanation `json:"jobs"`
	Unknown []unknownJob        `json:"unknown"`
}

type unknownJob struct {
	Job   string `json:"job"` // as it was named
	Error string `json:"error"`
}

func (v several) show(w io.Writer, all bool) {
	for i, x := range v.Jobs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		x.Show(w, all)
	}
}

// explainJobs explains the jobs that are known, and ends with status 1 when some of several are not.
func explainJobs(c *cli.Context) error {
	names := make([]slurmplug.JobName, max(c.NArg(), 1))
	for i := range names {
		var err error
		if names[i], err = jobArg(c, i); err != nil {
			return err
		}
	}
	cfg, r, err := openReader(c)
	if err != nil && (c.IsSet("at") || c.IsSet("state")) {
		return err
	}
	if err != nil {
		return askDaemon(c, cfg, c.Args().Slice(), err)
	}
	defer r.Close()
	v := several{Jobs: []*view.Explanation{}, Unknown: []unknownJob{}}
	for i, x := range view.Explain(c.Context, cfg, r, names) {
		switch {
		case x.Err == nil:
			v.Jobs = append(v.Jobs, x.Explanation)
		case len(names) == 1:
			return x.Err
		default:
			v.Unknown = append(v.Unknown, unknownJob{names[i].String(), x.Err.Error()})
		}
	}
	show := func(w io.Writer) { v.show(w, c.Bool("all")) }
	if len(names) == 1 {
		return answer(c, v.Jobs[0], show)
	}
	err = answer(c, v, show)
	for _, x := range v.Unknown {
		fmt.Fprintf(c.App.ErrWriter, "priod: %s: %s\n", x.Job, report.Safe(x.Error))
	}
	if err == nil && len(v.Unknown) > 0 {
		err = errProblem
	}
	return err
}
