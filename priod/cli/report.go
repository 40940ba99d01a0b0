package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "reports on what priod has seen and done",
		Subcommands: []*cli.Command{{
			Name: "preemptions", Usage: "what preemption brought TE jobs, and cost BE jobs",
			Description: "Counts the GPU jobs submitted, and the evictions recorded, within the last TIME, as far as the\n" +
				"state folder keeps them, without jobs that came and went between two polls.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`: 12h, 30d"},
				htmlFlag(),
				jsonFlag(),
			},
			Before: checked(noArgs, validSpan), Action: reading(reportPreemptions),
		}, {
			Name: "sizing", Usage: "GPUs without CPUs or memory, idle CPUs next to jobs that could use them, requests far above use",
			Description: "Reads the queue and the nodes as they are now. With --since it reads Slurm's accounting too, where\n" +
				"JobAcctGatherType measures, and shows which programs had at least twice the CPUs that they can use, with\n" +
				"the options for their next script. All figures of programs are for each GPU.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "since", Usage: "how much `TIME` of accounting: 12h, 30d (default: none)"},
				htmlFlag(),
				jsonFlag(),
			},
			Before: noArgs, Action: configured(reportSizing),
		}, {
			Name: "failures", Usage: "why jobs failed, what was done about it, which nodes are suspect",
			Description: "What the daemon found within the last TIME (retry.enabled): jobs by class and by user, the last\n" +
				"failure of each with advice, and the nodes on which jobs of several users failed alike.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`: 12h, 30d"},
				htmlFlag(),
				mostFlag(20, "show `N` rows of each table"),
				jsonFlag(),
			},
			Before: checked(noArgs, validSpan, validMost), Action: reading(reportFailures),
		}, reportClassesCommand(), reportETACommand(), reportHistoryCommand(), reportLearningCommand(), reportNodesCommand(), reportUsageCommand(), reportValueCommand(), reportWaitsCommand()},
		Action: which("report: say which: classes, eta, failures, history, learning, nodes, preemptions, sizing, usage, value or waits"),
	}
}

func reportPreemptions(c *cli.Context, _ *config.Config, r *store.Reader) error {
	since, until := period(c)
	stays, err := r.JobsSince(c.Context, since)
	if err != nil {
		return err
	}
	evictions, err := r.EvictionsSince(c.Context, since)
	if err != nil {
		return err
	}
	p := view.OfPreemptions(since, until, stays, evictions)
	if err := writePage(c, func() *report.Page { return preemptionPage(p) }); err != nil {
		return err
	}
	return answer(c, p, func(w io.Writer) { showPreemptions(w, p) })
}

func showPreemptions(w io.Writer, p *view.Preemptions) {
	fmt.Fprintf(w, "From %s to %s.\n", report.Clock(p.Since), report.Clock(p.Until))
	showTables(w, []report.PageTable{delays(p)}, 3, "")
	if e := &p.Evictions; e.Any() {
		fmt.Fprintln(w)
		showSum(w, e)
		showTables(w, victims(p), math.MaxInt, "")
	} else {
		fmt.Fprintln(w, "\nNo job was evicted for a TE job.")
	}
	for _, of := range otherEvictions(p) {
		fmt.Fprintln(w, "\n"+of.title+":")
		showSum(w, of.sum)
	}
}

// evictionsFor are those with one purpose.
type evictionsFor struct {
	title string
	sum   *view.Evictions
}

// otherEvictions are those that were for no TE job.
func otherEvictions(p *view.Preemptions) (all []evictionsFor) {
	for _, of := range []evictionsFor{{"At the end of rounds, for BE jobs that were owed their GPUs", &p.Rounds}, {"To free nodes for gangs", &p.Gangs}} {
		if of.sum.Any() {
			all = append(all, of)
		}
	}
	return all
}

