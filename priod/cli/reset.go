package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/evict"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/undo"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func resetCommand() *cli.Command {
	return &cli.Command{
		Name: "reset", Usage: "pause priod and revert everything that it wrote",
		Description: "Works from the undo journal beside the database, also when the database is gone.\n" +
			"priod stays paused until priod resume.\n" +
			"    priod reset --dry-run       # look first",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be reverted"},
			jsonFlag(),
		},
		Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			var whom reached
			reset := newReset(cfg, sayTo(c), &whom)
			reset.DryRun = c.Bool("dry-run")
			if reset.DryRun {
				if _, err := reach(c.Context, cfg); err != nil {
					return err
				}
			}
			r, err := reset.Run(c.Context)
			if err != nil {
				return err
			}
			err = answer(c, r, func(w io.Writer) { showReset(w, r, whom.does(silence)) })
			if err == nil && !r.Complete() {
				err = errProblem
			}
			return err
		}),
	}
}

// roundPatience is for how long the writes of one round of reset wait for their turn:
// what users change meanwhile is overwritten.
const roundPatience = 20 * time.Second

// endsWithin is for how long reset waits for jobs whose runs still end: as long as Slurm's KillWait
// by default, within which a job that ignores its signals has ended.
const endsWithin = 30 * time.Second

// newReset is a reset that finds out whom it pauses.
func newReset(cfg *config.Config, say func(string), whom *reached) *undo.Reset {
	slurm := live.New(cfg.Client(roundPatience))
	return &undo.Reset{
		Say: say, Await: endsWithin, Dir: cfg.Journals(), Lock: store.LockOfJournal(cfg.State.Dir), Slurm: slurm, Order: cfg.Decide(),
		Seen:      func(ctx context.Context) (int64, error) { return journalSeen(ctx, cfg) },
		Evictions: func() (*evict.Journal, error) { return store.OpenEvictions(cfg.Journals()) },
		Hold:      func(ctx context.Context) (func(), error) { return holdForReset(ctx, slurm, cfg, say, whom) },
	}
}

// holdForReset pauses priod, waits for its cycle and makes sure that no other priod of this host, and with
// follow_controller none of another host, writes again what reset takes back. Where Slurm does not answer, the pause
// stays: what was to be reverted is not written again meanwhile.
func holdForReset(ctx context.Context, slurm *live.Cluster, cfg *config.Config, say func(string), r *reached) (release func(), err error) {
	elsewhere := daemon.Elsewhere(ctx, slurm, cfg)
	if errors.As(elsewhere, new(daemon.StandBy)) {
		return nil, fmt.Errorf("reset works where the active slurmctld is: %w", elsewhere)
	}
	if cfg.State.Shared != "" {
		if _, err := store.CheckShared(cfg.State.Dir, cfg.State.Shared); err != nil && !errors.Is(err, store.ErrUnowned) {
			return nil, err
		}
	}
	if *r, err = reach(ctx, cfg); err != nil {
		return nil, err
	}
	unlock, err := holdWrites(ctx, cfg, store.PauseBy(operator(), "priod reset"), say)
	if err != nil {
		return nil, err
	}
	giveBack, err := lockHost(ctx, slurm, cfg, r.PID)
	if elsewhere != nil {
		err = elsewhere
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("nothing is reverted: %w; %s: run priod reset again when that is mended", err, r.does(silence))
	}
	return func() { unlock(); giveBack() }, nil
}

// lockHost keeps other priods of this host off the cluster; its own daemon is paused.
func lockHost(ctx context.Context, slurm *live.Cluster, cfg *config.Config, own int) (release func(), err error) {
	name, err := slurm.Identity(ctx)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	lock, err := daemon.NewHostLock(name, cfg.State.Dir)
	var other *daemon.OtherPriodError
	if errors.As(err, &other) && other.Dir != cfg.State.Dir && other.PID != own {
		return nil, err
	}
	return lock.Close, nil // an untrusted holder does not count
}

func showReset(w io.Writer, v *undo.Result, paused string) {
	verb := "taken back"
	if v.DryRun {
		verb = "would be reverted"
	}
	if len(v.Writes) > 0 {
		tabulate(w, []string{"JOB", "LEVER", "BEFORE", "AFTER", "RESULT"}, v.Writes, func(o *plan.Outcome) []any {
			return []any{view.Target(o.Action), string(o.Lever), o.Before.Words(), o.After.Words(), view.Result(*o)}
		})
	}
	fmt.Fprintf(w, "%s %s, %d failed; %s left the queue meanwhile.\n", report.Plural(len(v.Writes)-v.Failed, "value", "values"), verb, v.Failed,
		report.Plural(v.Gone, "job", "jobs"))
	if v.Behind != "" {
		fmt.Fprintln(w, v.Behind+".")
	}
	if n := len(v.Requeued); n > 0 {
		what := "requeued, which priod had evicted"
		if v.DryRun {
			what = "would be requeued, which priod evicted"
		}
		fmt.Fprintf(w, "%s %s: %s.\n", report.Plural(n, "job", "jobs"), what, strings.Trim(fmt.Sprint(v.Requeued), "[]"))
	}
	for _, e := range v.Reservations {
		switch {
		case v.DryRun:
			fmt.Fprintf(w, "reservation %s would be deleted.\n", e.Name)
		case e.Status == slurmplug.Applied:
			fmt.Fprintf(w, "reservation %s is deleted.\n", e.Name)
		default:
			fmt.Fprintf(w, "reservation %s is still there: %s\n", e.Name, report.Safe(e.Message))
		}
	}
	if !v.DryRun {
		fmt.Fprintln(w, report.Safe(paused))
	}
}
