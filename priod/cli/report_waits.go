package cli

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

// mostPassed are the rows of a long table that a terminal shows.
const mostPassed = 20

func reportWaitsCommand() *cli.Command {
	return &cli.Command{
		Name: "waits", Usage: "why GPU jobs waited: capacity, fragmentation, limits, priority",
		Description: "Sums up the waits of GPU jobs within the last TIME by cause, times the GPUs that they asked for:\n" +
			"by the size of jobs, user, account, partition and GPU type. Lists the jobs that were overtaken and\n" +
			"started later than with first come, first served. Causes, and what helps: docs/features/waits.md.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`: 12h, 30d"},
			htmlFlag(),
			jsonFlag(),
		},
		Before: checked(noArgs, validSpan), Action: reading(reportWaits),
	}
}

func reportWaits(c *cli.Context, _ *config.Config, r *store.Reader) error {
	since, until := period(c)
	last, err := r.LastCycle(c.Context)
	if err != nil {
		return err
	}
	seen := until // nothing was seen since the last cycle
	if last.Until.Before(seen) {
		seen = cluster.Later(since, last.Until)
	}
	waited, waiters, err := r.WaitsSince(c.Context, since, seen)
	if err != nil {
		return err
	}
	runs, err := r.RunsSince(c.Context, since)
	if err != nil {
		return err
	}
	w := view.OfWaiting(since, until, waited, waiters, runs)
	if err := writePage(c, w.Page); err != nil {
		return err
	}
	return answer(c, w, func(out io.Writer) { showWaits(out, w) })
}

func showWaits(w io.Writer, r *view.Waiting) {
	fmt.Fprintf(w, "From %s to %s.\n", report.Clock(r.Since), report.Clock(r.Until))
	if r.All.Jobs == 0 {
		fmt.Fprintln(w, "\nNo GPU job waited.")
		return
	}
	showTables(w, r.Tables(), mostPassed, "--json")
}
