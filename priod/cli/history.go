package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/store"
	"slurmprio/priod/undo"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

// explainHistory shows all that happened to one job.
func explainHistory(c *cli.Context, cfg *config.Config, r *store.Reader) error {
	name, err := oneJob(c)
	if err != nil {
		return err
	}
	id, err := view.Find(c.Context, cfg, r, name)
	if err != nil {
		return err
	}
	story, err := r.Job(c.Context, id, c.Int("most"))
	if err != nil {
		return err
	}
	return show(c, view.Story{Story: &story})
}

func openReader(c *cli.Context) (*config.Config, *store.Reader, error) {
	cfg, err := stateConfig(c)
	if err != nil {
		return nil, nil, err
	}
	at, err := view.ReadMoment(c.String("at"), cfg.State.Dir)
	if err != nil {
		return nil, nil, err
	}
	r, err := store.OpenReaderAt(c.Context, cfg.State.Dir, at)
	if err == nil && r.Moment().IsZero() {
		stamp(c, howSure(c.Context, cfg, r))
	} else if err == nil || c.String("state") != "" {
		return cfg, r, err
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

// jobArg reads one of the jobs that a verb takes.
func jobArg(c *cli.Context, at int) (slurmplug.JobName, error) {
	if c.NArg() <= at {
		return slurmplug.JobName{}, usagef("%s: name one job, such as 17, 17_4 or 17+0", c.Command.Name)
	}
	name, err := slurmplug.ParseJobName(c.Args().Get(at))
	if err != nil {
		return name, usageError{err}
	}
	return name, nil
}

// oneJob reads the one job that a verb takes.
func oneJob(c *cli.Context) (slurmplug.JobName, error) {
	if c.NArg() > 1 {
		return slurmplug.JobName{}, usagef("%s: name one job, such as 17, 17_4 or 17+0", c.Command.Name)
	}
	return jobArg(c, 0)
}

// optionalJob is oneJob for a verb that also does without; then it is nil.
func optionalJob(c *cli.Context) (*slurmplug.JobName, error) {
	if c.NArg() == 0 {
		return nil, nil
	}
	name, err := oneJob(c)
	return &name, err
}
