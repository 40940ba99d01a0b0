package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

func workloadsHistoryCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show speeds learned from this site's accounting, and how sure they are",
		Description: "The daemon learns from the completed jobs of Slurm's accounting (every hour);\n" +
			"this shows what. A program is a workload, or a user's job name, on one number of\n" +
			"GPUs. Its work is what the tag's steps say, or the command line (speeds.steps); else every run of it counts as the same. Each cell is\n" +
			"TYPE:SPEED, the fastest being 1, how sure that is (two times in three not farther off than this factor), and on\n" +
			"how many runs there it rests: 0 follows from other types and programs. ? is less sure than what is used in its\n" +
			"place: speeds.types, else that all types are equally fast. --out writes what is believed as a workloads file, to read and to keep.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "read this much `TIME` of accounting now, 12h or 30d, instead of what the daemon learned"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "write what is believed as workloads to `FILE`; - is standard output"},
			jsonFlag(),
		},
		Before: noArgs, Action: configured(workloadsHistory),
	}
}

// learn reads accounting now and learns from it, as the daemon does in pieces.
func learn(ctx context.Context, cfg *config.Config, table *workload.Table, span time.Duration) (store.Lessons, error) {
	now := time.Now()
	stays, err := live.New(newClient(cfg)).Stays(ctx, now.Add(-span), time.Time{}, cfg.Steps())
	if err != nil {
		return store.Lessons{}, fmt.Errorf("read accounting: %w", err)
	}
	return daemon.Lessons(stays, cfg, table, now), nil
}

// lessons are what the daemon learned, or with --since what accounting teaches now.
func lessons(c *cli.Context, cfg *config.Config, table *workload.Table) (store.Lessons, error) {
	if last, err := sinceOf(c, true); err != nil {
		return store.Lessons{}, err
	} else if last > 0 {
		return learn(c.Context, cfg, table, last)
	}
	r, err := store.OpenReader(c.Context, cfg.State.Dir)
	if err != nil {
		return store.Lessons{}, err
	}
	defer r.Close()
	l, err := r.Lessons(c.Context, nil)
	if err == nil && l.Knowledge == nil {
		err = errors.New("nothing learned yet (speeds.history): --since 14d reads accounting now")
	}
	return l, err
}

type taughtView struct {
	Workload string       `json:"workload,omitempty"`
	User     string       `json:"user,omitempty"`
	Name     string       `json:"job_name,omitempty"`
	GPUs     int          `json:"gpus"`
	Unit     string       `json:"unit"` // of work: steps, runs, or limits: seconds of their time limits
	Runs     int          `json:"runs"`
	Cells    []speed.Cell `json:"speeds"`
	Notes    []string     `json:"notes,omitempty"`
}

func workloadsHistory(c *cli.Context, cfg *config.Config) error {
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return usageError{err}
	}
	l, err := lessons(c, cfg, table)
	if err != nil {
		return err
	}
	set, types := cfg.SpeedSettings(), l.Knowledge.Types()
	taught := set.All(l.Knowledge, types)
	if path := c.String("out"); path != "" {
		all := speed.Workloads(taught)
		if len(all) == 0 {
			return fmt.Errorf("%d completed jobs, too few or too different to learn from", l.Runs)
		}
		const comment = "Learned from this site's accounting: steps a second with all GPUs of the job, or runs a\n" +
			"second, or seconds of their time limits, where the number of steps of a run is unknown.\nMade by: priod workloads history --out FILE"
		return writeOut(c, func(w io.Writer) error { return workload.WriteTOML(w, comment, all) })
	}
	views := make([]taughtView, len(taught))
	for i, t := range taught {
		v := taughtView{Workload: t.Program.Workload, User: t.Program.User, Name: t.Program.Name, GPUs: t.Program.GPUs, Unit: t.Unit.String(), Runs: t.Runs, Cells: t.Cells}
		if v.Workload != "" {
			j := speed.Job{Tag: jobtag.Tag{Workload: v.Workload}, GPUs: v.GPUs}
			v.Notes = set.For(&j, types, table, l.Knowledge).Notes
		}
		views[i] = v
	}
	return answer(c, map[string]any{"learned": l.At, "jobs": l.Runs, "programs": views}, func(w io.Writer) { showTaught(w, views) })
}

// showTaught is a line for each program, or one that says that there is none.
func showTaught(w io.Writer, views []taughtView) {
	if len(views) == 0 {
		fmt.Fprintln(w, "Nothing: accounting has no completed job on a typed GPU that ran for a minute or longer.")
		return
	}
	tabulate(w, []string{"PROGRAM", "GPUS", "RUNS", "WORK IN", "SPEEDS (RUNS THERE)"}, views, func(v *taughtView) []any {
		cells := make([]string, len(v.Cells))
		for j, cell := range v.Cells {
			cells[j] = fmt.Sprintf("%s:%.2f x%.2f (%d)", cell.GPUType, cell.Speed, cell.Factor, cell.Runs)
			if !cell.Counts {
				cells[j] += "?"
			}
		}
		program, gpus := cmp.Or(v.Workload, v.User+"'s "+v.Name), any(v.GPUs)
		if v.Workload == "" && v.User == "" {
			program, gpus = v.Name+", all users", "any"
		}
		return []any{program, gpus, v.Runs, v.Unit, strings.Join(cells, "  ")}
	})
	for _, v := range views {
		for _, n := range v.Notes {
			fmt.Fprintf(w, "%s: %s\n", report.Safe(v.Workload), report.Safe(n))
		}
	}
}
