package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

func reportFailures(c *cli.Context, cfg *config.Config, r *store.Reader) (err error) {
	set := cfg.Retries()
	if set.Rules == nil {
		if set.Rules, err = retry.Load(cfg.Retry.Rules); err != nil {
			return err
		}
	}
	since, until := period(c)
	turn, err := r.FailuresSince(c.Context, since)
	if err != nil {
		return err
	}
	nodes, err := r.CountNodes(c.Context)
	if err != nil {
		return err
	}
	f := view.OfFailures(since, until, &turn, &set, nodes)
	if err := writePage(c, func() *report.Page { return failurePage(f) }); err != nil {
		return err
	}
	return answer(c, f, func(w io.Writer) {
		showFailures(w, f, c.Int("most"))
		if !cfg.Retry.Enabled {
			fmt.Fprintln(w, "\nretry.enabled is false: jobs that fail now are not looked at.")
		}
	})
}

func showFailures(w io.Writer, f *view.Failures, most int) {
	fmt.Fprintln(w, failureWords(f))
	showTables(w, failureTables(f), most, "--most, --json")
	for _, d := range f.Drained {
		fmt.Fprintln(w, report.Safe(drainedWords(&d)))
	}
}

func failureWords(f *view.Failures) string {
	return fmt.Sprintf("From %s to %s: %s, %.2f GPU-hours; %d requeued, %d of them held.", report.Clock(f.Since), report.Clock(f.Until),
		report.Plural(f.Count, "failure", "failures"), f.GPUHours, f.Requeued, f.Held)
}

func drainedWords(d *retry.Drained) string {
	return fmt.Sprintf("Drained: %s for %s at %s.", d.Node, d.Class, report.Clock(d.At))
}

// failurePage shows the same with a plot.
func failurePage(f *view.Failures) *report.Page {
	p := &report.Page{Title: "Why jobs failed", Words: []string{failureWords(f)}, Tables: failureTables(f)}
	for i := range f.Drained {
		p.Words = append(p.Words, drainedWords(&f.Drained[i]))
	}
	var bars []report.Bar
	for _, c := range f.ByClass[:min(len(f.ByClass), mostBars)] {
		bars = append(bars, report.Bar{Name: c.Name, Value: c.GPUHours})
	}
	if len(bars) > 0 {
		p.Plots = []report.Figure{{Title: "GPU-hours of the runs that failed, by class", YLabel: "GPU-hours", Bars: bars}}
	}
	return p
}

// failureTables are the same for a page and for a terminal.
func failureTables(f *view.Failures) []report.PageTable {
	sums := func(title string, all []view.FailuresOf) report.PageTable {
		return tableOf(title, []string{title, "FAILURES", "JOBS", "USERS", "GPU-HOURS", "RAN P50", "P90", "THE SAME AGAIN", "REQUEUED", ""}, all, func(x *view.FailuresOf) []any {
			return []any{x.Name, x.Count, x.Jobs, x.Users, fmt.Sprintf("%.2f", x.GPUHours), seconds50(x.P50), seconds50(x.P90), x.Repeats, x.Requeued, x.Text}
		})
	}
	return []report.PageTable{
		sums("CLASS", f.ByClass), sums("USER", f.ByUser),
		tableOf("JOB", []string{"JOB", "USER", "ENDED", "NODES", "CLASS", "THEN", "ADVICE"}, f.Latest, func(x *retry.Failure) []any {
			return []any{x.Job.String(), x.User, report.Clock(x.End), strings.Join(x.Nodes, ","), x.Class, view.DoneAbout(x), x.Advice}
		}),
		tableOf("Suspect nodes: jobs of several users failed alike there, and less elsewhere", []string{"NODE", "CLASS", "FAILURES", "USERS"}, f.Suspects, func(s *retry.Suspect) []any {
			return []any{s.Node, s.Class, s.Failures, strings.Join(s.Users, ",")}
		}),
	}
}

func seconds50(v *float64) string {
	if v == nil {
		return ""
	}
	return report.Ago(time.Duration(*v * float64(time.Second)))
}
