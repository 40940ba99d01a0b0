package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
	"slurmprio/priod/workload/sensitivity"
)

func workloadsUsageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "show CPU and memory use learned from this site's accounting",
		Description: "Reads the steps of the jobs that ended in Slurm's accounting, where JobAcctGatherType measures them. A program is\n" +
			"a workload, or a user's job name, on one GPU type. All figures are for each GPU: the most CPUs that a run used\n" +
			"(CPU time over elapsed time) and the most memory; the share that a GPU of its node has of each; and what priod\n" +
			"would count as the program's demand, if its tag and workloads.toml say nothing. Fewer than three runs never\n" +
			"take a program below its share; one that used nearly all CPUs that it had may want more.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "how much `TIME` of accounting: 12h, 30d (default: speeds.history)"},
			jsonFlag(),
		},
		Before: noArgs, Action: configured(workloadsUsage),
	}
}

type usageView struct {
	Workload    string  `json:"workload,omitempty"`
	User        string  `json:"user,omitempty"`
	Name        string  `json:"job_name,omitempty"`
	GPUType     string  `json:"gpu_type"`
	Runs        int     `json:"runs"`
	CPUs        float64 `json:"used_cpus"`
	MemMB       float64 `json:"used_mem_mb"` // 0: not measured
	ShareCPUs   float64 `json:"share_cpus"`
	ShareMemMB  float64 `json:"share_mem_mb"`
	DemandCPUs  float64 `json:"demand_cpus"`
	DemandMemMB int64   `json:"demand_mem_mb"`
	Bound       bool    `json:"cpu_bound"`
}

func workloadsUsage(c *cli.Context, cfg *config.Config) error {
	last, err := sinceOf(c, cfg.Speeds.History > 0)
	if err != nil {
		return err
	}
	last = cmp.Or(last, time.Duration(cfg.Speeds.History))
	set, now := cfg.SpeedSettings(), time.Now()
	slurm := live.New(newClient(cfg))
	used, err := slurm.Used(c.Context, now.Add(-last), now, set.Today)
	if err != nil {
		return fmt.Errorf("read accounting: %w", err)
	}
	views := []usageView{}
	for _, l := range sensitivity.Learn(used.Stays, cfg.Constants.ShortestRun).All() {
		share, here := used.Shares[l.GPUType]
		if !here {
			continue // of a type that no node has any more
		}
		demand := l.Curve(share)
		views = append(views, usageView{
			Workload: l.Workload, User: l.User, Name: l.Name, GPUType: l.GPUType, Runs: l.Runs, CPUs: l.Cores, MemMB: l.RSSMB,
			ShareCPUs: share.CPUs, ShareMemMB: share.MemMB, DemandCPUs: demand.DemandCPUs, DemandMemMB: demand.DemandMemMB, Bound: l.Bound(),
		})
	}
	unread := view.UnreadRows(slurm)
	return answer(c, map[string]any{"runs": len(used.Stays), "programs": views, "unread": unread}, func(w io.Writer) {
		showUsage(w, views)
		if len(views) == 0 {
			fmt.Fprintf(w, "%s in accounting, and none with GPUs says what it used: %s\n", report.Plural(len(used.Stays), "run", "runs"),
				view.Unmeasured(c.Context, slurm, used.Stays, cfg.Constants.ShortestRun))
		}
		(&report.Page{Notes: view.UnreadWords(unread)}).Show(w, 0)
	})
}

func showUsage(w io.Writer, views []usageView) {
	header := []string{"PROGRAM", "TYPE", "RUNS", "USED CPUS", "USED MB", "SHARE CPUS", "SHARE MB", "DEMAND CPUS", "DEMAND MB", ""}
	tabulate(w, header, views, func(v *usageView) []any {
		note := ""
		if v.Bound {
			note = "used all its CPUs"
		}
		return []any{cmp.Or(v.Workload, v.User+"'s "+v.Name), v.GPUType, v.Runs, fmt.Sprintf("%.2f", v.CPUs), view.Megabytes(v.MemMB),
			fmt.Sprintf("%.3g", v.ShareCPUs), fmt.Sprintf("%.0f", v.ShareMemMB), fmt.Sprintf("%.3g", v.DemandCPUs), v.DemandMemMB, note}
	})
}
