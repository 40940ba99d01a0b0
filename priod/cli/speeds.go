package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/policy/speed"
	"slurmprio/priod/report"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

func workloadsHistoryCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show what this site's accounting teaches of speeds, before it is believed",
		Description: "Reads the completed jobs of Slurm's accounting. A program is a workload, or a user's job name, on one number of\n" +
			"GPUs. Its work is what the tag's steps say, or the command line (speeds.steps); else every run of it counts as the same. Each cell is\n" +
			"TYPE:SPEED, the fastest being 1, how sure that is (two times in three not farther off than this factor), and on\n" +
			"how many runs there it rests: 0 follows from other types and programs. ? is not sure enough to be believed\n" +
			"(speeds.within). --out writes what is believed as a workloads file, to read and to keep.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "how much `TIME` of accounting: 12h, 30d (default: speeds.history)"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write what is believed as workloads to `FILE`; - is standard output"},
			jsonFlag(),
		},
		Before: noArgs, Action: workloadsHistory,
	}
}

// learn reads accounting and learns from it.
func learn(ctx context.Context, cfg *config.Config, table *workload.Table, span time.Duration) (*live.Work, *speed.Knowledge, error) {
	lessons := live.Lessons{Since: time.Now().Add(-span), Shortest: time.Duration(cfg.Speeds.Shortest), Types: cfg.SpeedSettings(), Table: table}
	if cfg.Speeds.Steps != "" {
		lessons.Steps = regexp.MustCompile(cfg.Speeds.Steps) // the configuration was checked
	}
	work, err := live.New(newClient(cfg)).Work(ctx, lessons)
	if err != nil {
		return nil, nil, fmt.Errorf("read accounting: %w", err)
	}
	var h speed.History
	for _, r := range work.Runs {
		h.Add(r)
	}
	return work, h.Learn(), nil
}

type taughtView struct {
	Workload string       `json:"workload,omitempty"`
	User     string       `json:"user,omitempty"`
	Name     string       `json:"job_name,omitempty"`
	GPUs     int          `json:"gpus"`
	Unit     string       `json:"unit"` // of work: steps or runs
	Runs     int          `json:"runs"`
	Cells    []speed.Cell `json:"speeds"`
	Notes    []string     `json:"notes,omitempty"`
}

func workloadsHistory(c *cli.Context) error {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	span := cfg.Speeds.History
	if text := c.String("since"); text != "" || span == 0 {
		if err := span.UnmarshalText([]byte(text)); err != nil || span <= 0 {
			return usagef("workloads history: --since %.40q: want a time such as 12h or 30d", text)
		}
	}
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return usageError{err}
	}
	work, k, err := learn(c.Context, cfg, table, time.Duration(span))
	if err != nil {
		return err
	}
	within := cfg.SpeedSettings().Within
	taught := k.All(work.Types, within)
	if path := c.String("out"); path != "" {
		all := speed.Workloads(taught)
		if len(all) == 0 {
			return fmt.Errorf("%d completed jobs teach nothing that is known to within a factor %v", len(work.Runs), within)
		}
		const comment = "What this site's accounting teaches: steps a second with all GPUs of the job, or runs a\n" +
			"second where nobody said how many steps a run has.\nMade by: priod workloads history --out FILE"
		return writeOut(c, func(w io.Writer) error { return workload.WriteTOML(w, comment, all) })
	}
	views := make([]taughtView, len(taught))
	set := cfg.SpeedSettings()
	for i, t := range taught {
		v := taughtView{Workload: t.Program.Workload, User: t.Program.User, Name: t.Program.Name, GPUs: t.Program.GPUs, Unit: "runs", Runs: t.Runs, Cells: t.Cells}
		if t.Steps {
			v.Unit = "steps"
		}
		if v.Workload != "" {
			j := speed.Job{Tag: jobtag.Tag{Workload: v.Workload}, GPUs: v.GPUs}
			v.Notes = set.For(&j, work.Types, table, k).Notes
		}
		views[i] = v
	}
	if c.Bool("json") {
		return report.JSON(c.App.Writer, map[string]any{"jobs": len(work.Runs), "within_factor": within, "programs": views})
	}
	rows := make([][]any, len(views))
	for i, v := range views {
		name := v.Workload
		if name == "" {
			name = v.User + "'s " + v.Name
		}
		cells := make([]string, len(v.Cells))
		for j, cell := range v.Cells {
			cells[j] = fmt.Sprintf("%s:%.2f x%.2f (%d)", cell.GPUType, cell.Speed, cell.Factor, cell.Runs)
			if !cell.Counts {
				cells[j] += "?"
			}
		}
		rows[i] = []any{report.Safe(name), v.GPUs, v.Runs, v.Unit, strings.Join(cells, "  ")}
	}
	report.Table(c.App.Writer, []string{"PROGRAM", "GPUS", "RUNS", "WORK IN", "SPEEDS (RUNS THERE)"}, rows)
	for _, v := range views {
		for _, n := range v.Notes {
			fmt.Fprintf(c.App.Writer, "%s: %s\n", report.Safe(v.Workload), report.Safe(n))
		}
	}
	return nil
}

// jobSpeeds are a stored job's speeds on the types of the nodes. Accounting is
// asked only when the job does not say enough itself.
func (v *explanation) jobSpeeds(ctx context.Context, cfg *config.Config) {
	if v.Job.GPUs == 0 {
		return
	}
	tag, err := jobtag.Parse(v.Job.Tag)
	if err != nil { // none, or one that does not count
		tag = jobtag.Tag{}
	}
	j := speed.Job{Tag: tag, User: v.Job.User, GPUs: v.Job.GPUs}
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		v.Speeds = &speed.Answers{Notes: []string{err.Error()}}
		return
	}
	set := cfg.SpeedSettings()
	nodes, err := live.New(newClient(cfg)).GPUTypes(ctx)
	if err != nil || len(nodes) == 0 {
		return // the note of slurmNow says why, or there is nothing to say
	}
	answers := set.For(&j, nodes, table, nil)
	told := func(a speed.Answer) bool { return a.Source == speed.Tag || a.Source == speed.Workload }
	if cfg.Speeds.History > 0 && !allOf(answers.Speeds, told) {
		work, k, err := learn(ctx, cfg, table, time.Duration(cfg.Speeds.History))
		if err == nil {
			j.Name = work.Names[v.Job.RawID]
			answers = set.For(&j, nodes, table, k)
			if j.Name == "" && tag.Workload == "" {
				answers.Notes = append(answers.Notes, "history cannot know the job: accounting does not have its name until it may run")
			}
		} else {
			answers.Notes = append(answers.Notes, "history was not asked: "+err.Error())
		}
	}
	v.Speeds = &answers
}

func allOf[T any](s []T, is func(T) bool) bool {
	return !slices.ContainsFunc(s, func(x T) bool { return !is(x) })
}

// showSpeeds is a line for each type.
func (v *explanation) showSpeeds(line func(name, format string, a ...any)) {
	if v.Speeds == nil {
		return
	}
	head := "Speed"
	for _, a := range v.Speeds.Speeds {
		sure := ""
		if a.Factor > 1 {
			sure = fmt.Sprintf(" within a factor %.2f", a.Factor)
		}
		if a.Source == speed.Past {
			sure += fmt.Sprintf(", %s there", plural(a.Runs, "run", "runs"))
		}
		line(head, "%s: %.2f%s, says %s", a.GPUType, a.Speed, sure, a.Source.Words())
		head = ""
	}
	for _, n := range v.Speeds.Notes {
		line(head, "%s", n)
		head = ""
	}
}
