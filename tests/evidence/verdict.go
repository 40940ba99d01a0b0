package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// weekSetups are rows of the weeks, beside what is tried.
var weekSetups = []setup{shipped, expert}

// wanted are the figures of a week that are judged: none may be more than 2 % worse than under Slurm as it ships, some have a limit of their own.
var wanted = []struct {
	name   string
	digits int // in tables
	of     func(*figures) float64
	most   func(slurm, expert *figures) float64 // nil: none but that of all
	why    string
}{
	{"mean completion, h", 2, func(f *figures) float64 { return f.MeanH }, func(s, e *figures) float64 { return min(s.MeanH, e.MeanH) }, "the better of Slurm's and the expert's"},
	{"TE completion, s", 0, func(f *figures) float64 { return f.TEMeanS }, func(_, e *figures) float64 { return 1.05 * e.TEMeanS }, "1.05 x the expert's"},
	{"TE slowdown p95", 1, func(f *figures) float64 { return f.TESlowdownP95 }, nil, ""},
	{"TE wait p95, s", 0, func(f *figures) float64 { return f.TEWaitP95S }, func(_, e *figures) float64 { return e.TEWaitP95S + 60 }, "the expert's + 60 s"},
	{"TE wait p99, s", 0, func(f *figures) float64 { return f.TEWaitP99S }, func(_, e *figures) float64 { return e.TEWaitP99S + 60 }, "the expert's + 60 s"},
	{"BE completion, h", 2, func(f *figures) float64 { return f.BEMeanH }, nil, ""},
	{"BE slowdown p50", 2, func(f *figures) float64 { return f.BESlowdownP50 }, nil, ""},
	{"BE slowdown p95", 1, func(f *figures) float64 { return f.BESlowdownP95 }, func(s, _ *figures) float64 { return s.BESlowdownP95 }, "Slurm's as it ships"},
}

// failures are the figures of one week that miss what is wanted by more than a thousandth.
func failures(ours, slurm, expert *figures) (list []string) {
	for _, want := range wanted {
		v, most, why := want.of(ours), 1.02*want.of(slurm), "1.02 x Slurm's as it ships"
		if want.most != nil && want.most(slurm, expert) < most {
			most, why = want.most(slurm, expert), want.why
		}
		if v > 1.001*most {
			list = append(list, fmt.Sprintf("%s %.6g, at most %.6g: %s", want.name, v, most, why))
		}
	}
	return list
}

// verdict writes what setup number i, from 0, missed in any week, and in all of them together.
func verdict(w io.Writer, weeks []*week, sets []setup, i int) {
	fmt.Fprintf(w, "\n%s:\n\n", sets[i].text)
	failed, missed := 0, 0
	var ours, experts float64
	for _, k := range weeks {
		list := failures(&k.rows[i], &k.rows[0], &k.rows[1])
		if missed += len(list); len(list) > 0 {
			fmt.Fprintf(w, "* %s: %s.\n", k, strings.Join(list, "; "))
			failed++
		}
		ours, experts = ours+k.rows[i].Evictions, experts+k.rows[1].Evictions
	}
	word := "reached"
	if ours > experts/2 {
		word = "missed"
	}
	fmt.Fprintf(w, "* Evictions in all weeks: %.0f, wanted at most %.0f, half of the expert's: %s.\n* %d of %d weeks reach all that is wanted; %d figures miss it.\n", ours, experts/2, word, len(weeks)-failed, len(weeks), missed)
}

// String names the week in tables.
func (w *week) String() string {
	if w.steady {
		return fmt.Sprintf("%s, %d, steady", w.log.text, w.first)
	}
	return fmt.Sprintf("%s, %d", w.log.text, w.first)
}

