package cli

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/workload/sensitivity"
)

func workloadsUsageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "show what this site's accounting teaches of CPUs and memory",
		Description: "Reads the steps of the jobs that ended in Slurm's accounting, where JobAcctGatherType measures them. A program is\n" +
			"a workload, or a user's job name, on one GPU type. All figures are for each GPU: the most CPUs that a run used\n" +
			"(CPU time over elapsed time) and the most memory; the share that a GPU of its node has of each; and what priod\n" +
			"would count as the program's demand, if its tag and workloads.toml say nothing. Fewer than three runs never\n" +
			"take a program below its share; one that used nearly all CPUs that it had may want more.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "how much `TIME` of accounting: 12h, 30d (default: speeds.history)"},
			jsonFlag(),
		},
		Before: noArgs, Action: workloadsUsage,
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

func workloadsUsage(c *cli.Context) error {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	span := cfg.Speeds.History
	if text := c.String("since"); text != "" || span == 0 {
		if err := span.UnmarshalText([]byte(text)); err != nil || span <= 0 {
			return usagef("workloads usage: --since %.40q: want a time such as 12h or 30d", text)
		}
	}
	set, now := cfg.SpeedSettings(), time.Now()
	used, err := live.New(newClient(cfg)).Used(c.Context, now.Add(-time.Duration(span)), now, set.Today)
	if err != nil {
		return fmt.Errorf("read accounting: %w", err)
	}
	views := []usageView{}
	for _, l := range sensitivity.Learn(used.Stays, time.Duration(cfg.Speeds.Shortest)).All() {
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
	if c.Bool("json") {
		return report.JSON(c.App.Writer, map[string]any{"runs": len(used.Stays), "programs": views})
	}
	rows := make([][]any, len(views))
	for i, v := range views {
		name := v.Workload
		if name == "" {
			name = v.User + "'s " + v.Name
		}
		note := ""
		if v.Bound {
			note = "used all its CPUs"
		}
		mem := "-"
		if v.MemMB > 0 {
			mem = fmt.Sprintf("%.0f", v.MemMB)
		}
		rows[i] = []any{report.Safe(name), v.GPUType, v.Runs, fmt.Sprintf("%.2f", v.CPUs), mem,
			fmt.Sprintf("%.3g", v.ShareCPUs), fmt.Sprintf("%.0f", v.ShareMemMB), fmt.Sprintf("%.3g", v.DemandCPUs), v.DemandMemMB, note}
	}
	report.Table(c.App.Writer, []string{"PROGRAM", "TYPE", "RUNS", "USED CPUS", "USED MB", "SHARE CPUS", "SHARE MB", "DEMAND CPUS", "DEMAND MB", ""}, rows)
	if len(views) == 0 {
		fmt.Fprintf(c.App.Writer, "%s in accounting, and none with GPUs says what it used: JobAcctGatherType must not be none\n", plural(len(used.Stays), "run", "runs"))
	}
	return nil
}
