package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
)

func reportUsageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "GPU use by user, how jobs ended, jobs spread over too many nodes",
		Description: "Reads Slurm's accounting of the last TIME: GPU-hours by GPU type, by how runs ended, size, user and account,\n" +
			"and the runs on more nodes than their GPUs fill. CHARGED counts with them the GPUs that the CPUs and memory of runs\n" +
			"strand, and what runs without GPUs take: so TE budgets count. With --measured it also reads the steps, where\n" +
			"JobAcctGatherType measures, and names the runs that used hardly any CPU, as one does that hangs, or no GPU.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`: 12h, 30d"},
			&cli.BoolFlag{Name: "measured", Usage: "read what the steps used, too: a much larger read"},
			htmlFlag(),
			mostFlag(20, "show `N` rows of each table"),
			jsonFlag(),
		},
		Before: noArgs, Action: configured(reportUsage),
	}
}

func reportUsage(c *cli.Context, cfg *config.Config) error {
	last, err := span(c, "report", false)
	if err != nil {
		return err
	}
	n, err := most(c)
	if err != nil {
		return err
	}
	slurm, until := live.New(newClient(cfg)), time.Now()
	since := until.Add(-last)
	u, err := usageOf(c, cfg, slurm, since, until)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	if err := writePage(c, u.Page); err != nil {
		return err
	}
	why := ""
	if c.Bool("measured") && u.Measured == 0 {
		why = unmeasured(c, slurm, nil, 0)
	}
	return answer(c, u, func(w io.Writer) { showReportUsage(w, u, n, why) })
}

// usageOf reads accounting day by day: a month of it at once may be too large.
func usageOf(c *cli.Context, cfg *config.Config, slurm *live.Cluster, since, until time.Time) (*view.Usage, error) {
	nodes, err := slurm.Nodes(c.Context)
	if err != nil {
		return nil, err
	}
	u := view.NewUsage(since, until, nodes)
	for from := since; from.Before(until); {
		to := cluster.Earlier(from.Add(24*time.Hour), until)
		runs, err := slurm.Past(c.Context, from, to)
		if err != nil {
			return nil, err
		}
		u.Add(from, to, runs)
		from = to
	}
	if c.Bool("measured") {
		set := cfg.SpeedSettings()
		used, err := slurm.Used(c.Context, since, until, set.Today)
		if err != nil {
			return nil, err
		}
		u.AddUsed(used.Stays)
	}
	u.Sum()
	u.Budgets = budgetsOf(cfg, nodes)
	u.Unread = unreadRows(slurm)
	return u, nil
}

// budgetsOf are the TE budgets: in each partition where they are a part of what a job reaches, else one for all.
func budgetsOf(cfg *config.Config, nodes []cluster.Node) []view.BudgetOf {
	set, all := cfg.Decide().Ranking, []view.BudgetOf{}
	add := func(of, name string, b plan.Budget) {
		partitions := map[string]bool{}
		for i := range nodes {
			for _, p := range nodes[i].Partitions {
				if b.Share+b.HourShare > 0 && set.Ranks(p) {
					partitions[p] = true
				}
			}
		}
		if len(partitions) == 0 {
			partitions[""] = true
		}
		for _, p := range slices.Sorted(maps.Keys(partitions)) {
			on := b.On(plan.ReachOf(nodes, p))
			x := view.BudgetOf{Of: strings.TrimSpace(of + " " + name), Partition: p, GPUs: on.GPUs, GPUHours: on.GPUHours, TimeLimitS: on.TimeLimit.Seconds(), Keys: []string{}}
			if name == "" {
				x.Of = "each " + of
			}
			for _, l := range []struct {
				limit   string
				allowed float64
			}{{"gpus", float64(on.GPUs)}, {"gpu_hours", on.GPUHours}, {"time_limit_s", x.TimeLimitS}} {
				if l.allowed > 0 {
					x.Keys = append(x.Keys, cfg.BudgetKey(of, name, l.limit))
				}
			}
			if on != (plan.Budget{}) {
				all = append(all, x)
			}
		}
	}
	add("user", "", set.User)
	add("account", "", set.Account)
	for _, of := range []struct {
		kind    string
		budgets map[string]plan.Budget
	}{{"user", set.Users}, {"account", set.Accounts}} {
		for _, name := range slices.Sorted(maps.Keys(of.budgets)) {
			add(of.kind, name, of.budgets[name])
		}
	}
	return all
}

func showReportUsage(w io.Writer, u *view.Usage, most int, unmeasured string) {
	defer showUnread(w, u.Unread)
	fmt.Fprintf(w, "From %s to %s: %s with GPUs, %.1f GPU-hours.\n", report.Clock(u.Since), report.Clock(u.Until), report.Plural(u.Runs, "run", "runs"), u.GPUHours)
	showTables(w, u.Tables(), most, "--most, --json")
	if unmeasured != "" && u.Runs > 0 {
		fmt.Fprintf(w, "\nAccounting says of no run with GPUs what it used: %s.\n", unmeasured)
	}
}