// startWeeks measures weeks of public logs, each as it was and steady, and prints a table of them and the verdict.
func startWeeks(ctx context.Context, args []string, w io.Writer) error {
	var o options
	flags, configs := o.flags("weeks")
	data := flags.String("data", "", "`FOLDER` of the logs")
	days := flags.String("days", "", "only weeks from these `DAYS` of each log on, with commas")
	only := flags.String("log", "", "only this `LOG`: venus, philly")
	kind := flags.String("kind", "", "only weeks of this `KIND`: was, steady")
	table := flags.String("table", "short", "`FORM` of the table: short, markdown (docs/evidence/weeks.md)")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	want := pick{log: *only, kind: *kind}
	for text := range strings.SplitSeq(*days, ",") {
		day, err := strconv.Atoi(text)
		if *days != "" && (err != nil || day < 0) {
			return fmt.Errorf("%w: --days %q: want whole numbers from 0", errUsage, *days)
		} else if *days != "" {
			want.days = append(want.days, day)
		}
	}
	known := slices.ContainsFunc(publicLogs, func(l publicLog) bool { return want.log == "" || want.log == l.name })
	if *data == "" || flags.NArg() > 0 || o.workers < 1 || !known || !slices.Contains(append(weekKinds, ""), *kind) || !slices.Contains([]string{"short", "markdown"}, *table) {
		return fmt.Errorf("%w: want --data FOLDER, no arguments, --workers from 1, --log venus or philly, --kind was or steady, --table short or markdown", errUsage)
	}
	tries, err := tried(*configs)
	if err != nil {
		return err
	}
	weeks, err := weeksOf(*data, o.dir, want)
	if err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	s.done = func(int) {} // the rows tell
	rows := w
	if *table == "markdown" {
		rows = os.Stderr
	}
	sets := slices.Concat(weekSetups, tries)
	fmt.Fprintf(rows, "%-25s %5s %5s %-20s %7s %6s %7s %13s %7s %12s %9s %6s\n", "week from day", "jobs", "nodes", "", "mean, h", "TE, s", "TE sd95", "wait 95, 99", "BE, h", "sd 50, 95", "evictions", "lost")
	for some := range slices.Chunk(weeks, o.workers) {
		if err := s.measure(ctx, some, sets); err != nil {
			return err
		}
		for _, k := range some {
			for i, f := range k.rows {
				fmt.Fprintf(rows, "%-25s %5d %5d %-20s %7.2f %6.0f %7.1f %6.0f %6.0f %7.2f %5.2f %6.1f %9.0f %6.0f\n", k, len(k.jobs), k.nodes, sets[i].name, f.MeanH, f.TEMeanS, f.TESlowdownP95,
					f.TEWaitP95S, f.TEWaitP99S, f.BEMeanH, f.BESlowdownP50, f.BESlowdownP95, f.Evictions, f.GPUHoursLost)
			}
		}
	}
	if *table == "markdown" {
		weeksPage(w, weeks, sets)
	}
	for i := len(weekSetups); i < len(sets); i++ {
		verdict(w, weeks, sets, i)
	}
	return nil
}

// weeksPage is docs/evidence/weeks.md without its verdict.
func weeksPage(w io.Writer, weeks []*week, sets []setup) {
	fmt.Fprintf(w, `# Weeks of public logs

Made by `+"`go run ./tests/evidence weeks --data FOLDER --table markdown`"+` in %s. Helios Venus and Philly's jobs that
passed (both CC-BY-4.0), not kept here: nine weeks of each. One GPU type, as many nodes of 8
GPUs as make a load of 0.9, jobs of less than half an hour as TE, limits 1.2 to 4 times the run, 40 users drawn as in [the combined workload](all-four.md#the-workload). BE
jobs have 60 s to leave, save their state every half hour and when told to leave; a later run costs 60 s.

*As it was*: the week begins empty, and the load counts run time beyond its end, so that 48 to 73 %% of Philly's GPU-hours are used. *Steady*: the jobs that
run when it begins are submitted at its start with what remains of them, and the load counts GPU time within it.
`, time.Now().Format("January 2006"))
	var names []string
	for i := range sets {
		names = append(names, shortName(sets[i]))
	}
	for _, steady := range []bool{false, true} {
		fmt.Fprintf(w, "\n## %s\n\nEach cell: %s.\n\n| week from day | jobs, nodes |", map[bool]string{false: "As it was", true: "Steady"}[steady], strings.Join(names, "; "))
		for _, want := range wanted {
			fmt.Fprintf(w, " %s |", want.name)
		}
		fmt.Fprintf(w, " evictions (Slurm: 0) | GPU-h lost (Slurm: 0) |\n|%s\n", strings.Repeat(" --- |", len(wanted)+4))
		for _, k := range weeks {
			if k.steady == steady {
				k.markdown(w)
			}
		}
	}
	fmt.Fprintf(w, `
## What is wanted, and what misses it

In each week TE wait p95 and p99 at most the expert's + 60 s, TE completion at most 1.05 times the expert's, mean completion at most the better of Slurm's as it ships and
the expert's, BE slowdown p95 at most that of Slurm as it ships; no figure of any class more than 2 %% worse than under Slurm as it ships; over all weeks at most half of the
expert's evictions. A thousandth more is no miss.
`)
}

// markdown is a week's row: each cell has the figure of every setup, but what evictions alone bring.
func (w *week) markdown(out io.Writer) {
	cell := func(digits int, rows []figures, of func(*figures) float64) {
		var values []string
		for i := range rows {
			values = append(values, strconv.FormatFloat(of(&rows[i]), 'f', digits, 64))
		}
		fmt.Fprintf(out, " %s |", strings.Join(values, ", "))
	}
	fmt.Fprintf(out, "| %s, %d | %d, %d |", w.log.text, w.first, len(w.jobs), w.nodes)
	for _, want := range wanted {
		cell(want.digits, w.rows, want.of)
	}
	cell(0, w.rows[1:], func(f *figures) float64 { return f.Evictions })
	cell(0, w.rows[1:], func(f *figures) float64 { return f.GPUHoursLost })
	io.WriteString(out, "\n")
}

// shortName names a setup in few words.
func shortName(s setup) string {
	switch s.name {
	case shipped.name:
		return "Slurm as it ships"
	case expert.name:
		return "an expert's Slurm"
	}
	return s.text
}
