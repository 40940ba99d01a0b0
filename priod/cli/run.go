package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/allocate"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/daemon"
	"slurmprio/priod/evict"
	"slurmprio/priod/live"
	"slurmprio/priod/locality"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "the daemon: decide and write, cycle after cycle",
		Description: "Runs until SIGTERM; SIGHUP reads the configuration again. With --dry-run it shows one\n" +
			"cycle's plan and writes nothing, neither to Slurm nor to the state folder.\n" +
			"    priod run                   # the daemon, as systemd starts it\n" +
			"    priod run --once            # decide and write once, show it, and end",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "run one cycle and stop"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show what one cycle would write"},
			setFlag(""),
			jsonFlag(),
		},
		Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			log := newLogger(cfg, c.App.ErrWriter)
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if len(c.StringSlice("set")) > 0 && !c.Bool("dry-run") {
				return usagef("run: --set goes with --dry-run; the daemon reads priod.toml alone")
			}
			if c.Bool("dry-run") {
				return showPreview(ctx, c, cfg, log)
			}
			if c.Bool("json") && !c.Bool("once") {
				return usagef("run: --json goes with --once or --dry-run")
			}
			logAdvice(log, cfg)
			st, err := store.Open(ctx, cfg.State.Dir, store.Options{Shared: cfg.State.Shared, Once: c.Bool("once"), Retention: time.Duration(cfg.State.Retention), Logger: log})
			if err != nil {
				return err
			}
			defer st.Close()
			d := &daemon.Daemon{
				Config: cfg, Store: st, Log: log, Version: c.App.Version,
				Reload: func() (*config.Config, error) {
					cfg, err := config.Load(c.String("config"))
					if err == nil {
						logAdvice(log, cfg)
					}
					return cfg, err
				},
				Connect: func(cfg *config.Config) daemon.Slurm {
					st.SetRetention(time.Duration(cfg.State.Retention))
					return live.New(newClient(cfg)).Watching(sources(cfg))
				},
				Lock:  daemon.NewHostLock,
				Pages: Pages(c.App.Version), OwnJobs: ownHandler,
				Check: findings,
			}
			if c.Bool("once") {
				result, err := d.Once(ctx)
				if errors.As(err, new(daemon.StandBy)) {
					return showStandBy(c, err)
				}
				if err != nil {
					return err
				}
				return showResult(c, &result)
			}
			hup := make(chan os.Signal, 1) // several in a row are one
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			return d.Run(ctx, hup)
		}),
	}
}

// logAdvice says what a file of an earlier version had better not have.
func logAdvice(log hclog.Logger, cfg *config.Config) {
	for _, text := range cfg.Advice {
		log.Warn("configuration", "config", cfg.Path, "advice", text)
	}
}

// showStandBy says that another host's priod has the cluster: nothing is wrong.
func showStandBy(c *cli.Context, err error) error {
	return answer(c, map[string]string{"standby": err.Error()}, func(w io.Writer) {
		fmt.Fprintln(w, "nothing is written:", report.Safe(err.Error()))
	})
}

// preview runs one cycle that writes nothing, with the history of the state
// folder if there is one.
func preview(ctx context.Context, cfg *config.Config, log hclog.Logger) (cycle.Result, error) {
	h, err := history(ctx, cfg, log)
	if err != nil {
		return cycle.Result{}, err
	}
	journal, err := store.OpenEvictions(cfg.Journals())
	if err != nil {
		journal = evict.NewJournal() // history has said why
	}
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return cycle.Result{}, err
	}
	slurm, state := live.New(newClient(cfg)), cycle.NewState()
	state.Journal = journal
	state.Uses.At = time.Now()
	state.Uses.Past = daemon.UsesKnown(ctx, slurm, cfg, state.Uses.At, log)
	set := cfg.Features(slurm, table, state)
	set.DryRun = true
	if set.Allocation.Ledger, err = ledger(ctx, cfg, slurm, &set.Allocation.Settings); err != nil {
		return cycle.Result{}, err
	}
	if cfg.Locality.SlowNodes {
		if set.Refusals.Slow, err = slowNodes(ctx, cfg, table); err != nil {
			return cycle.Result{}, err
		}
	}
	return cycle.Step(ctx, slurm, nil, h, set)
}

// slowNodes are those that the daemon would find in what it has read of accounting; not
// known without a state folder.
func slowNodes(ctx context.Context, cfg *config.Config, table *workload.Table) (slow locality.SlowNodes, err error) {
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err != nil {
		return slow, nil // history has said why
	}
	defer r.Close()
	stays, err := r.StaysSince(ctx, time.Now().Add(-time.Duration(cfg.Speeds.History)))
	if err == nil {
		slow = cfg.SlowNodes(stays, table)
	}
	return slow, err
}

// ledger is what the daemon knows of allocations, and takes speeds from; an empty
// one without a state folder.
func ledger(ctx context.Context, cfg *config.Config, slurm *live.Cluster, set *allocate.Settings) (*allocate.Ledger, error) {
	if set.Policy == "" {
		return nil, nil
	}
	var err error
	if set.Policy == "hierarchical" {
		accounts, err := slurm.Accounts(ctx)
		if err != nil {
			return nil, err
		}
		set.Accounts = accounts.Parts
	}
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err != nil {
		return &allocate.Ledger{}, nil // history has said why
	}
	defer r.Close()
	l, err := r.Lessons(ctx, nil)
	if err != nil {
		return nil, err
	}
	if cfg.Speeds.History > 0 {
		set.Knowledge = l.Knowledge
	}
	return r.Ledger(ctx)
}

func showPreview(ctx context.Context, c *cli.Context, cfg *config.Config, log hclog.Logger) error {
	result, err := preview(ctx, cfg, log)
	if err != nil {
		return err
	}
	return showPlan(c, &result, false)
}

// showResult renders what one cycle did.
func showResult(c *cli.Context, r *cycle.Result) error {
	if err := showPlan(c, r, true); err != nil {
		return err
	}
	for _, o := range r.Outcomes {
		if o.Status == slurmplug.Refused || o.Status == slurmplug.Unknown { // not raced with its job
			return errProblem
		}
	}
	return nil
}

// seconds rounds a span of time to whole seconds, as JSON shows it.
func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

// sources are those that show which running jobs work.
func sources(cfg *config.Config) live.Sources {
	return live.Sources{Prometheus: cfg.Usage.Prometheus, Output: cfg.Retry.Output, Every: min(cfg.Constants.Idle.After/6, time.Minute)}
}
