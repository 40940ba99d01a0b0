package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

func reportETACommand() *cli.Command {
	return &cli.Command{
		Name: "eta", Usage: "whether jobs started when they were expected to",
		Description: "Each waiting GPU job, of the first 10,000 of the queue, is told when it starts: in half of the cases by the one time, in nine of\n" +
			"ten by the other (priod explain). The first that was said of each job is kept, and scored when it starts. HELD is the\n" +
			"part that started by the second time; ERROR the median distance from the first, beside that of time limits.",
		Flags:  []cli.Flag{&cli.StringFlag{Name: "since", Value: "7d", Usage: "what was said in the last `TIME`: 12h, 30d"}, jsonFlag()},
		Before: noArgs, Action: reading(reportETA),
	}
}

func reportETA(c *cli.Context, _ *config.Config, r *store.Reader) error {
	last, err := span(c, "report", false)
	if err != nil {
		return err
	}
	until := time.Now()
	promises, err := r.PromisesSince(c.Context, until.Add(-last))
	if err != nil {
		return err
	}
	e := view.OfETA(until.Add(-last), until, promises)
	return answer(c, e, func(w io.Writer) { showETA(w, e) })
}

func showETA(w io.Writer, e *view.ETA) {
	fmt.Fprintf(w, "From %s to %s: %s.\n", report.Clock(e.Since), report.Clock(e.Until), e.Words())
	if e.All.Promised == 0 {
		return
	}
	part := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f %%", 100**x)
	}
	length := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return report.Seconds(*x)
	}
	for _, t := range []struct {
		title string
		rows  []view.ETAOf
	}{{"SIZE", append([]view.ETAOf{e.All}, e.BySize...)}, {"PARTITION", e.ByPartition}} {
		fmt.Fprintln(w)
		tabulate(w, []string{t.title, "EXPECTED", "SCORED", "HELD", "STARTED", "ERROR", "BY LIMITS", "WITHIN 1m", "WITHIN 10m"}, t.rows, func(o *view.ETAOf) []any {
			return []any{o.Name, o.Promised, o.Scored, part(o.Held), o.Started, length(o.ErrorS), length(o.LimitsS), part(o.Minute), part(o.TenMin)}
		})
	}
}
