package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
)

func reportSizing(c *cli.Context) error {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	var span config.Duration
	if text := c.String("since"); text != "" {
		if err := span.UnmarshalText([]byte(text)); err != nil || span <= 0 {
			return usagef("report: --since %.40q: want a time such as 12h or 30d", text)
		}
	}
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return err
	}
	slurm := live.New(newClient(cfg))
	snapshot, err := slurm.Observe(c.Context)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	var past sensitivity.Past
	var shares map[string]sensitivity.Share
	if span > 0 {
		now, set := time.Now(), cfg.SpeedSettings()
		used, err := slurm.Used(c.Context, now.Add(-time.Duration(span)), now, set.Today)
		if err != nil {
			return fmt.Errorf("read accounting: %w", err)
		}
		past, shares = sensitivity.Learn(used.Stays, time.Duration(cfg.Speeds.Shortest)), used.Shares
	}
	s := report.OfSizing(&snapshot, table, past, shares)
	holding := s.Holding(&snapshot)
	peaks, unmeasured := slurm.Peaks(c.Context, holding)
	s.SetPeaks(holding, peaks)
	known, _ := recorded(c.Context, cfg.State.Dir) // without a state folder nothing was given back
	s.SetGivenBack(&snapshot, known)
	if c.Bool("json") {
		return report.JSON(c.App.Writer, s)
	}
	showSizing(c.App.Writer, s)
	switch {
	case unmeasured != nil:
		fmt.Fprintf(c.App.Writer, "\nWhat running jobs use of their memory is not known: %v\n", unmeasured)
	case len(holding) > 0 && len(peaks) == 0:
		fmt.Fprintln(c.App.Writer, "\nWhat running jobs use of their memory is not known: JobAcctGatherType must not be none.")
	}
	switch {
	case span > 0 && len(past) == 0:
		fmt.Fprintln(c.App.Writer, "\nAccounting says of no run with GPUs what it used: JobAcctGatherType must not be none.")
	case span > 0 && len(s.Programs) == 0:
		fmt.Fprintln(c.App.Writer, "\nNo program in accounting had twice the CPUs or the memory that it can use.")
	}
	return nil
}

// mostCPUOnly are the jobs without GPUs that a table names.
const mostCPUOnly = 20

func showSizing(w io.Writer, s *report.Sizing) {
	stranded := "each with its share of its node's CPUs and memory"
	if s.Stranded > 0 {
		stranded = fmt.Sprintf("%d of them stranded: their nodes lack the CPUs or the memory of their share", s.Stranded)
	}
	fmt.Fprintf(w, "%d of %d GPUs are free, %s.\n", s.Free, s.GPUs, stranded)
	rows := make([][]any, len(s.Nodes))
	for i, n := range s.Nodes {
		rows[i] = []any{n.Node, n.GPUType, n.FreeGPUs, n.FreeCPUs, n.FreeMemMB, n.ForCPUs, n.ForMem, n.CPUOnlyCPUs, n.CPUOnlyMemMB}
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		report.Table(w, []string{"NODE", "TYPE", "FREE GPUS", "FREE CPUS", "FREE MB", "STRANDED FOR CPUS", "FOR MEMORY", "CPU-ONLY JOBS HOLD CPUS", "MB"}, rows)
	}
	rows = rows[:0]
	for _, j := range s.CPUOnly[:min(len(s.CPUOnly), mostCPUOnly)] {
		rows = append(rows, []any{j.Job.String(), j.User, j.Nodes, j.CPUs, j.MemMB})
	}
	if len(rows) > 0 {
		fmt.Fprintln(w, "\nThese hold CPUs and memory there, and no GPU:")
		report.Table(w, []string{"JOB", "USER", "NODES", "CPUS", "MB"}, rows)
		if more := len(s.CPUOnly) - len(rows); more > 0 {
			fmt.Fprintf(w, "and %d more (--json)\n", more)
		}
	}
	showIdle(w, s.Idle)
	showGivenBack(w, s.GivenBack)
	rows = rows[:0]
	for _, j := range s.Starving {
		rows = append(rows, []any{j.Job.String(), j.User, j.Node, j.CPUs, j.Wants, j.Idle, fmt.Sprintf("%.2f", j.Gain), j.Why})
	}
	if len(rows) > 0 {
		fmt.Fprintln(w, "\nThese run slower than they could beside idle CPUs:")
		report.Table(w, []string{"JOB", "USER", "NODE", "CPUS", "WANTS", "IDLE THERE", "TIMES FASTER", "BY"}, rows)
	}
	rows = rows[:0]
	for _, p := range s.Programs {
		rows = append(rows, []any{p.Program, p.GPUType, p.Runs, fmt.Sprintf("%.3g", p.Had), fmt.Sprintf("%.2g", p.Used), megabytes(p.HadMB), megabytes(p.UsedMB), p.Options})
	}
	if len(rows) > 0 {
		fmt.Fprintln(w, "\nThese had far more for each GPU than they used. What is enough can stand in the next script in place of its -c and --mem, times its GPUs "+
			"(--cpus-per-gpu and --mem-per-gpu would keep priod from sizing the job):")
		report.Table(w, []string{"PROGRAM", "TYPE", "RUNS", "HAD CPUS", "USED CPUS", "HAD MB", "USED MB", "ENOUGH"}, rows)
	}
}

// showIdle tells who holds memory that free GPUs lack, and has not used it.
func showIdle(w io.Writer, idle []report.IdleMemory) {
	var rows [][]any
	for _, j := range idle[:min(len(idle), mostCPUOnly)] {
		agreed := map[bool]string{true: "yes", false: "no"}[j.Agreed]
		rows = append(rows, []any{j.Job.String(), j.User, j.Node, j.GPUs, j.MemMB, j.Peak, j.Idle, agreed})
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(w, "\nThese hold memory there that their steps have not used so far; a quarter more than they used, at least 1024 MB, is left to them:")
	report.Table(w, []string{"JOB", "USER", "NODE", "GPUS", "MB", "USED AT MOST", "COULD GIVE BACK", "AGREED"}, rows)
	if more := len(idle) - len(rows); more > 0 {
		fmt.Fprintf(w, "and %d more (--json)\n", more)
	}
}

// showGivenBack tells whose memory was lowered.
func showGivenBack(w io.Writer, given []report.GivenBack) {
	var rows [][]any
	all := int64(0)
	for i, j := range given {
		all += j.Asked - j.MemMB
		if i < mostCPUOnly {
			rows = append(rows, []any{j.Job.String(), j.User, j.Node, j.Asked, j.MemMB, j.Asked - j.MemMB})
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\nThese have given back %d MB while they run:\n", all)
	report.Table(w, []string{"JOB", "USER", "NODE", "ASKED FOR MB", "HOLDS MB", "GAVE BACK"}, rows)
	if more := len(given) - len(rows); more > 0 {
		fmt.Fprintf(w, "and %d more (--json)\n", more)
	}
}

// megabytes are "-" where accounting has none.
func megabytes(mb float64) string {
	if mb == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", mb)
}
