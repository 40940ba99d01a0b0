package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/trial"
	"slurmprio/priod/view"
)

func trialCommand() *cli.Command {
	return &cli.Command{
		Name: "trial", Usage: "an experiment on this cluster: priod on and off in blocks, in random order; priod report trial says what it brought",
		Subcommands: []*cli.Command{
			{
				Name: "start", Usage: "start one with the next cycle",
				Description: "In half of the blocks priod is on as priod.toml has it; in the others it takes back what it wrote and begins nothing.\n" +
					"Blocks come in pairs of the same hours of the week; which of the two is on is drawn from a seed that is kept.\n" +
					"    priod trial start --blocks 12h --days 14 --te-wait-p95 15m --account-completion 1.3",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "blocks", Value: "12h", Usage: "`TIME` of a block: 90m, 12h, 1d"},
					&cli.StringFlag{Name: "days", Value: "14", Usage: "how long: a number of `DAYS`, or a time"},
					&cli.StringFlag{Name: "wash-out", Usage: "jobs submitted within this `TIME` of the beginning of a block do not count (default: a sixth of a block)"},
					&cli.Uint64Flag{Name: "seed", Usage: "`NUMBER` from which the order is drawn (default: random)"},
					&cli.DurationFlag{Name: "te-wait-p95", Usage: "end it when one TE job in twenty waits longer than this `TIME` while priod is on"},
					&cli.Float64Flag{Name: "account-completion", Usage: "end it when the jobs of some account take this many `TIMES` as long in the mean while priod is on, and surely no less"},
					jsonFlag(),
				},
				Before: noArgs, Action: configured(startTrial),
			},
			{
				Name: "status", Usage: "which block is on, which are left out and why", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
				Action: configured(func(c *cli.Context, cfg *config.Config) error {
					t, err := theTrial(cfg)
					if err != nil {
						return err
					}
					r, err := reach(c.Context, cfg)
					if err != nil {
						return err
					}
					return showTrial(c, t, r)
				}),
			},
			{
				Name: "stop", Usage: "end it now: priod is on again with the next cycle", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
				Action: configured(stopTrial),
			},
		},
		Action: which("trial: say which: start, status, stop"),
	}
}

// theTrial is the last one of a state folder.
func theTrial(cfg *config.Config) (*trial.Trial, error) {
	t, err := store.Trial(cfg.Journals())
	if err == nil && t == nil {
		err = errors.New("there is no trial: priod trial start --blocks 12h --days 14 starts one")
	}
	return t, err
}

// trialSettings are what the flags of start say.
func trialSettings(c *cli.Context) (s trial.Settings, err error) {
	s = trial.Settings{WashOut: -1, Seed: c.Uint64("seed"), Bounds: trial.Bounds{TEWaitP95: c.Duration("te-wait-p95"), Completion: c.Float64("account-completion")}}
	if !c.IsSet("seed") {
		s.Seed = rand.Uint64() >> 32 // short to say again
	}
	for name, at := range map[string]*time.Duration{"blocks": &s.Block, "days": &s.Length, "wash-out": &s.WashOut} {
		if text := c.String(name); text != "" {
			if *at, err = trial.ParseTime(text); err == nil && *at < 0 {
				err = errors.New("want 0 or more")
			}
			if err != nil {
				return s, usagef("--%s %q: %w", name, text, err)
			}
		}
	}
	if err := s.Check(); err != nil {
		return s, usagef("trial start: %w", err)
	}
	return s, nil
}

func startTrial(c *cli.Context, cfg *config.Config) error {
	s, err := trialSettings(c)
	if err != nil {
		return err
	}
	t := &trial.Trial{Settings: s, Start: time.Now().UTC().Truncate(time.Second), Who: operator()}
	r, err := reach(c.Context, cfg)
	if err != nil {
		return err
	}
	if r.PID == 0 && r.Host == "" {
		return cmp.Or(r.unsure, fmt.Errorf("no priod runs with the state folder %s: start it first (systemctl start priod), for a trial is of what it does", r.Dir))
	}
	was, err := store.Trial(cfg.Journals())
	if err != nil {
		return err
	}
	if was != nil && (was.Harms || was.End().After(t.Start)) {
		return fmt.Errorf("a trial is on since %s, until %s: priod trial status shows it, priod trial stop ends it", report.Clock(was.Start), report.Clock(was.Start.Add(was.Length)))
	}
	if p, err := store.Paused(cfg.Journals()); err != nil || p != nil {
		return cmp.Or(err, fmt.Errorf("priod is paused, and a trial is of what it does: priod resume first (%s)", p))
	}
	windows, err := windowsIn(c, cfg, t)
	if err != nil {
		return err
	}
	if err := store.SaveTrial(cfg.Journals(), t); err != nil {
		return err
	}
	for _, w := range windows {
		sayTo(c)(w)
	}
	return showTrial(c, t, r)
}

// windowsIn says which blocks will be left out because of announced maintenance.
func windowsIn(c *cli.Context, cfg *config.Config, t *trial.Trial) (all []string, err error) {
	reserved, err := live.New(newClient(cfg)).Reserved(c.Context)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	for _, w := range cluster.WindowsOf(reserved, t.Start) {
		n := 0
		for _, b := range t.Blocks() {
			if w.Start.Before(b.Until) && w.End.After(b.From) {
				n++
			}
		}
		if n > 0 {
			all = append(all, fmt.Sprintf("the window %s lies in the trial: %s of it will be left out, with the other of each pair", w.Name, report.Plural(n, "block", "blocks")))
		}
	}
	return all, nil
}

func stopTrial(c *cli.Context, cfg *config.Config) error {
	t, err := theTrial(cfg)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	if !t.Harms && !t.End().After(now) {
		return fmt.Errorf("there is no trial now: the last one ended at %s; priod report trial says what it brought", report.Clock(t.End()))
	}
	r, err := reach(c.Context, cfg)
	if err != nil {
		return err
	}
	if t.Harms {
		t.Harms = false
	} else {
		t.Ended, t.Why = now, "stopped by "+operator()
	}
	if err := store.SaveTrial(cfg.Journals(), t); err != nil {
		return err
	}
	err = answer(c, view.OfTrialStatus(t, now), func(w io.Writer) {
		fmt.Fprintf(w, "the trial is over: %s\npriod report trial says what it brought\n", report.Safe(r.does("is on again from its next cycle on")))
	})
	return cmp.Or(err, r.unsure)
}

func showTrial(c *cli.Context, t *trial.Trial, r reached) error {
	v := view.OfTrialStatus(t, time.Now())
	if r.PID == 0 && r.Host == "" {
		v.Notes = append(v.Notes, "No priod runs with this state folder: blocks without one are left out.")
	}
	return show(c, v)
}

func readTrial(c *cli.Context, cfg *config.Config, r *store.Reader, _, _ time.Time) (paged, error) {
	t, err := theTrial(cfg)
	if err != nil {
		return nil, err
	}
	jobs, err := r.TrialJobs(c.Context, t)
	if err != nil {
		return nil, err
	}
	return view.OfTrial(t, jobs, r.Now()), nil
}
