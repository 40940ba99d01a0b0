package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func queueCommand() *cli.Command {
	return &cli.Command{
		Name: "queue", Usage: "show GPUs by type, evictions under way, and pending jobs in scheduling order with class and reason",
		Description: "CLASS: te, be, or - where priod leaves the job alone. WHY: the reason in one word, which\n" +
			"priod explain JOBID spells out. SLURM SAYS: squeue's reason. WAITS FOR: what keeps it from starting.\n" +
			"Slurm is read for the order, each time with --watch; --stored shows that of the last cycle, at no cost for slurmctld.",
		Flags: append(stateFlags(),
			&cli.IntFlag{Name: "most", Aliases: []string{"n"}, Usage: "only the first `ROWS`; 0: all"},
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "only jobs of `USER`"},
			&cli.BoolFlag{Name: "stored", Usage: "do not ask Slurm: the order of the last cycle"},
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "refresh on a terminal until Ctrl-C"},
			everyFlag(), jsonFlag(),
		),
		Before: checked(noArgs, validEvery, func(c *cli.Context) error {
			if c.Bool("watch") && c.Bool("json") {
				return usagef("queue: --watch shows a screen, --json an object: give one of them")
			}
			if c.Bool("watch") && (c.IsSet("at") || c.IsSet("state")) {
				return usagef("queue: --watch follows the present, --state and --at read the past: leave one of them out")
			}
			if n := c.Int("most"); n < 0 {
				return usagef("queue: --most %d: want 0 (all) or more", n)
			}
			return nil
		}),
		Action: reading(func(c *cli.Context, cfg *config.Config, r *store.Reader) error {
			read := func(ctx context.Context) (*view.Queue, error) {
				v, err := view.ReadQueue(ctx, cfg, r, !c.Bool("stored"))
				if err == nil {
					v.Only(c.String("user"), c.Int("most"))
				}
				return v, err
			}
			if !c.Bool("watch") {
				v, err := read(c.Context)
				if err != nil {
					return err
				}
				return answer(c, v, func(w io.Writer) { showQueue(w, v) })
			}
			return onScreen(c, func(ctx context.Context, w io.Writer, _ int) error {
				v, err := read(ctx)
				if err == nil {
					sure := howSure(ctx, cfg, r)
					sure.show(w)
					showQueue(w, v)
				}
				return err
			})
		}),
	}
}

func showQueue(w io.Writer, v *view.Queue) {
	fmt.Fprintf(w, "cluster %s: %s pending, %d of them TE; %d running; decided in cycle %d, %s ago\n", report.Safe(v.Cluster), report.Plural(v.Pending, "job", "jobs"), v.TE,
		v.Running, v.Cycle, report.Ago(time.Duration(v.AgeS)*time.Second))
	showHold(w, v.Hold)
	fmt.Fprintln(w)
	tabulate(w, []string{"TYPE", "NODES", "GPUS", "IN USE", "FREE", "STRANDED", "DOWN", ""}, v.Types, func(t **view.TypeUse) []any {
		return []any{cmp.Or((*t).GPUType, "no type"), (*t).Nodes, (*t).GPUs, (*t).InUse, (*t).Free, (*t).Stranded, (*t).Down, bar(*t)}
	})
	if len(v.Evictions) > 0 {
		fmt.Fprintln(w)
		tabulate(w, []string{"LEAVES", "USER", "GPUS", "NODES", "FOR", "USER", "STATE"}, v.Evictions, func(e *store.Eviction) []any {
			return []any{e.Victim, e.VictimUser, e.GPUs, e.Nodes, e.For, e.ForUser, report.Mark{Text: fmt.Sprint(e.State), Meaning: report.Note}}
		})
	}
	fmt.Fprintln(w)
	header := []string{"PLACE", "JOB", "USER", "ACCOUNT", "PARTITION", "CLASS", "GPUS", "WAIT", "STARTS", "PRIORITY", "WHY", "SLURM SAYS", "WAITS FOR", ""}
	tabulate(w, header, v.Jobs, func(q *view.Job) []any {
		gpus := fmt.Sprint(q.GPUs)
		if q.GPUType != "" {
			gpus += " " + q.GPUType
		}
		if q.Steer != "" && q.Features != "" {
			gpus += " " + q.Features
		}
		return []any{q.Place, slurmplug.Update{Job: q.Job, Tasks: q.Tasks}.Target(), q.User, q.Account, q.Partition, classMark(q.Class), gpus,
			report.Ago(time.Duration(q.WaitS) * time.Second), q.StartsShort(), q.Priority, q.Why, q.Reason, q.Cause, q.CauseText}
	})
	if v.Left > 0 {
		fmt.Fprintf(w, "and %d more\n", v.Left)
	}
	for _, n := range v.Notes {
		fmt.Fprintln(w, "note:", report.Safe(n))
	}
}

// bar shows in 20 places what part of a type's GPUs is in use and what part is stranded.
func bar(t *view.TypeUse) report.Marks {
	parts := t.Parts()
	used, stranded := parts[0]/5, parts[2]/5
	return report.Marks{{Text: strings.Repeat("#", used), Meaning: report.Good}, {Text: strings.Repeat("x", stranded), Meaning: report.Bad}, {Text: strings.Repeat(".", 20-used-stranded)}}
}

func classMark(class string) any {
	if class == cluster.TE.String() {
		return report.Mark{Text: class, Meaning: report.TE}
	}
	return class
}

func showHold(w io.Writer, hold string) {
	if hold != "" {
		fmt.Fprintln(w, report.Mark{Text: "nothing is written: " + hold, Meaning: report.Bad})
	}
}
