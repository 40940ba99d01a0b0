package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

func reportClassesCommand() *cli.Command {
	return &cli.Command{
		Name: "classes", Usage: "what made jobs TE or BE: each class rule, QOS, consent or tag, with its jobs and waits",
		Description: "Counts the GPU jobs submitted within the last TIME by what decided their class, with the GPU-hours that they\n" +
			"used and how long they waited. A class rule without a line had no job.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`: 12h, 30d"},
			jsonFlag(),
		},
		Before: checked(noArgs, validSpan), Action: reading(reportClasses),
	}
}

func reportClasses(c *cli.Context, _ *config.Config, r *store.Reader) error {
	since, until := period(c)
	jobs, err := r.JobsSince(c.Context, since)
	if err != nil {
		return err
	}
	p := view.OfClasses(since, until, jobs)
	return answer(c, p, func(w io.Writer) {
		fmt.Fprintf(w, "From %s to %s.\n", report.Clock(p.Since), report.Clock(p.Until))
		if len(p.By) == 0 {
			fmt.Fprintln(w, "No cycle has seen a GPU job.")
			return
		}
		fmt.Fprintln(w)
		tabulate(w, []string{"BECAUSE OF", "CLASS", "JOBS", "USERS", "GPU-HOURS", "WAIT P50", "P95", "RUN P50", "WAITING"}, p.By, func(x *view.Classed) []any {
			return []any{x.Words(), cmp.Or(x.Class, "-"), x.Jobs, x.Users, fmt.Sprintf("%.1f", x.GPUHours), agoOf(x.P50), agoOf(x.P95), agoOf(x.Ran), x.Waiting}
		})
	})
}

// agoOf is a time in s, "-" where it is unknown.
func agoOf(s *float64) string {
	if s == nil {
		return "-"
	}
	return report.Ago(time.Duration(*s * float64(time.Second)))
}

func reportLearningCommand() *cli.Command {
	return &cli.Command{
		Name: "learning", Usage: "whether GPU types chosen by learned speeds were right",
		Description: "Of the completed jobs that were given a GPU type by a speed that priod had learned, how many ran faster there\n" +
			"than on the mean of the cluster's types, which is what Slurm gives a job that names none, and whether the speed\n" +
			"was as believed, within a factor of 1.25, both by what is known now. Slower is no fault where others gain more\n" +
			"from the fast types. Speeds that a tag or workloads.toml says are no guess, and are left out. The most costly\n" +
			"come first.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`: 12h, 30d"},
			mostFlag(20, "show `N` programs"),
			jsonFlag(),
		},
		Before: checked(noArgs, validSpan, validMost), Action: reading(reportLearning),
	}
}

func reportLearning(c *cli.Context, cfg *config.Config, r *store.Reader) error {
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return usageError{err}
	}
	since, until := period(c)
	given, err := r.TypesGivenSince(c.Context, since)
	if err != nil {
		return err
	}
	lessons, err := r.Lessons(c.Context, nil)
	if err != nil {
		return err
	}
	types, err := r.GPUTypes(c.Context)
	if err != nil {
		return err
	}
	nodes, err := r.Nodes(c.Context)
	if err != nil {
		return err
	}
	gpus, set := map[string]int{}, cfg.SpeedSettings()
	for i := range nodes {
		gpus[nodes[i].GPUType] += nodes[i].GPUs
	}
	runs := make([]view.Given, len(given))
	for i := range given {
		job := speed.Job{Tag: given[i].Tag.Tag, User: given[i].User, Name: given[i].Name, GPUs: given[i].GPUs}
		runs[i] = view.Given{TypeGiven: given[i], Now: set.For(&job, types, table, lessons.Knowledge).Speeds}
	}
	l := view.OfLearning(since, until, runs, gpus)
	return answer(c, l, func(w io.Writer) { showLearning(w, l, c.Int("most")) })
}

// saved are GPU-hours, without a sign where they round to 0.
func saved(hours float64) string { return fmt.Sprintf("%.2f", math.Round(hours*100)/100+0) }

func showLearning(w io.Writer, l *view.Learning, most int) {
	fmt.Fprintf(w, "From %s to %s: %s completed on the GPU type that a learned speed chose.\n", report.Clock(l.Since), report.Clock(l.Until), report.Plural(l.Jobs, "job", "jobs"))
	if l.Jobs == 0 {
		return
	}
	fmt.Fprintf(w, "Against the mean of the types: %d faster, %d slower, %d the same; %s GPU-hours saved.\n", l.Better, l.Worse, l.Jobs-l.Better-l.Worse, saved(l.SavedGPU))
	fmt.Fprintf(w, "Speed there, known now: %d as believed, %d lower, %d higher.\n\n", l.Held, l.Misled, l.Jobs-l.Held-l.Misled)
	tabulate(w, []string{"USER", "JOB NAME", "TYPE", "JOBS", "BELIEVED THEN", "KNOWN NOW", "GPU-HOURS SAVED"}, l.Programs[:min(most, len(l.Programs))], func(p *view.Guessed) []any {
		return []any{p.User, p.Name, p.GPUType, p.Jobs, fmt.Sprintf("%.2f", p.Believed), fmt.Sprintf("%.2f", p.Now), saved(p.SavedGPU)}
	})
	if rest := len(l.Programs) - most; rest > 0 {
		fmt.Fprintf(w, "%d more with --most.\n", rest)
	}
}
