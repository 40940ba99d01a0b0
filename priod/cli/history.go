package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

func reportHistoryCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "past cycles and writes",
		Description: "Newest first. A row stands for POLLS polls with the same decisions. RENUMBERED of the WRITES are\n" +
			"beyond the fewest possible, because a gap between values was used up; HELD BACK: why nothing was written.\n" +
			"What happened to one job: priod explain --history JOBID.",
		Flags:  []cli.Flag{mostFlag(20, "how many `ROWS` of each table"), jsonFlag()},
		Before: checked(noArgs, validMost), Action: reading(reportHistory),
	}
}

func reportHistory(c *cli.Context, _ *config.Config, r *store.Reader) error {
	cycles, err := r.Cycles(c.Context, c.Int("most"))
	if err != nil {
		return err
	}
	writes, err := r.Writes(c.Context, c.Int("most"))
	if err != nil {
		return err
	}
	return answer(c, map[string]any{"cycles": cycles, "writes": writes}, func(w io.Writer) {
		tabulate(w, []string{"CYCLE", "AT", "POLLS", "JOBS", "RANKED", "TE", "WRITES", "RENUMBERED", "HELD BACK"}, cycles, func(x *store.Cycle) []any {
			return []any{x.Number, clock(x.At), x.Polls, x.Jobs, x.Ranked, x.TE, x.Actions, x.Renumbered, x.Hold}
		})
		fmt.Fprintln(w)
		showWrites(w, writes, true)
	})
}

// explainHistory shows all that happened to one job.
func explainHistory(c *cli.Context) error {
	n, err := most(c)
	if err != nil {
		return err
	}
	name, err := jobArg(c)
	if err != nil {
		return err
	}
	return reading(func(c *cli.Context, cfg *config.Config, r *store.Reader) error {
		id, err := lookUp(c.Context, cfg, r, name)
		if err != nil {
			return err
		}
		story, err := r.Job(c.Context, id, n)
		if err != nil {
			return err
		}
		return answer(c, story, func(w io.Writer) { showHistory(w, &story) })
	})(c)
}

func showHistory(w io.Writer, story *store.Story) {
	fmt.Fprintf(w, "Job %s of %s: first seen %s, %s now.\n\n", story.Job.ID, report.Safe(story.Job.User), clock(story.Job.Seen), story.Job.State)
	tabulate(w, []string{"CYCLE", "DECIDED", "CLASS", "VALUE", "WHY", "DETAIL"}, story.Decisions, func(d *store.Decision) []any {
		return []any{d.Cycle, clock(d.At), d.Class.String(), d.Value, d.Why, cmp.Or(d.Unmoved, d.Detail)}
	})
	fmt.Fprintln(w)
	showWrites(w, story.Writes, false)
	if len(story.Stays) == 0 {
		return
	}
	fmt.Fprintln(w)
	tabulate(w, []string{"STARTED", "ENDED", "GPUS", "TYPE", "GPU-SECONDS", "CLASS"}, story.Stays, func(x *store.Stay) []any {
		end := clock(x.End)
		if !x.Closed {
			end = "running"
		}
		return []any{clock(x.Start), end, x.GPUs, x.GPUType, fmt.Sprintf("%.0f", x.GPUSeconds), x.Class.String()}
	})
}

func showWrites(w io.Writer, writes []store.Write, withJob bool) {
	header := []string{"CYCLE", "AT", "LEVER", "BEFORE", "AFTER", "WHY", "RESULT"}
	if withJob {
		header = append([]string{"JOB", "USER"}, header...)
	}
	tabulate(w, header, writes, func(x *store.Write) []any {
		field := x.Field()
		if withJob { // which names the tasks
			field = string(x.Lever)
		}
		row := []any{x.Cycle, clock(x.At), field, x.Before.Words(), x.After.Words(), x.Reason, result(x.Outcome)}
		if withJob {
			row = append([]any{target(x.Action), x.User}, row...)
		}
		return row
	})
}

func openReader(c *cli.Context) (*config.Config, *store.Reader, error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return nil, nil, err
	}
	r, err := store.OpenReader(c.Context, cfg.State.Dir)
	if err == nil {
		stamp(c, howSure(c.Context, cfg, r))
	} else if state, unasked := askState(c.Context, cfg); unasked == nil && state.Dir != cfg.State.Dir {
		err = fmt.Errorf("%w; the priod that runs here (process %d) has the state folder %s", err, state.PID, state.Dir)
	}
	return cfg, r, err
}

// history is what the daemon knows, for a plan that is only shown. Without a
// database it is what the undo journal tells.
func history(ctx context.Context, cfg *config.Config, log hclog.Logger) (*cluster.History, error) {
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err == nil {
		defer r.Close()
		return r.History(ctx, cfg.Journals())
	}
	h := cluster.NewHistory()
	journal, unread := undo.Open(cfg.Journals(), "")
	if unread != nil {
		return nil, unread
	}
	if _, missing := os.Stat(filepath.Join(cfg.State.Dir, "priod.db")); !errors.Is(missing, fs.ErrNotExist) {
		log.Warn("the plan is made without priod's history", "error", err)
	}
	h.Remember(func(j *cluster.Job, inherits bool) { journal.Recall(h, j, inherits) })
	return h, nil
}

// journalSeen is how many records the journal had when the database last saw it.
func journalSeen(ctx context.Context, cfg *config.Config) (int64, error) {
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.JournalSeen(ctx)
}

// jobArg reads the one job that a verb takes.
func jobArg(c *cli.Context) (slurmplug.JobName, error) {
	if c.NArg() != 1 {
		return slurmplug.JobName{}, usagef("%s: name one job, such as 17, 17_4 or 17+0", c.Command.Name)
	}
	name, err := slurmplug.ParseJobName(c.Args().First())
	if err != nil {
		return name, usageError{err}
	}
	return name, nil
}

// optionalJob is jobArg for a verb that also does without; then it is nil.
func optionalJob(c *cli.Context) (*slurmplug.JobName, error) {
	if c.NArg() == 0 {
		return nil, nil
	}
	name, err := jobArg(c)
	return &name, err
}

// lookUp finds the id of a job that was named: a component in what the cycles stored, or
// without a reader in Slurm's queue, a run by its SLUID there alone.
func lookUp(ctx context.Context, cfg *config.Config, r *store.Reader, name slurmplug.JobName) (cluster.JobID, error) {
	switch {
	case name.SLUID == "" && name.Offset < 0:
		return name.Job, nil
	case name.SLUID == "" && r != nil:
		return r.Component(ctx, name.Job.ID, name.Offset)
	}
	jobs, err := newClient(cfg).Jobs(ctx)
	if err != nil {
		return cluster.JobID{}, fmt.Errorf("look for job %s: %w", name, err)
	}
	return inQueue(jobs, name)
}

// inQueue finds a job that was named by its SLUID, or a component, in Slurm's queue.
func inQueue(jobs []slurmplug.Job, name slurmplug.JobName) (cluster.JobID, error) {
	for i := range jobs {
		j := &jobs[i]
		if name.SLUID != "" && j.SLUID == name.SLUID || name.SLUID == "" && j.HetID == name.Job.ID && j.HetOffset == name.Offset {
			return j.ID, nil
		}
	}
	return cluster.JobID{}, fmt.Errorf("no job %s is in Slurm's queue", name)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
