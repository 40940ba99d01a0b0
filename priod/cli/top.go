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
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "show GPUs by type, evictions under way and the head of the queue on one screen",
		Description: "It reads the state folder only, at no cost for slurmctld, and ends with Ctrl-C. If the output is not a\n" +
			"terminal, it is shown once, with ten jobs.",
		Flags:  []cli.Flag{everyFlag(), jsonFlag()},
		Before: checked(noArgs, validEvery),
		Action: reading(func(c *cli.Context, cfg *config.Config, r *store.Reader) error {
			if c.Bool("json") {
				v, err := readTop(c.Context, cfg, r, 10)
				if err != nil {
					return err
				}
				return answer(c, v, nil)
			}
			return onScreen(c, func(ctx context.Context, w io.Writer, rows int) error {
				v, err := readTop(ctx, cfg, r, max(10, rows))
				if err == nil {
					sure := howSure(ctx, cfg, r)
					sure.show(w)
					v.show(w)
				}
				return err
			})
		}),
	}
}

// topView is what stands on the screen.
type topView struct {
	Cycle     store.Cycle       `json:"cycle"`
	Types     []*report.TypeUse `json:"gpu_types"`
	Evictions []store.Eviction  `json:"evictions_under_way"`
	Jobs      []headJob         `json:"first_of_the_queue"`
	AllJobs   int               `json:"pending"`
}

// headJob is a job at the head of the queue.
type headJob struct {
	Job   cluster.JobID `json:"job"`
	User  string        `json:"user"`
	Class string        `json:"class"` // te, be, or - when it is left alone
	GPUs  int           `json:"gpus"`
	WaitS int64         `json:"wait_s"`
	Cause string        `json:"cause,omitempty"` // of its wait
	Words string        `json:"words,omitempty"`
}

func readTop(ctx context.Context, cfg *config.Config, r *store.Reader, most int) (*topView, error) {
	v := &topView{}
	var err error
	if v.Cycle, err = r.LastCycle(ctx); err != nil {
		return nil, err
	}
	v.Cycle.Hold = store.HoldNow(cfg.Journals(), v.Cycle.Hold)
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	v.Types = report.ByType(nodes)
	past, err := r.Evictions(ctx, most) // those under way come first
	if err != nil {
		return nil, err
	}
	for i := range past {
		if past[i].Ended.IsZero() {
			v.Evictions = append(v.Evictions, past[i])
		}
	}
	waiting, all, err := r.Pending(ctx, "", 0, most)
	if err != nil {
		return nil, err
	}
	v.AllJobs = all
	for i := range waiting {
		v.Jobs = append(v.Jobs, headOf(&waiting[i]))
	}
	return v, nil
}

func headOf(w *store.Waiting) headJob {
	j := headJob{Job: w.Job.ID, User: w.Job.User, Class: "-", GPUs: w.Job.GPUs}
	since := w.Job.Eligible
	if d := w.Decision; d != nil {
		if d.Ranked {
			j.Class = d.Class.String()
		}
		if !d.Since.IsZero() {
			since = d.Since
		}
	}
	if !since.IsZero() {
		j.WaitS = max(seconds(time.Since(since)), 0)
	}
	if w.Now != nil {
		j.Cause, j.Words = string(w.Now.Cause), w.Now.Words
	}
	return j
}

func (v *topView) show(w io.Writer) {
	fmt.Fprintf(w, "cluster %s, cycle %d, %s ago: %s waiting, %d of them TE; %d running\n", report.Safe(v.Cycle.Cluster), v.Cycle.Number,
		report.Ago(time.Since(v.Cycle.Until)), plural(v.Cycle.Pending, "job", "jobs"), v.Cycle.TE, v.Cycle.Running)
	showHold(w, v.Cycle.Hold)
	fmt.Fprintln(w)
	tabulate(w, []string{"TYPE", "NODES", "GPUS", "IN USE", "FREE", "STRANDED", ""}, v.Types, func(t **report.TypeUse) []any {
		return []any{cmp.Or((*t).GPUType, "no type"), (*t).Nodes, (*t).GPUs, (*t).InUse, (*t).Free, (*t).Stranded, bar(*t)}
	})
	if len(v.Evictions) > 0 {
		fmt.Fprintln(w)
		tabulate(w, []string{"LEAVES", "USER", "GPUS", "NODES", "FOR", "USER", "STATE"}, v.Evictions, func(e *store.Eviction) []any {
			return []any{e.Victim, e.VictimUser, e.GPUs, e.Nodes, e.For, e.ForUser, report.Mark{Text: fmt.Sprint(e.State), Meaning: report.Note}}
		})
	}
	fmt.Fprintln(w)
	tabulate(w, []string{"JOB", "USER", "CLASS", "GPUS", "WAIT", "WAITS FOR", ""}, v.Jobs, func(j *headJob) []any {
		return []any{j.Job, j.User, classMark(j.Class), j.GPUs, report.Ago(time.Duration(j.WaitS) * time.Second), j.Cause, j.Words}
	})
	if more := v.AllJobs - len(v.Jobs); more > 0 {
		fmt.Fprintf(w, "and %d more (priod queue)\n", more)
	}
}

// bar shows in 20 places what part of a type's GPUs is in use and what part is stranded.
func bar(t *report.TypeUse) report.Marks {
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
