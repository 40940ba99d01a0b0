package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/priod/workload"
)

func reportNodesCommand() *cli.Command {
	return &cli.Command{
		Name: "nodes", Usage: "speed of nodes against others of their GPU type, and which are slow beyond doubt",
		Description: "Compares the run times of completed jobs that ended within the last TIME, as far as the daemon keeps\n" +
			"them (speeds.history), with runs of the same program on as many GPUs and nodes. How that is done, and how\n" +
			"sure it is: docs/features/slow-nodes.md.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "14d", Usage: "the last `TIME`: 12h, 30d"},
			&cli.StringFlag{Name: "gpu-type", Usage: "only nodes with GPUs of this `TYPE`"},
			mostFlag(20, "show `N` nodes, and all that are slow"),
			jsonFlag(),
		},
		Before: checked(noArgs, validSpan, validMost), Action: reading(reportNodes),
	}
}

func reportNodes(c *cli.Context, cfg *config.Config, r *store.Reader) error {
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return usageError{err}
	}
	since, until := period(c)
	stays, err := r.StaysSince(c.Context, since)
	if err != nil {
		return err
	}
	set := cfg.SpeedSettings()
	runs := set.Completed(stays, cfg.Constants.ShortestRun, table)
	p := view.OfNodes(since, until, runs, c.String("gpu-type"))
	return answer(c, p, func(w io.Writer) {
		showNodes(w, p, c.Int("most"))
		if cfg.Speeds.History == 0 {
			fmt.Fprintln(w, "\nspeeds.history is 0s: the daemon reads no accounting.")
		}
	})
}

func showNodes(w io.Writer, p *view.Nodes, most int) {
	fmt.Fprintf(w, "From %s to %s: %s on %s, %d of them slow beyond doubt.\n", report.Clock(p.Since), report.Clock(p.Until),
		report.Plural(p.Jobs, "completed job", "completed jobs"), report.Plural(len(p.Nodes), "node", "nodes"), p.Slow)
	if len(p.Nodes) == 0 {
		return
	}
	fmt.Fprintln(w)
	tabulate(w, []string{"NODE", "TYPE", "RUNS", "TIMES AS LONG", "BETWEEN", "DOUBT", "", "MOST OF ALL"}, p.Nodes[:min(max(most, p.Slow), len(p.Nodes))], func(n *nodespeed.Node) []any {
		factor, between, doubt, verdict, worst := "", "", "", "", ""
		if n.Factor != nil {
			factor = fmt.Sprintf("%.2f", *n.Factor)
		}
		if n.Low != nil {
			between = fmt.Sprintf("%.2f and %.2f", *n.Low, *n.High)
		}
		if n.Doubt < 1 {
			doubt = fmt.Sprintf("%.1g", n.Doubt)
		}
		if n.Slow {
			verdict = "slow"
		}
		if len(n.Where) > 0 {
			x := &n.Where[0]
			worst = fmt.Sprintf("%s: %.2f (%s)", x.Words(), x.Factor, report.Plural(x.Runs, "run", "runs"))
		}
		return []any{n.Name, n.GPUType, n.Runs, factor, between, doubt, verdict, worst}
	})
	if rest := len(p.Nodes) - max(most, p.Slow); rest > 0 {
		fmt.Fprintf(w, "%d more with --most.\n", rest)
	}
}