// preemptionPage shows the same with a plot.
func preemptionPage(p *view.Preemptions) *report.Page {
	page := &report.Page{Title: "What preemption brought and cost", Words: []string{fmt.Sprintf("From %s to %s.", report.Clock(p.Since), report.Clock(p.Until))}}
	var bars []report.Bar
	for _, of := range append([]evictionsFor{{"For TE jobs", &p.Evictions}}, otherEvictions(p)...) {
		var text strings.Builder
		showSum(&text, of.sum)
		page.Words = append(page.Words, of.title+": "+strings.TrimSpace(text.String()))
	}
	for _, v := range p.ByUser[:min(len(p.ByUser), mostBars)] {
		bars = append(bars, report.Bar{Name: v.Name, Value: v.Lost})
	}
	first := delays(p)
	first.Title = "Waits of TE jobs, slowdowns of BE jobs"
	page.Tables = append([]report.PageTable{first}, victims(p)...)
	if len(bars) > 0 {
		page.Plots = []report.Figure{{Title: "GPU-hours lost for TE jobs, by user", YLabel: "GPU-hours", Bars: bars}}
	}
	return page
}

func formatted(v *float64, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// delays are how long TE jobs waited, and how much longer BE jobs took.
func delays(p *view.Preemptions) report.PageTable {
	waiting := ""
	if p.TE.Waiting > 0 {
		waiting = fmt.Sprintf("%d more wait", p.TE.Waiting)
	}
	slowdown := func(s *view.Slowdowns, name string) []any {
		return []any{name, s.Jobs, formatted(s.P50, "%.2f"), formatted(s.P95, "%.2f"), formatted(s.P99, "%.2f"), ""}
	}
	return report.PageTable{Header: []string{"", "JOBS", "P50", "P95", "P99", ""}, Rows: [][]any{
		{"TE: wait", p.TE.Jobs, formatted(p.TE.P50, "%.0fs"), formatted(p.TE.P95, "%.0fs"), formatted(p.TE.P99, "%.0fs"), waiting},
		slowdown(&p.BE, "BE: slowdown"), slowdown(&p.Evicted, "  of the evicted"),
	}}
}

// victims are the jobs that left for TE jobs, and for which.
func victims(p *view.Preemptions) []report.PageTable {
	left := func(title string, all []view.Victims) report.PageTable {
		return tableOf(title, []string{title, "EVICTIONS", "JOBS", "GPU-HOURS LOST", "KEPT", "BROKEN", "TOOK P50", "P95"}, all, func(v *view.Victims) []any {
			return []any{cmp.Or(v.Name, "(none)"), v.Count, v.Jobs, fmt.Sprintf("%.2f", v.Lost), v.Kept, v.Broken, formatted(v.P50, "%.0fs"), formatted(v.P95, "%.0fs")}
		})
	}
	return []report.PageTable{
		left("LEFT: USER", p.ByUser), left("LEFT: WORKLOAD", p.ByWorkload),
		tableOf("FOR: USER", []string{"FOR: USER", "EVICTIONS", "TE JOBS", "GPU-HOURS LOST"}, p.ForUser, func(b *view.Benefits) []any {
			return []any{b.User, b.Count, b.Jobs, fmt.Sprintf("%.2f", b.Lost)}
		}),
	}
}

func showSum(w io.Writer, e *view.Evictions) {
	var how []string
	for _, word := range slices.Sorted(maps.Keys(e.How)) {
		how = append(how, fmt.Sprintf("%s %d", word, e.How[word]))
	}
	fmt.Fprintf(w, "%s (%s), %d under way, %d called off before the signal.\n", report.Plural(e.Count, "eviction", "evictions"), strings.Join(how, ", "), e.Underway, e.CalledOff)
	fmt.Fprintf(w, "Lost: %.2f GPU-hours; %.2f were expected.\n", e.Lost, e.Promised)
	if told := e.Kept + e.Broken; told > 0 {
		fmt.Fprintf(w, "Left within the grace period: %d of %d (%.0f %%).\n", e.Kept, told, 100*float64(e.Kept)/float64(told))
	}
}
